"""Distinguishing games on the shuffled Laplace mechanism of the theory, for tests to compare with.

The product's games run the implemented protection; these sample the mechanism on paper.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import (
    OutOfDomainError,
    check_count,
    check_epsilon0,
)

__all__ = ["coordinate_game", "spread_pair", "vector_game"]

Array = NDArray[np.float64]


def _check(n: int, epsilon0: float, others: int) -> None:
    check_count("n", n)
    check_epsilon0(epsilon0)
    if others not in (-1, 0, 1):
        raise OutOfDomainError(f"others must be -1, 0 or 1, got {others}")


def coordinate_game(
    n: int, epsilon0: float, *, trials: int, rng: np.random.Generator, others: int = 1
) -> tuple[Array, Array]:
    """Play the game of one shuffled coordinate: user 1 is at the upper or at the lower end.

    Parameters
    ----------
    n : int
        Users, of which the adversary knows n - 1 inputs.
    epsilon0 : float
    trials : int
        Runs for either side.
    rng : numpy.random.Generator
    others : {-1, 0, 1}
        Where all other users stand: the lower end, the middle, the upper end.

    Returns
    -------
    tuple of ndarray, each of shape (trials,)
        Log-likelihood ratios (upper over lower) with user 1 at the upper and at the lower end.
    """
    _check(n, epsilon0, others)
    check_count("trials", trials)
    h = epsilon0 / 2

    def scores(own: float) -> Array:
        reports = rng.laplace(others * h, 1.0, size=(trials, n))
        reports[:, 0] += own - others * h
        base = np.abs(reports - others * h)
        upper = np.exp(base - np.abs(reports - h)).sum(axis=1)
        lower = np.exp(base - np.abs(reports + h)).sum(axis=1)
        return np.asarray(np.log(upper / lower), dtype=np.float64)

    return scores(h), scores(-h)


def spread_pair(
    n: int, epsilon0: float, *, coordinates: int, others: int = 0
) -> tuple[Array, Array]:
    """Return the laws, under the two inputs, of what three symbols keep of one coordinate.

    The inputs are spread: user 1 holds plus or minus the same value in each of ``coordinates``
    coordinates, at the clipping threshold in all. Each report is reduced to whether it lies above
    both values, between them, or below both, and reports are counted: post-processing of the
    shuffled coordinate, so that the composition of this pair is a lower bound on epsilon.

    Returns
    -------
    tuple of ndarray, each of shape (outcomes,)
        Outcomes are the pairs of counts (above, below).
    """
    from scipy import special

    _check(n, epsilon0, others)
    check_count("coordinates", coordinates)
    u = epsilon0 / (2 * math.sqrt(coordinates))

    def symbols(place: float) -> Array:
        above = math.exp(place - u) / 2
        below = math.exp(-place - u) / 2
        return np.array([above, -math.expm1(math.log(above + below)), below])

    other, one, two = symbols(others * u), symbols(u), symbols(-u)
    counts = np.array(
        [(i, n - i - j, j) for i, j in itertools.product(range(n + 1), repeat=2) if i + j <= n]
    )
    log_multinomial = special.gammaln(n + 1) - special.gammaln(counts + 1).sum(axis=1)
    base = np.exp(log_multinomial + special.xlogy(counts, other).sum(axis=1))
    first, second = base * (counts @ (one / other)) / n, base * (counts @ (two / other)) / n
    return first / first.sum(), second / second.sum()


def vector_game(
    n: int,
    epsilon0: float,
    *,
    dimension: int,
    trials: int,
    rng: np.random.Generator,
    rounds: int = 1,
) -> tuple[Array, Array]:
    """Play the game of the whole vector with spread inputs and the other users at zero.

    The adversary uses the counts of :func:`spread_pair`; one multinomial draw over their outcomes
    stands for all coordinates of all rounds.

    Returns
    -------
    tuple of ndarray, each of shape (trials,)
        Log-likelihood ratios under either input.
    """
    check_count("trials", trials)
    check_count("rounds", rounds)
    first, second = spread_pair(n, epsilon0, coordinates=dimension)
    ratio = np.log(first / second)

    def scores(law: Array) -> Array:
        draws = rng.multinomial(dimension * rounds, law, size=trials)
        return np.asarray(draws @ ratio, dtype=np.float64)

    return scores(first), scores(second)
