"""Composition: the paper's Theorem 2, zero-concentrated and Renyi accounting, Gaussian floors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import (
    OutOfDomainError,
    check_count,
    check_delta,
    check_epsilon0,
    check_finite,
)

__all__ = [
    "advanced_composition",
    "epsilon_from_rdp",
    "epsilon_of_gaussian",
    "epsilon_of_zcdp",
    "local_zcdp",
    "theorem2_delta_s",
]


def theorem2_delta_s(delta: float, compositions: int) -> float:
    """Return ``delta / (2 k)``: half of delta is spent on k coordinates, half on composition.

    Source: PA-CFL, Theorem 2, ``delta_low = d2 * delta_s + delta'``, with ``delta' = delta / 2``
    and k = d2 for one round, d2 * T for T rounds.
    """
    check_delta(delta)
    check_count("compositions", compositions)
    return delta / (2 * compositions)


def advanced_composition(epsilon_s: float, *, compositions: int, delta_prime: float) -> float:
    r"""Return epsilon of k mechanisms by advanced composition, the formula of PA-CFL's Theorem 2.

    .. math:: \sqrt{2 k \ln(1/\delta')}\,\varepsilon_s + k\,\varepsilon_s \tanh(\varepsilon_s / 2)

    Proven (Kairouz, Oh, Viswanath 2015, Theorem 3.4, third term) for any (epsilon_s, delta_s)-DP
    mechanisms, with total delta ``k delta_s + delta'``.

    Raises
    ------
    OutOfDomainError
        If epsilon_s < 0, or delta' is not in (0, 1).

    Examples
    --------
    >>> round(advanced_composition(1.0, compositions=582026, delta_prime=1e-5))
    272625
    """
    check_count("compositions", compositions)
    check_delta(delta_prime)
    if not epsilon_s >= 0:
        raise OutOfDomainError(f"epsilon_s must be >= 0, got {epsilon_s}")
    value = math.sqrt(2 * compositions * math.log(1 / delta_prime)) * epsilon_s
    value += compositions * epsilon_s * math.tanh(epsilon_s / 2)
    return check_finite("advanced composition", value)


def epsilon_from_rdp(
    orders: Sequence[float] | NDArray[np.float64],
    rdp: Sequence[float] | NDArray[np.float64],
    delta: float,
) -> tuple[float, float]:
    r"""Return (epsilon, order) from Renyi divergences, the least over the orders given.

    .. math:: \varepsilon = D_\alpha + \ln(1 - 1/\alpha) - (\ln\delta + \ln\alpha)/(\alpha - 1)

    (Canonne, Kamath, Steinke 2020, Proposition 12). Valid for every order > 1, hence for the least;
    more orders can only tighten it. A negative value is reported as 0.

    Raises
    ------
    OutOfDomainError
        If an order is <= 1 or delta is not in (0, 1).
    """
    check_delta(delta)
    alpha = np.asarray(orders, dtype=np.float64)
    divergence = np.asarray(rdp, dtype=np.float64)
    if alpha.size == 0 or alpha.shape != divergence.shape or not (alpha > 1).all():
        raise OutOfDomainError("orders must be > 1, one for each Renyi divergence")
    with np.errstate(invalid="raise", over="raise"):
        values = divergence + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
    if np.isnan(values).any():
        check_finite("a Renyi divergence", math.nan)
    best = int(np.argmin(values))
    return max(0.0, check_finite("epsilon from Renyi divergences", float(values[best]))), float(
        alpha[best]
    )


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Return epsilon of rho-zCDP (``D_alpha <= rho alpha`` for all orders), rounded up."""
    if not rho > 0:
        raise OutOfDomainError(f"rho must be > 0, got {rho}")
    check_delta(delta)
    centre = math.sqrt(math.log(1 / delta) / rho)
    orders = 1 + centre * np.geomspace(0.05, 20.0, 4001)
    return epsilon_from_rdp(orders, rho * orders, delta)[0]


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    r"""Return the exact epsilon of mu-Gaussian DP at delta.

    Solves :math:`\delta = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon\Phi(-\varepsilon/\mu -
    \mu/2)` (Dong, Roth, Su 2022, Corollary 2.13) by bracketing; accurate to 1e-9.
    """
    check_delta(delta)
    if not (mu > 0 and math.isfinite(mu)):
        raise OutOfDomainError(f"mu must be finite and > 0, got {mu}")
    from scipy import optimize, special

    def excess(epsilon: float) -> float:
        first = special.log_ndtr(-epsilon / mu + mu / 2)
        second = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
        if second >= first:
            return -math.inf
        return float(first + math.log1p(-math.exp(second - first)) - math.log(delta))

    if excess(0.0) <= 0:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + mu + 1
    while excess(high) > 0:
        high *= 2

    def bounded(epsilon: float) -> float:
        return max(excess(epsilon), -1e3)

    return check_finite(
        "epsilon of a Gaussian", float(optimize.brentq(bounded, 0.0, high, xtol=1e-10, rtol=1e-12))
    )


def local_zcdp(epsilon0: float) -> float:
    r"""Return rho of one round of the jointly L2-clipped Laplace vector: ``epsilon0**2 / 2``.

    Theorem A: coordinate j is :math:`t_j`-DP, hence :math:`D_\alpha \le \alpha t_j^2/2` (Bun and
    Steinke 2016, Proposition 1.4); coordinates are independent and
    :math:`\sum_j t_j^2 \le \varepsilon_0^2` by the joint clipping. No dependence on the dimension.
    """
    check_epsilon0(epsilon0)
    return epsilon0 * epsilon0 / 2
