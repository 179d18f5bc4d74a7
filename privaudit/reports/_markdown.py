"""The Markdown form of a report, made to be read in a terminal as it is."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from privaudit.reports._document import Cell, Opening, Section, Table
from privaudit.reports._format import visible
from privaudit.reports._json import report_digest
from privaudit.reports._opening import VERDICT_WORDS, make_opening
from privaudit.reports._sections import make_sections
from privaudit.reports.model import AuditReport, Figure, Gallery, GalleryRow

__all__ = ["escape", "render_markdown"]

WIDTH: Final = 98
"""Columns of text; a table that needs more is written as one record a row."""

_SPECIAL: Final = re.compile(r"[\\`*<>|~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
_LINE_START: Final = re.compile(r"^(\s*)([#+\-=]+(?=\s|$)|#+|\d+(?=[.)](\s|$)))")


def render_markdown(report: AuditReport) -> str:
    """Return ``report`` as Markdown, with the content of the HTML but for the images.

    Texts of the report are escaped, so that none of them becomes markup, a link, an image, or a
    table's cell.
    """
    digest = report_digest(report)
    blocks = list(_opening(make_opening(report, digest=digest)))
    blocks.append("# Evidence, for the researcher")
    for section in make_sections(report, digest=digest):
        blocks += _section(section)
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    r"""Return ``text`` such that Markdown shows it as it is, on one line.

    Examples
    --------
    >>> escape("a|b <i> user_3 _x_")
    'a\\|b \\<i\\> user_3 \\_x\\_'
    >>> escape("[low, high] [a](b)")
    '[low, high] \\[a\\](b)'
    """
    shown = visible(text)
    marked = _linking(shown) | {match.start() for match in _SPECIAL.finditer(shown)}
    return "".join(f"\\{c}" if at in marked else c for at, c in enumerate(shown))


def _linking(text: str) -> set[int]:
    """Return where brackets stand that could make a link or define one, both of each pair.

    A definition (``[name]: address``) is one only at the beginning of a block.
    """
    after = "([:" if text.lstrip().startswith("[") else "(["
    marked: set[int] = set()
    opened: list[int] = []
    for at, character in enumerate(text):
        if character == "[":
            opened.append(at)
        elif character == "]":
            pair = [opened.pop()] if opened else []
            if text[at + 1 : at + 2] and text[at + 1] in after:
                marked.update((*pair, at))
    return marked


def _guarded(line: str) -> str:
    """Return a line whose start cannot be taken for a heading, a list, or a rule."""
    match = _LINE_START.match(line)
    if match is None:
        return line
    at = match.end() if match.group(2)[0].isdigit() else match.start(2)
    return f"{line[:at]}\\{line[at:]}"


def _wrapped(text: str, *, first: str = "", rest: str = "") -> str:
    """Return escaped text wrapped to the width, each line guarded behind its prefix."""
    width = WIDTH - max(len(first), len(rest))
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    guarded = [_guarded(line) for line in lines]
    return "\n".join([first + guarded[0], *(rest + line for line in guarded[1:])])


def _paragraph(text: str) -> str:
    return _wrapped(escape(text)) if text else ""


def _item(text: str, label: str = "") -> str:
    if label:
        return _wrapped(f"**{escape(label)}**: {escape(text)}", first="- ", rest="  ")
    return _wrapped(escape(text), first="- ", rest="  ")


def _ended(text: str) -> str:
    """Return a text with a full stop at its end, unless it has one already."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _list(items: Iterable[str]) -> str:
    return "\n".join(_item(item) for item in items)


def _opening(opening: Opening) -> Iterable[str]:
    yield f"# {escape(opening.title)}"
    yield _paragraph(opening.byline)
    yield _paragraph(opening.tested)
    if opening.claim:
        yield _wrapped(f"**Claim under test**: {escape(opening.claim)}")
    if opening.claim_result:
        yield _wrapped(f"**Does it hold?** {escape(opening.claim_result)}")
    yield "## In short"
    yield _list(opening.summary)
    if opening.notices:
        yield "## Read this first"
        yield _list(opening.notices)
    if opening.overview is not None:
        yield "## Verdicts and worst figures"
        yield from _table(opening.overview.verdicts)
        yield from _table(opening.overview.worst)
        yield "## What was not measured"
        yield _list(
            f"{text} The reasons are under 'Attacks that did not run'." if anchor else text
            for text, anchor in opening.overview.missing
        )
    else:
        yield from _verdicts(opening)
    yield "\n".join(_item(words, verdict) for verdict, words in VERDICT_WORDS.items())
    yield from _words(opening)


