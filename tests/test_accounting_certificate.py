"""The vector's bound by interval arithmetic: above what is true, hardly above the float64 one."""

from __future__ import annotations

import math
import sys
from typing import Literal

import numpy as np
import pytest

from privaudit import accounting
from privaudit.accounting import OutOfDomainError, certify
from privaudit.errors import UnmetRequirementsError

flint = pytest.importorskip("flint", reason="needs python-flint: privaudit[crypto]")

CELLS = [(2, 0.5, 1), (4, 1.0, 100), (5, 4.0, 1), (20, 1.0, 1)]


@pytest.fixture(autouse=True)
def no_answers_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVAUDIT_CACHE", "")


@pytest.mark.parametrize("bound", ["basic", "refined"])
@pytest.mark.parametrize(("n", "epsilon0", "rounds"), CELLS)
def test_the_certified_bound_is_the_float_one_but_for_rounding(
    n: int, epsilon0: float, rounds: int, bound: Literal["basic", "refined"]
) -> None:
    found = certify(n, epsilon0, 1e-5, rounds=rounds, bound=bound)
    floats = getattr(accounting.vector_budget({n: rounds}, epsilon0, 1e-5), bound)
    assert found.status == "certified by interval arithmetic"
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= found.upper
    assert floats.upper * (1 - 1e-7) <= found.upper <= floats.upper * (1 + 1e-6)


def test_one_user_and_few_coordinates_have_their_closed_bounds() -> None:
    alone = certify(1, 1.0, 1e-5).upper
    assert alone == pytest.approx(accounting.epsilon_of_zcdp(0.5, 1e-5), rel=1e-4)
    single = certify(4, 1.0, 1e-5, dimension=1).upper
    assert single is not None
    assert 1.0 <= single <= 1.0 + 1e-12


def test_too_small_a_proposal_is_not_certified() -> None:
    from privaudit.accounting._certificate import _OutwardPremise

    premise = _OutwardPremise(4, 1.0, np.array([4.0]))
    basic = premise.basic()
    ((lam, k),) = premise.refined(basic)
    assert premise.holds(lam * (1 + 1e-6), k * (1 + 1e-6), refined=True)
    assert not premise.holds(lam * 0.98, k, refined=True)
    assert not premise.holds(lam, k * 0.9, refined=True)
    least = float(basic[0]) / (2 * premise.h**2)
    assert premise.holds(least * (1 + 1e-6), 0.0, refined=False)
    assert not premise.holds(least * 0.999, 0.0, refined=False)


def test_moments_rounded_outwards_lie_just_above_those_in_float64() -> None:
    from privaudit.accounting._certificate import _moments
    from privaudit.accounting._moments import clone_moments

    magnitudes = np.array([0.01, 0.03, 0.2, 0.7])
    equal, pairs = _moments(9, magnitudes, 2, 5.0)
    for k in (2, 5, 9):
        coarse = float(clone_moments(k, 0.06, np.array([5.0]))[0])
        fine = float(clone_moments(k, 1.4, np.array([5.0]), parts=4)[0])
        assert coarse * (1 - 1e-9) <= equal[1, k - 1] <= coarse * (1 + 1e-9)
        assert fine * (1 - 1e-9) <= pairs[1, 1, k - 1] <= fine * (1 + 1e-9)
    assert (np.diff(pairs, axis=-1) <= 0).all()
    assert (np.diff(pairs, n=2, axis=-1) >= 0).all()


def test_elementary_bounds_are_on_their_side_of_ball_arithmetic() -> None:
    from privaudit.accounting._outward import binomial_weights, expm1_below, report_law

    z = np.array([1e-12, 1e-3, 0.5, 1.0, 1.0001, 3.7, 40.0, 300.0])
    for value, below in zip(z.tolist(), expm1_below(z).tolist(), strict=True):
        true = flint.arb(value).expm1()
        assert flint.arb(below) < true
        assert below >= float(true.lower()) * (1 - 1e-8)
    law = report_law(0.8, 4)
    assert 1 <= math.fsum(law.tolist()) < 1 + 1e-12
    weights = binomial_weights(7, np.array([0.0, 0.4]))
    assert (weights.sum(axis=1) >= 1).all()
    assert weights.sum(axis=1) == pytest.approx(1.0)


def test_outside_its_domain_it_is_refused() -> None:
    with pytest.raises(OutOfDomainError, match="n <= 50, got 51"):
        certify(51, 1.0, 1e-5)
    with pytest.raises(OutOfDomainError, match="epsilon0 <= 16, got 20"):
        certify(4, 20.0, 1e-5)
    with pytest.raises(OutOfDomainError, match=r"delta must be in \(0, 1\)"):
        certify(4, 1.0, math.nan)


def test_without_ball_arithmetic_the_error_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(UnmetRequirementsError, match=r"privaudit\[crypto\]"):
        certify(4, 1.0, 1e-5)
