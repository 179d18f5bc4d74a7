"""Tables on narrow terminals: without what is the same in every row, or as blocks of lines."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import typer

from privaudit.cli._console import is_numeric, page_width, table
from privaudit.cli._epsilon_output import printable

__all__ = ["fitted_table"]

#: Between two columns.
_GAP: Final = 2
#: Of its frame, a table with lines needs so much a column, and once.
_FRAME: Final = 3


def fitted_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    keep: AbstractSet[str] = frozenset(),
) -> None:
    """Print a table so that no word of it is folded.

    Where the terminal is narrower than the table, columns that are the same in every row go into a
    line below; where what is left still has no room for the longest words, each row becomes a
    block of lines.

    Parameters
    ----------
    keep : set of str
        Columns that were asked for, and stay.
    """
    from rich.cells import cell_len

    width = page_width()
    longest = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    if not width or sum(n + _FRAME for n in longest) + 1 <= width:
        table(title, columns, rows)
        return
    constant = {
        at
        for at, name in enumerate(columns)
        if len(rows) > 1 and name not in keep and len({row[at] for row in rows}) == 1
    }
    left = [at for at in range(len(columns)) if at not in constant]
    if not left:
        constant, left = set(), list(range(len(columns)))
    names = [columns[at] for at in left]
    cells = [[printable(row[at]) for at in left] for row in rows]
    if widths := _widths(names, cells, width):
        _print(title, names, cells, widths)
    else:
        typer.echo(f"{title}\n")
        for row in cells:
            lines = (f"{n}: {c}" for n, c in zip(names, row, strict=True) if c not in ("", "-"))
            typer.echo("\n".join((*lines, "")))
    if constant:
        told = ", ".join(f"{columns[at]} {printable(rows[0][at])}" for at in sorted(constant))
        typer.echo(f"the same in every row: {told}")


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return a width for each column that folds no word; none if there is no room for all."""
    from rich.cells import cell_len

    columns = list(zip(names, *rows, strict=True))
    least = [max(cell_len(word) for cell in c for word in (cell.split() or [""])) for c in columns]
    wished = [max(map(cell_len, c)) for c in columns]
    spare = width - sum(least) - _GAP * (len(columns) - 1)
    if spare < 0:
        return []
    given = list(least)
    # Those that lack little first, so that few columns are broken into lines.
    order = sorted(range(len(columns)), key=lambda at: wished[at] - least[at])
    for place, at in enumerate(order):
        more = min(wished[at] - least[at], spare // (len(order) - place))
        given[at] += more
        spare -= more
    return given


def _print(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, _GAP - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for at, (name, size) in enumerate(zip(names, widths, strict=True)):
        numeric = is_numeric([row[at] for row in rows])
        view.add_column(name, justify="right" if numeric else "left", width=size)
    for row in rows:
        view.add_row(*map(Text, row))
    Console(soft_wrap=False, width=page_width()).print(view)
