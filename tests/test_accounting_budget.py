"""From a ledger of privacy events to rows of a budget."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import pytest

from privaudit import accounting
from privaudit.accounting import budget
from privaudit.accounting.budget import BASIC, COORDINATE, LOCAL, REFINED, THEOREM2
from privaudit.errors import ConfigurationError
from privaudit.ledger import LaplaceVector, PrivacyEvent, UnprotectedRelease
from privaudit.reports import model

USERS = tuple(f"user-{i}" for i in range(6))
DELTA = 1e-5


def shuffled(round_: int, users: tuple[str, ...], **changes: object) -> PrivacyEvent:
    parameters: dict[str, object] = {
        "epsilon0": 1.0,
        "dimension": 1000,
        "clip_norm": 1.0,
        "shuffle": "per-coordinate",
    }
    return PrivacyEvent(
        round=round_,
        mechanism=LaplaceVector(**(parameters | changes)),  # type: ignore[arg-type]
        subjects=users,
        observers=("aggregation-server",),
        unit="the less important subvector",
    )


def upper(found: accounting.Budget, quantity: str, *, size: int, rounds: int) -> float:
    (row,) = [
        r for r in found.rows if (r.quantity, r.cluster_size, r.rounds) == (quantity, size, rounds)
    ]
    assert row.upper is not None
    return row.upper


def test_rows_have_the_fields_of_a_report() -> None:
    found = budget([shuffled(1, USERS)], delta=DELTA)
    for row in found.rows:
        fields = {name: getattr(row, name) for name in model.BudgetRow.model_fields}
        model.BudgetRow(**fields)
    release = PrivacyEvent(1, UnprotectedRelease("index sequence", 5), USERS, ("ms",), "a user")
    for item in budget([release], delta=DELTA).uncovered:
        fields = {name: getattr(item, name) for name in model.UncoveredRelease.model_fields}
        model.UncoveredRelease(**fields)


def test_total_composes_the_cluster_sizes_that_the_worst_user_was_in() -> None:
    events = [shuffled(r, USERS) for r in (1, 2)]
    events += [shuffled(3, USERS[:2]), shuffled(3, USERS[2:])]
    found = budget(events, delta=DELTA)
    assert found.worst_user in USERS[:2]
    expected = accounting.vector_budget({6: 2, 2: 1}, 1.0, DELTA)
    assert upper(found, REFINED, size=2, rounds=3) == expected.refined.upper
    assert upper(found, LOCAL, size=2, rounds=3) == expected.local.upper
    one_round = accounting.vector_budget({4: 1}, 1.0, DELTA)
    assert upper(found, BASIC, size=4, rounds=1) == one_round.basic.upper


def test_a_changing_threshold_does_not_split_the_history() -> None:
    events = [shuffled(r, USERS, clip_norm=1.0 + r) for r in (1, 2, 3)]
    found = budget(events, delta=DELTA)
    assert {row.rounds for row in found.rows} == {1, 3}


def test_colluding_users_are_not_counted_as_honest() -> None:
    alone = budget([shuffled(1, USERS[:1])], delta=DELTA)
    colluding = budget([shuffled(1, USERS)], delta=DELTA, colluding_users=5)
    assert upper(colluding, REFINED, size=6, rounds=1) == upper(alone, LOCAL, size=1, rounds=1)
    assert upper(colluding, COORDINATE, size=6, rounds=1) == pytest.approx(1.0, rel=1e-4)


def test_unprotected_values_make_the_user_level_epsilon_infinite() -> None:
    release = PrivacyEvent(1, UnprotectedRelease("top-k values", 5), USERS, ("as",), "a user")
    covered = budget([shuffled(1, USERS)], delta=DELTA)
    assert math.isfinite(covered.user_level_epsilon)
    found = budget([shuffled(1, USERS), release], delta=DELTA)
    assert found.user_level_epsilon == math.inf
    assert "top-k values" in found.user_level_sentence


def test_a_median_threshold_is_flagged_and_uncovered() -> None:
    found = budget([shuffled(1, USERS, clip_source="median-of-users")], delta=DELTA)
    assert found.user_level_epsilon == math.inf
    assert any("median of the users' norms" in flag for flag in found.flags)


def test_a_common_permutation_amplifies_one_coordinate_only() -> None:
    found = budget([shuffled(1, USERS, shuffle="whole-report")], delta=DELTA)
    local = upper(found, LOCAL, size=6, rounds=1)
    assert upper(found, REFINED, size=6, rounds=1) == local
    assert any("Whole reports" in flag for flag in found.flags)


def test_per_coordinate_clipping_grows_with_the_dimension() -> None:
    found = budget([shuffled(1, USERS, clipping="per-coordinate")], delta=DELTA)
    joint = budget([shuffled(1, USERS)], delta=DELTA)
    assert upper(found, LOCAL, size=6, rounds=1) > 50 * upper(joint, LOCAL, size=6, rounds=1)
    assert REFINED not in {row.quantity for row in found.rows}
    assert upper(found, THEOREM2, size=6, rounds=1) == upper(joint, THEOREM2, size=6, rounds=1)


def test_the_same_report_seen_before_shuffling_is_not_composed_twice() -> None:
    before = PrivacyEvent(
        1,
        LaplaceVector(1.0, 1000, 1.0),
        USERS,
        ("management-server",),
        "the less important subvector",
    )
    with_shuffler = budget([shuffled(1, USERS), before], delta=DELTA)
    assert with_shuffler.rows == budget([shuffled(1, USERS)], delta=DELTA).rows
    assert any("management-server" in flag for flag in with_shuffler.flags)


def test_an_observer_of_both_reports_is_charged_for_both() -> None:
    twice = PrivacyEvent(
        2,
        LaplaceVector(1.0, 1000, 1.0),
        USERS,
        ("aggregation-server",),
        "the less important subvector",
    )
    found = budget([shuffled(1, USERS), twice], delta=DELTA)
    totals = [row for row in found.rows if row.rounds == 2 and row.quantity == REFINED]
    one_local = accounting.vector_budget({1: 1}, 1.0, DELTA).local.upper
    assert totals[0].upper is not None
    assert one_local is not None
    assert totals[0].upper > one_local


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
def test_delta_outside_its_domain_is_refused(delta: float) -> None:
    with pytest.raises(ConfigurationError, match="delta must be in"):
        budget([shuffled(1, USERS)], delta=delta)


def test_an_empty_ledger_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no privacy event"):
        budget([], delta=DELTA)


def test_add_remove_is_refused_rather_than_misread() -> None:
    event = PrivacyEvent(
        1, LaplaceVector(1.0, 10, 1.0), USERS, ("as",), "a user", relation="add-remove"
    )
    with pytest.raises(ConfigurationError, match="replace-one"):
        budget([event], delta=DELTA)


def test_importing_accounting_stays_light() -> None:
    code = (
        "import sys, privaudit.accounting; "
        "print([m for m in ('torch', 'scipy', 'numba', 'dp_accounting', 'pydantic') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_more_colluding_users_than_a_cluster_holds_leave_the_target_alone() -> None:
    found = budget([shuffled(1, USERS)], delta=DELTA, colluding_users=9)
    assert {row.honest_users for row in found.rows} == {1}
    assert any("colluding users" in flag for flag in found.flags)


def test_rounds_with_different_budgets_are_composed_together() -> None:
    found = budget([shuffled(1, USERS), shuffled(2, USERS, epsilon0=2.0)], delta=DELTA)
    first = accounting.ShuffledVector(6, 1.0, 1000)
    second = accounting.ShuffledVector(6, 2.0, 1000)
    expected = accounting.compose_vectors({first: 1, second: 1}, DELTA)
    assert upper(found, REFINED, size=6, rounds=2) == expected.refined.upper
    single = accounting.compose_vectors({second: 1}, DELTA).refined.upper
    assert expected.refined.upper is not None
    assert single is not None
    assert expected.refined.upper > single


def test_a_bracket_that_contradicts_itself_is_refused() -> None:
    bracket = accounting.coordinate_bracket(2, 1.0, DELTA)
    with pytest.raises(accounting.ContradictionError, match="lies above the upper bound"):
        dataclasses.replace(bracket, lower=2.0)
    with pytest.raises(ConfigurationError, match="must be >= 0"):
        dataclasses.replace(bracket, lower=None, upper=math.nan)
