"""Distinguishing games: scores from which lower bounds on epsilon are measured."""

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
    "GameScores",
    "Others",
    "Protection",
    "coordinate_game",
    "vector_game",
]
