"""Exact composition of many equal mechanisms, and of one explicit pair of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import (
    Bracket,
    NumericalError,
    OutOfDomainError,
    check_count,
    check_delta,
    check_finite,
)

__all__ = ["compose_pair", "optimal_composition"]

Array = NDArray[np.float64]


def optimal_composition(
    epsilon_s: float, *, compositions: int, delta: float, delta_s: float = 0.0
) -> float:
    r"""Return the optimal epsilon of k compositions of any (epsilon_s, delta_s)-DP mechanisms.

    Kairouz, Oh and Viswanath (2015), Theorem 3.3, for equal mechanisms: the loss is
    :math:`(2L-k)\varepsilon_s` with :math:`L\sim Bin(k, e^{\varepsilon_s}/(1+e^{\varepsilon_s}))`,

    .. math:: 1-(1-\delta_s)^k(1-\delta_{pure}) = \delta,\qquad
       \delta_{pure} = \sum_L P(L)\,\big(1-e^{\varepsilon-(2L-k)\varepsilon_s}\big)_+ .

    Rounded up.

    Raises
    ------
    OutOfDomainError
        If epsilon_s <= 0, delta is out of range, or k * delta_s exceeds delta.

    Examples
    --------
    >>> round(optimal_composition(1.0, compositions=582026, delta=1e-5))
    271846
    """
    from scipy import stats

    check_count("compositions", compositions)
    check_delta(delta)
    if not epsilon_s > 0 or not 0 <= delta_s < 1:
        raise OutOfDomainError(
            f"epsilon_s must be > 0 and delta_s in [0, 1), got {epsilon_s} and {delta_s}"
        )
    k, p = compositions, 1 / (1 + math.exp(-epsilon_s))
    log_kept = k * math.log1p(-delta_s)
    # 1 - delta_pure = (1 - delta) / (1 - delta_s)^k
    pure = -math.expm1(math.log1p(-delta) - log_kept)
    if not pure > 0:
        raise OutOfDomainError(
            f"delta = {delta:g} is less than what {k} mechanisms with delta_s = {delta_s:g} need"
        )
    mean, spread = k * p, math.sqrt(k * p * (1 - p))
    low = max(0, math.floor(mean - 12 * spread - 40))
    high = min(k, math.ceil(mean + 40 * spread + 100))
    successes = np.arange(low, high + 1)
    losses = (2.0 * successes - k) * epsilon_s
    weights = stats.binom.pmf(successes, k, p)
    out = float(stats.binom.cdf(low - 1, k, p) + stats.binom.sf(high, k, p))

    def profile(epsilon: float) -> float:
        gain = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return float(weights @ gain) * (1 + 1e-9) + out

    below, above = 0.0, k * epsilon_s
    if profile(0.0) <= pure:
        return 0.0
    for _ in range(200):
        middle = 0.5 * (below + above)
        below, above = (below, middle) if profile(middle) <= pure else (middle, above)
        if above - below <= 1e-10 * above:
            break
    return check_finite("optimal composition", above)


def compose_pair(
    first: Sequence[float] | Array,
    second: Sequence[float] | Array,
    *,
    compositions: int,
    delta: float,
    interval: float | None = None,
) -> Bracket:
    """Bracket epsilon of k compositions of one pair of distributions on the same outcomes.

    Privacy loss distributions of dp_accounting, pessimistic for the upper bound and optimistic for
    the lower one, each the worse of the two directions.

    Parameters
    ----------
    first, second : sequence of float, shape (outcomes,)
        Probabilities under the two neighbouring inputs.
    compositions : int
    delta : float
    interval : float, optional
        Discretisation of the loss; by default 1e-4 over the square root of k, so that the error
        k * interval of the rounding stays far below the spread of the loss.

    Raises
    ------
    OutOfDomainError
        If the two are not probability distributions of one length.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    check_count("compositions", compositions)
    check_delta(delta)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise OutOfDomainError(f"two distributions of one length, got {a.shape} and {b.shape}")
    for law in (a, b):
        if (law < 0).any() or not math.isclose(float(law.sum()), 1.0, abs_tol=1e-9):
            raise OutOfDomainError("probabilities must be >= 0 and sum to 1")
    step = interval or 1e-4 / math.sqrt(compositions)

    def log_masses(law: Array) -> dict[int, float]:
        return {i: math.log(p) for i, p in enumerate(law.tolist()) if p > 0}

    def epsilon(upper: Array, lower: Array, pessimistic: bool) -> float:
        one: Any = pld.from_two_probability_mass_functions(
            log_masses(lower),
            log_masses(upper),
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
            symmetric=False,
        )
        return float(one.self_compose(compositions).get_epsilon_for_delta(delta))

    above = max(epsilon(a, b, True), epsilon(b, a, True))
    below = max(epsilon(a, b, False), epsilon(b, a, False))
    if math.isnan(above) or math.isnan(below):
        raise NumericalError("dp_accounting returned a privacy loss that is not a number")
    return Bracket(
        lower=max(0.0, min(below, above)),
        upper=max(0.0, above),
        delta=delta,
        theorem="privacy loss distribution of the explicit pair (dp_accounting)",
        direction="both outwards",
        status="numerical",
        domain_ok=True,
        unit="what tells the two distributions apart",
        assumptions=("independent draws", "no other pair of inputs is worse"),
        note=f"discretised to {step:.2g}",
    )
