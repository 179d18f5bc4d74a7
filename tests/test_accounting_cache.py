"""Bounds kept on disk: served only for the same parameters and algorithm, never when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaudit.accounting import _cache, _vector
from privaudit.accounting._vector import certified_renyi

ORDERS = (3.0, 9.0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVAUDIT_CACHE", str(tmp_path / "cache"))
    _vector.forget()
    return tmp_path / "cache"


def entry(place: Path) -> Path:
    (file,) = place.iterdir()
    return file


def test_a_second_process_computes_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = certified_renyi(3, 0.7, ORDERS)
    _vector.forget()

    def refuse(n: int, epsilon0: float, orders: tuple[float, ...]) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(_vector, "_certify", refuse)
    assert certified_renyi(3, 0.7, ORDERS) == first


@pytest.mark.parametrize("change", ["truncated", "another number", "empty", "not JSON", "long"])
def test_a_damaged_entry_is_computed_again(place: Path, change: str) -> None:
    first = certified_renyi(3, 0.7, ORDERS)
    file = entry(place)
    text = file.read_text()
    bounds = _cache.read({"n": "3", "epsilon0": (0.7).hex()})
    number = bounds[3.0][1].hex()
    assert number in text
    file.write_text(
        {
            "truncated": text[:-20],
            "another number": text.replace(number, (0.001).hex()),
            "empty": "",
            "not JSON": "[" * 5000,
            "long": text + " " * 100_000,
        }[change]
    )
    _vector.forget()
    assert certified_renyi(3, 0.7, ORDERS) == first


def test_answers_of_another_algorithm_or_of_other_parameters_are_not_served(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified_renyi(3, 0.7, ORDERS)
    assert _cache.read({"n": "3", "epsilon0": (0.7).hex()})
    assert not _cache.read({"n": "4", "epsilon0": (0.7).hex()})
    # Another algorithm's entry under this one's name is told apart by what it holds.
    file = entry(place)
    monkeypatch.setattr(_cache, "ALGORITHM", "another")
    assert not _cache.read({"n": "3", "epsilon0": (0.7).hex()})
    file.rename(_cache._file(place, _cache._key({"n": "3", "epsilon0": (0.7).hex()})))
    assert not _cache.read({"n": "3", "epsilon0": (0.7).hex()})


def test_an_empty_variable_switches_it_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PRIVAUDIT_CACHE", "")
    assert _cache.folder() is None
    _cache.write({"n": "1"}, {2.0: (1.0, 1.0)})
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("PRIVAUDIT_CACHE")
    assert _cache.folder() is not None


def test_the_number_of_entries_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cache, "_MOST_ENTRIES", 10)
    for n in range(30):
        _cache.write({"n": str(n)}, {2.0: (1.0, 0.5)})
    assert len(list(place.iterdir())) <= 10
    assert _cache.read({"n": "29"}) == {2.0: (1.0, 0.5)}


def test_a_folder_that_cannot_be_written_to_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVAUDIT_CACHE", str(tmp_path / "file" / "below"))
    _cache.write({"n": "1"}, {2.0: (1.0, 1.0)})
    assert not _cache.read({"n": "1"})
