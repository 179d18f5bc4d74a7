"""Attacks that infer attributes of users' data."""

from privaudit.attacks.inference.aggregate import LabelsFromLoneModel
from privaudit.attacks.inference.counts import LabelsFromCounts
from privaudit.attacks.inference.labels import LabelsFromPermutation
from privaudit.attacks.inference.probes import (
    INJECTED_ROLE,
    LabelsFromSimilarity,
    inject_probes,
    quantised_cosine,
)

__all__ = [
    "INJECTED_ROLE",
    "LabelsFromCounts",
    "LabelsFromLoneModel",
    "LabelsFromPermutation",
    "LabelsFromSimilarity",
    "inject_probes",
    "quantised_cosine",
]
