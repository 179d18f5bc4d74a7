"""Scores of attacks that link records of one person."""

from __future__ import annotations

from privaudit.attacks.base import Guesses
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Truth

__all__ = ["link_accuracy", "presence_accuracy", "recognition"]


def link_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the guessed user is the one behind the pseudonym.

    Guesses and the truth's ``user`` are positions of users, () int64; -1 stands for a user that
    the attack cannot know, and is right where both say so.

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


def recognition(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the right user is guessed, of those pseudonyms alone whose user is known.

    The identification rate of open-set recognition: users that the attack cannot know (-1 in the
    truth) are no targets; a known user that is declared absent counts as 0.

    Raises
    ------
    KeyError
        If the truth does not hold a guessed pseudonym.
    """
    scores = link_accuracy(guesses, truth)
    return Scores(
        metric="recognition of present users",
        statistic="proportion",
        per_target={
            target: score
            for target, score in scores.per_target.items()
            if int(truth.get(target, "user")) >= 0
        },
    )


def presence_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the attack told rightly whether it can know the pseudonym's user.

    Raises
    ------
    KeyError
        If the truth does not hold a guessed pseudonym.
    """
    return Scores(
        metric="presence accuracy",
        statistic="proportion",
        per_target={
            target: float((int(value) >= 0) == (int(truth.get(target, "user")) >= 0))
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )
