"""Reports in a real browser: on a phone, by keyboard, light and dark, on paper, offline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from browser import Browser, Page
from reports_hostile import hostile_report
from reports_sample import sample_report

from privaudit.reports import read_report, render_html, render_json
from privaudit.reports.model import AuditReport, CellCounts

SAMPLES = Path(__file__).parents[1] / "reports"
#: The audits of the three protocols and a campaign with galleries, heat maps and epsilon, as they
#: were measured; and two reports that hold every part, with long and with hostile texts.
NAMES = ("pa-cfl", "disue", "pq-mds", "campaign", "sample", "hostile", "endless")
#: An id of a party that a line cannot be broken in by any of its characters.
ENDLESS = "u" * 240
#: Width of the printed page without its margins, in pixels of CSS: A4 upright and across.
UPRIGHT, ACROSS = int((210 - 2 * 13) / 25.4 * 96), int((297 - 2 * 12) / 25.4 * 96)

WIDTHS = """(() => { const r = document.documentElement;
  return [r.clientWidth, r.scrollWidth]; })()"""
LINKS = """(() => {
  const links = Array.from(document.querySelectorAll("a[href]"), a => a.getAttribute("href"));
  return {
    inner: links.filter(h => h.startsWith("#")),
    dangling: links.filter(h => h.startsWith("#") && !document.getElementById(h.slice(1))),
    outer: links.filter(h => !h.startsWith("#")),
    loading: Array.from(document.querySelectorAll(
      "link, iframe, object, embed, script[src], img:not([src^='data:']), [style]"),
      e => e.outerHTML.slice(0, 80)),
    policy: document.querySelector("meta[http-equiv='Content-Security-Policy']").content,
    ids: (() => { const all = Array.from(document.querySelectorAll("[id]"), e => e.id);
      return all.filter((id, i) => all.indexOf(id) !== i); })(),
  }; })()"""
IMAGES = """Promise.all(Array.from(document.images, i => i.decode().then(() => "", () => "broken")))
  .then(found => ({
    count: found.length,
    broken: found.filter(Boolean).length,
    untold: Array.from(document.images).filter(i => !i.alt.trim()).length,
  }))"""
#: Contrast of every element with a text of its own (WCAG 2.1), the worst of each pair of colours;
#: of long tables the first rows, which are alike.
CONTRAST = """(() => {
  const parse = text => { const v = text.match(/[0-9.]+/g).map(Number);
    return v.length > 3 ? v : [...v, 1]; };
  const over = (top, under) =>
    [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = e => {
    if (!e) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(e.parentElement));
  };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const worst = {};
  for (const e of document.body.querySelectorAll("*")) {
    if (["SCRIPT", "STYLE"].includes(e.tagName)) continue;
    const row = e.closest("tbody tr");
    if (row && row.sectionRowIndex > 5) continue;
    if (!Array.from(e.childNodes).some(n => n.nodeType === 3 && n.data.trim())) continue;
    const under = ground(e), ink = over(parse(getComputedStyle(e).color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    worst[`${ink} on ${under}: ${e.tagName}.${e.className}`] = (a + 0.05) / (b + 0.05);
  }
  return {dark: matchMedia("(prefers-color-scheme: dark)").matches, worst};
})()"""
#: What stands further right than the page is wide, but for what may scroll sideways on a screen.
BEYOND = """(selector => Array.from(document.querySelectorAll(selector + " *"))
  .filter(e => e.getBoundingClientRect().width && !e.closest("caption, .skip, thead.hidden")
    && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + "." + e.className + "#" + e.id).slice(0, 5))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def endless_report() -> AuditReport:
    """Return the hostile report with ids of parties that do not end."""
    content = json.loads(render_json(hostile_report()))
    for finding in content["findings"]:
        finding["coalition_label"] = finding["worst_target"] = ENDLESS
        finding["coalition"] = [ENDLESS]
        finding["per_target"] = {f"{ENDLESS}{k}": v for k, v in finding["per_target"].items()}
    for row in (*content["verdicts"], *content["exposure"], *content["not_run"]):
        row["coalition_label"] = ENDLESS
        if "sentence" in row:
            row["sentence"] = f"{ENDLESS} succeeds."
    for row in content["uncovered"]:
        row["observers"] = [ENDLESS]
    return AuditReport.model_validate_json(json.dumps(content))


@cache
def rendered(name: str) -> str:
    if name == "endless":
        return render_html(endless_report())
    if name in ("sample", "hostile"):
        return render_html(sample_report() if name == "sample" else hostile_report())
    if not SAMPLES.is_dir():
        pytest.skip(f"no {SAMPLES}: not a checkout")
    return render_html(read_report(SAMPLES / name))


@pytest.fixture(scope="module", params=NAMES)
def page(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[Page]:
    """A report of the installed version's, opened as wide as a phone."""
    file = folder / f"{request.param}.html"
    file.write_text(rendered(request.param), encoding="utf-8")
    opened = Page(browser, file.as_uri(), width=360)
    yield opened
    opened.close()


def test_a_report_is_silent_asks_for_nothing_and_fits_every_screen(page: Page) -> None:
    for width in (360, 768, 1280):
        page.resize(width)
        assert page.evaluate(WIDTHS) == [width, width]
    (own,) = page.requests()
    assert own.startswith("file://")
    assert page.console() == []


def test_ids_without_end_push_nothing_out_of_sight(browser: Browser, folder: Path) -> None:
    counts = CellCounts(runs=1, measured=9, not_applicable=1, failed=0, pending=0)
    audit = endless_report()
    for name, report in {
        "audit": audit,
        "campaign": audit.model_copy(update={"cells": counts}),
    }.items():
        (folder / f"ids-{name}.html").write_text(render_html(report), encoding="utf-8")
        page = Page(browser, (folder / f"ids-{name}.html").as_uri(), width=360)
        assert page.evaluate(WIDTHS) == [360, 360]
        assert page.evaluate(f"{BEYOND}('.opening')") == []
        # Tables of the evidence scroll in their own box: a verdict is not pages away.
        widest = """Array.from(document.querySelectorAll(".evidence :is(th, td)"))
          .filter(e => /u{240}/.test(e.textContent)).map(e => e.offsetWidth)"""
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; }), 0")
        assert max(page.evaluate(widest)) <= 360
        page.close()


def test_links_lead_somewhere_and_nothing_is_loaded(page: Page) -> None:
    links = page.evaluate(LINKS)
    assert len(links["inner"]) > 5
    assert links["dangling"] == []
    # A report names no address; what a protocol's text might name would be a link and no more.
    assert all(re.match(r"https?://", link) for link in links["outer"])
    assert links["loading"] == []
    assert links["ids"] == []
    assert links["policy"].startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_images_load_and_are_told_in_words(page: Page) -> None:
    images = page.evaluate(IMAGES)
    assert images["broken"] == images["untold"] == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(page: Page, scheme: str) -> None:
    page.media(scheme=scheme)
    found = page.evaluate(CONTRAST)
    page.media()
    assert found["dark"] == (scheme == "dark")
    assert len(found["worst"]) > 15
    assert {pair: ratio for pair, ratio in found["worst"].items() if ratio < 4.5} == {}


def test_nothing_is_cut_off_on_paper(page: Page) -> None:
    page.media(kind="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    try:
        for width, part in ((UPRIGHT, ".opening"), (ACROSS, ".evidence")):
            page.resize(width)
            assert page.evaluate(f"{BEYOND}({part!r})") == []
        closed = "details:not([open], .bulk)"
        assert page.evaluate(f"document.querySelectorAll({closed!r}).length") == 0
    finally:
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.media()


def test_tables_are_sorted_by_click_and_by_keyboard(page: Page) -> None:
    page.resize(1280)
    names = page.evaluate(
        """Array.from(document.querySelectorAll("table[data-sortable]"))
        .filter(t => t.tBodies[0].rows.length > 2).map(t => t.id)"""
    )
    assert names
    for name in names[:4]:
        page.evaluate(
            f"""window.table = document.getElementById({name!r});
            table.closest("details")?.setAttribute("open", "");
            window.heads = Array.from(table.tHead.rows[0].cells);
            window.at = Math.max(0, heads.findIndex(h => h.classList.contains("numeric")));
            window.told = () => [heads[at].getAttribute("aria-sort"),
              heads.filter(h => h.hasAttribute("aria-sort")).length,
              Array.from(table.tBodies[0].rows, r => r.cells[at].dataset.sort
                ?? r.cells[at].textContent.trim().toLowerCase())];
            heads[at].querySelector("button").click()"""
        )
        upwards, marked, by_click = page.evaluate("told()")
        assert (upwards, marked) == ("ascending", 1)
        assert in_order(by_click)
        page.evaluate("heads[at].querySelector('button').focus()")
        page.press("Enter", 13, "\r")
        downwards, marked, by_enter = page.evaluate("told()")
        assert (downwards, marked) == ("descending", 1)
        assert in_order([v for v in by_enter if v != "nan"][::-1])
        page.press(" ", 32, " ")
        assert page.evaluate("told()") == ["ascending", 1, by_click]


def in_order(values: list[str]) -> bool:
    """Tell whether values ascend; as numbers if they are, those that are none at the end."""
    try:
        numbers = [float(v) for v in values if v not in ("nan", "–", "none", "not finite")]
    except ValueError:
        return values == sorted(values)
    return numbers == sorted(numbers)


def test_no_column_of_a_table_is_out_of_sight_on_a_desktop(page: Page) -> None:
    page.resize(1280)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; }), 0")
    cut = """Array.from(document.querySelectorAll("table[data-sortable]"))
      .filter(t => t.offsetWidth > t.parentElement.clientWidth).map(t => t.id)"""
    found = page.evaluate(cut)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false; }), 0")
    # Words without end may scroll in their own box; nothing that an audit writes has such.
    assert found == [] or page.evaluate("document.title.includes('<script>')")


