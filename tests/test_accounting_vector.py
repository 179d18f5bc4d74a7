"""Bounds for the whole vector: Theorem A, Theorem 2, certified shuffled bounds, the floor."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaudit import accounting
from privaudit.accounting._moments import clone_moments, zcdp_of_clones
from privaudit.accounting._vector import certified_renyi
from privaudit.errors import ConfigurationError


@pytest.fixture(autouse=True)
def no_answers_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVAUDIT_CACHE", "")


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (shared / "spec" / "accounting_reference.json").read_text(encoding="utf-8")
    )
    return content


def test_clone_moments_agree_with_the_reference_and_stay_below_theorem_b(
    reference: dict[str, Any],
) -> None:
    for row in reference["A_k_reference"]:
        orders = np.array([row["alpha"]])
        moment = clone_moments(row["k"], row["t"], orders)
        value = float(np.log1p(moment[0])) / (row["alpha"] - 1)
        assert value == pytest.approx(row["log_A_over_am1"], rel=1e-9)
        assert value <= row["alpha"] * zcdp_of_clones(row["k"], row["t"]) * (1 + 1e-9)


def test_one_clone_has_the_renyi_divergence_of_the_laplace_mechanism() -> None:
    alpha, t = 3.0, 0.7
    laplace = math.log(
        alpha / (2 * alpha - 1) * math.exp((alpha - 1) * t)
        + (alpha - 1) / (2 * alpha - 1) * math.exp(-alpha * t)
    )
    three_atoms = math.log1p(float(clone_moments(1, t, np.array([alpha]))[0]))
    # Jensen's bound at three atoms lies above the exact divergence and below zCDP t^2 / 2.
    assert laplace <= three_atoms <= (alpha - 1) * alpha * t * t / 2


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 4, 5, 10, 20, 100, 1000])
def test_all_vector_bounds_of_the_reference_are_reached_or_improved(
    reference: dict[str, Any], n: int
) -> None:
    explicit = {
        (row["n"], float(row["eps0"]), row["T"]): row["lb_eps"]
        for row in reference["vector_level_lower_bounds"]
        if row["n"] == n
    }
    rows = [row for row in reference["vector_level"]["rows"] if row["n"] == n]
    assert len(rows) == 8
    shown = set()
    for row in rows:
        cell = row["n"], float(row["eps0"]), row["T"]
        found = accounting.vector_budget({row["n"]: row["T"]}, float(row["eps0"]), row["delta"])
        bounds = (found.floor.lower, found.refined.upper, found.basic.upper, found.local.upper)
        values = [bound for bound in bounds if bound is not None]
        assert len(values) == 4
        assert values == sorted(values)
        # Above what explicit inputs reach, composed exactly by another program; and nowhere looser
        # than its bounds by more than its grid. Tighter is fine: these are upper bounds.
        assert found.floor.lower == pytest.approx(row["gdp_floor_eps"], rel=1e-6)
        if cell in explicit:
            shown.add(cell)
            assert explicit[cell] <= (found.refined.upper or 0.0)
        for bound, name in ((found.basic, "shuffled_basic"), (found.refined, "shuffled_refined")):
            expected = row[f"{name}_rdp_eps"]
            assert bound.upper is not None
            assert bound.upper <= 1.02 * expected
    assert shown == set(explicit)


def test_no_size_of_the_reference_is_left_out(reference: dict[str, Any]) -> None:
    sizes = {row["n"] for row in reference["vector_level"]["rows"]}
    assert sizes == {1, 2, 4, 5, 10, 20, 100, 1000}


@pytest.mark.parametrize("n", [4, 10])
def test_vector_bounds_agree_with_the_reference(reference: dict[str, Any], n: int) -> None:
    rows = [r for r in reference["vector_level"]["rows"] if r["n"] == n and r["eps0"] in (0.5, 2)]
    assert rows
    for row in rows:
        found = accounting.vector_budget({n: row["T"]}, row["eps0"], row["delta"])
        local, basic, refined = found.local.upper, found.basic.upper, found.refined.upper
        floor = found.floor.lower
        assert local == pytest.approx(row["local_no_shuffle_rdp_eps"], rel=2e-3)
        assert basic == pytest.approx(row["shuffled_basic_rdp_eps"], rel=0.02)
        assert refined is not None
        assert floor is not None
        assert refined <= 1.02 * row["shuffled_refined_rdp_eps"]
        assert floor == pytest.approx(row["gdp_floor_eps"], rel=1e-6)
        assert floor is not None
        assert basic is not None
        assert refined is not None
        assert local is not None
        assert floor <= refined <= basic <= local


def test_certified_bounds_lie_above_explicit_attacks(reference: dict[str, Any]) -> None:
    for row in reference["vector_level_lower_bounds"]:
        if row["n"] > 10:
            continue
        found = accounting.vector_budget({row["n"]: row["T"]}, row["eps0"], row["delta"])
        assert found.refined.upper is not None
        assert found.refined.upper >= row["lb_eps"]


def test_theorem_2_agrees_with_the_reference(reference: dict[str, Any]) -> None:
    for row in reference["vector_level"]["rows"]:
        if row["n"] not in (4, 100) or row["T"] != 1:
            continue
        found = accounting.theorem2({row["n"]: 1}, row["eps0"], row["d2"], row["delta"])
        assert found.upper == pytest.approx(row["theorem2_eps"], rel=2e-3)


def test_a_single_user_has_no_amplification() -> None:
    budget = accounting.vector_budget({1: 7}, 1.0, 1e-5)
    assert budget.basic.upper == budget.local.upper == budget.refined.upper


def test_renyi_bounds_add_over_rounds() -> None:
    # Seven rounds of four and three of two, by hand from the single-round bounds.
    found = accounting.vector_budget({4: 7, 2: 3}, 1.0, 1e-5)
    orders = tuple(1 + a for a in np.geomspace(1.5, 8, 16))
    total = 7 * np.array(certified_renyi(4, 1.0, orders).basic)
    total += 3 * np.array(certified_renyi(2, 1.0, orders).basic)
    by_hand, _ = accounting.epsilon_from_rdp(orders, total, 1e-5)
    assert found.basic.upper == pytest.approx(by_hand, rel=5e-3)


def test_conversion_agrees_with_dp_accounting() -> None:
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = [1.5, 2.0, 4.0, 8.0, 16.0, 32.0]
    rdp = [0.5 * a for a in orders]
    expected, _ = rdp_privacy_accountant.compute_epsilon(orders, rdp, 1e-5)
    assert accounting.epsilon_from_rdp(orders, rdp, 1e-5)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 1.99309), (1.0, 4.37718), (10.0, 91.81729)])
def test_gaussian_epsilon_solves_its_equation(mu: float, epsilon: float) -> None:
    assert accounting.epsilon_of_gaussian(mu, 1e-5) == pytest.approx(epsilon, rel=1e-5)


def test_empty_histories_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one cluster size"):
        accounting.vector_budget({}, 1.0, 1e-5)


def test_few_coordinates_have_no_spread_input_floor_and_a_pure_bound() -> None:
    # One coordinate is epsilon0-DP whatever the Renyi bound says, and cannot lose more than that.
    found = accounting.vector_budget({4: 1}, 1.0, 1e-5, dimension=1)
    assert found.local.upper == pytest.approx(1.0)
    assert found.refined.upper == pytest.approx(1.0)
    assert found.local.lower is None
    assert not found.floor.domain_ok


def test_one_clone_lies_between_the_laplace_divergence_and_zcdp(reference: dict[str, Any]) -> None:
    for row in reference["rdp_laplace_reference"]:
        alpha, t = row["alpha"], row["t"]
        if (alpha - 1) * t > 300:
            continue
        moment = clone_moments(1, t, np.array([alpha]))
        bound = float(np.log1p(moment[0])) / (alpha - 1)
        assert row["rdp"] * (1 - 1e-9) <= bound
        assert bound <= row["zcdp_upper"] * (1 + 1e-9)


@pytest.mark.parametrize(("t", "alpha"), [(0.5, 2.0), (1.0, 4.0), (2.0, 6.5)])
def test_two_clones_bound_the_divergence_found_by_quadrature(t: float, alpha: float) -> None:
    # E[S_u^alpha S_-u^(1 - alpha)] over two reports ~ Laplace(0, 1), mass by mass on a fine grid.
    u = t / 2
    edges = np.concatenate(([-u - 1], np.linspace(-u, u, 1501), [u + 1]))
    cumulative = np.where(edges < 0, np.exp(np.minimum(edges, 0)) / 2, 1 - np.exp(-edges) / 2)
    cumulative[0], cumulative[-1] = 0.0, 1.0
    mass, w = np.diff(cumulative), 0.5 * (edges[1:] + edges[:-1])
    up = np.exp(np.abs(w) - np.abs(w - u))
    down = np.exp(np.abs(w) - np.abs(w + u))
    first, second = (up[:, None] + up) / 2, (down[:, None] + down) / 2
    exact = float(mass @ (first**alpha * second ** (1 - alpha)) @ mass)
    bound = 1 + float(clone_moments(2, t, np.array([alpha]))[0])
    theorem_b = math.exp((alpha - 1) * alpha * float(zcdp_of_clones(2, t)))
    assert exact <= bound <= theorem_b
    assert math.log(bound) <= 1.35 * math.log(exact)


@pytest.mark.parametrize("epsilon0", [10.0, 100.0])
def test_large_budgets_are_answered(epsilon0: float) -> None:
    found = accounting.vector_budget({4: 50}, epsilon0, 1e-5)
    assert found.floor.lower is not None
    assert found.refined.upper is not None
    assert found.local.upper is not None
    assert found.floor.lower <= found.refined.upper <= found.local.upper < math.inf


def test_the_default_dimension_is_never_few() -> None:
    # A tiny delta: pure composition of 1,000 coordinates would be less than the Renyi bound.
    few = accounting.vector_budget({1: 1}, 1.0, 1e-300, dimension=1000).local.upper
    many = accounting.vector_budget({1: 1}, 1.0, 1e-300).local.upper
    assert few == pytest.approx(math.sqrt(1000))
    assert many is not None
    assert many > 37


@pytest.mark.slow
def test_very_large_clusters_keep_a_bound() -> None:
    found = accounting.vector_budget({100_000: 1}, 1.0, 1e-6)
    assert found.refined.upper is not None
    assert found.floor.lower is not None
    assert found.floor.lower < found.refined.upper < 0.1


def test_moments_beyond_float64_raise_rather_than_answer() -> None:
    with pytest.raises(accounting.NumericalError, match="not finite"):
        clone_moments(1, 80.0, np.array([20.0]))


def test_clone_moments_agree_with_interval_arithmetic() -> None:
    # The same finite sum in arb balls, whose ends enclose the true value: three values of the pair.
    flint = pytest.importorskip("flint", reason="needs python-flint: privaudit[crypto]")
    arb, precision = flint.arb, flint.ctx.prec
    flint.ctx.prec = 200
    try:
        for k, t, alpha in ((2, 1.0, 4.0), (7, 0.25, 9.5), (12, 3.0, 2.5), (20, 0.02, 30.0)):
            u, order = arb(t) / 2, arb(alpha)
            high, low = u.exp(), (-u).exp()
            outer = 1 / (high + 1)
            middle = 1 - 2 * outer
            total = arb(0)
            for one in range(k + 1):
                for two in range(k + 1 - one):
                    ways = math.comb(k, one) * math.comb(k - one, two)
                    chance = ways * outer ** (one + two) * middle ** (k - one - two)
                    up = (one * high + (k - one) * low) / k
                    down = (two * high + (k - two) * low) / k
                    total += chance * (up.log() * order + down.log() * (1 - order)).exp()
            ball = total - 1
            found = float(clone_moments(k, t, np.array([alpha]))[0])
            assert found >= float(ball.lower())
            assert found <= float(ball.upper()) * (1 + 1e-9) + 1e-12
    finally:
        flint.ctx.prec = precision


def test_finer_lattices_lower_the_moments_towards_the_exact_ones() -> None:
    orders = np.array([2.0, 8.0])
    coarse, middle, fine = (clone_moments(9, 1.5, orders, parts=p) for p in (1, 2, 4))
    assert (fine < middle).all()
    assert (middle < coarse).all()
    exact = 2 / 3 * math.exp(1.5) + math.exp(-3) / 3  # one clone, order 2: Laplace's own
    (one,) = clone_moments(1, 1.5, np.array([2.0]), parts=64)
    assert exact <= 1 + one <= exact * 1.01


def test_closed_exponents_lie_above_the_sums() -> None:
    from privaudit.accounting._pairs import closed_exponents

    orders, nodes = np.array([15.0, 60.0]), np.array([80, 400])
    for u in (0.01, 0.1, 0.4):
        closed = closed_exponents(np.array([u]), np.array([u]), nodes, orders)[0]
        for row, k in zip(closed, nodes, strict=True):
            assert (row >= np.log1p(clone_moments(int(k), 2 * u, orders, parts=4))).all()


def test_the_majorant_is_decreasing_convex_and_above() -> None:
    from privaudit.accounting._pairs import clone_counts, convex_majorant, mixing_weights

    nodes = clone_counts(200)
    values = (1 / nodes + 0.02 * np.cos(nodes))[:, None] + 0.1
    majorant = convex_majorant(values, nodes)
    best = np.minimum.accumulate(values[:, 0])
    weights = mixing_weights(200, np.array([0.2, 0.9]), nodes)
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert (majorant[:, 0] >= best).all()
    assert (np.diff(majorant[:, 0]) <= 0).all()


@pytest.mark.parametrize(
    ("epsilon0", "rounds", "users"),
    [
        (1.0, 1, (1, 2, 3, 12, 13, 14, 20)),
        (8.0, 1, (1, 5, 6, 7, 8)),
        (0.5, 100, (11, 12, 13, 18, 19)),
    ],
)
def test_more_honest_users_never_raise_the_bounds(
    epsilon0: float, rounds: int, users: tuple[int, ...]
) -> None:
    # Over the places where cells become wider, beyond 12 or 5 users.
    found = [accounting.vector_budget({n: rounds}, epsilon0, 1e-5) for n in users]
    for bound in ("basic", "refined", "floor"):
        values = [getattr(budget, bound) for budget in found]
        numbers = [b.lower if bound == "floor" else b.upper for b in values]
        assert numbers == sorted(numbers, reverse=True)


def test_the_first_cell_has_theorem_b_alone() -> None:
    # It stands for all smaller magnitudes, where only Theorem B's ratio to t^2 is at most its own.
    from privaudit.accounting._pairs import MomentTable, theorem_b_exponents

    order, magnitudes = np.array([300.0]), np.array([0.01, 0.05, 0.2])
    table = MomentTable(6, order, magnitudes, 1)
    least = theorem_b_exponents(magnitudes[:1], magnitudes[:1], table.nodes, order)
    assert (table.equal[0] >= np.expm1(least[0])).all()
