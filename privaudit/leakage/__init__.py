"""Formal leakage of codes and channels: entropies, vulnerabilities, anonymity sets."""

from privaudit.leakage.channel import (
    GainLeakage,
    additive_capacity_bound,
    deterministic_min_entropy_leakage,
    g_leakage,
    min_entropy_leakage,
    randomised_response_channel,
    shannon_capacity,
)
from privaudit.leakage.codes import (
    AnonymitySets,
    CodeLeakage,
    code_leakage,
    leakage_by_party,
    tuples,
)
from privaudit.leakage.reconstruction import (
    ReconstructionGain,
    held_out_cells,
    quantisation_floor,
)

__all__ = [
    "AnonymitySets",
    "CodeLeakage",
    "GainLeakage",
    "ReconstructionGain",
    "additive_capacity_bound",
    "code_leakage",
    "deterministic_min_entropy_leakage",
    "g_leakage",
    "held_out_cells",
    "leakage_by_party",
    "min_entropy_leakage",
    "quantisation_floor",
    "randomised_response_channel",
    "shannon_capacity",
    "tuples",
]
