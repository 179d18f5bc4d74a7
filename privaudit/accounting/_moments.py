r"""Renyi moments of one shuffled Laplace coordinate, conditional on the number of clones.

User 1 holds u or -u, t = 2u, and k reports (its own among them) are in the blanket Laplace(0, 1):

.. math:: A_k(t;\alpha) = E[S_u^\alpha S_{-u}^{1-\alpha}],\qquad
   S_x = \tfrac1k \textstyle\sum_{i\le k} R_x(W_i)/B(W_i),\ W_i \sim B.

The likelihood ratios lie on two segments, so by Jensen's inequality (a^alpha b^(1-alpha) is jointly
convex) A_k is at most its value for three atoms with probabilities 1/(e^u+1), (e^u-1)/(e^u+1),
1/(e^u+1): a trinomial sum, evaluated here as a bilinear form. It increases in t and decreases in k.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import NumericalError

__all__ = ["clone_moments", "zcdp_of_clones"]

Array = NDArray[np.float64]

#: Standard deviations, beyond the tilt, to which the trinomial sum is carried out.
_DEVIATIONS = 8.0


def zcdp_of_clones(k: Array | float, t: float) -> Array:
    r"""Return rho with :math:`D_\alpha \le \rho\alpha`: :math:`\tfrac k2\ln^2(1+(e^t-1)/k)`.

    Theorem B of the accounting notes (docs/accounting.md): sub-additivity of entropy and
    Hoeffding's lemma for the log-ratio of the two sums, whose range in each report is at most
    :math:`2\ln(1+(e^t-1)/k)`. Proven for every order; for k = 1 it is Bun and Steinke's t^2/2.
    """
    k = np.asarray(k, dtype=np.float64)
    return np.asarray(k / 2 * np.log1p(math.expm1(t) / k) ** 2, dtype=np.float64)


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
        Renyi orders alpha > 1.

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
    weight_end = 1 / (math.exp(u) + 1)
    weight_middle = math.expm1(u) / (math.exp(u) + 1)
    count = np.arange(k + 1, dtype=np.float64)
    # S - 1 for `count` reports at the upper atom; the other reports are at the lower one.
    excess = (count * math.expm1(u) + (k - count) * math.expm1(-u)) / k
    log_s = np.log1p(excess)
    alpha = orders[:, None]
    with np.errstate(over="raise", invalid="raise"):
        try:
            up = np.expm1(alpha * log_s)  # S_u^alpha - 1, by count at the upper atom
            down = np.expm1((1 - alpha) * log_s)  # S_-u^(1-alpha) - 1, by count at the lower atom
        except FloatingPointError as error:
            raise NumericalError(
                f"a Renyi moment of order {orders.max():.3g} at t = {t:.3g} overflows"
            ) from error
    log_factorial = _log_factorials(k)
    log_binomial = (
        log_factorial[k]
        - log_factorial
        - log_factorial[::-1]
        + count * math.log(weight_end)
        + (k - count) * math.log1p(-weight_end)
    )
    marginal = np.exp(log_binomial)

    # E[(X+1)(Y+1)] - 1 = E[XY] + E[X] + E[Y] with X = S_u^alpha - 1, Y = S_-u^(1-alpha) - 1.
    singles = up @ marginal + down @ marginal
    first, second = _windows(k, weight_end, t, float(orders.max()))
    i, j = count[first], count[second]
    rest = k - i[:, None] - j[None, :]
    inside = rest >= 0
    index = np.where(inside, rest, 0).astype(np.int64)
    log_joint = (
        log_factorial[k]
        - log_factorial[first][:, None]
        - log_factorial[second][None, :]
        - log_factorial[index]
        + (i[:, None] + j[None, :]) * math.log(weight_end)
        + index * math.log(weight_middle)
    )
    joint = np.where(inside, np.exp(log_joint), 0.0)
    products = np.einsum("mi,mi->m", up[:, first] @ joint, down[:, second])
    outside_first, outside_second = marginal.copy(), marginal.copy()
    outside_first[first] = 0.0
    outside_second[second] = 0.0
    up_square, down_square = up * up, down * down
    lost = np.sqrt((up_square @ outside_first) * (down_square @ marginal))
    lost += np.sqrt((up_square @ marginal) * (down_square @ outside_second))
    value = singles + products + lost
    if not np.isfinite(value).all():
        raise NumericalError(f"a Renyi moment at k = {k}, t = {t:.3g} is not finite")
    return np.asarray(np.maximum(value, 0.0), dtype=np.float64)


def _windows(k: int, weight: float, t: float, order: float) -> tuple[slice, slice]:
    """Return the counts summed over: the tilt moves the upper one up and the lower one down."""
    spread = _DEVIATIONS * math.sqrt(k * weight) + 12
    shift = 2 * order * t * weight
    centre = k * weight
    low, high = centre - spread, centre + spread
    return (
        slice(max(0, math.floor(low)), min(k, math.ceil(high + shift)) + 1),
        slice(max(0, math.floor(low - shift)), min(k, math.ceil(high)) + 1),
    )
