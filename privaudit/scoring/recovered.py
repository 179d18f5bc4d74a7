"""How much of a vector of integers was recovered: exactly, and up to its unknown real scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["all_exact", "exact_fraction", "relative_error"]

Float64 = npt.NDArray[np.float64]


def exact_fraction(guesses: Guesses, truth: Truth, *, name: str = "quantised") -> Scores:
    """Score the fraction of coordinates that are guessed exactly; NaN is no match.

    Parameters
    ----------
    name : str
        The truth's array of integers, (n,).

    Raises
    ------
    KeyError
        If the truth does not know a target or the array.
    InvalidDataError
        If a guess has another length than the truth.

    Examples
    --------
    >>> truth = Truth({"user-0/round-1": {"quantised": np.array([3, 0, -7])}})
    >>> guess = Guesses(("user-0/round-1",), (np.array([3, 0, 7]),), np.zeros(1))
    >>> round(exact_fraction(guess, truth).per_target["user-0/round-1"], 3)
    0.667
    """
    return Scores("exact coordinates", "mean", _fractions(guesses, truth, name))


def all_exact(guesses: Guesses, truth: Truth, *, name: str = "quantised") -> Scores:
    """Score 1 where every coordinate is guessed exactly; errors as :func:`exact_fraction`."""
    return Scores(
        "vectors recovered exactly",
        "proportion",
        {t: float(f == 1) for t, f in _fractions(guesses, truth, name).items()},
    )


def relative_error(guesses: Guesses, truth: Truth, *, name: str = "vector") -> Scores:
    """Score ``min_k |k g - w| / |w|``: the sine of the angle to the true vector; lower is leakier.

    A guess of integers says nothing of the real scale, so that the best one is granted. A zero
    guess scores 1, and one with values that are not finite fails. Errors as
    :func:`exact_fraction`.

    Parameters
    ----------
    name : str
        The truth's real vector, (n,).

    Examples
    --------
    >>> truth = Truth({"user-0/round-1": {"vector": np.array([0.5, 0.0])}})
    >>> guess = Guesses(("user-0/round-1",), (np.array([4, 3]),), np.zeros(1))
    >>> round(relative_error(guess, truth).per_target["user-0/round-1"], 3)
    0.6
    """
    result = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        guess, actual = _pair(value, truth.get(target, name), target)
        result[target] = _sine(guess, actual)
    return Scores("relative error", "median", result, higher_is_leakier=False)


def _fractions(guesses: Guesses, truth: Truth, name: str) -> dict[str, float]:
    result = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        guess, actual = _pair(value, truth.get(target, name), target)
        result[target] = float((guess == actual).mean())
    return result


def _pair(value: Array, actual: Array, target: str) -> tuple[Float64, Float64]:
    if value.shape != actual.shape or actual.ndim != 1 or actual.size == 0:
        raise InvalidDataError(
            f"the guess for '{target}' has shape {value.shape}, its vector {actual.shape}"
        )
    # Quantised integers have at most 32 bits: float64 holds them exactly.
    return value.astype(np.float64), actual.astype(np.float64)


def _sine(guess: Float64, actual: Float64) -> float:
    size, own = float(np.linalg.norm(actual)), float(np.linalg.norm(guess))
    if not np.isfinite(own):
        return float("nan")
    if own == 0 or size == 0:
        return float(size > 0)
    # By the residual: the sine from the cosine would lose half of the digits of a small angle.
    direction = guess / own
    return float(np.linalg.norm(actual - (actual @ direction) * direction)) / size
