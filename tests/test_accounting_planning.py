"""Inverse questions: answers meet their target, and the next one does not."""

from __future__ import annotations

import pytest

from privaudit import accounting
from privaudit.accounting import OutOfDomainError
from privaudit.errors import ConfigurationError


@pytest.mark.parametrize(("level", "n"), [("local", 1), ("coordinate", 20), ("refined", 4)])
def test_the_largest_epsilon0_meets_the_target(level: accounting.Level, n: int) -> None:
    target = 0.5 if level == "coordinate" else 2.0
    found = accounting.epsilon0_for(target, delta=1e-5, n=n, level=level)
    assert accounting.upper_bound(level, n=n, epsilon0=found, delta=1e-5) <= target
    assert accounting.upper_bound(level, n=n, epsilon0=1.02 * found, delta=1e-5) > target


def test_the_least_cluster_meets_the_target_and_the_next_smaller_does_not() -> None:
    n = accounting.cluster_size_for(2.0, epsilon0=1.0, delta=1e-5)
    assert n is not None
    assert accounting.upper_bound("refined", n=n, epsilon0=1.0, delta=1e-5) <= 2.0
    assert accounting.upper_bound("refined", n=n - 1, epsilon0=1.0, delta=1e-5) > 2.0


def test_no_cluster_helps_where_shuffling_does_not() -> None:
    assert accounting.cluster_size_for(1.0, epsilon0=1.0, delta=1e-5, level="local") is None


def test_the_largest_number_of_rounds_meets_the_target() -> None:
    rounds = accounting.rounds_for(20.0, epsilon0=1.0, delta=1e-5, n=1, level="local")
    local = {"n": 1, "epsilon0": 1.0, "delta": 1e-5}
    assert accounting.upper_bound("local", rounds=rounds, **local) <= 20.0  # type: ignore[arg-type]
    assert accounting.upper_bound("local", rounds=rounds + 1, **local) > 20.0  # type: ignore[arg-type]
    assert accounting.rounds_for(1.0, epsilon0=1.0, delta=1e-5, n=1, level="local") == 0


def test_merging_keeps_all_users_and_withholding_does_not() -> None:
    as_is, merged, withheld = accounting.plan_clusters(
        [2, 3, 9], least=4, epsilon0=1.0, delta=1e-5, level="refined"
    )
    assert (as_is.users_served, merged.users_served, withheld.users_served) == (14, 14, 9)
    assert withheld.users_withheld == 5
    bounds = [plan.worst_epsilon for plan in (as_is, merged, withheld)]
    assert None not in bounds
    assert bounds == sorted(bounds, reverse=True)  # type: ignore[type-var]


def test_withholding_everything_leaves_no_bound() -> None:
    plans = accounting.plan_clusters([2], least=4, epsilon0=1.0, delta=1e-5, level="local")
    assert plans[2].sizes == ()
    assert plans[2].worst_epsilon is None


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(OutOfDomainError, match="target epsilon"):
        accounting.cluster_size_for(0.0, epsilon0=1.0, delta=1e-5)
    with pytest.raises(ConfigurationError, match="at least one cluster"):
        accounting.plan_clusters([], least=2, epsilon0=1.0, delta=1e-5)
    with pytest.raises(OutOfDomainError, match="rounds must be"):
        accounting.upper_bound("coordinate", n=4, epsilon0=1.0, delta=1e-5, rounds=0)
    with pytest.raises(OutOfDomainError, match="epsilon0 is looked for from"):
        accounting.epsilon0_for(1e6, delta=1e-5, n=4, level="local")
    # So small an epsilon0 that delta alone covers it: an answer, not a division by zero.
    least = accounting.epsilon0_for(1e-300, delta=1e-5, n=4, level="coordinate")
    assert 0 < least < 1e-4
    assert accounting.upper_bound("coordinate", n=4, epsilon0=least, delta=1e-5) <= 1e-300


def test_one_coordinate_is_solved_over_rounds_too() -> None:
    common = {"delta": 1e-5, "level": "coordinate"}
    rounds = accounting.rounds_for(3.0, epsilon0=0.5, n=2, **common)  # type: ignore[arg-type]

    def upper(rounds: int, epsilon0: float = 0.5) -> float:
        return accounting.upper_bound(
            "coordinate", n=2, epsilon0=epsilon0, delta=1e-5, rounds=rounds
        )

    assert upper(rounds) <= 3.0 < upper(rounds + 1)
    found = accounting.epsilon0_for(3.0, n=2, rounds=rounds, **common)  # type: ignore[arg-type]
    assert upper(rounds, found) <= 3.0 < upper(rounds, 1.01 * found)
