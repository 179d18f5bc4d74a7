"""Bounds measured on the implemented protection: below what is proven, and alarmed by defects."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privaudit.accounting import coordinate_upper, epsilon_of_gaussian, vector_budget
from privaudit.attacks.distinguishing import coordinate_game, empirical_bound, vector_game
from privaudit.errors import ConfigurationError
from privaudit.protocols.pa_cfl import protection

DELTA = 1e-5


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def lower(scores: Any, *, seed: int = 0, confidence: float = 0.95, **options: Any) -> float:
    found = empirical_bound(
        scores, delta=DELTA, confidence=confidence, rng=rng(1000 + seed), **options
    )
    return found.lower


def coordinate(audited: Any = protection, *, seed: int, **options: Any) -> Any:
    return coordinate_game(audited, epsilon0=1.0, rng=rng(seed), **options)


def altered(**changed: Any) -> SimpleNamespace:
    parts = {name: getattr(protection, name) for name in protection.__all__}
    return SimpleNamespace(**(parts | changed))


def no_clipping(vector: Any, *, threshold: float) -> Any:
    return np.asarray(vector, dtype=np.float64)


def no_shuffle(reports: Any, *, rng: Any) -> Any:
    return reports


def shuffle_whole_reports(reports: Any, *, rng: Any) -> Any:
    return rng.permutation(reports, axis=0)


def everything_clipped_away(vector: Any, *, threshold: float) -> Any:
    return np.zeros_like(vector, dtype=np.float64)


@pytest.mark.parametrize("users", [1, 4, 20])
@pytest.mark.parametrize("shuffle", ["per-coordinate", "none"])
def test_the_coordinate_bound_stays_below_the_proven_one_over_20_seeds(
    users: int, shuffle: Any
) -> None:
    # At confidence 0.999, 20 sound runs exceed the truth with probability 2 % at the very most.
    upper = coordinate_upper(users, 1.0, DELTA)
    for seed in range(20):
        scores = coordinate(users=users, trials=4000, seed=seed, assumed_shuffle=shuffle)
        assert lower(scores, seed=seed, confidence=0.999) <= upper


@pytest.mark.parametrize("users", [1, 4])
@pytest.mark.parametrize("shuffle", ["per-coordinate", "whole-report"])
def test_the_vector_bound_stays_below_the_proven_one_over_20_seeds(
    users: int, shuffle: Any
) -> None:
    upper = vector_budget({users: 1}, 1.0, DELTA).refined.upper
    assert upper is not None
    for seed in range(20):
        scores = vector_game(
            protection,
            users=users,
            epsilon0=1.0,
            dimension=50,
            trials=200,
            rng=rng(seed),
            assumed_shuffle=shuffle,
        )
        assert lower(scores, seed=seed, confidence=0.999) <= upper


def test_identical_hypotheses_show_a_loss_at_the_declared_rate_at_most() -> None:
    runs = 300

    def alarms(audited: Any) -> int:
        return sum(
            lower(coordinate(audited, users=2, trials=200, seed=seed), seed=seed) > 0
            for seed in range(runs)
        )

    assert alarms(altered(clip=everything_clipped_away)) <= stats.binom.ppf(0.999, runs, 0.05)
    # The same count sees the canary where it is not clipped away.
    assert alarms(protection) > runs / 2


@pytest.mark.parametrize(
    ("users", "trials", "expected", "tolerance"),
    [
        # Single runs of an independent simulation; the tolerance is what single runs scatter.
        (4, 10_000, 0.738, 0.15),
        (10, 10_000, 0.448, 0.18),
        (20, 10_000, 0.259, 0.25),
    ],
)
def test_what_is_attained_agrees_with_an_independent_simulation(
    users: int, trials: int, expected: float, tolerance: float
) -> None:
    found = [lower(coordinate(users=users, trials=trials, seed=s), seed=s) for s in range(6)]
    assert abs(np.mean(found) - expected) < tolerance


def test_the_local_game_attains_what_its_two_rates_allow() -> None:
    """n = 1: the best test has rates 1/2 and exp(-1)/2, counted on half of the trials."""
    trials = 5000
    hits = round(trials / 2)
    alarms = round(trials * math.exp(-1) / 2)
    expected = math.log(
        stats.beta.ppf(0.025, hits, trials - hits + 1)
        / stats.beta.ppf(0.975, alarms + 1, trials - alarms)
    )
    found = [lower(coordinate(users=1, trials=2 * trials, seed=s), seed=s) for s in range(10)]
    assert np.mean(found) == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("users", [1, 4])
def test_half_the_noise_is_caught(users: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, upper = protection.noise, coordinate_upper(users, 1.0, DELTA)
    assert lower(coordinate(users=users, trials=10_000, seed=1)) <= upper

    def halved(clipped: Any, *, threshold: float, **options: Any) -> Any:
        return original(clipped, threshold=threshold / 2, **options)

    monkeypatch.setattr(protection, "noise", halved)
    assert lower(coordinate(users=users, trials=10_000, seed=1)) > upper


@pytest.mark.parametrize("users", [1, 4, 20])
def test_missing_clipping_is_caught(users: int) -> None:
    scores = coordinate(altered(clip=no_clipping), users=users, trials=4000, seed=1)
    assert lower(scores) > coordinate_upper(users, 1.0, DELTA)


def test_a_missing_shuffle_is_caught_at_20_users_by_the_score_that_assumes_none() -> None:
    upper = coordinate_upper(20, 1.0, DELTA)
    options: dict[str, Any] = {"users": 20, "trials": 100_000, "seed": 2}
    broken = altered(shuffle_per_coordinate=no_shuffle)
    assert lower(coordinate(broken, assumed_shuffle="none", **options)) > upper
    assert lower(coordinate(assumed_shuffle="none", **options)) < 0.2
    # A function of the multiset cannot see it: the reason why there are several scores.
    assert lower(coordinate(broken, **options)) <= upper


def test_a_missing_shuffle_is_caught_in_the_vector() -> None:
    upper = vector_budget({20: 1}, 1.0, DELTA).refined.upper
    options: dict[str, Any] = {"users": 20, "epsilon0": 1.0, "dimension": 50, "trials": 3000}

    def found(audited: Any) -> float:
        return lower(vector_game(audited, rng=rng(3), assumed_shuffle="none", **options))

    assert upper is not None
    assert found(altered(shuffle_per_coordinate=no_shuffle)) > upper
    assert found(protection) < 0.3


def test_one_permutation_for_all_coordinates_sharpens_the_score_that_assumes_it() -> None:
    def area(audited: Any) -> float:
        scores = vector_game(
            audited,
            users=10,
            epsilon0=4.0,
            dimension=64,
            trials=1000,
            rng=rng(4),
            assumed_shuffle="whole-report",
        )
        statistic = stats.mannwhitneyu(scores.alternative, scores.null).statistic
        return float(statistic) / 1000**2

    # The areas scatter by about 0.01.
    assert area(altered(shuffle_per_coordinate=shuffle_whole_reports)) > area(protection) + 0.05


@pytest.mark.parametrize(("users", "spread"), [(1, 1.0), (4, 0.5), (10, 10**-0.5)])
def test_the_vector_game_is_that_of_two_gaussians_at_epsilon0_over_root_n(
    users: int, spread: float
) -> None:
    """Log-likelihood ratios of Gaussians at distance mu: mean +-mu^2/2, deviation mu."""
    trials = 1200
    scores = vector_game(
        protection, users=users, epsilon0=1.0, dimension=400, trials=trials, rng=rng(5)
    )
    for side, sign in ((scores.alternative, 1), (scores.null, -1)):
        assert side.std() == pytest.approx(spread, rel=4 / math.sqrt(2 * trials))
        error = spread / math.sqrt(trials)
        assert side.mean() == pytest.approx(sign * spread**2 / 2, abs=4 * error)
        normalised = (side - side.mean()) / side.std()
        assert stats.kstest(normalised, "norm").pvalue > 1e-3


def test_the_gaussian_fit_lies_between_the_plain_bound_and_the_truth_in_the_vector_game() -> None:
    scores = vector_game(protection, users=4, epsilon0=1.0, dimension=400, trials=3000, rng=rng(6))
    plain, fitted = (
        lower(scores, confidence=0.99, method=m) for m in ("clopper-pearson", "gaussian-fit")
    )
    assert 0 < plain < fitted < epsilon_of_gaussian(0.5, DELTA)


def test_other_users_real_vectors_keep_the_bound_below_the_proven_one() -> None:
    upper = vector_budget({4: 1}, 1.0, DELTA).refined.upper
    data = rng(8).normal(size=(3, 50))
    scores = vector_game(
        protection, users=4, epsilon0=1.0, dimension=50, trials=3000, others=data, rng=rng(7)
    )
    assert upper is not None
    assert 0 < lower(scores) <= upper


def test_a_credible_interval_surrounds_the_plain_bound() -> None:
    scores = coordinate(users=1, trials=10_000, seed=1)
    found = empirical_bound(scores, delta=DELTA, rng=rng(1), method="credible")
    assert found.kind == "credible"
    assert found.upper is not None
    assert found.lower < 1.0 < found.upper + 0.1


def test_exchanging_the_hypotheses_leaves_the_bound_about_the_same() -> None:
    scores = coordinate(users=1, trials=20_000, seed=3)
    turned = dataclasses.replace(scores, null=-scores.alternative, alternative=-scores.null)
    assert lower(turned) == pytest.approx(lower(scores), abs=0.1)


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    scores = coordinate(users=1, trials=10, seed=0)
    with pytest.raises(ConfigurationError, match="clopper-pearson, gaussian-fit, credible"):
        lower(scores, method="bayes")


@pytest.mark.slow
def test_the_reference_simulation_is_matched_up_to_a_million_trials(shared: Path) -> None:
    reference = json.loads((shared / "spec" / "accounting_reference.json").read_text())
    for row in reference["audit_single_coordinate"]:
        trials, users, epsilon0 = row["N"], row["n"], row["eps0"]
        seeds = range(1 if trials == 10**6 else 6)
        found = [
            lower(
                coordinate_game(
                    protection, users=users, epsilon0=epsilon0, trials=trials, rng=rng(seed)
                ),
                seed=seed,
            )
            for seed in seeds
        ]
        print(f"n={users} eps0={epsilon0} N={trials}: {np.round(found, 3)} ({row['eps_lb']})")
        assert abs(np.mean(found) - row["eps_lb"]) < 0.25 * max(1.0, row["eps_lb"] / 4), row
        assert np.mean(found) <= coordinate_upper(users, epsilon0, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "spread"), [(1, 1.0), (4, 0.5), (10, 10**-0.5)])
def test_fitted_distances_in_two_thousand_coordinates(users: int, spread: float) -> None:
    scores = vector_game(
        protection, users=users, epsilon0=1.0, dimension=2000, trials=2000, rng=rng(9)
    )
    deviation = math.sqrt((scores.null.var() + scores.alternative.var()) / 2)
    fitted = (scores.alternative.mean() - scores.null.mean()) / deviation
    assert fitted == pytest.approx(spread, abs=4 * math.sqrt(2 / 2000))
    assert deviation == pytest.approx(spread, rel=0.07)
