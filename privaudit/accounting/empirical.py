r"""Lower bounds on epsilon from attacks that were run, and what they assume.

Scores are "the larger, the more likely the first input". They are rounded before they are
compared: log-likelihood ratios of Laplace noise have atoms, which float rounding would split
differently under the two inputs and so fake an unbounded epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privaudit.accounting.bracket import OutOfDomainError, check_count, check_delta
from privaudit.accounting.composition import epsilon_of_gaussian
from privaudit.errors import InvalidDataError

__all__ = [
    "EmpiricalEpsilon",
    "clopper_pearson_epsilon",
    "credible_epsilon",
    "gaussian_fit_epsilon",
    "largest_attainable_epsilon",
    "one_run_epsilon",
    "one_run_p_value",
]

Array = NDArray[np.float64]

#: Decimals to which scores are rounded; LLRs agree to about 1e-12.
_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class EmpiricalEpsilon:
    """An epsilon that an attack shows, with its confidence and its assumptions.

    Attributes
    ----------
    lower : float
        With the stated confidence, epsilon at ``delta`` is at least this.
    upper : float or None
        Upper end of a credible interval; None for the frequentist bounds, which have none.
    delta, confidence : float
    method : str
    kind : {"confidence", "confidence under a hypothesis", "credible"}
    trials : int
        Runs (or guesses) on which the figure rests, those used to choose a threshold left out.
    threshold : float or None
        Scores above it were taken for the first input.
    assumptions : tuple of str
    """

    lower: float
    upper: float | None
    delta: float
    confidence: float
    method: str
    kind: Literal["confidence", "confidence under a hypothesis", "credible"]
    trials: int
    threshold: float | None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rates:
    """Counts at some thresholds: scores of the first and second input above each."""

    hits: NDArray[np.int64]
    alarms: NDArray[np.int64]
    first: int
    second: int
    thresholds: Array

    @classmethod
    def of(cls, first: Array, second: Array, thresholds: Array) -> _Rates:
        def above(scores: Array) -> NDArray[np.int64]:
            return scores.size - np.searchsorted(np.sort(scores), thresholds, side="right")

        return cls(above(first), above(second), first.size, second.size, thresholds)

    def bounds(self, a: float) -> tuple[Array, Array]:
        """Return Clopper-Pearson bounds at level a: TPR from below, FPR from above."""
        from scipy import stats

        hits, alarms = self.hits, self.alarms
        lower = stats.beta.ppf(a, np.maximum(hits, 1), self.first - hits + 1)
        upper = stats.beta.ppf(1 - a, alarms + 1, np.maximum(self.second - alarms, 1))
        return np.where(hits > 0, lower, 0.0), np.where(alarms < self.second, upper, 1.0)

    def epsilons(self, a: float, delta: float) -> Array:
        """Return ln max{(TPR - delta) / FPR, (TNR - delta) / FNR}, at least 0."""
        true_positive, false_positive = self.bounds(a)
        least = np.finfo(np.float64).tiny
        one = (true_positive - delta) / np.maximum(false_positive, least)
        two = (1 - false_positive - delta) / np.maximum(1 - true_positive, least)
        return np.asarray(np.log(np.maximum(np.maximum(one, two), 1.0)), dtype=np.float64)

    def means(self, a: float) -> Array:
        """Return bounds on mu from below under Gaussian differential privacy."""
        from scipy import stats

        true_positive, false_positive = self.bounds(a)
        mu = stats.norm.ppf(true_positive) - stats.norm.ppf(false_positive)
        return np.asarray(np.maximum(np.nan_to_num(mu, neginf=0.0), 0.0), dtype=np.float64)


def _scores(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size < 2:
        raise InvalidDataError(f"{name} must be one list of at least 2 scores, got {array.shape}")
    if np.isnan(array).any():
        raise InvalidDataError(f"{name} holds {int(np.isnan(array).sum())} scores that are NaN")
    return np.round(array, _DECIMALS)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise OutOfDomainError(f"confidence must be in (0, 1), got {confidence}")


def _split(values: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    order = rng.permutation(values.size)
    return values[order[: values.size // 2]], values[order[values.size // 2 :]]


def _held_out(
    first: ArrayLike,
    second: ArrayLike,
    merit: Callable[[_Rates], Array],
    rng: np.random.Generator,
) -> _Rates:
    """Choose the threshold of the greatest merit on one half; return the counts of the other."""
    choose_first, test_first = _split(_scores("first", first), rng)
    choose_second, test_second = _split(_scores("second", second), rng)
    pooled = np.concatenate((choose_first, choose_second))
    candidates = np.unique(np.quantile(pooled, np.linspace(0, 1, 200), method="nearest"))
    best = candidates[int(np.argmax(merit(_Rates.of(choose_first, choose_second, candidates))))]
    return _Rates.of(test_first, test_second, np.asarray([best], dtype=np.float64))


def clopper_pearson_epsilon(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    rng: np.random.Generator | None = None,
    thresholds: Sequence[float] | None = None,
) -> EmpiricalEpsilon:
    r"""Bound epsilon below from the scores of an attack under two neighbouring inputs.

    :math:`\ln\max\{(TPR_L-\delta)/FPR_U, (TNR_L-\delta)/FNR_U\}` with one-sided Clopper-Pearson
    bounds, each at half of what is left of the confidence.

    Parameters
    ----------
    first, second : array_like, shape (trials,)
        Scores of independent runs under either input.
    delta : float
    confidence : float
    rng : numpy.random.Generator, optional
        Splits the runs: one half chooses the threshold, the other is counted.
    thresholds : sequence of float, optional
        Thresholds fixed before the runs instead; the best counts, at a Bonferroni correction.

    Raises
    ------
    OutOfDomainError
        If delta or the confidence is out of range, or neither or both of ``rng`` and
        ``thresholds`` are given.
    InvalidDataError
        If there are fewer than two scores, or a score is NaN.
    """
    check_delta(delta)
    _check_confidence(confidence)
    if (rng is None) == (thresholds is None):
        raise OutOfDomainError("give either rng (half of the runs choose) or fixed thresholds")
    if rng is not None:
        a = (1 - confidence) / 2
        rates = _held_out(first, second, lambda r: r.epsilons(a, delta), rng)
        method = "threshold from a disjoint half"
    else:
        assert thresholds is not None
        if not len(thresholds):
            raise OutOfDomainError("thresholds must name at least one threshold")
        a = (1 - confidence) / (2 * len(thresholds))
        one, two = _scores("first", first), _scores("second", second)
        fixed = np.array([round(float(c), _DECIMALS) for c in thresholds], dtype=np.float64)
        rates = _Rates.of(one, two, fixed)
        method = f"Bonferroni over {len(thresholds)} fixed thresholds"
    found = rates.epsilons(a, delta)
    return EmpiricalEpsilon(
        lower=float(found.max()),
        upper=None,
        delta=delta,
        confidence=confidence,
        method=f"Clopper-Pearson, {method}",
        kind="confidence",
        trials=rates.first + rates.second,
        threshold=float(rates.thresholds[int(np.argmax(found))]),
        assumptions=("independent runs",),
    )


def gaussian_fit_epsilon(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> EmpiricalEpsilon:
    r"""Bound epsilon below under the hypothesis that the mechanism is :math:`\mu`-GDP.

    :math:`\mu_L=\Phi^{-1}(TPR_L)-\Phi^{-1}(FPR_U)` (Nasr et al. 2023), then epsilon of
    :math:`\mu_L`. Reasonable for the vector of many coordinates, wrong for a single one.
    """
    check_delta(delta)
    _check_confidence(confidence)
    a = (1 - confidence) / 2
    rates = _held_out(first, second, lambda r: r.means(a), rng)
    mu = float(rates.means(a)[0])
    return EmpiricalEpsilon(
        lower=epsilon_of_gaussian(mu, delta) if mu > 0 else 0.0,
        upper=None,
        delta=delta,
        confidence=confidence,
        method=f"fit of Gaussian differential privacy, mu >= {mu:.4g}",
        kind="confidence under a hypothesis",
        trials=rates.first + rates.second,
        threshold=float(rates.thresholds[0]),
        assumptions=("independent runs", "the trade-off curve is that of a Gaussian mechanism"),
    )


def largest_attainable_epsilon(trials_each: int, *, confidence: float = 0.95) -> float:
    r"""Return the most that Clopper-Pearson can show: no false positive, all hits.

    About :math:`\ln(M/\ln(1/a))` with M runs of either side and :math:`a` half of what is left of
    the confidence. Below it a small figure may only mean few runs.

    Examples
    --------
    >>> round(largest_attainable_epsilon(5000), 1)
    7.2
    """
    check_count("trials_each", trials_each)
    _check_confidence(confidence)
    m = trials_each
    perfect = _Rates(np.array([m]), np.array([0]), m, m, np.zeros(1))
    return float(perfect.epsilons((1 - confidence) / 2, 0.0)[0])


def one_run_p_value(
    epsilon: float, *, correct: int, guesses: int, canaries: int, delta: float
) -> float:
    r"""Return the p-value of one run against (epsilon, delta)-DP (Steinke et al. 2023, Thm 5.2).

    :math:`F(v)+2m\delta\max_{1\le i\le v}(F(v-i)-F(v))/i` with
    :math:`F(x)=P[Bin(r,e^\varepsilon/(1+e^\varepsilon))\ge x]`, m independent canaries, r guesses,
    v of them correct.
    """
    from scipy import stats

    p = 1 / (1 + math.exp(-epsilon))
    at = float(stats.binom.sf(correct - 1, guesses, p))
    if correct == 0:
        return 1.0
    back = np.arange(1, correct + 1)
    steps = (stats.binom.sf(correct - 1 - back, guesses, p) - at) / back
    return min(1.0, at + 2 * canaries * delta * float(steps.max()))


def one_run_epsilon(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> EmpiricalEpsilon:
    """Bound epsilon below from one run with many independently included canaries.

    Parameters
    ----------
    correct, guesses, canaries : int
        Right guesses, guesses made (the rest abstained), canaries that were flipped in or out
        independently with probability one half.
    delta, confidence : float

    Raises
    ------
    OutOfDomainError
        Unless 0 <= correct <= guesses <= canaries.
    """
    check_delta(delta)
    _check_confidence(confidence)
    check_count("guesses", guesses)
    if not 0 <= correct <= guesses <= canaries:
        raise OutOfDomainError(
            f"needs 0 <= correct <= guesses <= canaries, got {correct}, {guesses}, {canaries}"
        )

    def rejected(epsilon: float) -> bool:
        p = one_run_p_value(
            epsilon, correct=correct, guesses=guesses, canaries=canaries, delta=delta
        )
        return p <= 1 - confidence

    low, high = 0.0, 60.0
    if rejected(low):
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rejected(middle) else (low, middle)
    return EmpiricalEpsilon(
        lower=low,
        upper=None,
        delta=delta,
        confidence=confidence,
        method="one run (Steinke, Nasr, Jagielski 2023, Theorem 5.2)",
        kind="confidence",
        trials=guesses,
        threshold=None,
        assumptions=("canaries included independently with probability 1/2",),
    )


def credible_epsilon(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    draws: int = 100_000,
) -> EmpiricalEpsilon:
    """Return an equal-tailed credible interval of epsilon at one threshold.

    Independent Jeffreys posteriors of the two error rates (Zanella-Béguelin et al. 2023). The
    interval is of the trade-off point of this attack: credible, not a confidence statement.
    """
    check_delta(delta)
    _check_confidence(confidence)
    check_count("draws", draws)
    rates = _held_out(first, second, lambda r: r.epsilons((1 - confidence) / 2, delta), rng)
    hits, alarms = int(rates.hits[0]), int(rates.alarms[0])
    false_positive = rng.beta(0.5 + alarms, 0.5 + rates.second - alarms, size=draws)
    false_negative = rng.beta(0.5 + rates.first - hits, 0.5 + hits, size=draws)
    tiny = np.finfo(np.float64).tiny
    one = np.log(np.maximum(1 - delta - false_positive, tiny) / np.maximum(false_negative, tiny))
    two = np.log(np.maximum(1 - delta - false_negative, tiny) / np.maximum(false_positive, tiny))
    epsilon = np.maximum(np.maximum(one, two), 0.0)
    low, high = np.quantile(epsilon, ((1 - confidence) / 2, (1 + confidence) / 2))
    return EmpiricalEpsilon(
        lower=float(low),
        upper=float(high),
        delta=delta,
        confidence=confidence,
        method="Jeffreys posteriors of the error rates, threshold from a disjoint half",
        kind="credible",
        trials=rates.first + rates.second,
        threshold=float(rates.thresholds[0]),
        assumptions=("independent runs",),
    )
