"""Tables on terminals that are narrower than they are."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privaudit.cli._fitted import fitted_table

COLUMNS = ("attack", "metric", "seed", "value", "reason")
ROWS = [
    ("reidentification/permutation-linking", "link accuracy", "0", "0.25", ""),
    ("inference/labels-from-permutation", "dominant label", "0", "0.1", "no view of it at all"),
]


def shown(
    width: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[str, ...]] = ROWS,
    keep: frozenset[str] = frozenset(),
) -> list[str]:
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    capsys.readouterr()
    fitted_table("folder", COLUMNS, rows, keep=keep)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_wide_terminal_and_a_pipe_show_all_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (None, 200):
        lines = shown(width, monkeypatch, capsys)
        assert any(line.startswith("┃ attack") and "seed" in line for line in lines)
        assert not any("the same in every row" in line for line in lines)


def test_a_narrower_one_drops_what_is_the_same_in_every_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(80, monkeypatch, capsys)
    (head,) = [line for line in lines if line.startswith("attack")]
    assert head.split() == ["attack", "metric", "value", "reason"]
    assert lines[-1] == "the same in every row: seed 0"
    kept = shown(80, monkeypatch, capsys, keep=frozenset(COLUMNS))
    assert "the same in every row" not in "\n".join(kept)
    # Of one row everything is the same, and everything is what it says.
    alone = shown(80, monkeypatch, capsys, rows=ROWS[:1])
    assert any("seed" in line for line in alone)


def test_the_narrowest_shows_a_block_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(40, monkeypatch, capsys) == [
        "folder",
        "",
        "attack: reidentification/permutation-linking",
        "metric: link accuracy",
        "value: 0.25",
        "",
        "attack: inference/labels-from-permutation",
        "metric: dominant label",
        "value: 0.1",
        "reason: no view of it at all",
        "",
        "the same in every row: seed 0",
    ]


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(width=st.integers(20, 160), rows=st.lists(st.sampled_from(ROWS), max_size=3))
def test_no_word_is_ever_folded(
    width: int,
    rows: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(width, monkeypatch, capsys, rows=rows)
    words = set(" ".join(lines).split())
    for row in rows:
        assert {word for cell in row for word in cell.split()} <= words
    if "folder" in lines[0] and any("┃" in line or "─" in line for line in lines):
        assert max(len(line) for line in lines if "same in" not in line) <= width


def test_control_characters_of_strangers_are_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("a\x1b[31mb", "m", str(n), "x" * 30, "r") for n in (1, 2)]
    for width in (20, 45, 60):
        assert "\x1b" not in "\n".join(shown(width, monkeypatch, capsys, rows=rows))
