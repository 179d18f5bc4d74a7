"""Releases that hide among nobody: reference values, exact laws, domains, and their ledger rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit import accounting
from privaudit.accounting import OutOfDomainError, budget, compose_releases
from privaudit.accounting._rows import LOSS, PURE, RELEASES, RENYI
from privaudit.errors import ConfigurationError
from privaudit.ledger import (
    ApproximateRelease,
    GaussianMechanism,
    LaplaceVector,
    Mechanism,
    PrivacyEvent,
    PureRelease,
    RandomizedResponse,
    SubsampledGaussian,
    UnprotectedRelease,
)

DELTA = 1e-5


def event(mechanism: Mechanism, *, round_: int = 1, **changes: Any) -> PrivacyEvent:
    values: dict[str, Any] = {
        "subjects": ("a", "b"),
        "observers": ("server",),
        "unit": "one record",
    }
    return PrivacyEvent(round=round_, mechanism=mechanism, **(values | changes))


@pytest.mark.parametrize(
    ("categories", "epsilon0", "reports", "pure", "loss", "renyi"),
    [
        # Values of dp_accounting's accountants, run apart from this package.
        (16, 0.5, 8, 4.0, 2.493, 2.823),
        (16, 1.0, 8, 8.0, 5.993, 6.655),
        (16, 1.0, 16, 16.0, 9.115, 9.998),
        (8, 2.0, 2, 4.0, 4.000, 4.014),
    ],
)
def test_randomized_response_agrees_with_reference_accountants(
    categories: int, epsilon0: float, reports: int, pure: float, loss: float, renyi: float
) -> None:
    found = compose_releases({RandomizedResponse(categories, epsilon0, reports): 1}, DELTA)
    assert found.pure is not None
    assert found.loss_distribution is not None
    assert found.pure.upper == pytest.approx(pure)
    assert found.loss_distribution.upper == pytest.approx(loss, abs=6e-4)
    # Its orders are finer than the reference's: as small, or smaller by at most 0.5 %.
    assert found.renyi.upper is not None
    assert renyi * 0.995 <= found.renyi.upper <= renyi + 6e-4


def test_randomized_response_agrees_with_enumeration() -> None:
    k, e, m = 3, 0.8, 4
    keep = math.exp(e) / (math.exp(e) + k - 1)
    other = 1 / (math.exp(e) + k - 1)
    first, second = np.array([keep, other, other]), np.array([other, keep, other])
    p, q = (
        np.array([math.prod(law[list(path)]) for path in itertools.product(range(k), repeat=m)])
        for law in (first, second)
    )
    found = compose_releases({RandomizedResponse(k, e, m): 1}, 0.01).best
    assert found.lower is not None
    assert found.upper is not None
    for epsilon, above in ((found.upper + 1e-6, False), (found.lower - 1e-6, True)):
        delta = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
        assert (delta > 0.01) == above
    assert found.upper - found.lower < 1e-3


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-14])
def test_gaussian_releases_compose_to_one_with_less_noise(delta: float) -> None:
    many = compose_releases({GaussianMechanism(10.0, steps=20): 5}, delta).best
    assert many.upper == pytest.approx(accounting.epsilon_of_gaussian(1.0, delta), rel=1e-7)
    assert GaussianMechanism(10.0, steps=20).rho == pytest.approx(0.1)
    assert many.lower is not None
    assert many.upper is not None
    assert many.lower <= many.upper


def test_sampled_gaussian_agrees_with_opacus() -> None:
    # Opacus 1.6 at q = 0.01, sigma = 1, 1000 steps: RDP 2.101; PRV 1.838, an upper end.
    found = compose_releases({SubsampledGaussian(1.0, 0.01, 1000): 1}, DELTA, relation="add-remove")
    assert found.renyi.upper == pytest.approx(2.101, abs=1e-3)
    assert found.best.upper is not None
    assert found.best.lower is not None
    assert 1.8 < found.best.lower <= found.best.upper <= 1.838


def test_declared_guarantees_compose_optimally() -> None:
    many = compose_releases({PureRelease(0.1): 100}, DELTA)
    optimal = accounting.optimal_composition(0.1, compositions=100, delta=DELTA)
    assert many.best.upper == pytest.approx(optimal, rel=1e-3)
    assert many.best.lower is None
    failing = compose_releases({ApproximateRelease(0.1, 1e-8): 100}, DELTA)
    optimal = accounting.optimal_composition(0.1, compositions=100, delta=DELTA, delta_s=1e-8)
    assert failing.best.upper == pytest.approx(optimal, rel=1e-3)


@settings(max_examples=3, deadline=None)
@given(
    epsilon0=st.floats(0.2, 4.0),
    reports=st.integers(1, 6),
    log_delta=st.floats(-18.0, -4.0),
    z=st.floats(2.0, 20.0),
)
def test_more_releases_or_a_smaller_delta_never_cost_less(
    epsilon0: float, reports: int, log_delta: float, z: float
) -> None:
    delta = math.exp(log_delta)
    one = RandomizedResponse(8, epsilon0, reports)
    least = compose_releases({one: 1}, delta).best.upper or 0.0
    both = {one: 1, GaussianMechanism(z): 1}
    backwards = dict(reversed(both.items()))
    together = compose_releases(both, delta).best.upper or 0.0
    assert together == pytest.approx(compose_releases(backwards, delta).best.upper, rel=1e-9)
    slack = 1e-4 * (1 + together)
    assert least <= together + slack
    assert least <= (compose_releases({one: 1}, delta / 10).best.upper or 0.0) + slack
    assert least <= (compose_releases({one: 2}, delta).best.upper or 0.0) + slack
    assert least <= reports * epsilon0


def test_what_cannot_be_composed_is_refused_by_its_domain() -> None:
    with pytest.raises(OutOfDomainError, match="fail by themselves"):
        compose_releases({ApproximateRelease(0.1, 1e-6): 100}, DELTA)
    with pytest.raises(OutOfDomainError, match="epsilon <= 500"):
        compose_releases({PureRelease(1e3): 1}, DELTA)
    with pytest.raises(OutOfDomainError, match="no release"):
        compose_releases({}, DELTA)
    with pytest.raises(OutOfDomainError, match="add-remove"):
        compose_releases({SubsampledGaussian(1.0, 0.1): 1}, DELTA)
    with pytest.raises(OutOfDomainError, match="replace-one"):
        compose_releases({RandomizedResponse(2, 1.0): 1}, DELTA, relation="add-remove")


@pytest.mark.parametrize(
    ("mechanism", "relation"),
    [(SubsampledGaussian(1.0, 0.1), "replace-one"), (RandomizedResponse(4, 1.0), "add-remove")],
)
def test_a_relation_that_contradicts_the_mechanism_is_refused(
    mechanism: Mechanism, relation: str
) -> None:
    with pytest.raises(ConfigurationError, match="contradicts"):
        event(mechanism, relation=relation)
    with pytest.raises(ConfigurationError, match="'replace-one' or 'add-remove'"):
        event(PureRelease(1.0), relation="substitute")


def test_a_ledger_of_contradictory_statements_is_refused() -> None:
    one = event(GaussianMechanism(1.0), relation="add-remove")
    for other in (
        event(RandomizedResponse(4, 1.0)),
        event(GaussianMechanism(1.0), relation="add-remove", unit="one user"),
    ):
        with pytest.raises(ConfigurationError, match="several values"):
            budget([one, other], delta=DELTA)


def test_a_ledger_of_randomized_responses_has_its_rows_and_its_user_level() -> None:
    reports = RandomizedResponse(16, 0.5, 8)
    found = budget([event(reports), event(GaussianMechanism(20.0, steps=10))], delta=DELTA)
    quantities = [row.quantity for row in found.rows]
    assert quantities[:3] == [RENYI, LOSS, RELEASES]
    expected = compose_releases({reports: 1, GaussianMechanism(20.0, steps=10): 1}, DELTA).best
    (best,) = [row for row in found.rows if row.role == "bracket"]
    assert (best.lower, best.upper) == (expected.lower, expected.upper)
    assert found.user_level_epsilon == expected.upper
    single = budget([event(reports)], delta=DELTA)
    assert [row.upper for row in single.rows if row.quantity == PURE] == [4.0]
    assert "8 randomized responses of 16 values" in single.rows[0].note


def test_rounds_of_one_user_add_up_and_those_of_different_users_do_not() -> None:
    reports = RandomizedResponse(4, 0.5, 2)
    events = [event(reports, round_=t, subjects=(user,)) for t, user in ((1, "a"), (2, "b"))]
    apart = budget(events, delta=DELTA)
    assert {row.rounds for row in apart.rows} == {1}
    twice = budget([*events, event(reports, round_=2, subjects=("a",))], delta=DELTA)
    total = [row for row in twice.rows if row.rounds == 2 and row.quantity == RELEASES]
    assert total[0].upper == compose_releases({reports: 2}, DELTA).best.upper


def test_vectors_and_other_releases_are_charged_together_at_user_level() -> None:
    vector = event(LaplaceVector(1.0, 1000, 1.0))
    reports = RandomizedResponse(16, 0.5, 8)
    found = budget([vector, event(reports)], delta=DELTA)
    expected = compose_releases({reports: 1}, DELTA, zcdp=0.5).best.upper
    assert found.user_level_epsilon == expected
    assert expected is not None
    alone = budget([vector], delta=DELTA).user_level_epsilon
    assert alone < expected
    leaking = budget([vector, event(reports), event(UnprotectedRelease("x", 1))], delta=DELTA)
    assert leaking.user_level_epsilon == math.inf
