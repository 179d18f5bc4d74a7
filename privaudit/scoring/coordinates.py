"""How many values were placed at their coordinates."""

from __future__ import annotations

import numpy as np

from privaudit.attacks.base import Guesses
from privaudit.errors import InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["coordinate_accuracy", "placed_energy"]


def coordinate_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score the share of a user's values that its update has at the guessed coordinates.

    Values are compared exactly. Values of zero say nothing of where they lie and are left out; a
    user without others scores 0. All users of a federation share one order of coordinates, so that
    their scores are not independent: count federations, not users.

    Parameters
    ----------
    guesses : Guesses
        Structured values with fields ``coordinate`` and ``value``, shape (k,).
    truth : Truth
        With ``update`` (d,) of each target.

    Raises
    ------
    KeyError
        If the truth does not hold a target.
    InvalidDataError
        If a coordinate is outside the update.

    Examples
    --------
    >>> kind = [("coordinate", np.int64), ("value", np.float32)]
    >>> guess = Guesses(("a",), (np.array([(0, 5.0), (2, 6.0)], kind),), np.zeros(1))
    >>> update = np.array([5.0, 6.0, 7.0], np.float32)
    >>> coordinate_accuracy(guess, Truth({"a": {"update": update}})).per_target
    {'a': 0.5}
    """
    return Scores(
        "coordinate accuracy",
        "mean",
        {
            target: _share(value, truth.get(target, "update"), target, power=0)
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def placed_energy(guesses: Guesses, truth: Truth) -> Scores:
    """Score as :func:`coordinate_accuracy`, each value weighted by its square."""
    return Scores(
        "energy placed rightly",
        "mean",
        {
            target: _share(value, truth.get(target, "update"), target, power=2)
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def _share(value: Array, update: Array, target: str, *, power: int) -> float:
    coordinate, own = value["coordinate"], value["value"]
    if len(coordinate) and not (coordinate.min() >= 0 and coordinate.max() < len(update)):
        raise InvalidDataError(
            f"coordinates guessed for '{target}' reach {coordinate.max()}, and its update has "
            f"{len(update)} entries"
        )
    told = own != 0
    weight = np.abs(own[told].astype(np.float64)) ** power
    right = update[coordinate[told]] == own[told]
    return float(weight[right].sum() / weight.sum()) if told.any() else 0.0
