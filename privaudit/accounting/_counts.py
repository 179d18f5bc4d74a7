r"""Hockey-stick divergences of counts: clones, randomized response, one threshold.

All are sums over at most n terms, evaluated as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import check_count, check_delta, check_epsilon0, check_finite

__all__ = [
    "clone_delta",
    "fmt21_numerical",
    "fmt23_numerical",
    "randomized_response_epsilon",
    "smallest_epsilon",
    "threshold_epsilon",
]

Array = NDArray[np.float64]

_ERRATUM = (
    "The authors' erratum (arXiv 2208.04591) restricts this bound to a class of randomizers; for "
    "a general epsilon0-DP randomizer, and for Laplace, it has no proof."
)


def smallest_epsilon(
    profile: Callable[[float], float], delta: float, epsilon0: float
) -> tuple[float, float]:
    """Return (below, above) around the epsilon at which a decreasing profile falls to delta."""
    if profile(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, epsilon0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
        if high - low <= 1e-9 * high:
            break
    return low, high


def _window(trials: int, probability: float) -> tuple[NDArray[np.int64], Array, float]:
    """Return (values, probabilities, mass left out) of a binomial, to about 1e-30."""
    from scipy import stats

    mean = trials * probability
    reach = 12 * math.sqrt(mean * (1 - probability)) + 40
    low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    values = np.arange(low, high + 1)
    out = stats.binom.cdf(low - 1, trials, probability) + stats.binom.sf(high, trials, probability)
    return values, np.asarray(stats.binom.pmf(values, trials, probability)), float(out)


def clone_delta(n: int, epsilon0: float, epsilon: float, *, rate: float) -> float:
    r"""Return the divergence of the clone pair of Feldman, McMillan and Talwar, rounded up.

    :math:`C\sim Bin(n-1, rate)`, :math:`A\sim Bin(C,\tfrac12)`,
    :math:`\Delta\sim Bern(e^{\varepsilon_0}/(e^{\varepsilon_0}+1))`; the pair is
    :math:`(A+\Delta, C-A+1-\Delta)` and :math:`(A+1-\Delta, C-A+\Delta)`. Given C, the set where
    the first is more than :math:`e^\varepsilon` times as likely is a tail of the first count.
    """
    from scipy import special, stats

    # The rarer answer has its own formula: 1 - p is lost to rounding from epsilon0 = 20 on.
    p, q = float(special.expit(epsilon0)), float(special.expit(-epsilon0))
    clones, weights, out = _window(n - 1, rate)
    place = (clones + 1) * (special.expit(epsilon) * p - special.expit(-epsilon) * q)
    place /= math.tanh(epsilon0 / 2)
    # Rounding may put the best first count one off; the greatest of the neighbours is taken.
    best = np.zeros(clones.size)
    more = q * math.exp(epsilon) * math.expm1(epsilon0 - epsilon)
    for step in (0, 1, 2):
        first = np.minimum(np.floor(place).astype(np.int64) + step, clones + 1)
        # sum over A+Delta >= a: (p - e q) P(A >= a-1) + (q - e p) P(A >= a), with e = exp(epsilon)
        # and p - e q without cancellation, since p = exp(epsilon0) q.
        beyond = special.bdtrc(first - 1, np.maximum(clones, 1), 0.5)
        beyond = np.where(first > clones, 0.0, np.where(first <= 0, 1.0, beyond))
        at = stats.binom.pmf(first - 1, clones, 0.5)
        best = np.maximum(best, more * at - math.expm1(epsilon) * beyond)
    total = float(weights @ best) * (1 + 1e-9) + out
    return check_finite("the divergence of the clone pair", total)


def _check(n: int, epsilon0: float, delta: float) -> None:
    check_count("n", n)
    check_epsilon0(epsilon0)
    check_delta(delta)


def fmt21_numerical(n: int, epsilon0: float, delta: float) -> float:
    """Return the numerical bound of Feldman, McMillan, Talwar (FOCS 2021), Theorem 3.2.

    Any epsilon0-DP local randomizer, any n >= 1. Proven; the divergence of the clone pair (clone
    probability exp(-epsilon0)) is evaluated to float64 and rounded up.

    Examples
    --------
    >>> round(fmt21_numerical(100, 1.0, 1e-5), 2)
    0.55
    """
    _check(n, epsilon0, delta)
    rate = math.exp(-epsilon0)
    return smallest_epsilon(lambda e: clone_delta(n, epsilon0, e, rate=rate), delta, epsilon0)[1]


def fmt23_numerical(n: int, epsilon0: float, delta: float) -> tuple[float, str]:
    """Return the "stronger clone" value of Feldman, McMillan, Talwar (SODA 2023), and its caveat.

    Clone probability 2 / (exp(epsilon0) + 1). It is a guarantee for two-point randomized response
    only; for others it is what was published, not a bound that may be relied on.
    """
    _check(n, epsilon0, delta)
    rate = 2 / (math.exp(epsilon0) + 1)
    _, value = smallest_epsilon(lambda e: clone_delta(n, epsilon0, e, rate=rate), delta, epsilon0)
    return value, _ERRATUM


def _one_more(count: Array, probability: float) -> Array:
    """Return the law of a count plus an independent Bernoulli variable."""
    answer = np.zeros(count.size + 1)
    answer[:-1] += (1 - probability) * count
    answer[1:] += probability * count
    return answer


def randomized_response_epsilon(n: int, epsilon0: float, delta: float) -> float:
    """Return the exact epsilon of n shuffled two-point randomized responses.

    The greatest over the number of ones among the other n - 1 users; by enumeration, so for n up
    to a few hundred. It is a lower bound for every bound on a general epsilon0-DP randomizer.

    Examples
    --------
    >>> round(randomized_response_epsilon(2, 0.5, 0.01), 4)
    0.4739
    """
    from scipy import special, stats

    _check(n, epsilon0, delta)
    p, q = float(special.expit(epsilon0)), float(special.expit(-epsilon0))
    worst = 0.0
    for ones in range(n):
        others = np.convolve(
            stats.binom.pmf(np.arange(ones + 1), ones, p),
            stats.binom.pmf(np.arange(n - ones), n - 1 - ones, q),
        )
        first, second = _one_more(others, p), _one_more(others, q)

        def profile(epsilon: float, a: Array = first, b: Array = second) -> float:
            return float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())

        # By symmetry the other direction is that of n - 1 - ones.
        if profile(worst) > delta:
            worst = smallest_epsilon(profile, delta, epsilon0)[1]
    return worst


def threshold_epsilon(n: int, epsilon0: float, delta: float) -> float:
    """Return a lower bound on epsilon of one shuffled Laplace coordinate from one threshold.

    Post-processing: only the number of reports beyond the end h of the interval is kept, for user
    1 at h or -h and all others at h or at -h. Exact sums, rounded down.
    """
    from scipy import stats

    far = math.exp(-epsilon0) / 2
    best = 0.0
    for others in (0.5, far):
        values = np.arange(n)
        count = np.asarray(stats.binom.pmf(values, n - 1, others), dtype=np.float64)
        laws = _one_more(count, 0.5), _one_more(count, far)
        for first, second in (laws, laws[::-1]):

            def profile(epsilon: float, a: Array = first, b: Array = second) -> float:
                gain = float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())
                return gain * (1 - 1e-9)

            if profile(best) > delta:
                best = smallest_epsilon(profile, delta, epsilon0)[0]
    return best
