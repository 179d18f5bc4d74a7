"""Gradient inversion: records from what users send of their gradients."""

from privaudit.attacks.inversion.analytic import AnalyticInversion
from privaudit.attacks.inversion.blind import BlindCoordinates, BlindMatching
from privaudit.attacks.inversion.local_parts import LocalStepsRanks, LocalStepsTopK
from privaudit.attacks.inversion.local_steps import LocalStepsInversion
from privaudit.attacks.inversion.partial import (
    SortedValueMatching,
    TopKMatching,
    ZeroFillMatching,
)
from privaudit.attacks.inversion.ranks import RankProfileMatching
from privaudit.attacks.inversion.whole import CosineInversion, DeepLeakage

__all__ = [
    "AnalyticInversion",
    "BlindCoordinates",
    "BlindMatching",
    "CosineInversion",
    "DeepLeakage",
    "LocalStepsInversion",
    "LocalStepsRanks",
    "LocalStepsTopK",
    "RankProfileMatching",
    "SortedValueMatching",
    "TopKMatching",
    "ZeroFillMatching",
]
