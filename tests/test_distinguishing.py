"""The games run the code under audit, and their scores are likelihood ratios."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import game_laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privaudit.accounting import coordinate_bracket, vector_budget
from privaudit.attacks.distinguishing import GameScores, coordinate_game, vector_game
from privaudit.attacks.distinguishing._likelihood import column_ratios, report_ratio
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.protocols.pa_cfl import protection


@dataclass
class Recorder:
    """Calls the real protection and keeps what went in and out."""

    calls: list[tuple[str, Any, Any, dict[str, Any]]] = field(default_factory=list)

    def _call(self, name: str, given: Any, options: dict[str, Any]) -> Any:
        result = getattr(protection, name)(given, **options)
        self.calls.append((name, np.array(given), result, options))
        return result

    def clip(self, vector: Any, **options: Any) -> Any:
        return self._call("clip", vector, options)

    def noise(self, clipped: Any, **options: Any) -> Any:
        return self._call("noise", clipped, options)

    def shuffle_per_coordinate(self, reports: Any, **options: Any) -> Any:
        return self._call("shuffle_per_coordinate", reports, options)

    def of(self, name: str) -> list[tuple[Any, Any, dict[str, Any]]]:
        return [call[1:] for call in self.calls if call[0] == name]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("game", ["coordinate", "vector"])
def test_inputs_are_clipped_then_noised_then_shuffled_by_the_code_under_audit(game: str) -> None:
    audited = Recorder()
    if game == "coordinate":
        coordinate_game(audited, users=3, epsilon0=0.7, trials=50, rng=rng(), threshold=0.3)
    else:
        vector_game(audited, users=3, epsilon0=0.7, dimension=9, trials=5, rng=rng(), threshold=0.3)
    longest = max(np.linalg.norm(given) for given, _, _ in audited.of("clip"))
    assert longest > 0.3
    for clipped, _, options in audited.of("noise"):
        assert clipped.shape[0] == 3
        assert (options["threshold"], options["epsilon0"]) == (0.3, 0.7)
        norms = np.abs(clipped) if game == "coordinate" else np.linalg.norm(clipped, axis=1)
        assert norms.max() == pytest.approx(0.3)
    for (_, noised, _), (shuffled, _, _) in zip(
        audited.of("noise"), audited.of("shuffle_per_coordinate"), strict=True
    ):
        np.testing.assert_array_equal(noised, shuffled)


def test_only_the_first_user_differs_between_the_hypotheses() -> None:
    audited = Recorder()
    vector_game(audited, users=4, epsilon0=1.0, dimension=6, trials=1, rng=rng())
    (null, _, _), (alternative, _, _) = audited.of("noise")
    np.testing.assert_array_equal(null[1:], alternative[1:])
    np.testing.assert_allclose(null[0], -alternative[0])


def laplace_density(y: float, at: float) -> float:
    return 0.5 * math.exp(-abs(y - at))


def enumerated_likelihood(rows: np.ndarray, inputs: np.ndarray) -> float:
    """Sum over all assignments of reports (rows) to users of the product of densities."""
    return sum(
        math.prod(
            laplace_density(y, x)
            for user, row in enumerate(order)
            for y, x in zip(rows[row], inputs[user], strict=True)
        )
        for order in itertools.permutations(range(len(rows)))
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_scores_are_the_log_ratios_of_likelihoods_summed_over_all_permutations(
    users: int, dimension: int, seed: int
) -> None:
    random = rng(seed)
    reports = random.laplace(size=(users, dimension))
    canary, others = random.normal(size=(2, dimension))
    high = np.tile(others, (users, 1))
    low = high.copy()
    high[0], low[0] = canary, -canary
    at = {"canary": canary, "others": others}

    linked = enumerated_likelihood(reports, high) / enumerated_likelihood(reports, low)
    assert report_ratio(reports, **at, shuffle="whole-report") == pytest.approx(math.log(linked))

    each = [
        enumerated_likelihood(reports[:, [j]], high[:, [j]])
        / enumerated_likelihood(reports[:, [j]], low[:, [j]])
        for j in range(dimension)
    ]
    columns = column_ratios(reports, **at, shuffle="per-coordinate")
    np.testing.assert_allclose(columns, np.log(each), atol=1e-12)
    assert report_ratio(reports, **at, shuffle="per-coordinate") == pytest.approx(
        math.log(math.prod(each)), abs=1e-12
    )

    first = math.prod(
        laplace_density(y, u) / laplace_density(y, -u)
        for y, u in zip(reports[0], canary, strict=True)
    )
    assert report_ratio(reports, **at, shuffle="none") == pytest.approx(math.log(first))


@pytest.mark.parametrize("others", ["far", "near", "zero"])
@pytest.mark.parametrize("users", [1, 4, 10])
def test_the_likelihood_ratio_has_mean_one_under_the_null(users: int, others: Any) -> None:
    """E_null[P1/P0] = 1 = E_alt[P0/P1] only if the reports follow the law that is scored."""
    scores = coordinate_game(
        protection, users=users, epsilon0=1.5, trials=40_000, others=others, rng=rng(3)
    )
    for ratios in (np.exp(scores.null), np.exp(-scores.alternative)):
        error = ratios.std() / math.sqrt(len(ratios))
        assert abs(ratios.mean() - 1) < 4 * error


@pytest.mark.parametrize(("others", "place"), [("far", -1), ("near", 1), ("zero", 0)])
def test_scores_of_the_implementation_follow_the_law_that_the_accountant_simulates(
    others: Any, place: int
) -> None:
    scores = coordinate_game(
        protection, users=4, epsilon0=2.0, trials=40_000, others=others, rng=rng(1)
    )
    simulated = game_laws.coordinate_game(4, 2.0, trials=40_000, rng=rng(2), others=place)
    for ours, theirs in zip((scores.alternative, scores.null), simulated, strict=True):
        assert stats.ks_2samp(ours, np.round(theirs, 9)).pvalue > 1e-3


def test_far_and_near_are_mirror_images() -> None:
    far, near = (
        coordinate_game(
            protection, users=3, epsilon0=1.0, trials=40_000, others=others, rng=rng(seed)
        )
        for seed, others in enumerate(("far", "near"))
    )
    quantiles = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(
        np.quantile(far.alternative, quantiles),
        np.sort(-np.quantile(near.null, quantiles)),
        atol=0.02,
    )


@pytest.mark.parametrize(("epsilon0", "threshold"), [(1.0, 1.0), (0.7, 0.37), (3.3, 12.9)])
def test_ties_within_an_atom_are_kept(epsilon0: float, threshold: float) -> None:
    """A report beyond the canary has the loss epsilon0: half the time, or e**-epsilon0 / 2."""
    scores = coordinate_game(
        protection, users=1, epsilon0=epsilon0, trials=20_000, threshold=threshold, rng=rng(1)
    )
    top = scores.alternative.max()
    assert top == pytest.approx(epsilon0)
    assert scores.null.max() == top
    for side, share in ((scores.alternative, 0.5), (scores.null, 0.5 * math.exp(-epsilon0))):
        error = math.sqrt(share * (1 - share) / 20_000)
        assert abs((side == top).mean() - share) < 4 * error


@pytest.mark.parametrize("game", [coordinate_game, vector_game])
def test_the_same_seed_gives_the_same_scores(game: Any) -> None:
    size = {"dimension": 20} if game is vector_game else {}
    first, again, other = (
        game(protection, users=2, epsilon0=1.0, trials=30, rng=rng(seed), **size)
        for seed in (5, 5, 6)
    )
    assert first.null.tobytes() == again.null.tobytes()
    assert first.alternative.tobytes() == again.alternative.tobytes()
    assert first.null.tobytes() != other.null.tobytes()
    assert first.null.tobytes() != first.alternative.tobytes()


def test_units_are_those_of_the_bounds_to_compare_with() -> None:
    coordinate = coordinate_game(protection, users=2, epsilon0=1.0, trials=2, rng=rng())
    vector = vector_game(protection, users=2, epsilon0=1.0, dimension=2, trials=2, rng=rng())
    upper = coordinate_bracket(2, 1.0, 1e-5)
    assert (coordinate.unit, coordinate.relation) == (upper.unit, upper.relation)
    whole = vector_budget({2: 1}, 1.0, 1e-5).refined
    assert (vector.unit, vector.relation) == (whole.unit, whole.relation)


def test_other_users_vectors_are_clipped_before_they_are_noised() -> None:
    audited = Recorder()
    data = np.array([[30.0, 40.0], [0.1, 0.0]])
    vector_game(audited, users=3, epsilon0=1.0, dimension=2, trials=1, others=data, rng=rng())
    for clipped, _, _ in audited.of("noise"):
        np.testing.assert_allclose(clipped[1:], [[0.6, 0.8], [0.1, 0.0]])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"users": 0}, "users"),
        ({"trials": 0}, "trials"),
        ({"epsilon0": 0.0}, "epsilon0"),
        ({"epsilon0": math.nan}, "epsilon0"),
        ({"epsilon0": 1000.0}, "epsilon0"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": math.inf}, "threshold"),
        ({"others": "nearby"}, "far, near, zero"),
        ({"assumed_shuffle": "row"}, "whole-report"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(changed: dict[str, Any], named: str) -> None:
    options: dict[str, Any] = {"users": 2, "epsilon0": 1.0, "trials": 5} | changed
    with pytest.raises(ConfigurationError, match=named):
        coordinate_game(protection, rng=rng(), **options)


def test_other_users_vectors_must_fit() -> None:
    with pytest.raises(ConfigurationError, match=r"\(2, 5\), got \(3, 5\)"):
        vector_game(
            protection,
            users=3,
            epsilon0=1.0,
            dimension=5,
            trials=2,
            others=np.zeros((3, 5)),
            rng=rng(),
        )


def test_reports_that_overflow_are_an_error_and_not_a_score() -> None:
    with pytest.raises(InvalidDataError, match="overflow"), np.errstate(all="ignore"):
        coordinate_game(protection, users=2, epsilon0=1.0, trials=9, threshold=1e38, rng=rng())


def test_scores_are_frozen_finite_vectors() -> None:
    good = np.zeros(3)
    scores = GameScores(null=good, alternative=good, description="", unit="")
    with pytest.raises(ValueError, match="read-only"):
        scores.null[0] = 1.0
    for bad in (np.zeros(0), np.zeros((2, 2)), np.array([0.0, np.nan])):
        with pytest.raises(InvalidDataError, match="alternative"):
            GameScores(null=good, alternative=bad, description="", unit="")
