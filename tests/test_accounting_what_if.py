"""What-if rows: rules for small clusters, replayed on the clusters that a run really formed."""

from __future__ import annotations

from privaudit.accounting import cluster_size_for, plan_clusters, what_if_rows
from privaudit.ledger import LaplaceVector, PrivacyEvent
from privaudit.reports import model

DELTA = 1e-5


def formed(round_: int, *sizes: int, shuffle: str = "per-coordinate") -> list[PrivacyEvent]:
    users = iter(range(sum(sizes)))
    return [
        PrivacyEvent(
            round_,
            LaplaceVector(1.0, 1000, 1.0, shuffle=shuffle),  # type: ignore[arg-type]
            tuple(f"user-{next(users)}" for _ in range(size)),
            ("server",),
            "the subvector",
        )
        for size in sizes
    ]


def test_the_round_with_the_smallest_cluster_is_replayed_under_either_rule() -> None:
    rows = what_if_rows([*formed(1, 4, 6), *formed(2, 2, 3, 5)], delta=DELTA, least=4)
    plans = plan_clusters([2, 3, 5], least=4, epsilon0=1.0, delta=DELTA)[1:]
    assert [(row.upper, row.clusters) for row in rows] == [
        (plan.worst_epsilon, len(plan.sizes)) for plan in plans
    ]
    assert "round 2" in rows[0].note
    assert "2, 3, 5 -> 5, 5; 10 users served, 0 withheld" in rows[0].note
    assert "5 users served, 5 withheld" in rows[1].note
    for row in rows:
        model.BudgetRow(**{name: getattr(row, name) for name in model.BudgetRow.model_fields})


def test_the_minimum_size_is_the_least_that_meets_the_target() -> None:
    (merged, _) = what_if_rows(formed(1, 2, 9), delta=DELTA, target=3.0)
    least = cluster_size_for(3.0, epsilon0=1.0, delta=DELTA)
    assert f"below {least} users" in merged.quantity


def test_colluding_users_make_clusters_smaller() -> None:
    assert what_if_rows(formed(1, 4, 5), delta=DELTA, least=4) == ()
    (merged, withheld) = what_if_rows(formed(1, 4, 5), delta=DELTA, least=4, colluding_users=1)
    assert "3, 4 -> 7" in merged.note
    assert withheld.honest_users == 4


def test_nothing_is_said_where_coordinates_are_not_shuffled() -> None:
    for shuffle in ("none", "whole-report"):
        assert what_if_rows(formed(1, 2, 3, shuffle=shuffle), delta=DELTA, least=4) == ()
