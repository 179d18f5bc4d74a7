"""The peer of the accounting benchmark: the numerical bound of Feldman, McMillan and Talwar (2021).

Written here from Theorem 3.2 and the description of its evaluation in the paper, with the methods
of the authors' program (apple/ml-shuffling-amplification): bisection of epsilon, starting from the
closed form where it is stated; for each epsilon a walk over the number of clones from n/2 outwards
in blocks, each block charged with the larger divergence of its ends; an end as soon as delta is
exceeded or what is left cannot matter. Unlike that program it walks every block when n is less than
a block, and charges what the walk does not reach.
"""

from __future__ import annotations

import math

from scipy import stats

__all__ = ["fmt21_program"]


def fmt21_program(
    n: int, epsilon0: float, delta: float, *, iterations: int = 14, step: int = 1
) -> float:
    """Return epsilon by the authors' method.

    Parameters
    ----------
    n : int
    epsilon0, delta : float
    iterations : int
        Halvings of the interval in which epsilon lies: 14 leave 6e-5 of it.
    step : int
        Numbers of clones in a block; 1 is exact.
    """
    low, high = 0.0, epsilon0
    if epsilon0 < math.log(n / (16 * math.log(4 / delta))):
        inner = 8 * math.sqrt(math.exp(epsilon0) * math.log(4 / delta) / n)
        inner += 8 * math.exp(epsilon0) / n
        high = min(high, math.log1p(math.tanh(epsilon0 / 2) * inner))
    for _ in range(iterations):
        middle = 0.5 * (low + high)
        if _exceeds(n, epsilon0, middle, delta, step):
            low = middle
        else:
            high = middle
    return high


def _exceeds(n: int, epsilon0: float, epsilon: float, delta: float, step: int) -> bool:
    """Return whether the divergence of the clone pair exceeds delta at epsilon."""
    rate = math.exp(-epsilon0)
    total = covered = 0.0
    middle = n // 2
    below, above = middle, middle + 1
    while below >= 0 or above <= n - 1:
        for upward in (False, True):
            first, last = (
                (above, min(above + step, n) - 1)
                if upward
                else (
                    max(below - step, -1) + 1,
                    below,
                )
            )
            if last < first:
                continue
            mass = float(
                stats.binom.cdf(last, n - 1, rate) - stats.binom.cdf(first - 1, n - 1, rate)
            )
            worst = _divergence(first, epsilon0, epsilon)
            if last > first:
                worst = max(worst, _divergence(last, epsilon0, epsilon))
            total += mass * worst
            covered += mass
        below, above = below - step, above + step
        if total > delta:
            return True
        if 1 - covered < total:
            return total + max(0.0, 1 - covered) > delta
    return total + max(0.0, 1 - covered) > delta


def _divergence(clones: int, epsilon0: float, epsilon: float) -> float:
    """Return the hockey-stick divergence of the pair given the number of clones."""
    p = 1 / (1 + math.exp(-epsilon0))
    q = 1 - p
    e = math.exp(epsilon)
    # The first count at or below which the pair's likelihood ratio exceeds exp(epsilon).
    odds = (p - e * q) / (e * p - q)
    cut = math.floor((clones + 1) * odds / (1 + odds))
    at, before = (float(stats.binom.cdf(cut - back, clones, 0.5)) for back in (0, 1))
    return max(0.0, (p * at + q * before) - e * (q * at + p * before))
