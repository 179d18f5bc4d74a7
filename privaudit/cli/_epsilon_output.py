"""How tables of epsilon are shown and written: digits, columns, legends, JSON, CSV, files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from pathlib import Path
from typing import Any, Literal, TypeVar

import typer

from privaudit.cli._console import progress
from privaudit.errors import ConfigurationError, PrivauditError

__all__ = [
    "check_file",
    "collect",
    "constant",
    "csv_bytes",
    "digits",
    "json_bytes",
    "printable",
    "say",
    "show_table",
    "write_file",
]

Row = TypeVar("Row")
_ROUNDING = {"above": ROUND_CEILING, "below": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}
#: Seconds between two progress lines.
_EVERY = 2.0


def digits(
    value: float | None,
    toward: Literal["above", "below", "nearest"] = "nearest",
    *,
    places: int = 4,
) -> str:
    """Return a number with few digits; a bound is rounded toward its safe side.

    Examples
    --------
    >>> digits(2.23811, "above"), digits(1.97851, "below"), digits(272625.03, "above")
    ('2.239', '1.978', '2.727e+05')
    >>> digits(None), digits(float("inf")), digits(1.0)
    ('-', 'inf', '1')
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    rounded = float(Context(prec=places, rounding=_ROUNDING[toward]).create_decimal(repr(value)))
    return f"{rounded:.{places}g}"


def printable(text: str) -> str:
    """Return a text of a stranger without control characters."""
    return "".join(c if c.isprintable() else "�" for c in text)


def constant(records: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Return whether all rows have one value, which then goes into the title."""
    return len({repr(r[key]) for r in records}) == 1


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    legend: Sequence[str] = (),
    text: frozenset[str] = frozenset(),
    sections: frozenset[int] = frozenset(),
) -> None:
    """Print a narrow table and the lines that explain it.

    Parameters
    ----------
    text
        Names of the columns that hold words: aligned left, folded where they are too long.
    sections
        Numbers of the rows after which a line is drawn.
    """
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    view = Table(header_style="bold", box=box.SIMPLE_HEAD)
    view.padding = (0, 1, 0, 0)
    for position, column in enumerate(columns):
        words = column in text
        longest = max(map(len, (column, *(row[position] for row in rows))))
        view.add_column(
            Text(column),
            justify="left" if words else "right",
            no_wrap=not words,
            min_width=None if words else longest,
            overflow="fold",
        )
    for number, row in enumerate(rows):
        view.add_row(*(Text(printable(cell)) for cell in row), end_section=number in sections)
    console = Console()
    # Not the title of the table, which would be wrapped at the table's width.
    console.print(Text(printable(title), style="bold"))
    # Never cropped: a cut exponent would be another number.
    unbounded = console.options.update(width=10_000)
    needed = Measurement.get(console, unbounded, view).minimum
    console.print(view, width=max(console.width, needed), crop=False)
    for line in legend:
        console.print(Text(printable(line)))


def say(text: str) -> None:
    """Print a paragraph, wrapped, without the control characters that it may hold."""
    from rich.console import Console
    from rich.text import Text

    Console().print(Text("\n".join(printable(line) for line in text.split("\n"))))


def collect(rows: Iterator[Row], total: int, *, quiet: bool) -> list[Row]:
    """Compute all rows; a long table tells every few seconds how far it is.

    Raises
    ------
    PrivauditError
        With the exit code of an incomplete command, if it is interrupted.
    """
    done: list[Row] = []
    told = time.monotonic()
    try:
        with contextlib.ExitStack() as stack:
            steps = None
            for row in rows:
                done.append(row)
                late = time.monotonic() - told >= _EVERY
                if (late and len(done) < total) or (steps is not None and len(done) == total):
                    steps = steps or stack.enter_context(progress(quiet=quiet))
                    steps("epsilon", len(done), total, "rows")
                    told = time.monotonic()
    except KeyboardInterrupt:
        raise _Interrupted(
            f"interrupted after {len(done):,} of {total:,} rows; nothing was written"
        ) from None
    return done


class _Interrupted(PrivauditError):
    exit_code = 3


def csv_bytes(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV: a nested method becomes a column with its value or why it has none.

    An absent bound is an empty field; an infinite one is explained in the note.
    """
    flat = [_flat(row) for row in records]
    out = io.StringIO()
    names = dict.fromkeys(name for row in flat for name in row)
    writer = csv.DictWriter(out, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue().encode()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "methods":
            for method, answer in value.items():
                shown = answer["note"] if answer["upper"] is None else answer["upper"]
                flat[method] = shown
        elif isinstance(value, list):
            flat[name] = " ".join(str(v) for v in value)
        else:
            flat[name] = value
    return flat


def check_file(option: str, path: Path | None, suffixes: Sequence[str] = ()) -> None:
    """Raise :class:`ConfigurationError` if a file cannot be written there, before the work.

    Parameters
    ----------
    suffixes
        Those allowed; by default any.
    """
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigurationError(
            f"{option}: {str(path)!r} must end in {' or '.join(suffixes)}, which says the format"
        )
    if path.is_dir():
        raise ConfigurationError(f"{option}: {path} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(
            f"{option}: there is no folder {path.absolute().parent}; make it first"
        )


def write_file(option: str, path: Path, data: bytes) -> None:
    """Write a file whole or not at all, replacing an earlier one, and say so on standard error.

    Raises
    ------
    ConfigurationError
        If it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{option}: cannot write {path} ({error.strerror})") from error
    typer.echo(f"wrote {path}", err=True)


def json_bytes(value: Any) -> bytes:
    """Return a value as an indented JSON file without NaN literals."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
