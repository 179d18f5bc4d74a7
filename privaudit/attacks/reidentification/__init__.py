"""Attacks that tell whose a record is, though its sender is hidden."""

from privaudit.attacks.reidentification.linking import PermutationLinking
from privaudit.attacks.reidentification.similarity import SimilarityLinking

__all__ = ["PermutationLinking", "SimilarityLinking"]
