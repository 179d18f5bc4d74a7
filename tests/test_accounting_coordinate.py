"""Bounds for one shuffled coordinate, against reference values, closed forms, and each other."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit import accounting
from privaudit.accounting import OutOfDomainError
from privaudit.accounting._blanket import _frame, _pair, blanket_delta, dataset_delta
from privaudit.accounting._lattice import LatticeLaw, round_up
from privaudit.accounting._sums import expected_positive_part


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (shared / "spec" / "accounting_reference.json").read_text(encoding="utf-8")
    )
    return content


def test_blanket_profile_agrees_with_the_reference(reference: dict[str, Any]) -> None:
    checked = 0
    for row in reference["coordinate_delta_profile"]:
        n, epsilon0, expected = row["n"], row["eps0"], row["delta_blanket_upper"]
        if expected < 1e-14 or n > 100:
            continue
        found = blanket_delta(n, epsilon0, math.exp(-epsilon0 / 2), row["eps"])
        # The reference is itself an upper bound, looser by up to 0.5 % where delta is least.
        assert expected * (1 - 5e-3) <= found <= expected * (1 + 2e-3)
        exact = max(dataset_delta(n, epsilon0, others, row["eps"]) for others in (-1, 0, 1))
        assert exact <= found
        checked += 1
    assert checked > 80


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_one_user_has_the_profile_of_the_laplace_mechanism(epsilon: float) -> None:
    # delta = 1 - exp((eps - eps0) / 2): the whole output line, no other user, by hand.
    expected = -math.expm1((epsilon - 1.0) / 2)
    assert blanket_delta(1, 1.0, math.exp(-0.5), epsilon) == pytest.approx(expected, rel=1e-4)
    for others in (-1, 0, 1):
        below = dataset_delta(1, 1.0, others, epsilon)
        assert expected * (1 - 1e-3) <= below <= expected


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(1, 30),
    epsilon0=st.floats(0.2, 3.0),
    log_delta=st.floats(-25.0, -3.0),
)
def test_lower_bound_never_exceeds_upper_bound(n: int, epsilon0: float, log_delta: float) -> None:
    bracket = accounting.coordinate_bracket(n, epsilon0, math.exp(log_delta))
    assert bracket.lower is not None
    assert bracket.upper is not None
    assert 0 <= bracket.lower <= bracket.upper <= epsilon0


def test_more_users_never_weaken_the_bound() -> None:
    values = [accounting.coordinate_upper(n, 1.0, 1e-5) for n in (1, 2, 3, 5, 8, 20, 21, 50, 100)]
    assert values == sorted(values, reverse=True)


def test_amplification_is_void_for_clusters_of_five() -> None:
    for epsilon0 in (0.5, 1.0, 2.0):
        lower = accounting.coordinate_bracket(5, epsilon0, 1e-5).lower
        assert lower is not None
        assert lower > 0.999 * epsilon0


def test_closed_form_names_the_users_that_it_needs() -> None:
    with pytest.raises(OutOfDomainError, match="n >= 531 here"):
        accounting.fmt21_closed_form(20, 1.0, 1e-5)
    assert accounting.fmt21_minimum_users(1.0, 8.590681515946023e-12) == 1139


@pytest.mark.parametrize(("prefix", "laplace"), [("laplace", True), ("generic", False)])
def test_balle_closed_forms_agree_with_their_authors_code(
    reference: dict[str, Any], prefix: str, laplace: bool
) -> None:
    functions = {
        f"Blanket19 Hoeffding {prefix}": accounting.hoeffding_blanket,
        f"Blanket19 Bennett {prefix}": accounting.bennett_blanket,
    }
    checked = 0
    for row in reference["coordinate_level"]:
        for name, function in functions.items():
            if row["method"].startswith(name):
                found = function(row["n"], row["eps0"], row["delta"], laplace=laplace)
                assert found == pytest.approx(row["eps"], rel=1e-3)
                checked += 1
    assert checked == 200


@pytest.mark.parametrize(
    ("n", "epsilon0", "delta"),
    [(0, 1.0, 1e-5), (4, 0.0, 1e-5), (4, math.inf, 1e-5), (4, 1.0, 0.0), (4, 1.0, 1.0)],
)
def test_parameters_outside_the_domain_are_refused(n: int, epsilon0: float, delta: float) -> None:
    for function in (accounting.coordinate_upper, accounting.fmt21_closed_form):
        with pytest.raises(OutOfDomainError):
            function(n, epsilon0, delta)


@settings(max_examples=40, deadline=None)
@given(
    masses=st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=12),
    below=st.integers(1, 11),
    n=st.integers(1, 200),
)
def test_tilted_transform_agrees_with_direct_convolution(
    masses: list[float], below: int, n: int
) -> None:
    weights = np.array(masses) / sum(masses)
    origin = -float(min(below, weights.size - 1))
    support = origin + np.arange(weights.size)
    if float(weights @ support) > 0:
        weights = weights[::-1].copy()
        origin = -float(support[-1])
        support = origin + np.arange(weights.size)
    law = LatticeLaw(origin, 1.0, weights)
    direct = np.ones(1)
    for _ in range(n):
        direct = np.convolve(direct, weights)
    sums = n * origin + np.arange(direct.size)
    expected = float(np.maximum(sums, 0) @ direct)
    upper = expected_positive_part(law, n, upper=True)
    lower = expected_positive_part(law, n, upper=False)
    assert lower <= expected * (1 + 1e-12)
    assert upper >= expected * (1 - 1e-12)
    assert upper - lower <= 1e-6 * upper


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 300),
    epsilon0=st.floats(0.1, 6.0),
    share=st.floats(0.01, 0.99),
    others=st.sampled_from((-1, 0, 1)),
)
def test_lattices_rounded_either_way_bracket_the_divergence(
    n: int, epsilon0: float, share: float, others: int
) -> None:
    epsilon = share * epsilon0
    lower = dataset_delta(n, epsilon0, others, epsilon)
    # The same pair on a lattice rounded the other way, and the blanket, which bounds every pair.
    loss = _pair(epsilon0, others, epsilon)
    theta, points = _frame(loss, n)
    upper = expected_positive_part(round_up(loss, n, theta, points), n, upper=True) / n
    blanket = blanket_delta(n, epsilon0, math.exp(-epsilon0 / 2), epsilon)
    assert lower <= upper * (1 + 1e-12)
    assert lower <= blanket
    if upper > 1e-14:
        assert upper - lower <= 0.02 * upper + 1e-14


@pytest.mark.parametrize("weights", [(0.6, 0.1, 0.05, 0.2, 0.05), (0.05, 0.1, 0.75, 0.05, 0.05)])
@pytest.mark.parametrize("n", [1, 7, 300])
def test_the_tilted_transform_brackets_the_sum_carried_out(
    n: int, weights: tuple[float, ...]
) -> None:
    # Mean below zero; at n = 300 the window is shorter than the sum's range.
    law = LatticeLaw(-1.5, 0.7, np.array(weights))
    whole = np.ones(1)
    for _ in range(n):
        whole = np.convolve(whole, law.weights)
    sums = n * law.origin + law.step * np.arange(whole.size)
    exact = float(whole @ np.maximum(sums, 0.0))
    low, high = (expected_positive_part(law, n, upper=upper) for upper in (False, True))
    assert low <= exact * (1 + 1e-13)
    assert exact <= high * (1 + 1e-13)
    assert high - low <= 1e-6 * exact
