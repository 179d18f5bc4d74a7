"""Attacks that infer attributes of users' data."""

from privaudit.attacks.inference.aggregate import LabelsFromLoneModel
from privaudit.attacks.inference.blind import LabelsFromValues, LabelsFromZeroSums
from privaudit.attacks.inference.counts import LabelsFromCounts
from privaudit.attacks.inference.labels import LabelsFromPermutation
from privaudit.attacks.inference.membership import UpdateMembership
from privaudit.attacks.inference.noised import LabelsFromNoisedRemainder
from privaudit.attacks.inference.probes import (
    INJECTED_ROLE,
    LabelsFromSimilarity,
    inject_probes,
    quantised_cosine,
)
from privaudit.attacks.inference.property import PropertyInference

__all__ = [
    "INJECTED_ROLE",
    "LabelsFromCounts",
    "LabelsFromLoneModel",
    "LabelsFromNoisedRemainder",
    "LabelsFromPermutation",
    "LabelsFromSimilarity",
    "LabelsFromValues",
    "LabelsFromZeroSums",
    "PropertyInference",
    "UpdateMembership",
    "inject_probes",
    "quantised_cosine",
]
