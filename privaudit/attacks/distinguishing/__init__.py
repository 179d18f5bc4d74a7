"""Distinguishing games: scores of an implemented protection, and bounds on epsilon from them."""

from privaudit.attacks.distinguishing.bound import BoundMethod, empirical_bound
from privaudit.attacks.distinguishing.codes import CodeRelease, code_game
from privaudit.attacks.distinguishing.games import (
    AssumedShuffle,
    Others,
    Protection,
    coordinate_game,
    vector_game,
)
from privaudit.attacks.distinguishing.scores import GameScores

__all__ = [
    "AssumedShuffle",
    "BoundMethod",
    "CodeRelease",
    "GameScores",
    "Others",
    "Protection",
    "code_game",
    "coordinate_game",
    "empirical_bound",
    "vector_game",
]
