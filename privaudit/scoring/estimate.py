"""Figures with their uncertainty: a value without n and an interval does not exist here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

from privaudit.errors import ConfigurationError

__all__ = ["Estimate", "Scores", "Verdict", "compare", "estimate", "judge", "verdict"]

Statistic = Literal["proportion", "mean", "median"]
Verdict = Literal["breached", "not shown", "inconclusive", "not tested"]

#: Fewest targets from which "not shown" may be concluded; below, the verdict is "inconclusive".
MINIMUM_TARGETS = 20

#: Bootstrap draws; a quarter of them from so many values on, whose mean varies little anyway.
_DRAWS, _MANY = 4000, 10_000
#: Values drawn at once.
_PART = 2**24


@dataclass(frozen=True, slots=True)
class Scores:
    """One number a target, from joining guesses to truth by id; ``nan`` is a failed target."""

    metric: str
    statistic: Statistic
    per_target: Mapping[str, float]
    higher_is_leakier: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its interval, and the figures beside which it must be read.

    ``baseline`` is the prior alone; ``control`` the same attack on payloads deranged among their
    senders, which must do no better than chance.
    """

    metric: str
    value: float
    low: float
    high: float
    confidence: float
    n: int
    failed: int
    method: str
    higher_is_leakier: bool = True
    baseline: Estimate | None = None
    control: Estimate | None = None


def estimate(scores: Scores, *, confidence: float, seed: int = 0) -> Estimate:
    """Summarise scores: Clopper-Pearson for proportions, percentile bootstrap otherwise.

    At a confidence at which less than one draw would lie beyond an end (as of the best of hundreds
    of cells), draws cannot tell that end. Then the interval is the wider of the draws' and one
    whose tails are known: Student's t for a mean, order statistics for a median. Scores that are
    all 0 or all 1 are taken for shares, and their interval is the exact one.

    A target whose score is not finite counts as failed: as 0 in a proportion, and as the least
    leaky value seen in a mean or median, never dropped.

    Raises
    ------
    ConfigurationError
        If there is no target, or the confidence is not in (0, 1).
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be in (0, 1), got {confidence}")
    values = np.array(list(scores.per_target.values()), dtype=np.float64)
    if values.size == 0:
        raise ConfigurationError(f"{scores.metric}: no target was scored")
    finite = np.isfinite(values)
    failed = int((~finite).sum())
    if scores.statistic == "proportion":
        values = np.where(finite, values, 0.0)
        if not np.isin(values, (0.0, 1.0)).all():
            raise ConfigurationError(f"{scores.metric}: a proportion is made of zeros and ones")
        test = stats.binomtest(int(values.sum()), values.size)
        interval = test.proportion_ci(confidence, method="exact")
        value, low, high = float(values.mean()), float(interval.low), float(interval.high)
        method = "Clopper-Pearson"
    else:
        if failed == values.size:
            raise ConfigurationError(f"{scores.metric}: the score of every target is not finite")
        worst = values[finite].min() if scores.higher_is_leakier else values[finite].max()
        values = np.where(finite, values, worst)
        reduce = np.mean if scores.statistic == "mean" else np.median
        value = float(reduce(values))
        rng = np.random.default_rng(seed)
        # In parts: 4000 draws of 60,000 values at once would take 2 GB.
        count = _DRAWS if values.size <= _MANY else _DRAWS // 4
        rows = max(1, _PART // values.size)
        draws = np.concatenate(
            [
                reduce(rng.choice(values, (min(rows, count - start), values.size)), axis=1)
                for start in range(0, count, rows)
            ]
        )
        tail = (1 - confidence) / 2
        low, high = (float(q) for q in np.quantile(draws, (tail, 1 - tail)))
        method = f"percentile bootstrap of the {scores.statistic}, {count} draws"
        if tail * count < 1 and values.size > 1:
            mean = scores.statistic == "mean"
            known = _student(values, tail) if mean else _order_statistics(values, tail)
            low, high = min(low, known[0]), max(high, known[1])
            method += f"; or {'Student t' if mean else 'order statistics'}, whichever is wider"
        if value in (0.0, 1.0) and not np.ptp(values):
            # Draws from values that are all alike have no spread, however few they are.
            known = _all_alike(value, values.size, tail, mean=scores.statistic == "mean")
            low, high = min(low, known[0]), max(high, known[1])
            method += "; or the exact one of shares that are all alike, whichever is wider"
    return Estimate(
        metric=scores.metric,
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        n=int(values.size),
        failed=failed,
        method=method,
        higher_is_leakier=scores.higher_is_leakier,
    )


def _all_alike(value: float, count: int, tail: float, *, mean: bool) -> tuple[float, float]:
    """Return the interval of the centre of scores in [0, 1], all of which are at one end.

    If the mean is m, a score is 1 with probability at most m, and all n are with at most
    ``m ** n``: as of proportions (Clopper and Pearson). If the median is less than 1, all n are
    with at most ``2 ** -n``, however much less it is.
    """
    far = float(tail ** (1 / count)) if mean else float(0.5**count <= tail)
    return (far, 1.0) if value == 1 else (0.0, 1 - far)


def _student(values: np.ndarray, tail: float) -> tuple[float, float]:
    """Return the t interval of the mean with ``tail`` beyond each end."""
    half = float(stats.t.isf(tail, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half


def _order_statistics(values: np.ndarray, tail: float) -> tuple[float, float]:
    """Return the distribution-free interval of the median with at most ``tail`` beyond each end.

    The k-th smallest value lies above the median with the probability that fewer than k of n fair
    coins show heads. From too few values there is no such interval, and the ends are infinite.
    """
    ordered = np.sort(values)
    # The largest k with P(heads < k) <= tail.
    k = int(stats.binom.ppf(tail, values.size, 0.5))
    if stats.binom.cdf(k, values.size, 0.5) <= tail:
        k += 1
    if k < 1:
        return -np.inf, np.inf
    return float(ordered[k - 1]), float(ordered[-k])


def compare(
    attack: Scores, *, baseline: Scores, control: Scores | None, confidence: float
) -> Estimate:
    """Estimate the attack's figure with the baseline's and the control's beside it."""
    return replace(
        estimate(attack, confidence=confidence),
        baseline=estimate(baseline, confidence=confidence),
        control=None if control is None else estimate(control, confidence=confidence),
    )


