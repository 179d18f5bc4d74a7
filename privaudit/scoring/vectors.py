"""How near rebuilt vectors are to those that clients hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["cosine_beyond", "vector_cosine"]

Float64 = npt.NDArray[np.float64]


def vector_cosine(guesses: Guesses, truth: Truth) -> Scores:
    """Score by the cosine of the guess and the truth's ``vector``, both (d,).

    A zero guess scores 0.

    Raises
    ------
    KeyError
        If the truth does not know a target.
    InvalidDataError
        If the lengths differ.
    """
    return Scores(
        "cosine to the client's vector",
        "mean",
        {
            target: _cosine(*_pair(value, truth.get(target, "vector"), target))
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def cosine_beyond(reference: npt.NDArray[np.floating]) -> Callable[[Guesses, Truth], Scores]:
    """Return a scorer of what a guess says beyond a vector that is known to everybody.

    The cosine of guess and truth after their components along ``reference`` are taken away: 0 for
    the reference itself and for whatever knows nothing else.

    Parameters
    ----------
    reference : ndarray of floats, shape (d,)
        For similarities of parameters, the global model.

    Raises
    ------
    InvalidDataError
        If the reference is zero or not finite.
    """
    norm = float(np.linalg.norm(reference))
    if not np.isfinite(norm) or norm == 0:
        raise InvalidDataError("the reference vector is zero or not finite")
    unit = reference.astype(np.float64) / norm

    def score(guesses: Guesses, truth: Truth) -> Scores:
        scores = {}
        for target, value in zip(guesses.target_ids, guesses.values, strict=True):
            guess, true = _pair(value, truth.get(target, "vector"), target)
            beyond = guess - (guess @ unit) * unit
            # What rounding leaves of the reference itself is nothing.
            small = float(np.linalg.norm(beyond)) < 1e-6 * float(np.linalg.norm(guess))
            scores[target] = 0.0 if small else _cosine(beyond, true - (true @ unit) * unit)
        return Scores("cosine beyond what all have in common", "mean", scores)

    return score


def _pair(value: Array, true: Array, target: str) -> tuple[Float64, Float64]:
    if value.shape != true.shape:
        raise InvalidDataError(
            f"the guess for '{target}' has shape {value.shape}, its vector {true.shape}"
        )
    return value.astype(np.float64), true.astype(np.float64)


def _cosine(a: Float64, b: Float64) -> float:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    if not np.isfinite(norms):
        return float("nan")
    return float(a @ b) / norms if norms > 0 else 0.0
