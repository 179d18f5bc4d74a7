r"""Renyi moments of one shuffled Laplace coordinate, conditional on the number of clones.

User 1 holds u or -u, t = 2u, and k reports (its own among them) are in the blanket Laplace(0, 1):

.. math:: A_k(t;\alpha) = E[S_u^\alpha S_{-u}^{1-\alpha}],\qquad
   S_x = \tfrac1k \textstyle\sum_{i\le k} R_x(W_i)/B(W_i),\ W_i \sim B.

The likelihood ratios lie on two segments, so by Jensen's inequality (a^alpha b^(1-alpha) is jointly
convex) A_k is at most its value for three atoms with probabilities 1/(e^u+1), (e^u-1)/(e^u+1),
1/(e^u+1): a trinomial sum, evaluated here as a bilinear form. It increases in t and decreases in k.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import NumericalError

__all__ = ["clone_moments", "zcdp_of_clones"]

Array = NDArray[np.float64]

#: Standard deviations, beyond the shift by the tilt, to which the trinomial sum is carried out.
_DEVIATIONS = 7.0
#: What is left out may be bounded for all orders by the greatest one while it is less than this
#: part of the smallest moment.
_NEGLIGIBLE = 1e-5


def zcdp_of_clones(k: Array | float, t: float) -> Array:
    r"""Return rho with :math:`D_\alpha \le \rho\alpha`: :math:`\tfrac k2\ln^2(1+(e^t-1)/k)`.

    Theorem B of docs/accounting.md: sub-additivity of entropy and Hoeffding's lemma for the
    log-ratio of the two sums, whose range in each report is at most
    :math:`2\ln(1+(e^t-1)/k)`. Proven for every order; for k = 1 it is Bun and Steinke's t^2/2.
    """
    k = np.asarray(k, dtype=np.float64)
    return np.asarray(k / 2 * np.log1p(math.expm1(t) / k) ** 2, dtype=np.float64)


@functools.lru_cache(maxsize=1024)
def _log_factorials(k: int) -> Array:
    from scipy import special

    return np.asarray(special.gammaln(np.arange(k + 1) + 1.0), dtype=np.float64)


def clone_moments(k: int, t: float, orders: Array) -> Array:
    """Return an upper bound on ``A_k(t; alpha) - 1`` for each order.

    Parameters
    ----------
    k : int
        Reports in the blanket, user 1's among them; >= 1.
    t : float
        Distance of the pair, in units of the noise scale; > 0.
    orders : ndarray, shape (m,)
        Renyi orders alpha > 1, increasing.

    Returns
    -------
    ndarray, shape (m,)
        Terms left out of the sum are bounded by Cauchy and Schwarz's inequality and added.

    Raises
    ------
    NumericalError
        If a value is not finite.
    """
    u = t / 2
    end = 1 / (math.exp(u) + 1)  # probability of either outer atom
    log_end, log_middle = -math.log(math.exp(u) + 1), math.log(math.tanh(u / 2))
    counts, facts = np.arange(k + 1.0), _log_factorials(k)
    log_s = _log_sums(counts, k, u)
    marginal = np.exp(
        facts[k] - facts - facts[::-1] + counts * log_end + (k - counts) * math.log1p(-end)
    )
    spread = _DEVIATIONS * math.sqrt(k * end) + 12
    shift = 3 * float(orders[-1]) * t * end
    low, high = k * end - spread, k * end + spread
    first = slice(max(0, math.floor(low)), min(k, math.ceil(high + shift)) + 1)
    second = slice(max(0, math.floor(low - shift)), min(k, math.ceil(high)) + 1)
    with np.errstate(over="raise", invalid="raise"):
        try:
            # S_u^alpha - 1 by the count at the upper atom, S_-u^(1-alpha) - 1 at the lower one.
            up = np.expm1(np.outer(log_s[first], orders))
            down = np.expm1(np.outer(log_s[second], 1 - orders))
            # E[(X+1)(Y+1)] - 1 = E[XY] + E[X] + E[Y]
            value = _joint(k, facts, log_end, log_middle, first, second, up, down)
            value += marginal[first] @ up + marginal[second] @ down
            lost = _left_out(log_s, marginal, first, second, orders[-1:])
            if float(lost[0]) > _NEGLIGIBLE * float(value.min()):
                lost = _left_out(log_s, marginal, first, second, orders)
            value += lost
        except FloatingPointError as error:
            raise NumericalError(
                f"a Renyi moment of order {orders.max():.3g} at t = {t:.3g} is not finite"
            ) from error
    return np.asarray(np.maximum(value, 0.0), dtype=np.float64)


def _log_sums(counts: Array, k: int, u: float) -> Array:
    """Return ln S when ``counts`` of the k reports are at the upper atom, the rest at the lower."""
    excess = (counts * math.expm1(u) + (k - counts) * math.expm1(-u)) / k
    if excess[0] > -0.5:
        return np.asarray(np.log1p(excess), dtype=np.float64)
    with np.errstate(divide="ignore"):
        upper, lower = np.log(counts / k) + u, np.log((k - counts) / k) - u
    return np.asarray(np.logaddexp(upper, lower), dtype=np.float64)


@functools.lru_cache(maxsize=256)
def _sums_of_indices(rows: int, columns: int) -> NDArray[np.intp]:
    return np.add.outer(np.arange(rows), np.arange(columns))


def _joint(
    k: int,
    facts: Array,
    log_end: float,
    log_middle: float,
    first: slice,
    second: slice,
    up: Array,
    down: Array,
) -> Array:
    """Return E[X Y] over the windows.

    The trinomial probability factors into the two counts and the rest, so the sum is a bilinear
    form with a Hankel matrix of the rest's factor.
    """
    ones, twos = np.arange(first.start, first.stop), np.arange(second.start, second.stop)
    rest = np.arange(k - ones[-1] - twos[-1], k - ones[0] - twos[0] + 1)
    some = rest >= 0
    if not some.any():
        return np.zeros(up.shape[1])
    # Each factor times k to its count (k^k in all) peaks where the probability does: no overflow.
    log_end, log_middle = log_end + math.log(k), log_middle + math.log(k)
    log_one = ones * log_end - facts[first]
    log_two = twos * log_end - facts[second]
    log_rest = np.full(rest.size, -np.inf)
    log_rest[some] = rest[some] * log_middle - facts[rest[some]]
    scale = log_one.max() + log_two.max() + log_rest.max()
    factor = np.exp(log_rest - log_rest.max())
    # What is left for the middle atom at (i, j) is rest[-1] - i - j.
    if ones.size * twos.size <= 4096:
        hankel = factor[::-1][_sums_of_indices(ones.size, twos.size)]
    else:
        windows = np.lib.stride_tricks.sliding_window_view(factor[::-1], twos.size)
        hankel = np.ascontiguousarray(windows[: ones.size])
    weighted = np.exp(log_two - log_two.max())[:, None] * down
    inner = hankel @ weighted
    outer = np.exp(log_one - log_one.max())[:, None] * up
    total = np.einsum("im,im->m", outer, inner)
    return np.asarray(total * math.exp(facts[k] - k * math.log(k) + scale), dtype=np.float64)


def _left_out(log_s: Array, marginal: Array, first: slice, second: slice, orders: Array) -> Array:
    """Bound the terms outside the windows for each order, or for all at once from the greatest.

    Cauchy and Schwarz's inequality separates the two counts. Outside the windows the factors are
    below one or increase with the order, so the greatest order bounds the others.
    """
    outside_first, outside_second = marginal.copy(), marginal.copy()
    outside_first[first] = 0.0
    outside_second[second] = 0.0
    if not (outside_first.any() or outside_second.any()):
        return np.zeros(orders.size)
    up = np.expm1(np.outer(orders, log_s)) ** 2
    down = np.expm1(np.outer(1 - orders, log_s)) ** 2
    if orders.size == 1:
        up, down = np.maximum(up, log_s < 0), np.maximum(down, log_s > 0)
    lost = np.sqrt((up @ outside_first) * (down @ marginal))
    lost += np.sqrt((up @ marginal) * (down @ outside_second))
    # Sums of one count left out: E|X| over what is outside.
    lost += np.sqrt(up) @ outside_first + np.sqrt(down) @ outside_second
    return np.asarray(lost, dtype=np.float64)
