"""Output for people: tables on standard output, progress on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from privaudit.campaigns.auditing import Steps

__all__ = ["count", "emit_json", "human_bytes", "is_numeric", "page_width", "progress", "table"]

PIPED_WIDTH = 250


def emit_json(value: Any) -> None:
    """Print one JSON document to standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def human_bytes(count: int) -> str:
    """Return a size in units of 1,000.

    Examples
    --------
    >>> human_bytes(2_328_104)
    '2.33 MB'
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "message"), count(2, "message")
    ('1 message', '2 messages')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def page_width() -> int:
    """Return the width of the terminal, or of ``COLUMNS``; 0 in a pipe.

    There is no width to keep to there, and a name that is folded cannot be searched for.
    """
    from rich.console import Console

    return Console().width if sys.stdout.isatty() or "COLUMNS" in os.environ else 0


def is_numeric(cells: Sequence[str]) -> bool:
    """Return whether a column holds only numbers and sizes."""
    return bool(cells) and all(c[:1].isdigit() or c in ("", "-") for c in cells)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns that hold only numbers and sizes are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    view = Table(title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        cells = [row[position] for row in rows]
        justify: Literal["left", "right"] = "right" if is_numeric(cells) else "left"
        view.add_column(column, justify=justify, overflow="fold")
    for row in rows:
        # Text, not markup: names in recordings come from strangers.
        view.add_row(*(Text(cell) for cell in row))
    console = Console(soft_wrap=False, width=page_width() or PIPED_WIDTH)
    unbounded = console.options.update(width=10_000)
    if Measurement.get(console, unbounded, view).maximum > console.width:
        # The frame's room goes to the words.
        view.box, view.padding, view.pad_edge, view.show_edge = (
            box.SIMPLE,
            (0, 1, 0, 0),
            False,
            False,
        )
    console.print(view)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Steps]:
    """Show progress: a bar a stage on a terminal, a line a step elsewhere, nothing if quiet."""
    if quiet:

        def silent(stage: str, done: int, total: int, detail: str = "") -> None:
            return

        yield silent
        return
    if not sys.stderr.isatty():

        def lines(stage: str, done: int, total: int, detail: str = "") -> None:
            print(f"{stage} [{done}/{total}] {detail}".rstrip(), file=sys.stderr, flush=True)

        yield lines
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def bar(stage: str, done: int, total: int, detail: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, detail=detail)
            bars.update(tasks[stage], completed=done, total=total, detail=detail)

        yield bar