def _verdicts(opening: Opening) -> Iterable[str]:
    yield "## Verdict on each risk"
    for headline in opening.headlines:
        yield f"### {escape(headline.risk).capitalize()}: {headline.verdict.upper()}"
        yield _paragraph(headline.question)
        yield _paragraph(headline.sentence)
        yield _paragraph(headline.coalition)
        for measured in headline.measured:
            facts = "; ".join(f"{name}: {fact}" for name, fact in measured.facts)
            yield _item(_ended(facts), measured.title)
    yield _paragraph(opening.ranges)


def _words(opening: Opening) -> Iterable[str]:
    yield "## Privacy budget"
    yield _list(opening.budget)
    if opening.claims:
        yield "## The paper's claims"
        yield "\n".join(_item(statement, verdict) for verdict, statement in opening.claims)
    for title, items in (
        ("Recommended action", opening.recommendations),
        ("Who has to be trusted", opening.trust),
        ("What was not tested, and why", opening.not_tested),
        ("Limits of this report", opening.limitations),
    ):
        if items:
            yield f"## {title}"
            yield _list(items)
    yield "## Sign-off"
    yield "\n".join(_item(text or "." * 40, name) for name, text in opening.sign_off)


def _section(section: Section) -> Iterable[str]:
    yield f"## {escape(section.title)}"
    for paragraph in section.paragraphs:
        yield _paragraph(paragraph)
    for table in section.tables:
        yield from _table(table)
    for table in section.details:
        # Pairs of a name and a value run in one paragraph; wider tables do not.
        yield from _run_in(table) if len(table.columns) <= 2 else _table(table)
    for figure in section.figures:
        yield _figure(figure)
    for gallery in section.galleries:
        yield from _gallery(gallery)
    if section.code:
        yield "Commands, in order:"
        yield "\n".join(f"    {line}" for line in section.code)


def _figure(figure: Figure) -> str:
    text = f"{figure.caption} {figure.alt} (The image is in report.html.)"
    return _item(text, f"Figure: {figure.title}")


def _gallery(gallery: Gallery) -> Iterable[str]:
    yield f"### {escape(gallery.title)}"
    yield _paragraph(f"{gallery.caption} (The images are in report.html.)")
    rows = [_gallery_line(row) for row in (gallery.targets, *gallery.rows)]
    yield "\n".join(rows)


def _gallery_line(row: GalleryRow) -> str:
    captions = row.captions or ("",) * len(row.pngs)
    shown = [
        caption if png else f"{caption} (no result)".strip()
        for png, caption in zip(row.pngs, captions, strict=True)
    ]
    named = "; ".join(text for text in shown if text)
    return _item(f"{len(row.pngs)} images{': ' + named if named else ''}", row.label)


def _table(table: Table) -> Iterable[str]:
    yield f"### {escape(table.caption)}"
    grid = [[_cell(c) for c in row] for row in table.rows]
    names = [escape(column.name) for column in table.columns]
    widths = [max(_columns(text) for text in column) for column in zip(names, *grid, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 <= WIDTH:
        yield _grid(table, names, grid, [max(width, 3) for width in widths])
    else:
        yield "\n".join(_record(table, row) for row in table.rows)
    if table.note:
        yield _paragraph(table.note)


def _cell(cell: Cell) -> str:
    return escape(cell.text)


def _columns(text: str) -> int:
    """Return the terminal columns that ``text`` takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _grid(
    table: Table, names: Sequence[str], grid: Sequence[Sequence[str]], widths: Sequence[int]
) -> str:
    right = [column.numeric for column in table.columns]

    def line(texts: Sequence[str]) -> str:
        padded = []
        for text, width, numeric in zip(texts, widths, right, strict=True):
            space = " " * (width - _columns(text))
            padded.append(space + text if numeric else text + space)
        return f"| {' | '.join(padded)} |"

    rule = "|".join(
        "-" * (width + 1) + ":" if numeric else "-" * (width + 2)
        for width, numeric in zip(widths, right, strict=True)
    )
    return "\n".join([line(names), f"|{rule}|", *(line(row) for row in grid)])


def _record(table: Table, row: Sequence[Cell]) -> str:
    """Return a row as an item of a list: its name, then each column with its value."""
    named = zip(table.columns[1:], row[1:], strict=True)
    values = "; ".join(f"{column.name}: {cell.text}" for column, cell in named if cell.text)
    return _item(_ended(values), row[0].text)


def _run_in(table: Table) -> Iterable[str]:
    """Return a table of two columns as one paragraph: hundreds of targets stay a few lines."""
    yield f"### {escape(table.caption)}"
    yield _paragraph(_ended("; ".join(f"{row[0].text}: {row[1].text}" for row in table.rows)))
    if table.note:
        yield _paragraph(table.note)
