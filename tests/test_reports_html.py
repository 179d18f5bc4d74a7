"""The HTML report: one file, no request, every stranger's text escaped, usable by everybody."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest
from reports_hostile import hostile_report
from reports_sample import HOSTILE, sample_report

from privaudit.reports import render_html
from privaudit.reports.model import AuditReport

#: Elements that have no end tag.
VOID = {"meta", "img", "br", "hr", "input", "link"}


class _Document(HTMLParser):
    """The elements of a document with their texts, checked for proper nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> without a start"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@cache
def _text() -> str:
    return render_html(sample_report())


@cache
def _document() -> _Document:
    return _Document(_text())


@pytest.mark.parametrize("report", [sample_report(), hostile_report()], ids=["usual", "hostile"])
def test_nothing_is_asked_of_the_network(report: AuditReport) -> None:
    document = _Document(render_html(report))
    for tag, attributes in document.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "audio", "video"}
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in {"src", "srcset", "poster", "background", "action", "data"}:
                assert value is not None
                assert value.startswith("data:image/png;base64,"), (tag, name)
            if name == "href":
                assert value is not None
                assert value.startswith("#"), (tag, value)
    style = document.texts["style"][0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_admits_only_what_the_document_holds() -> None:
    policies = [
        attributes["content"]
        for attributes in _document().all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0] is not None
    rules = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", _text(), flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert "unsafe" not in policies[0]
    assert not any("style" in attributes for _, attributes in _document().elements)


def test_the_policy_stands_before_everything_it_governs() -> None:
    names = [tag for tag, _ in _document().elements]
    policy = next(i for i, (_, a) in enumerate(_document().elements) if "http-equiv" in a)
    assert policy < names.index("style")
    assert policy < names.index("script")


def test_hostile_texts_come_out_as_texts() -> None:
    text = render_html(hostile_report())
    document = _Document(text)
    usual = Counter(tag for tag, _ in _document().elements)
    hostile = Counter(tag for tag, _ in document.elements)
    assert hostile["script"] == usual["script"] == 1
    assert hostile["img"] == usual["img"]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text
    assert HOSTILE.split("|")[0] in document.texts["h1"][0]


def test_the_structure_can_be_heard_as_well_as_seen() -> None:
    document = _document()
    assert document.all("html")[0]["lang"] == "en"
    assert len(document.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for image in document.all("img"):
        assert image.get("alt")
    assert len(document.texts["caption"]) == len(document.all("table"))
    assert all(caption.strip() for caption in document.texts["caption"])
    for heading in document.all("th"):
        assert heading.get("scope") in {"col", "row"}
    (viewport,) = [m for m in document.all("meta") if m.get("name") == "viewport"]
    assert viewport["content"] == "width=device-width, initial-scale=1"


def test_every_reference_inside_the_document_has_a_target_and_ids_are_single() -> None:
    ids = [a["id"] for _, a in _document().elements if "id" in a]
    assert len(ids) == len(set(ids))
    wanted = {a["href"] for a in _document().all("a")} | {
        f"#{a['aria-labelledby']}" for _, a in _document().elements if "aria-labelledby" in a
    }
    assert wanted <= {f"#{id}" for id in ids}


def test_wide_content_scrolls_in_its_own_box_which_the_keyboard_reaches() -> None:
    boxes = [a for a in _document().all("div") if "scroll" in (a.get("class") or "")]
    assert len(boxes) == len(_document().all("table"))
    assert all(box.get("tabindex") == "0" and box.get("role") == "region" for box in boxes)


def test_every_verdict_is_written_out_and_none_is_styled_as_success() -> None:
    text = " ".join(_document().texts["span"])
    for word in ("Breached", "Not shown", "Inconclusive", "Not tested", "Not reproduced"):
        assert word in text
    style = _document().texts["style"][0]
    assert "not-shown" not in style  # no colour of its own: the neutral one of every badge
    for colour in re.findall(r"#([0-9a-f]{6})\b", style):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (0, 2, 4))
        assert not (green > red + 40 and green > blue + 40), f"#{colour} is green"
    assert not re.search("[✓✔✅]", _text())


def test_nothing_is_called_compliant_or_scored() -> None:
    words = re.sub(r"<[^>]*>", " ", _text()).lower()
    assert "complian" not in words
    assert "gdpr" not in words
    assert not re.search(r"\bscore\b|/ ?100\b", words)


def _variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_contrast_reaches_aa(scheme: str) -> None:
    folder = resources.files("privaudit.reports") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\n *\}", style, flags=re.DOTALL)
    colours = _variables(blocks[0])
    colours |= _variables(blocks[["light", "dark", "print"].index(scheme)])
    pairs = [
        (ink, ground)
        for ink in ("ink", "soft", "link", "breached", "open", "neutral")
        for ground in ("paper", "ground", "stripe", "breached-ground", "warn-ground")
    ]
    pairs.append(("paper", "breached"))
    for ink, ground in pairs:
        light, dark = sorted((_luminance(colours[ink]), _luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, ink, ground)


def test_a_full_report_stays_small() -> None:
    assert len(_document().all("img")) >= 100
    assert len(_text().encode()) < 3_000_000


def test_reconstructions_of_data_that_are_not_public_are_said_to_be_withheld() -> None:
    report = sample_report()
    system = report.system.model_copy(update={"data_is_public": False})
    text = render_html(report.model_copy(update={"system": system, "galleries": ()}))
    assert "Reconstructions are not shown" in text
    assert "Reconstructions are not shown" not in _text()


def test_an_empty_report_says_that_nothing_was_tested() -> None:
    empty: dict[str, tuple[()]] = dict.fromkeys(
        (
            "verdicts", "findings", "not_run", "exposure", "budgets", "uncovered", "claims",
            "utilities", "figures", "galleries", "trust_assumptions", "not_tested",
            "recommendations", "limitations", "warnings", "reproduce",
        ),
        (),
    )  # fmt: skip
    text = render_html(sample_report().model_copy(update=empty))
    _Document(text)
    assert "No risk was tested." in text
    assert "No attack produced a figure." in text
