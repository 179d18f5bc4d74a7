"""One coordinate over rounds, and many cluster sizes at once: both sides, against other routes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit import accounting
from privaudit.accounting import ShuffledVector, compose_coordinate
from privaudit.accounting._counts import threshold_epsilon
from privaudit.accounting._rounds import _loss_law, composed_lower_epsilon
from privaudit.accounting.rounds import compose_coordinate_upper


def bounds(n: int, epsilon0: float, rounds: int, delta: float) -> tuple[float, float]:
    found = compose_coordinate({ShuffledVector(n, epsilon0, 1): rounds}, delta)
    assert found.lower is not None
    assert found.upper is not None
    return found.lower, found.upper


@pytest.mark.parametrize(("n", "epsilon0"), [(1, 1.0), (4, 1.0), (4, 3.0), (60, 0.5)])
@pytest.mark.parametrize("others", [-1, 0, 1])
def test_the_law_of_the_loss_is_one_of_two_distributions(
    n: int, epsilon0: float, others: int
) -> None:
    law = _loss_law(n, epsilon0, others)
    assert law.masses.sum() == pytest.approx(1.0, abs=1e-9)
    # Q = P e^-L is a distribution too: the likelihood ratio is consistent.
    assert (law.masses * np.exp(-law.losses)).sum() == pytest.approx(1.0, abs=1e-9)
    assert np.abs(law.losses).max() <= epsilon0 + 1e-9


@pytest.mark.parametrize(("n", "rounds"), [(2, 3), (3, 10)])
def test_the_composed_pair_agrees_with_privacy_loss_distributions(n: int, rounds: int) -> None:
    delta = 1e-4
    lower, others = composed_lower_epsilon({(n, 1.0): rounds}, delta)
    law = _loss_law(n, 1.0, others)
    first = law.masses / law.masses.sum()
    second = first * np.exp(-law.losses)
    bracket = accounting.compose_pair(
        first, second / second.sum(), compositions=rounds, delta=delta
    )
    assert bracket.upper is not None
    assert bracket.lower is not None
    # dp_accounting takes the worse direction of the pair; ours is one of the two.
    assert lower <= bracket.upper * (1 + 1e-6)
    assert lower >= bracket.lower * (1 - 2e-2)


def test_the_composed_lower_bound_agrees_with_simulation() -> None:
    # Eight rounds of two users, the other one at the upper end: reports drawn, losses by density.
    n, epsilon0, rounds, trials, epsilon = 2, 1.0, 8, 200_000, 2.0
    rng = np.random.default_rng(12)
    h = epsilon0 / 2
    reports = rng.laplace(h, 1.0, size=(trials, rounds, n))

    def ratio(w: np.ndarray, place: float) -> np.ndarray:
        cell = np.where(w >= h, 0, np.where(w <= -h, 2, 1))

        def masses(x: float) -> np.ndarray:
            high, low = 0.5 * math.exp(-(h - x)), 0.5 * math.exp(-(h + x))
            return np.array([high, 1 - high - low, low])

        return np.asarray(masses(place)[cell] / masses(h)[cell])

    top = ratio(reports, h).mean(axis=2)
    bottom = ratio(reports, -h).mean(axis=2)
    losses = np.log(top / bottom).sum(axis=1)
    gain = np.maximum(-np.expm1(epsilon - losses), 0.0)
    delta = float(gain.mean())
    lower = composed_lower_epsilon({(n, epsilon0): rounds}, delta)[0]
    # The best of three places of the others is at least this one.
    error = 4 * gain.std() / math.sqrt(trials)
    assert composed_lower_epsilon({(n, epsilon0): rounds}, delta + error)[0] <= lower
    assert composed_lower_epsilon({(n, epsilon0): rounds}, delta - error)[0] >= epsilon - 1e-3


def test_rounds_are_bracketed_far_closer_than_by_a_single_round() -> None:
    lower, upper = bounds(4, 1.0, 100, 1e-5)
    assert 28.0 < lower < upper < 50.0
    # What the composition formulas alone would give, and what one round shows.
    assert compose_coordinate_upper({ShuffledVector(4, 1.0, 1): 100}, 1e-5, certified=False)[0] > 80
    assert (accounting.coordinate_bracket(4, 1.0, 1e-5).lower or 0.0) < 1.0


@settings(max_examples=5, deadline=None)
@given(
    n=st.integers(1, 200),
    epsilon0=st.floats(0.01, 16.0),
    rounds=st.integers(2, 3000),
    log_delta=st.floats(math.log(1e-14), math.log(1e-3)),
)
def test_composed_lower_bounds_are_monotone_and_below_every_composition(
    n: int, epsilon0: float, rounds: int, log_delta: float
) -> None:
    delta = math.exp(log_delta)
    lower, _ = composed_lower_epsilon({(n, epsilon0): rounds}, delta)
    releases = {ShuffledVector(n, epsilon0, 1): rounds}
    upper = compose_coordinate_upper(releases, delta, certified=False)[0]
    assert 0 <= lower <= upper <= rounds * epsilon0
    slack = 1e-2 * (1 + lower)
    assert lower <= composed_lower_epsilon({(n, epsilon0): 2 * rounds}, delta)[0] + slack
    assert lower <= composed_lower_epsilon({(n, epsilon0): rounds}, delta / 10)[0] + slack
    mixed = {(n, epsilon0): rounds, (n + 1, epsilon0): 2}
    backwards = dict(reversed(mixed.items()))
    assert composed_lower_epsilon(mixed, delta) == composed_lower_epsilon(backwards, delta)


@settings(max_examples=5, deadline=None)
@given(
    epsilon0=st.floats(0.01, 16.0),
    log_delta=st.floats(math.log(1e-14), math.log(1e-3)),
    n=st.integers(1, 3000),
)
def test_one_round_is_monotone_in_every_parameter(
    epsilon0: float, log_delta: float, n: int
) -> None:
    delta = math.exp(log_delta)
    upper = accounting.coordinate_upper(n, epsilon0, delta)
    assert 0 <= upper <= epsilon0
    slack = 1 + 5e-4
    assert accounting.coordinate_upper(2 * n, epsilon0, delta) <= upper * slack
    assert upper <= accounting.coordinate_upper(n, 1.1 * epsilon0, delta) * slack
    assert upper <= accounting.coordinate_upper(n, epsilon0, delta / 10) * slack


@pytest.mark.parametrize(
    ("epsilon0", "delta", "most"), [(1.0, 1e-5, 90), (0.01, 1e-3, 50), (4.0, 1e-9, 40)]
)
def test_many_sizes_at_once_answer_what_each_does_alone(
    epsilon0: float, delta: float, most: int
) -> None:
    sizes = range(1, most)
    found = accounting.coordinate_brackets(sizes, epsilon0, delta)
    assert list(found) == list(sizes)
    for n in (1, 2, 7, 23, most // 2, most - 1):
        alone = accounting.coordinate_bracket(n, epsilon0, delta)
        assert found[n].upper == pytest.approx(alone.upper, rel=1e-4)
        # From the pair of data sets that is the best one at the sizes around: as good, or nearly.
        assert found[n].lower == pytest.approx(alone.lower, rel=2e-2)
    uppers = [found[n].upper or 0.0 for n in sizes]
    lowers = [found[n].lower or 0.0 for n in sizes]
    assert uppers == sorted(uppers, reverse=True)
    assert lowers == sorted(lowers, reverse=True)


@pytest.mark.parametrize("epsilon0", [1e3, 1e300, math.inf, math.nan, 1e-13, 0.0, -1.0])
def test_a_local_budget_outside_the_domain_is_refused_everywhere(epsilon0: float) -> None:
    functions = (
        lambda: accounting.coordinate_upper(4, epsilon0, 1e-5),
        lambda: accounting.coordinate_bracket(4, epsilon0, 1e-5),
        lambda: accounting.coordinate_brackets([4], epsilon0, 1e-5),
        lambda: accounting.fmt21_numerical(4, epsilon0, 1e-5),
        lambda: accounting.fmt23_numerical(4, epsilon0, 1e-5),
        lambda: accounting.hoeffding_blanket(4, epsilon0, 1e-5, laplace=True),
        lambda: accounting.bennett_blanket(4, epsilon0, 1e-5, laplace=True),
        lambda: accounting.randomized_response_epsilon(4, epsilon0, 1e-5),
        lambda: accounting.theorem2({4: 1}, epsilon0, 100, 1e-5),
        lambda: accounting.vector_budget({4: 1}, epsilon0, 1e-5),
    )
    for function in functions:
        with pytest.raises(accounting.OutOfDomainError, match="epsilon0 must be finite and > 0"):
            function()


@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(1, 40),
    epsilon0=st.floats(0.1, 6.0),
    log_delta=st.floats(math.log(1e-12), math.log(1e-2)),
)
def test_what_is_computed_from_a_release_never_leaks_more_than_it(
    n: int, epsilon0: float, log_delta: float
) -> None:
    """One threshold is computed from three cells, cells from the reports: post-processing."""
    delta = math.exp(log_delta)
    threshold = threshold_epsilon(n, epsilon0, delta)
    cells, _ = composed_lower_epsilon({(n, epsilon0): 1}, delta)
    assert threshold <= cells * (1 + 1e-3) + 1e-6
    assert cells <= accounting.coordinate_upper(n, epsilon0, delta)
