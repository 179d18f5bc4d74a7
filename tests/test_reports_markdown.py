"""The Markdown report: complete, well formed, and deaf to markup in strangers' texts."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from reports_hostile import hostile_report
from reports_sample import sample_report

from privaudit.reports import render_markdown
from privaudit.reports._document import Cell, Column, Table
from privaudit.reports._format import visible
from privaudit.reports._markdown import WIDTH, _table, escape
from privaudit.reports.model import AuditReport


def _tokens(text: str) -> list[Token]:
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [token for block in parsed for token in (block, *(block.children or ()))]


@pytest.mark.parametrize("report", [sample_report(), hostile_report()], ids=["usual", "hostile"])
def test_no_text_becomes_a_link_an_image_or_html(report: AuditReport) -> None:
    kinds = Counter(token.type for token in _tokens(render_markdown(report)))
    for kind in ("html_block", "html_inline", "image", "link_open", "s_open", "em_open"):
        assert kinds[kind] == 0, kind
    assert "\x1b" not in render_markdown(report)


def test_hostile_texts_do_not_change_the_structure() -> None:
    def structure(report: AuditReport) -> dict[str, int]:
        kinds = Counter(token.type for token in _tokens(render_markdown(report)))
        # A table whose texts are too long for a terminal becomes a list of as many items.
        rows = kinds["list_item_open"] + kinds["tr_open"] - kinds["thead_open"]
        exact = ("heading_open", "ordered_list_open", "blockquote_open", "code_block", "fence")
        return {"rows": rows, **{kind: kinds[kind] for kind in exact}}

    assert structure(hostile_report()) == structure(sample_report())


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(alphabet="a_* \\&#;1"))
@example("__0__")
def test_an_escaped_text_reads_as_it_is(text: str) -> None:
    (inline,) = MarkdownIt("commonmark").parseInline(f"x{escape(text)}x")
    content = "".join(child.content for child in inline.children or ())
    assert all(child.type in {"text", "text_special"} for child in inline.children or ())
    assert content == f"x{visible(text)}x"


@given(st.text(alphabet="-#>+=*_~`1.) ab|<![]()&;:\\", min_size=1))
def test_a_cell_stays_a_cell(text: str) -> None:
    table = f"| {escape(text)} | b |\n|---|---|\n| {escape(text)} | d |\n"
    tokens = _tokens(table)
    assert sum(token.type == "th_open" for token in tokens) == 2
    assert sum(token.type == "td_open" for token in tokens) == 2


@given(st.text(alphabet="[]()!:<>\\^x ", min_size=1))
@example("[x]: http://evil.example")
@example(" [x\\]: y]: http://evil.example")
@example("![a](b)[c][d]")
def test_brackets_make_no_link_and_define_none(text: str) -> None:
    tokens = _tokens(f"{escape(text)}\n\n- {escape(text)}\n\n[x] and [c]\n")
    inline = [child.type for token in tokens for child in token.children or ()]
    assert {"link_open", "image"}.isdisjoint(inline)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Measured [low, high]: 0 [1, 2] %", "Measured [low, high]: 0 [1, 2] %"),
        ("[low, high]: 0", "\\[low, high\\]: 0"),
        ("![a](b)", "!\\[a\\](b)"),
    ],
)
def test_brackets_are_escaped_in_pairs_or_not_at_all(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_tables_are_well_formed_and_fit_a_terminal() -> None:
    lines = render_markdown(sample_report()).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) > 20
    for group in re.findall(r"(?:^\|.*\|$\n?)+", "\n".join(lines), flags=re.MULTILINE):
        table = group.splitlines()
        assert re.fullmatch(r"\|(-+:?\|)+", table[1])
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
        assert len({len(line) for line in table}) == 1
    prose = [line for line in lines if not line.startswith((" " * 4, "#"))]
    assert max(map(len, prose)) <= WIDTH + 4


def test_both_parts_are_there_and_images_are_named() -> None:
    report = sample_report()
    text = re.sub(r"\s+", " ", render_markdown(report))
    first, _, second = text.partition("# Evidence, for the researcher")
    assert "BREACHED" in first
    assert "Sign-off" in first
    for finding in report.findings:
        assert f"**{finding.id}**" in second
    for figure in report.figures:
        assert figure.title in second
    for row in (report.galleries[0].targets, *report.galleries[0].rows):
        assert f"**{row.label}**: 20 images" in second
    assert "iVBORw0KGgo" not in text
    for command in report.reproduce:
        assert command in second


def test_a_sentence_in_the_last_cell_of_a_row_ends_once() -> None:
    column, sentence = Column("adversary"), "The server looks at " + "what it receives " * 8
    rows = tuple((Cell("server"), Cell(sentence.strip() + end)) for end in (".", "", "?"))
    text = re.sub(r"\s+", " ", "".join(_table(Table("t", "t", (Column("model"), column), rows))))
    assert re.findall(r"what it receives([.?]+)", text) == [".", ".", "?"]


def test_every_target_has_its_figure() -> None:
    text = re.sub(r"\s+", " ", render_markdown(sample_report()))
    for target in sample_report().findings[0].per_target:
        assert re.search(rf"\b{target}: [\d.]+ dB", text)
