"""Intervals against published values, and the rules of a verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privaudit.errors import ConfigurationError
from privaudit.scoring.estimate import (
    MINIMUM_TARGETS,
    Estimate,
    Scores,
    compare,
    estimate,
    judge,
    verdict,
)


def scores_of(values: Any, statistic: Any = "proportion", **changes: Any) -> Scores:
    per_target = {f"user-{i}": float(v) for i, v in enumerate(values)}
    return Scores("metric", statistic, per_target, **changes)


def share(successes: int, n: int) -> Scores:
    return scores_of([1.0] * successes + [0.0] * (n - successes))


@pytest.mark.parametrize(
    ("successes", "n", "confidence", "low", "high"),
    [
        # The rule of three and its exact form: 1 - (alpha / 2) ** (1 / n) at 0 of n.
        (0, 10, 0.95, 0.0, 0.3085),
        (10, 10, 0.95, 0.6915, 1.0),
        # Exact 95 % limits from tables of the binomial (Fisher and Yates; Zar, table B.24).
        (1, 10, 0.95, 0.0025, 0.4450),
        (5, 10, 0.95, 0.1871, 0.8129),
        (4, 20, 0.95, 0.0573, 0.4366),
        (10, 100, 0.95, 0.0490, 0.1762),
        (5, 10, 0.99, 0.1283, 0.8717),
    ],
)
def test_proportions_have_the_exact_limits_of_the_tables(
    successes: int, n: int, confidence: float, low: float, high: float
) -> None:
    found = estimate(share(successes, n), confidence=confidence)
    assert found.value == successes / n
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)
    assert (found.n, found.failed, found.confidence) == (n, 0, confidence)
    assert found.method == "Clopper-Pearson"


@given(st.integers(1, 60), st.data())
@settings(max_examples=60)
def test_limits_are_where_the_tails_of_the_binomial_are_half_of_alpha(
    n: int, data: st.DataObject
) -> None:
    successes = data.draw(st.integers(0, n))
    found = estimate(share(successes, n), confidence=0.95)
    if successes > 0:
        assert stats.binom.sf(successes - 1, n, found.low) == pytest.approx(0.025, rel=1e-6)
    else:
        assert found.low == 0
    if successes < n:
        assert stats.binom.cdf(successes, n, found.high) == pytest.approx(0.025, rel=1e-6)
    else:
        assert found.high == 1


def test_a_failed_target_counts_as_zero_in_a_proportion() -> None:
    found = estimate(scores_of([1.0, math.nan, 1.0, math.inf]), confidence=0.95)
    assert (found.value, found.n, found.failed) == (0.5, 4, 2)
    assert found.low == estimate(share(2, 4), confidence=0.95).low


@pytest.mark.parametrize(("leakier", "worst"), [(True, 2.0), (False, 8.0)])
def test_a_failed_target_counts_as_the_least_leaky_in_a_mean(leakier: bool, worst: float) -> None:
    values = [2.0, 8.0, 5.0, math.nan]
    found = estimate(scores_of(values, "mean", higher_is_leakier=leakier), confidence=0.9, seed=1)
    assert found.value == pytest.approx((2 + 8 + 5 + worst) / 4)
    assert (found.n, found.failed) == (4, 1)


def test_nothing_to_score_or_nothing_finite_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no target"):
        estimate(scores_of([]), confidence=0.95)
    with pytest.raises(ConfigurationError, match="every target is not finite"):
        estimate(scores_of([math.nan] * 3, "median"), confidence=0.95)
    with pytest.raises(ConfigurationError, match="zeros and ones"):
        estimate(scores_of([0.5]), confidence=0.95)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, math.nan])
def test_a_confidence_outside_zero_and_one_is_refused(confidence: float) -> None:
    with pytest.raises(ConfigurationError, match="confidence must be in"):
        estimate(share(1, 2), confidence=confidence)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says(statistic: str) -> None:
    rng = np.random.default_rng(0)
    truth = 3.0
    covered = 0
    for trial in range(200):
        found = estimate(
            scores_of(rng.normal(truth, 1.0, size=60), statistic), confidence=0.9, seed=trial
        )
        assert found.low <= found.value <= found.high
        covered += found.low <= truth <= found.high
    # 0.9 of 200 is 180, standard deviation 4.2; percentile intervals cover a little less.
    assert 163 <= covered <= 196


def test_the_same_seed_gives_the_same_interval_and_another_one_nearly_the_same() -> None:
    values = scores_of(np.random.default_rng(0).normal(size=40), "mean")
    first = estimate(values, confidence=0.95, seed=0)
    assert first == estimate(values, confidence=0.95, seed=0)
    other = estimate(values, confidence=0.95, seed=1)
    assert other != first
    assert other.low == pytest.approx(first.low, abs=0.1)


@given(st.integers(0, 25), st.integers(0, 25))
def test_more_successes_never_lower_an_interval(a: int, b: int) -> None:
    less, more = sorted((a, b))
    lower = estimate(share(less, 25), confidence=0.95)
    higher = estimate(share(more, 25), confidence=0.95)
    assert lower.low <= higher.low
    assert lower.high <= higher.high


def figure(
    attack: tuple[float, float, float],
    baseline: tuple[float, float, float],
    control: tuple[float, float, float] | None = None,
    *,
    n: int = 40,
    higher_is_leakier: bool = True,
) -> Estimate:
    def one(triple: tuple[float, float, float], **others: Any) -> Estimate:
        low, value, high = triple
        return Estimate("metric", value, low, high, 0.95, n, 0, "x", higher_is_leakier, **others)

    return one(attack, baseline=one(baseline), control=control and one(control))


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2)), "breached"),
        (figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), (0.0, 0.1, 0.3)), "breached"),
        # Few targets do not save a protocol whose attack lies clear of the baseline.
        (figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), n=5), "breached"),
        (figure((0.1, 0.25, 0.4), (0.1, 0.2, 0.3)), "not shown"),
        (figure((0.0, 0.1, 0.2), (0.6, 0.7, 0.8)), "not shown"),
        # Beyond guessing, but with an interval too wide to tell; intervals that touch overlap.
        (figure((0.2, 0.4, 0.6), (0.1, 0.2, 0.3)), "inconclusive"),
        (figure((0.3, 0.4, 0.6), (0.1, 0.2, 0.3)), "inconclusive"),
        (figure((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), n=MINIMUM_TARGETS), "not shown"),
        (figure((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), n=MINIMUM_TARGETS - 1), "inconclusive"),
        # A control that does as well reads something else than the target's messages.
        (figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), (0.5, 0.7, 0.8)), "inconclusive"),
        (figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), (0.5, 0.6, 0.8)), "inconclusive"),
    ],
)
def test_a_verdict_follows_from_the_intervals(judged: Estimate, expected: str) -> None:
    assert verdict(judged) == expected
    assert bool(judge(judged)[1]) == (expected == "inconclusive")


def test_an_open_verdict_has_the_reason_that_applies() -> None:
    few = judge(figure((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), n=19))
    assert few[1].endswith("on 19 targets, and 'not shown' takes 20 or more")
    assert "reaches into that of guessing" in judge(figure((0.2, 0.4, 0.6), (0.1, 0.2, 0.3)))[1]
    assert "control" in judge(figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), (0.5, 0.7, 0.8)))[1]


def test_where_lower_is_leakier_the_sides_are_exchanged() -> None:
    errors = {"higher_is_leakier": False}
    assert verdict(figure((0.0, 0.1, 0.2), (0.6, 0.7, 0.8), **errors)) == "breached"
    assert verdict(figure((0.6, 0.7, 0.8), (0.0, 0.1, 0.2), **errors)) == "not shown"
    control = (0.1, 0.15, 0.3)
    assert verdict(figure((0.0, 0.1, 0.2), (0.6, 0.7, 0.8), control, **errors)) == "inconclusive"


def test_a_verdict_needs_a_baseline() -> None:
    with pytest.raises(ConfigurationError, match="needs a baseline"):
        verdict(estimate(share(3, 30), confidence=0.95))


def test_comparing_puts_baseline_and_control_beside_the_attack() -> None:
    found = compare(share(30, 30), baseline=share(3, 30), control=share(2, 30), confidence=0.95)
    assert found.baseline is not None
    assert found.control is not None
    assert (found.value, found.baseline.value, found.control.value) == (1.0, 0.1, 2 / 30)
    assert verdict(found) == "breached"
    same = compare(share(30, 30), baseline=share(3, 30), control=share(30, 30), confidence=0.95)
    assert verdict(same) == "inconclusive"


def test_an_attack_that_is_no_better_than_chance_is_seldom_called_a_breach() -> None:
    rng = np.random.default_rng(7)
    breaches = 0
    for _ in range(300):
        attack, baseline = rng.binomial(30, 0.2, size=2)
        found = compare(
            share(int(attack), 30), baseline=share(int(baseline), 30), control=None, confidence=0.95
        )
        breaches += verdict(found) == "breached"
    # Two exact 95 % intervals that must not overlap: far below 2.5 %.
    assert breaches <= 3


@pytest.mark.parametrize("tests", [40, 400, 40_000])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_an_interval_corrected_for_more_tests_is_never_narrower(statistic: Any, tests: int) -> None:
    rng = np.random.default_rng(1)
    scores = scores_of(rng.normal(size=30), statistic)
    few, many = (estimate(scores, confidence=1 - 0.05 / t) for t in (tests / 4, tests))
    assert many.low <= few.low <= few.value <= few.high <= many.high
    if statistic == "mean":
        assert many.high - many.low > few.high - few.low


def test_the_best_of_many_means_is_covered_as_often_as_is_said() -> None:
    # Nothing is there: the mean of every configuration is 0. The best of 200 lies above 0 by far,
    # and its interval, corrected for the 200, must still hold 0 in 95 % of campaigns.
    rng, cells, campaigns = np.random.default_rng(5), 200, 200
    draws = rng.normal(size=(campaigns, cells, 12))
    best = draws[np.arange(campaigns), draws.mean(axis=2).argmax(axis=1)]
    corrected, alone = [], []
    for values in best:
        scores = scores_of(values, "mean")
        corrected.append(estimate(scores, confidence=1 - 0.05 / cells).low <= 0)
        alone.append(estimate(scores, confidence=0.95).low <= 0)
    # 0.975 are expected (one of two tails); four standard errors below that.
    assert np.mean(corrected) > 0.93
    assert np.mean(alone) < 0.2


@pytest.mark.parametrize("n", [16, 101, 1000])
def test_extreme_limits_of_a_median_have_the_tails_of_fair_coins(n: int) -> None:
    values, tail = np.arange(n, dtype=float), 1e-5 / 2
    found = estimate(scores_of(values, "median"), confidence=1 - 2 * tail)
    if 0.5**n > tail:
        assert (found.low, found.high) == (-math.inf, math.inf)
        return
    # Order statistics are wider than the draws here, so that they are the limits.
    below = int(found.low)
    assert stats.binom.cdf(below, n, 0.5) <= tail < stats.binom.cdf(below + 1, n, 0.5)
    assert found.high == n - 1 - found.low
    assert found.method.endswith("or order statistics, whichever is wider")


@pytest.mark.parametrize("one", [0.0, 1.0])
def test_few_scores_that_are_all_alike_have_the_interval_of_a_proportion(one: float) -> None:
    for count in (2, 6, 20):
        values = {str(i): one for i in range(count)}
        exact = estimate(Scores("m", "proportion", values), confidence=0.95)
        mean = estimate(Scores("m", "mean", values), confidence=0.95)
        assert (mean.low, mean.high) == pytest.approx((exact.low, exact.high))
    # A median below 1 shows all of n targets at 1 at most once in 2 ** n.
    few, many = (
        estimate(Scores("m", "median", {str(i): 1.0 for i in range(n)}), confidence=0.95)
        for n in (5, 6)
    )
    assert (few.low, few.high) == (0.0, 1.0)
    assert (many.low, many.high) == (1.0, 1.0)


def test_scores_that_are_alike_elsewhere_keep_the_interval_of_their_draws() -> None:
    alike = estimate(Scores("m", "mean", {"a": 3.5, "b": 3.5}), confidence=0.95)
    assert (alike.low, alike.high) == (3.5, 3.5)
