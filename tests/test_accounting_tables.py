"""Rows of epsilon tables are what the accounting says, with domains and statuses kept."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from epsilon_commands import strict_json

from privaudit.accounting import (
    Bracket,
    coordinate_bracket,
    fmt21_minimum_users,
    fmt23_numerical,
    theorem2,
    vector_budget,
)
from privaudit.accounting.tables import (
    METHODS,
    Cell,
    EpsilonRow,
    check_methods,
    coordinate_rows,
    record,
    vector_rows,
)
from privaudit.cli._epsilon_output import csv_bytes

DIMENSION = 582026


def best(row: EpsilonRow) -> tuple[float, float]:
    """Return (lower, upper) of a row that has both."""
    assert row.best is not None
    assert row.best.lower is not None
    assert row.best.upper is not None
    return row.best.lower, row.best.upper


def test_a_coordinate_row_is_the_bracket_of_the_accounting() -> None:
    (row,) = coordinate_rows([Cell(1.0, 1e-5, 8)])
    bracket = coordinate_bracket(8, 1.0, 1e-5)
    assert best(row) == (bracket.lower, bracket.upper)
    assert record(row)["status"] == "proven"


def test_a_vector_row_sets_the_bounds_of_the_accounting_beside_each_other() -> None:
    (row,) = vector_rows([Cell(1.0, 1e-5, 3, DIMENSION, 10)])
    whole = vector_budget({3: 10}, 1.0, 1e-5)
    values = record(row)
    assert values["local"] == whole.local.upper
    assert values["basic"] == whole.basic.upper
    assert values["refined"] == whole.refined.upper
    assert values["floor"] == whole.floor.lower
    assert values["paper_theorem2"] == theorem2({3: 10}, 1.0, DIMENSION, 1e-5).upper
    assert values["floor"] <= values["lower"] <= values["upper"] <= values["refined"]


def test_coordinate_rows_agree_with_the_reference(shared: Path) -> None:
    reference = json.loads((shared / "spec" / "accounting_reference.json").read_text())
    names = {
        "Blanket exact FFT UB laplace (ours)": None,
        "Blanket19 Hoeffding generic (Balle repo)": "hoeffding-generic",
        "Blanket19 Hoeffding laplace (Balle repo)": "hoeffding",
        "FMT23 stronger clone numerical (Wang repo)": "fmt23",
    }
    told = {
        (r["eps0"], r["n"], r["method"]): r["eps"]
        for r in reference["coordinate_level"]
        if r["delta"] == 1e-5 and r["method"] in names and r["eps"] is not None
    }
    cells = [Cell(e, 1e-5, n) for e, n in itertools.product((0.5, 1), (4, 20, 100))]
    methods = [name for name in names.values() if name]
    compared = 0
    for row in coordinate_rows(cells, methods=methods):
        found: dict[str | None, float | None] = {m.method: m.upper for m in row.methods}
        found[None] = best(row)[1]
        for method, name in names.items():
            expected = told.get((row.cell.epsilon0, row.cell.cluster_size, method))
            if expected is not None:
                assert found[name] == pytest.approx(expected, rel=3e-3), (row.cell, method)
                compared += 1
    assert compared == 24


def test_the_numerical_bound_lies_between_those_of_the_reference(shared: Path) -> None:
    """The authors' program brackets the divergence by a search of 14 steps; here it is summed."""
    reference = json.loads((shared / "spec" / "accounting_reference.json").read_text())
    told = {
        (r["eps0"], r["n"], r["method"][16:18]): r["eps"]
        for r in reference["coordinate_level"]
        if r["delta"] == 1e-5 and r["method"].startswith("FMT21 numerical") and r["eps"]
    }
    cells = [Cell(e, 1e-5, n) for e in (0.5, 1) for n in (10, 20, 100)]
    for row in coordinate_rows(cells, methods=["fmt21-numerical"]):
        where = (row.cell.epsilon0, row.cell.cluster_size)
        upper = row.methods[0].upper
        assert upper is not None
        assert told[*where, "LB"] - row.cell.epsilon0 / 2**14 <= upper <= told[*where, "UB"], where