def test_the_main_tables_of_the_sample_fit_a_desktop(browser: Browser, folder: Path) -> None:
    (folder / "desk.html").write_text(rendered("sample"), encoding="utf-8")
    page = Page(browser, (folder / "desk.html").as_uri(), width=1280)
    for name in ("findings-results", "findings-conditions", "exposure-table", "budget-table"):
        page.evaluate(f"window.table = document.getElementById({name!r}), 0")
        table, box = page.evaluate("[table.offsetWidth, table.parentElement.clientWidth]")
        assert table <= box
    assert page.evaluate("document.images.length") > 80
    page.close()


def test_page_one_of_a_campaign_fits_one_sheet(browser: Browser, folder: Path) -> None:
    (folder / "one.html").write_text(rendered("campaign"), encoding="utf-8")
    page = Page(browser, (folder / "one.html").as_uri(), width=UPRIGHT)
    page.media(kind="print")
    bottom = page.evaluate(
        "document.getElementById('missing-title').parentElement.getBoundingClientRect().bottom"
    )
    assert bottom < (297 - 2 * 12) / 25.4 * 96
    page.close()


def test_the_browser_refuses_a_script_that_was_tampered_with(
    browser: Browser, folder: Path
) -> None:
    text = rendered("sample")
    tampered = text.replace('"use strict";', 'document.title = "owned";', 1)
    assert tampered != text
    (folder / "tampered.html").write_text(tampered, encoding="utf-8")
    page = Page(browser, (folder / "tampered.html").as_uri(), width=1280)
    assert any("Content Security Policy" in line for line in page.console())
    assert page.evaluate("document.title") != "owned"
    page.close()


def test_the_policy_lets_no_element_reach_the_network(browser: Browser, folder: Path) -> None:
    address = "http://127.0.0.1:9"
    elements = (
        f'<img src="{address}/image" alt="">',
        f'<link rel="stylesheet" href="{address}/style">',
        f'<script src="{address}/script"></script>',
        f'<iframe src="{address}/frame"></iframe>',
        f'<object data="{address}/object"></object>',
    )
    text = rendered("sample").replace("</main>", f"{' '.join(elements)}</main>", 1)
    (folder / "beacon.html").write_text(text, encoding="utf-8")
    page = Page(browser, (folder / "beacon.html").as_uri(), width=1280)
    told = [line for line in page.console() if "Content Security Policy" in line]
    # Of frames the browser tells the origin alone.
    for what in ("/image", "/style", "/script", "/object", "/'"):
        assert any(f"{address}{what}" in line for line in told), (what, told)
    page.close()
