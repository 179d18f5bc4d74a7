"""Empirical lower bounds: calibrated under the null, below proven bounds, at known values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import game_laws
import numpy as np
import pytest
from scipy import stats

from privaudit import accounting
from privaudit.accounting import empirical
from privaudit.errors import ConfigurationError, InvalidDataError

DELTA = 1e-5


def test_null_scores_give_zero_epsilon_at_declared_rate() -> None:
    rng = np.random.default_rng(3)
    draws, confidence = 400, 0.95
    for size in (50, 400):
        positive = sum(
            empirical.clopper_pearson_epsilon(
                rng.normal(size=size), rng.normal(size=size), delta=DELTA, rng=rng
            ).lower
            > 0
            for _ in range(draws)
        )
        # At most 5 % in truth: allow what 400 draws scatter (99.9 % of binomials).
        assert positive <= stats.binom.ppf(0.999, draws, 1 - confidence)


def test_fixed_thresholds_are_corrected_for_their_number() -> None:
    rng = np.random.default_rng(4)
    grid = list(np.linspace(-2, 2, 20))
    positive = sum(
        empirical.clopper_pearson_epsilon(
            rng.normal(size=200), rng.normal(size=200), delta=DELTA, thresholds=grid
        ).lower
        > 0
        for _ in range(300)
    )
    assert positive <= stats.binom.ppf(0.999, 300, 0.05)


def test_audits_stay_below_the_proven_bound_over_20_seeds() -> None:
    n, epsilon0 = 10, 1.0
    upper = accounting.coordinate_upper(n, epsilon0, DELTA)
    exceeded = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first, second = game_laws.coordinate_game(n, epsilon0, trials=20_000, rng=rng)
        found = empirical.clopper_pearson_epsilon(first, second, delta=DELTA, rng=rng)
        exceeded += found.lower > upper
    assert exceeded == 0


def test_single_coordinate_audit_reaches_the_reference() -> None:
    # n = 4, epsilon0 = 1, N = 1e5 runs in all: 0.92 (the truth is 1.00 to four digits).
    rng = np.random.default_rng(11)
    first, second = game_laws.coordinate_game(4, 1.0, trials=50_000, rng=rng)
    found = empirical.clopper_pearson_epsilon(first, second, delta=DELTA, rng=rng)
    assert 0.80 <= found.lower <= 1.0


def test_unrounded_ties_would_fake_an_epsilon() -> None:
    # A pure 1.0-DP mechanism (n = 1): every LLR is at most 1 in truth, whatever rounding does.
    rng = np.random.default_rng(5)
    first, second = game_laws.coordinate_game(1, 1.0, trials=200_000, rng=rng)
    noisy = first + rng.choice((-1e-13, 1e-13), first.size), second - 1e-12
    found = empirical.clopper_pearson_epsilon(*noisy, delta=DELTA, rng=rng)
    assert 0.9 < found.lower <= 1.0


def test_vector_game_is_gaussian_with_the_predicted_mean() -> None:
    n, epsilon0, dimension = 4, 1.0, 2000
    rng = np.random.default_rng(6)
    first, second = game_laws.vector_game(n, epsilon0, dimension=dimension, trials=4000, rng=rng)
    mu = (first.mean() - second.mean()) / first.std()
    assert mu == pytest.approx(epsilon0 / math.sqrt(n), abs=0.08)
    fit = empirical.gaussian_fit_epsilon(first, second, delta=DELTA, rng=rng)
    assert fit.kind == "confidence under a hypothesis"
    refined = accounting.vector_budget({n: 1}, epsilon0, DELTA).refined.upper
    assert refined is not None
    assert 1.0 < fit.lower < refined


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_attainable_epsilon_agrees_with_the_reference(shared: Path, mu: float) -> None:
    content: dict[str, Any] = json.loads(
        (shared / "spec" / "accounting_reference.json").read_text(encoding="utf-8")
    )
    rows = [r for r in content["audit_attainable"] if r["mu"] == mu and r.get("N") == 10_000]
    (row,) = rows
    # Expected counts of the optimal test of mu-GDP, over all thresholds.
    m = 5000
    thresholds = np.linspace(-6, 6, 1201)
    rates = empirical._Rates(
        np.round(m * stats.norm.sf(thresholds - mu)).astype(np.int64),
        np.round(m * stats.norm.sf(thresholds)).astype(np.int64),
        m,
        m,
        thresholds,
    )
    best = rates.epsilons(0.025, DELTA).max()
    assert best == pytest.approx(row["cp_eps"], rel=0.03)
    assert accounting.epsilon_of_gaussian(mu, DELTA) == pytest.approx(row["true_eps"], rel=1e-6)


def test_the_ceiling_of_few_runs_is_known() -> None:
    # ln(M / ln(1 / a)) with a = 0.025: 7.2, 9.5, 11.8 for N = 2M = 1e4, 1e5, 1e6.
    for m, expected in ((5_000, 7.2), (50_000, 9.5), (500_000, 11.8)):
        assert empirical.largest_attainable_epsilon(m) == pytest.approx(expected, abs=0.05)


def test_one_run_p_value_without_delta_is_a_binomial_tail() -> None:
    # 9 of 10 guesses right against pure 0-DP: P[Bin(10, 1/2) >= 9] = 11/1024.
    p = empirical.one_run_p_value(0.0, correct=9, guesses=10, canaries=10, delta=1e-300)
    assert p == pytest.approx(11 / 1024)


def test_one_run_bound_holds_for_randomized_response() -> None:
    # Canaries answered with exactly 1-DP randomized response; 5 % of bounds may exceed 1.
    rng = np.random.default_rng(8)
    canaries, exceeded, found = 1000, 0, []
    for _ in range(200):
        correct = int(rng.binomial(canaries, 1 / (1 + math.exp(-1.0))))
        bound = empirical.one_run_epsilon(
            correct=correct, guesses=canaries, canaries=canaries, delta=DELTA
        )
        found.append(bound.lower)
        exceeded += bound.lower > 1.0
    assert exceeded <= stats.binom.ppf(0.999, 200, 0.05)
    assert np.median(found) > 0.8


def test_credible_interval_covers_the_epsilon_of_the_attack() -> None:
    rng = np.random.default_rng(9)
    first, second = rng.normal(1.0, size=20_000), rng.normal(size=20_000)
    found = empirical.credible_epsilon(first, second, delta=DELTA, rng=rng)
    assert found.threshold is not None
    hit, alarm = stats.norm.sf(found.threshold - 1), stats.norm.sf(found.threshold)
    truth = max(math.log((hit - DELTA) / alarm), math.log((1 - alarm - DELTA) / (1 - hit)))
    assert found.upper is not None
    assert found.lower <= truth <= found.upper
    assert found.kind == "credible"


@pytest.mark.slow
def test_explicit_inputs_compose_to_the_reference_lower_bounds(shared: Path) -> None:
    content: dict[str, Any] = json.loads(
        (shared / "spec" / "accounting_reference.json").read_text(encoding="utf-8")
    )
    for row in content["vector_level_lower_bounds"]:
        if row["others"] != "zero" or row["n"] > 4:
            continue
        pair = game_laws.spread_pair(row["n"], row["eps0"], coordinates=row["m"])
        # Rounding 3,000 losses to this costs 1.6 % of epsilon; finer takes time in proportion.
        bracket = accounting.compose_pair(
            *pair, compositions=row["m"] * row["T"], delta=row["delta"], interval=2e-5
        )
        assert bracket.lower == pytest.approx(row["lb_eps"], rel=0.02)
        assert bracket.upper is not None
        assert row["lb_eps"] <= bracket.upper
        refined = accounting.vector_budget({row["n"]: row["T"]}, row["eps0"], row["delta"]).refined
        assert bracket.lower is not None
        assert refined.upper is not None
        assert bracket.lower <= refined.upper


def test_bad_scores_and_settings_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidDataError, match="NaN"):
        empirical.clopper_pearson_epsilon([0.0, math.nan], [0.0, 1.0], delta=DELTA, rng=rng)
    with pytest.raises(ConfigurationError, match="either rng"):
        empirical.clopper_pearson_epsilon([0.0, 1.0], [0.0, 1.0], delta=DELTA)
    with pytest.raises(ConfigurationError, match="correct <= guesses"):
        empirical.one_run_epsilon(correct=3, guesses=2, canaries=5, delta=DELTA)
