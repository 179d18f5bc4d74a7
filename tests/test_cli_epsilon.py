"""``privaudit epsilon``: what it prints is what the accounting says, and bad values are refused."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.accounting import (
    cluster_size_for,
    coordinate_bracket,
    fmt21_minimum_users,
    fmt23_numerical,
    plan_clusters,
    theorem2,
    vector_budget,
)
from privaudit.accounting.bracket import Bracket
from privaudit.accounting.tables import (
    METHODS,
    Cell,
    EpsilonRow,
    check_methods,
    coordinate_rows,
    record,
    vector_rows,
)
from privaudit.cli import main
from privaudit.cli._epsilon_lists import MOST_CELLS, check_size, cluster_list, counts, epsilons
from privaudit.cli._epsilon_output import csv_bytes, digits
from privaudit.errors import ConfigurationError
from privaudit.ledger import LaplaceVector, PrivacyEvent, UnprotectedRelease, event_to_json

SCRIPT = Path(sys.executable).parent / "privaudit"
DIMENSION = 582026


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the console script as a user does, 80 columns wide."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(
        [str(SCRIPT), "epsilon", *arguments], capture_output=True, text=True, env=environment
    )


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process, which is faster: (exit code, stdout, stderr)."""
    code = 0
    try:
        main(["epsilon", *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def strict_json(text: str) -> Any:
    """Read JSON that must not hold NaN or infinity."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is not JSON")

    return json.loads(text, parse_constant=refuse)


def event(*, shuffle: Any = "per-coordinate", clip_source: Any = "fixed") -> PrivacyEvent:
    return PrivacyEvent(
        round=1,
        mechanism=LaplaceVector(1.0, 5000, 1.0, shuffle=shuffle, clip_source=clip_source),
        subjects=("a", "b", "c", "d"),
        observers=("aggregation-server",),
        unit="the less important subvector of one user",
    )


def ledger(tmp_path: Path, events: list[Any]) -> Path:
    file = tmp_path / "ledger.json"
    file.write_text(json.dumps(events))
    return file


# Lists and ranges.


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_a_list_of_numbers_is_read_back_without_repetitions_in_order(values: list[int]) -> None:
    assert counts("--rounds", ",".join(map(str, values))) == tuple(dict.fromkeys(values))
    assert cluster_list("--what-if", " , ".join(map(str, values))) == tuple(values)


@given(st.integers(1, 5000), st.integers(0, 500), st.integers(1, 60))
def test_a_range_holds_both_ends_and_every_step(first: int, length: int, step: int) -> None:
    last = first + length
    assert counts("--rounds", f"{first}..{last}:{step}") == tuple(range(first, last + 1, step))
    assert counts("--rounds", f"{first}..{last}") == tuple(range(first, last + 1))


@given(st.lists(st.floats(1e-300, 100.0), min_size=1, max_size=10))
def test_an_epsilon_is_read_back_bit_for_bit(values: list[float]) -> None:
    assert epsilons("--eps0", ",".join(map(repr, values))) == tuple(dict.fromkeys(values))


@given(st.text(alphabet="0123456789.,:+-eExnaif_ ²٣", max_size=12))
@settings(max_examples=300)
def test_any_text_is_either_refused_by_name_or_gives_allowed_numbers(text: str) -> None:
    for read in (epsilons, counts):
        message, values = "", ()
        try:
            values = read("--some-option", text)
        except ConfigurationError as error:
            message = str(error)
        assert message.startswith("--some-option: ") or values
        assert all(v > 0 and math.isfinite(v) for v in values)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 3))
def test_a_grid_is_refused_exactly_above_the_limit_with_its_number(a: int, b: int, c: int) -> None:
    values = {"--x": range(a), "--y": range(b), "--z": range(c)}
    if a * b * c <= MOST_CELLS:
        assert check_size(values) == a * b * c
    else:
        with pytest.raises(ConfigurationError, match=f"{a * b * c:,} cells"):
            check_size(values)


@given(st.floats(1e-12, 1e12))
def test_shown_digits_never_flatter_a_bound(value: float) -> None:
    assert float(digits(value, "above")) >= value
    assert float(digits(value, "below")) <= value
    assert float(digits(value, "above")) == pytest.approx(value, rel=2e-3)


# Rows.


def test_a_coordinate_row_is_the_bracket_of_the_accounting() -> None:
    (row,) = coordinate_rows([Cell(1.0, 1e-5, 8)])
    bracket = coordinate_bracket(8, 1.0, 1e-5)
    assert (row.best.lower, row.best.upper) == (bracket.lower, bracket.upper)
    assert row.best.status == "proven"


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
        found[None] = row.best.upper
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
            assert values[name] == pytest.approx(expected[key], rel=0.02), (row.cell, name)


@pytest.mark.parametrize(("dimension", "epsilon0"), [(1, 1.0), (4, 1.0), (1, 4.0)])
def test_few_coordinates_are_not_given_the_lower_bound_of_many(
    dimension: int, epsilon0: float
) -> None:
    """With d coordinates the change is at most epsilon0 sqrt(d) in L1: pure DP of that."""
    (row,) = vector_rows([Cell(epsilon0, 1e-5, 1, dimension)])
    assert row.best.upper is not None
    assert row.best.lower is not None
    assert row.best.lower <= row.best.upper <= epsilon0 * math.sqrt(dimension) * (1 + 1e-9)
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
    best = Bracket(
        lower=1.0,
        upper=math.inf,
        delta=1e-5,
        theorem="none",
        direction="not rounded",
        status="numerical",
        domain_ok=True,
        unit="a user",
    )
    values = record(EpsilonRow(Cell(1.0, 1e-5, 2), best, {}))
    assert values["upper"] is None
    assert values["note"] == "upper is infinite"
    assert strict_json(json.dumps(values)) == values
    assert b"inf," not in csv_bytes([values])


# Commands.


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--delta", "0", "> 0 and < 1"),
        ("--delta", "1", "> 0 and < 1"),
        ("--delta", "1e-400", "> 0 and < 1"),
        ("--eps0", "0", "> 0 and <= 100"),
        ("--eps0", "-1", "> 0 and <= 100"),
        ("--eps0", "nan", "> 0 and <= 100"),
        ("--eps0", "inf", "> 0 and <= 100"),
        ("--cluster-size", "0", "whole numbers from 1"),
        ("--cluster-size", "2.5", "whole numbers from 1"),
        ("--cluster-size", "", "whole numbers from 1"),
        ("--cluster-size", "2,,3", "whole numbers from 1"),
        ("--cluster-size", "5..2", "a..b"),
        ("--cluster-size", "1..9:0", "a..b"),
        ("--cluster-size", "1e999999", "whole numbers from 1"),
        ("--cluster-size", "1..2000000", "2,000,000 values"),
        ("--rounds", "0", "whole numbers from 1"),
        ("--rounds", "many", "whole numbers from 1"),
        ("--dimension", "0", "whole numbers from 1"),
    ],
)
def test_a_bad_value_is_refused_with_its_option_the_value_and_what_is_allowed(
    capsys: pytest.CaptureFixture[str], option: str, value: str, allowed: str
) -> None:
    arguments = {"--eps0": "1", "--cluster-size": "4", "--dimension": "1000", option: value}
    code, out, err = called(
        capsys, "vector", *(text for pair in arguments.items() for text in pair)
    )
    assert (code, out) == (2, "")
    assert option in err
    assert repr(value.split(",")[0] if value != "2,,3" else "") in err
    assert allowed in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shuffle", "--rounds", "1..1000", "--cluster-size", "2..102"), "101,000 cells"),
        (("shuffle", "--cluster-size", "4", "--methods", "vr24"), "--methods: 'vr24'"),
        (("shuffle", "--cluster-size", "4", "--methods", "fmt32"), "Did you mean 'fmt23'"),
        (("shuffle", "--cluster-size", "4", "--plot", "x.pdf"), ".png or .svg"),
        (("shuffle", "--cluster-size", "4", "--csv", "/no/such/x.csv"), "/no/such"),
        (("required", "--target", "1", "--level", "vectr"), "Did you mean 'vector'"),
        (("required", "--target", "0", "--rounds", "1"), "--target: '0'"),
        (("required", "--target", "1", "--level", "coordinate", "--rounds", "2"), "one round"),
        (("required", "--target", "1", "--cluster-size", "4", "--rounds", "2"), "nothing to find"),
        (("required", "--target", "1", "--least", "4"), "--what-if"),
        (("required", "--target", "1e-4", "--what-if", "2", "--level", "coordinate"), "--least"),
    ],
)
def test_a_wrong_combination_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = called(capsys, *arguments, "--eps0", "1")
    assert (code, out) == (2, "")
    assert words in err


def test_required_needs_something_to_solve_with(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "required", "--target", "1")
    assert code == 2
    assert "--eps0" in err
    assert "--cluster-size" in err


def test_the_vector_table_fits_80_columns_and_shows_the_best_bracket() -> None:
    done = script(
        *("vector", "--eps0", "1", "--cluster-size", "4", "--dimension", "582026"),
        *("--rounds", "1,100", "--delta", "1e-5", "-q"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    (line,) = [s for s in done.stdout.splitlines() if s.split()[:2] == ["1", "4"]]
    (row,) = vector_rows([Cell(1.0, 1e-5, 4, DIMENSION)])
    bracket = f"{digits(row.best.lower, 'below')} .. {digits(row.best.upper, 'above')}"
    assert line.strip().endswith(bracket)
    assert "2.728e+05" in line
    assert "certified on a grid" in done.stdout


def test_json_of_the_console_script_is_the_rows_of_the_accounting() -> None:
    done = script("shuffle", "--eps0", "1", "--cluster-size", "2..3", "--rounds", "1,2", "--json")
    assert done.returncode == 0, done.stderr
    cells = [Cell(1.0, 1e-5, n, 1, t) for t in (1, 2) for n in (2, 3)]
    assert strict_json(done.stdout) == {"rows": [record(row) for row in coordinate_rows(cells)]}


def test_a_method_out_of_domain_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(
        capsys,
        *("shuffle", "--eps0", "1", "--cluster-size", "4", "--methods", "fmt21-closed,fmt23"),
        *("--delta", "8.6e-12"),
    )
    assert code == 0
    assert "out of domain: needs n >= 1,139" in out
    assert "erratum" in out


def test_csv_and_plot_are_written_whole_and_the_same_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for again in ("a", "b"):
        folder = tmp_path / again
        folder.mkdir()
        code, _, err = called(
            capsys,
            *("vector", "--eps0", "1", "--cluster-size", "2,4", "--dimension", "5000"),
            *("--csv", str(folder / "x.csv"), "--plot", str(folder / "x.svg")),
        )
        assert code == 0
        assert "x.csv" in err
        assert sorted(p.name for p in folder.iterdir()) == ["x.csv", "x.svg"]
    assert (tmp_path / "a/x.svg").read_bytes() == (tmp_path / "b/x.svg").read_bytes()
    assert b"Theorem 2" in (tmp_path / "a/x.svg").read_bytes()
    with open(tmp_path / "a/x.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [record(r) for r in vector_rows([Cell(1.0, 1e-5, n, 5000) for n in (2, 4)])]
    assert [float(r["refined"]) for r in rows] == [r["refined"] for r in expected]
    assert [int(r["cluster_size"]) for r in rows] == [2, 4]


def test_a_png_is_drawn_with_the_methods_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, _ = called(
        capsys,
        *("shuffle", "--eps0", "1", "--cluster-size", "4,40", "--methods", "hoeffding"),
        *("--plot", str(tmp_path / "x.png")),
    )
    assert code == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_required_finds_what_the_accounting_finds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(
        capsys,
        *("required", "--target", "0.9,0.5", "--eps0", "1", "--level", "coordinate", "--json"),
    )
    assert code == 0
    rows = strict_json(out)["rows"]
    sizes = [cluster_size_for(t, epsilon0=1.0, delta=1e-5, level="coordinate") for t in (0.9, 0.5)]
    assert [row["cluster_size"] for row in rows] == sizes
    assert all(row["upper"] <= row["target"] for row in rows)


def test_required_finds_eps0_and_rounds_that_meet_the_target_and_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    common = ("required", "--target", "10", "--bound", "local", "--json", "--cluster-size", "4")
    code, out, _ = called(capsys, *common)
    assert code == 0
    (row,) = strict_json(out)["rows"]
    more = vector_budget({4: 1}, row["eps0"] * 1.02, 1e-5).local.upper
    assert more is not None
    assert row["upper"] <= 10 < more
    code, out, _ = called(capsys, *common, "--eps0", "1")
    assert code == 0
    (row,) = strict_json(out)["rows"]
    more = vector_budget({4: row["rounds"] + 1}, 1.0, 1e-5).local.upper
    assert more is not None
    assert row["upper"] <= 10 < more


def test_what_cannot_be_met_is_said_and_not_invented(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(
        capsys,
        *("required", "--target", "0.5", "--bound", "local", "--json", "--cluster-size", "4"),
        *("--eps0", "1"),
    )
    assert code == 0
    (row,) = strict_json(out)["rows"]
    assert (row["rounds"], row["upper"]) == (None, None)
    assert row["note"] == "not even one round meets it"


def test_what_if_compares_the_rules_for_small_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(
        capsys,
        *("required", "--target", "0.99", "--eps0", "1", "--level", "coordinate", "--json"),
        *("--what-if", "2,3,3,9", "--least", "5"),
    )
    assert code == 0
    rows = strict_json(out)["rows"]
    plans = plan_clusters([2, 3, 3, 9], least=5, epsilon0=1.0, delta=1e-5, level="coordinate")
    assert [(r["rule"], tuple(r["sizes"]), r["upper"]) for r in rows] == [
        (p.rule, p.sizes, p.worst_epsilon) for p in plans
    ]
    assert [r["users_withheld"] for r in rows] == [0, 0, 8]


# Ledgers.


def test_a_ledger_is_accounted_and_written_back(tmp_path: Path) -> None:
    unprotected = PrivacyEvent(
        round=1,
        mechanism=UnprotectedRelease("positions of the largest values\x1b[31m", 10),
        subjects=("a",),
        observers=("management-server",),
        unit="one user's update",
    )
    events = [event_to_json(event()), event_to_json(unprotected)]
    file, again = ledger(tmp_path, events), tmp_path / "again.json"
    done = script("events", str(file), "--ledger-out", str(again))
    assert done.returncode == 0, done.stderr
    assert "infinite" in done.stdout
    assert "positions of the largest values" in done.stdout
    assert "\x1b" not in done.stdout
    assert strict_json(again.read_text()) == json.loads(json.dumps(events))


def test_an_infinite_budget_of_a_user_is_null_in_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = ledger(tmp_path, [event_to_json(event(clip_source="median-of-users"))])
    code, out, _ = called(capsys, "events", str(file), "--json")
    assert code == 0
    told = strict_json(out)
    assert told["user_level_epsilon"] is None
    assert told["user_level_note"] == "infinite"
    assert [r["upper"] for r in told["rows"] if r["role"] == "user"] == [None]
    assert told["uncovered"][0]["what"] == "median of the users' norms"


def test_colluding_users_do_not_count_as_honest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = ledger(tmp_path, [event_to_json(event())])
    code, out, _ = called(capsys, "events", str(file), "--json", "--colluding-users", "2")
    assert code == 0
    (row,) = [r for r in strict_json(out)["rows"] if r["role"] == "bracket"]
    assert (row["cluster_size"], row["honest_users"]) == (4, 2)
    assert row["upper"] == vector_budget({2: 1}, 1.0, 1e-5).refined.upper


def changed(**mechanism: Any) -> list[Any]:
    value = event_to_json(event())
    return [{**value, "mechanism": {**value["mechanism"], **mechanism}}]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "no privacy event"),
        ({}, "list of privacy events"),
        ([1], "event 1"),
        ([{"mechanism": {"name": "gaussian"}}], "laplace-vector"),
        (changed(shuffle="percoordinate"), "shuffle"),
        (changed(epsilon0="1"), "epsilon0"),
        (changed(epsilon0=-1), "epsilon0"),
        (changed(epsilon0=1e300), "epsilon0"),
        (changed(dimension=1.5), "dimension"),
        (changed(sensitivity=1), "sensitivity"),
        ([{**event_to_json(event()), "subjects": "abc"}], "subjects"),
        ([{**event_to_json(event()), "subjects": []}], "subjects"),
        ([{**event_to_json(event()), "rounds": 3}], "Did you mean 'round'"),
        ([{**event_to_json(event()), "relation": "add-remove"}], "replace-one"),
    ],
)
def test_a_ledger_that_is_not_one_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, events: Any, words: str
) -> None:
    code, out, err = called(capsys, "events", str(ledger(tmp_path, events)))
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize("text", ["", "[NaN]", "[" * 100_000, "\xff"])
def test_a_file_that_is_not_json_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="latin-1")
    code, _, err = called(capsys, "events", str(file))
    assert code == 2
    assert str(file) in err


def test_a_folder_that_is_no_recording_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = called(capsys, "events", str(tmp_path))
    assert code == 2
    assert "is not a recorded run" in err


@pytest.mark.slow
def test_a_recorded_run_is_accounted_from_its_transcript(tmp_path: Path) -> None:
    from privaudit.campaigns.simulation import SimulationConfig, record_run
    from privaudit.protocols.pa_cfl import PACFL
    from privaudit.recording import read_recording

    config = SimulationConfig(federation={"users": 4, "groups": 2}, parameters={"rounds": 1})
    record_run(config, tmp_path / "r")
    out = tmp_path / "ledger.json"
    done = script("events", str(tmp_path / "r"), "--json", "--ledger-out", str(out))
    assert done.returncode == 0, done.stderr
    events = PACFL().events(read_recording(tmp_path / "r" / "run").transcript)
    assert json.loads(out.read_text()) == json.loads(json.dumps([event_to_json(e) for e in events]))
    assert strict_json(done.stdout)["events"] == len(events)


# A user who changes their mind.


def test_an_interrupted_table_leaves_no_file_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    running = subprocess.Popen(
        [str(SCRIPT), "epsilon", "shuffle", "--eps0=1", "--cluster-size=1..90000", f"--csv={file}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    # The first progress line: the rows are being computed.
    assert "/90000]" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 3
    assert out == ""
    assert "interrupted after" in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
