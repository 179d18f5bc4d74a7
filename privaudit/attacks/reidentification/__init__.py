"""Attacks that tell whose a record is, though its sender is hidden."""

from privaudit.attacks.reidentification.linking import PermutationLinking

__all__ = ["PermutationLinking"]
