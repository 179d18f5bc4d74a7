"""A report as sections, tables and figures: what the HTML and the Markdown have in common.

Both renderers walk over the same sections, so that neither holds anything the other lacks (but
for the images, which Markdown only names).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from privaudit.reports.model import Figure, Gallery, Verdict

__all__ = [
    "Cell",
    "Column",
    "Headline",
    "Measured",
    "Opening",
    "Overview",
    "Section",
    "Table",
    "cell",
    "column",
    "condensed",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell: its text, the number it is sorted by, and the mark it carries.

    ``mark`` is a verdict or the like: it is styled, and always written out as well.
    """

    text: str
    sort: float | None = None
    mark: str = ""
    code: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column."""

    name: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption; the first column names the row.

    ``cards`` asks for one card a row on narrow screens, where nothing can be left out of sight.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    cards: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report; ``details`` are tables that are folded away on the screen."""

    id: str
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    details: tuple[Table, ...] = ()
    code: tuple[str, ...] = ()

    @property
    def narrow_details(self) -> bool:
        """Whether several folded tables fit beside each other on paper."""
        return all(len(table.columns) <= 3 for table in self.details)


@dataclass(frozen=True, slots=True)
class Measured:
    """A finding on the first page: average, what guessing reaches, and the worst affected."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict on one risk, as the first page says it."""

    risk: str
    question: str
    verdict: Verdict
    sentence: str
    coalition: str
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """What stands on the first page of a report on many settings in place of every figure.

    ``missing`` says what was not measured, each with the section that says why, or nothing.
    """

    verdicts: Table
    worst: Table
    missing: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first page, in words."""

    title: str
    byline: str
    summary: tuple[str, ...]
    claim: str
    claim_result: str
    tested: str
    notices: tuple[str, ...]
    headlines: tuple[Headline, ...]
    ranges: str
    budget: tuple[str, ...]
    claims: tuple[tuple[str, str], ...]
    trust: tuple[str, ...]
    not_tested: tuple[str, ...]
    recommendations: tuple[str, ...]
    limitations: tuple[str, ...]
    sign_off: tuple[tuple[str, str], ...] = field(default=())
    overview: Overview | None = None


def cell(text: str, sort: float | None = None, *, mark: str = "", code: bool = False) -> Cell:
    """Return a cell (a short name for long lists of them)."""
    return Cell(text, sort, mark, code)


def column(names: Iterable[str]) -> tuple[Column, ...]:
    """Return columns of the given names; a name that begins with ``#`` is one of numbers."""
    return tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in names)


def condensed(table: Table, *, constant: Iterable[str]) -> Table:
    """Return ``table`` without empty columns; of the ``constant`` ones, say the value once.

    A column named in ``constant`` that holds one text in every row moves into the note.
    """
    kept, said = [], []
    for index, head in enumerate(table.columns):
        texts = {row[index].text for row in table.rows}
        if texts == {""}:
            continue
        if head.name in constant and len(texts) == 1 and len(table.rows) > 1:
            said.append(f"{head.name}: {texts.pop()}")
        else:
            kept.append(index)
    note = f"The same in every row: {'; '.join(said)}." if said else ""
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
        note=f"{note} {table.note}".strip(),
    )
