"""Scores of attacks that link records of one person."""

from __future__ import annotations

from privaudit.attacks.base import Guesses
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Truth

__all__ = ["link_accuracy"]


def link_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the guessed user is the one behind the pseudonym.

    Guesses and the truth's ``user`` are positions of users, () int64.

    Raises
    ------
    KeyError
        If the truth does not hold a guessed pseudonym.
    """
    return Scores(
        metric="link accuracy",
        statistic="proportion",
        per_target={
            target: float(int(value) == int(truth.get(target, "user")))
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )
