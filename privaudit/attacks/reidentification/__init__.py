"""Attacks that tell whose a record is, though its sender is hidden."""

from privaudit.attacks.reidentification.clusters import CLUSTER_KINDS, ClusterLinking
from privaudit.attacks.reidentification.gradients import LINKABLE_KINDS, GradientLinking
from privaudit.attacks.reidentification.linking import PermutationLinking
from privaudit.attacks.reidentification.similarity import SimilarityLinking

__all__ = [
    "CLUSTER_KINDS",
    "LINKABLE_KINDS",
    "ClusterLinking",
    "GradientLinking",
    "PermutationLinking",
    "SimilarityLinking",
]
