"""Every protocol, attack and preset has its page, with the parts that a reader looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import REPOSITORY, commands, name_of
from typer.testing import CliRunner

from privaudit import plugins
from privaudit.attacks.presets import PRESETS
from privaudit.cli._main import app
from privaudit.cli._pages import page_of
from privaudit.docstrings import plain

ATTACKS = tuple(n for n in plugins.available("attack") if not n.startswith("example/"))
PARTS = ("Assumption", "Formula", "Example", "Failure modes", "Source")
NAMES = [("attack", name) for name in ATTACKS] + [("preset", name) for name in PRESETS]

pytestmark = pytest.mark.skipif(
    not (REPOSITORY / "docs").is_dir(), reason="no documentation here: not a checkout"
)


def page(kind: str, name: str) -> Path:
    relative = page_of(kind, name)
    assert relative is not None
    return REPOSITORY / relative


def parts(text: str) -> dict[str, str]:
    """Return the sections of a page by their headings of the second level."""
    outside = re.sub(r"```.*?```", lambda block: block[0].replace("#", " "), text, flags=re.DOTALL)
    found = re.split(r"^## (.+)$", outside, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_an_attack_has_a_page_with_all_parts_in_order(kind: str, name: str) -> None:
    sections = parts(page(kind, name).read_text(encoding="utf-8"))
    assert [heading for heading in sections if heading in PARTS] == list(PARTS)
    assert all(sections[heading].strip() for heading in PARTS)
    assert "```sh\n" in sections["Example"] or "```python\n" in sections["Example"]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_page_states_what_the_code_requires_and_reads(kind: str, name: str) -> None:
    attack = plugins.load("attack", PRESETS[name].attack if kind == "preset" else name)
    text = page(kind, name).read_text(encoding="utf-8")
    table = parts(text)["Assumption"]
    for row, needed in (("reads", attack.reads), ("capabilities", sorted(attack.requires))):
        (stated,) = re.findall(rf"^\| {row} \| (.*) \|$", table, re.MULTILINE)
        assert re.findall(r"`([^`]+)`", stated) == list(needed)
    assert f"`{name}`" in text.partition("## ")[0]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_the_example_of_a_page_is_of_its_attack(kind: str, name: str) -> None:
    mine = [c for c in commands() if c.page == name_of(page(kind, name))]
    given = [c.arguments[c.arguments.index("--attack") + 1] for c in mine]
    example = parts(page(kind, name).read_text(encoding="utf-8"))["Example"]
    made = plugins.load("attack", PRESETS[name].attack if kind == "preset" else name).__name__
    assert name in given or f"{made}(" in example or name == "cryptanalysis/pcsc-malicious-modulus"


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_an_overview_leads_to_every_page_and_so_does_the_site(kind: str, name: str) -> None:
    there = page(kind, name).relative_to(REPOSITORY / "docs" / "attacks").as_posix()
    overview = "index.md" if kind == "attack" else "presets.md"
    text = (REPOSITORY / "docs" / "attacks" / overview).read_text(encoding="utf-8")
    assert f"]({there})" in text
    assert f": attacks/{there}\n" in (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")


def test_no_page_is_of_an_attack_that_is_gone() -> None:
    folder = REPOSITORY / "docs" / "attacks"
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*/*.md")}
    assert written == {page(k, n).relative_to(folder).as_posix() for k, n in NAMES}


@pytest.mark.parametrize("name", [n for n in plugins.available("protocol") if "/" not in n])
def test_a_protocol_has_a_page_that_states_its_messages(name: str) -> None:
    protocol = plugins.load("protocol", name)
    if not protocol.__module__.startswith("privaudit."):
        pytest.skip("of another distribution")
    text = page("protocol", name).read_text(encoding="utf-8")
    assert f"`{name}`" in text
    assert "message by message" in text


def explained() -> Iterator[tuple[str, str]]:
    for kind, name in NAMES:
        yield name, f"page: {page_of(kind, name)}\n"
    yield "fedavg", "page: docs/protocols/fedavg.md\n"


@pytest.mark.parametrize(("name", "line"), list(explained()))
def test_explain_names_the_page(name: str, line: str) -> None:
    told = CliRunner().invoke(app, ["explain", name])
    assert told.exit_code == 0
    assert line in told.output
    assert "\\" not in told.output, "a formula in markup"
    assert "`" not in told.output
    if name in PRESETS:
        assert f"source: {PRESETS[name].source}" in told.output


def test_parts_of_other_distributions_have_no_page_here() -> None:
    class Foreign:
        pass

    assert page_of("attack", "example/bias-label", Foreign) is None
    assert page_of("scorer", "images") is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"as :class:`~a.b.Other` does, ``x``", "as Other does, 'x'"),
        (r":math:`\sum_c h_c M_c`", "Σ_c h_c M_c"),
        (r":math:`\hat x=\mu+W(u-\bar u)`", "x̂=μ+W(u-ū)"),
        (r":math:`\arg\max_c \sum_{e \in \pi} 1`", "argmax_c Σ_(e ∈ π) 1"),
        (r":math:`\mathrm{sign}(M_{cj}) (V V^T)^{-1}`", "sign(M_cj) (V V^T)^-1"),
    ],
)
def test_docstrings_are_printed_without_markup(written: str, read: str) -> None:
    assert plain(written) == read