def verdict(figure: Estimate) -> Verdict:
    """Judge a figure against its baseline.

    "breached" if the attack's interval lies wholly on the leakier side of the baseline's and the
    control stays below the attack's interval; "not shown" if the attack's value lies within or
    below the baseline's interval and there were at least ``MINIMUM_TARGETS`` targets;
    "inconclusive" otherwise: too few targets, or a value beyond the baseline's interval whose own
    interval is too wide to tell. Two intervals that do not overlap are a stricter test than the
    difference of the two figures.

    Raises
    ------
    ConfigurationError
        If the figure has no baseline.
    """
    return judge(figure)[0]


def judge(figure: Estimate) -> tuple[Verdict, str]:
    """Return the :func:`verdict` on a figure, and why it is "inconclusive"; empty if it is not.

    Raises
    ------
    ConfigurationError
        If the figure has no baseline.
    """
    if figure.baseline is None:
        raise ConfigurationError(f"{figure.metric}: a verdict needs a baseline")
    sign = 1.0 if figure.higher_is_leakier else -1.0

    def ends(e: Estimate) -> tuple[float, float]:
        low, high = sorted((sign * e.low, sign * e.high))
        return low, high

    attack_low, _ = ends(figure)
    guessing = ends(figure.baseline)[1]
    beats = attack_low > guessing
    # A control that does as well as the attack means that the attack reads something else than
    # the target's own messages: no conclusion can be drawn from it.
    if beats and figure.control is not None and sign * figure.control.value >= attack_low:
        return "inconclusive", (
            "the control, on exchanged messages, reaches as much, so that the attack reads "
            "something else than a target's own messages"
        )
    if beats:
        return "breached", ""
    if sign * figure.value > guessing:
        return "inconclusive", (
            "the measured value lies beyond what guessing may reach, but its own range reaches "
            "into that of guessing, so that chance is not ruled out"
        )
    if figure.n < MINIMUM_TARGETS:
        targets = "1 target" if figure.n == 1 else f"{figure.n} targets"
        return "inconclusive", (
            f"not beyond the range of guessing, but on {targets}, and 'not shown' takes "
            f"{MINIMUM_TARGETS} or more"
        )
    return "not shown", ""
