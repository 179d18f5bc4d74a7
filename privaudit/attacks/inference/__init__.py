"""Attacks that infer attributes of users' data."""

from privaudit.attacks.inference.labels import LabelsFromPermutation

__all__ = ["LabelsFromPermutation"]