def test_vector_rows_agree_with_the_reference(shared: Path) -> None:
    reference = json.loads((shared / "spec" / "accounting_reference.json").read_text())
    told = {(r["eps0"], r["n"], r["T"]): r for r in reference["vector_level"]["rows"]}
    cells = [Cell(1, 1e-5, n, DIMENSION, t) for t in (1, 100) for n in (2, 4)]
    for row in vector_rows(cells):
        values = record(row)
        expected = told[1, row.cell.cluster_size, row.cell.rounds]
        for name, key in {
            "local": "local_no_shuffle_rdp_eps",
            "basic": "shuffled_basic_rdp_eps",
            "refined": "shuffled_refined_rdp_eps",
            "floor": "gdp_floor_eps",
            "paper_theorem2": "theorem2_eps",
        }.items():
            if name in ("basic", "refined"):
                # The reference's grid is coarser: a tighter bound is no disagreement.
                assert values["floor"] <= values[name] <= 1.02 * expected[key], (row.cell, name)
            else:
                assert values[name] == pytest.approx(expected[key], rel=0.02), (row.cell, name)


@pytest.mark.parametrize(("dimension", "epsilon0"), [(1, 1.0), (4, 1.0), (1, 4.0)])
def test_few_coordinates_are_not_given_the_lower_bound_of_many(
    dimension: int, epsilon0: float
) -> None:
    """With d coordinates the change is at most epsilon0 sqrt(d) in L1: pure DP of that."""
    (row,) = vector_rows([Cell(epsilon0, 1e-5, 1, dimension)])
    lower, upper = best(row)
    assert lower <= upper <= epsilon0 * math.sqrt(dimension) * (1 + 1e-9)
    assert record(row)["floor"] is None


def test_a_method_outside_its_domain_gives_no_number_but_what_it_needs() -> None:
    cells = [Cell(1.0, 8.6e-12, n) for n in (1138, 1139)]
    outside, inside = coordinate_rows(cells, methods=["fmt21-closed"])
    assert outside.methods[0].upper is None
    assert outside.methods[0].note == "out of domain: needs n >= 1,139"
    assert fmt21_minimum_users(1.0, 8.6e-12) == 1139
    assert inside.methods[0].upper is not None


def test_the_bound_with_an_erratum_is_not_called_proven() -> None:
    (row,) = coordinate_rows([Cell(1.0, 1e-5, 20)], methods=["fmt23", "efmrtt19"])
    fmt23, efmrtt19 = row.methods
    assert fmt23.upper == fmt23_numerical(20, 1.0, 1e-5)[0]
    assert fmt23.status == "claimed by the paper"
    assert "erratum" in fmt23.note
    assert efmrtt19.note == "out of domain: needs eps0 <= 0.5, n >= 1,000"


def test_methods_are_for_one_round_and_say_so() -> None:
    (row,) = coordinate_rows([Cell(0.5, 1e-5, 5, rounds=3)], methods=check_methods(["all"]))
    assert {m.method for m in row.methods} == set(METHODS)
    assert all(m.upper is None and "one round" in m.note for m in row.methods)


def test_an_infinite_bound_is_null_in_json_and_the_note_says_so() -> None:
    infinite = Bracket(
        lower=1.0,
        upper=math.inf,
        delta=1e-5,
        theorem="none",
        direction="not rounded",
        status="numerical",
        domain_ok=True,
        unit="a user",
    )
    values = record(EpsilonRow(Cell(1.0, 1e-5, 2), infinite, {}))
    assert values["upper"] is None
    assert values["note"] == "upper is infinite"
    assert strict_json(json.dumps(values)) == values
    assert b"inf," not in csv_bytes([values])


@pytest.mark.parametrize("epsilon0", [5.0, 15.0, 20.0, 30.0, 100.0])
def test_no_method_called_proven_answers_less_than_a_pair_of_data_sets_shows(
    epsilon0: float,
) -> None:
    cells = [Cell(epsilon0, 1e-5, n) for n in (4, 1000)]
    for row in coordinate_rows(cells, methods=check_methods(["all"])):
        lower, upper = best(row)
        assert lower <= upper
        for method in row.methods:
            if method.status == "proven":
                assert method.upper is not None
                assert method.upper >= lower, (method, lower)
