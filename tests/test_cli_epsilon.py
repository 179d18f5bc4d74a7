"""``privaudit epsilon``: values are read or refused by name, and what is printed is right."""

from __future__ import annotations

import csv
import math
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from epsilon_commands import SCRIPT, called, script, strict_json
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.accounting import (
    NumericalError,
    cluster_size_for,
    compose_vectors,
    plan_clusters,
    vector_budget,
)
from privaudit.accounting.tables import Cell, coordinate_rows, record, vector_rows
from privaudit.cli._epsilon_lists import MOST_CELLS, check_size, cluster_list, counts, epsilons
from privaudit.cli._epsilon_output import digits
from privaudit.errors import ConfigurationError


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_a_list_of_numbers_is_read_back_without_repetitions_in_order(values: list[int]) -> None:
    assert counts("--rounds", ",".join(map(str, values))) == tuple(dict.fromkeys(values))
    assert cluster_list("--what-if", " , ".join(map(str, values))) == tuple(values)


@given(st.integers(1, 5000), st.integers(0, 500), st.integers(1, 60))
def test_a_range_holds_both_ends_and_every_step(first: int, length: int, step: int) -> None:
    last = first + length
    assert counts("--rounds", f"{first}..{last}:{step}") == tuple(range(first, last + 1, step))
    assert counts("--rounds", f"{first}..{last}") == tuple(range(first, last + 1))


@given(st.lists(st.floats(1e-12, 100.0), min_size=1, max_size=10))
def test_an_epsilon_is_read_back_bit_for_bit(values: list[float]) -> None:
    assert epsilons("--eps0", ",".join(map(repr, values))) == tuple(dict.fromkeys(values))


@given(st.text(alphabet="0123456789.,:+-eExnaif_ ²٣", max_size=12))
@settings(max_examples=300)
def test_any_text_is_either_refused_by_name_or_gives_allowed_numbers(text: str) -> None:
    for read in (epsilons, counts):
        message = ""
        values: tuple[float, ...] = ()
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


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--delta", "0", "> 0 and < 1"),
        ("--delta", "1", "> 0 and < 1"),
        ("--delta", "1e-400", "> 0 and < 1"),
        ("--eps0", "0", "> 0 and <= 100"),
        ("--eps0", "-1", "> 0 and <= 100"),
        ("--eps0", "nan", "> 0 and <= 100"),
        ("--eps0", "1e-20", ">= 1e-12 and <= 100"),
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
        (("required", "--target", "1", "--cluster-size", "4", "--rounds", "0"), "--rounds: '0'"),
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
    (row,) = vector_rows([Cell(1.0, 1e-5, 4, 582026)])
    values = record(row)
    bracket = f"{digits(values['lower'], 'below')} .. {digits(values['upper'], 'above')}"
    assert line.strip().endswith(bracket)
    assert "2.728e+05" in line
    assert "certified on a grid" in done.stdout


def test_a_number_is_never_cut_by_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = called(
        capsys,
        *("vector", "--eps0", "50", "--cluster-size", "3", "--dimension", "1000000000000"),
        *("--rounds", "1000000000000"),
    )
    assert code == 0
    (row,) = vector_rows([Cell(50.0, 1e-5, 3, 10**12, 10**12)])
    values = record(row)
    for name in ("paper_theorem2", "local", "basic", "refined"):
        assert digits(values[name], "above") in out.split()


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


def test_a_row_that_leaves_the_finite_numbers_is_empty_and_the_command_incomplete(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_for_three(releases: Any, delta: float) -> Any:
        if any(r.honest_users == 3 for r in releases):
            raise NumericalError("a moment is not finite")
        return compose_vectors(releases, delta)

    monkeypatch.setattr("privaudit.accounting.tables.compose_vectors", fails_for_three)
    common = ("vector", "--eps0", "1", "--cluster-size", "3,2", "--dimension", "5000")
    code, out, err = called(capsys, *common, "--json")
    failed, computed = strict_json(out)["rows"]
    assert code == 3
    assert (failed["upper"], failed["lower"], failed["status"]) == (None, None, "not computed")
    assert failed["note"] == "a moment is not finite"
    assert computed["upper"] == vector_budget({2: 1}, 1.0, 1e-5).refined.upper
    assert "3 users" in err
    code, out, _ = called(capsys, *common)
    assert code == 3
    assert "- .. -" in out


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


def test_a_certified_row_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flint", reason="needs python-flint: privaudit[crypto]")
    arguments = ["--eps0", "1", "--cluster-size", "2", "--dimension", "582026", "--json", "-q"]
    code, out, _ = called(capsys, "vector", *arguments, "--certify")
    (row,) = strict_json(out)["rows"]
    assert code == 0
    assert row["status"] == "certified by interval arithmetic"
    assert row["upper"] == row["certified"]
    assert row["refined"] * (1 - 1e-7) <= row["certified"] <= row["refined"] * (1 + 1e-6)
    code, _, err = called(capsys, "vector", *arguments, "--cluster-size", "51", "--certify")
    assert code == 2
    assert "n <= 50" in err
