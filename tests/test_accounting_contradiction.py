"""A lower bound above an upper one ends a command with 1, whichever of the two is wrong."""

from __future__ import annotations

import pytest

from privaudit import accounting
from privaudit.accounting import _sweep, coordinate, vector
from privaudit.accounting.bracket import agreeing_lower
from privaudit.cli._main import main


def ends_with_one(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["epsilon", *arguments, "-q"])
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert err.startswith("privaudit: error: CONTRADICTION: the lower bound 7")
    assert not out


def test_a_coordinate_that_leaks_more_than_its_bound_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(coordinate, "dataset_epsilon", lambda n, epsilon0, delta: (7.0, 1))
    ends_with_one(["shuffle", "--eps0", "1", "--cluster-size", "4"], capsys)
    ends_with_one(["shuffle", "--eps0", "1", "--cluster-size", "4", "--json"], capsys)


def test_a_table_of_many_sizes_does_not_hide_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_sweep, "dataset_epsilon", lambda n, epsilon0, delta: (7.0, 1))
    ends_with_one(["shuffle", "--eps0", "1", "--cluster-size", "2..40"], capsys)


def test_a_vector_that_leaks_more_than_its_bound_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vector, "epsilon_of_gaussian", lambda mu, delta: 7.0)
    ends_with_one(["vector", "--eps0", "1", "--cluster-size", "4", "--dimension", "582026"], capsys)


def test_rounding_is_no_contradiction() -> None:
    assert agreeing_lower(1.0 + 1e-8, 1.0, "x") == 1.0
    assert agreeing_lower(0.5, 1.0, "x") == 0.5
    with pytest.raises(accounting.ContradictionError):
        agreeing_lower(1.0001, 1.0, "x")
