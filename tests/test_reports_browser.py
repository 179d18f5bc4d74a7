"""The HTML report in a real browser: on a phone's width, with its script, without an error."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from reports_hostile import hostile_report
from reports_sample import sample_report

from privaudit.reports import render_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--allow-file-access-from-files", "--enable-logging=stderr",
    "--window-size=1400,1000", "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip
#: The report stands in a frame of the width under test, so that it is itself left unchanged.
PROBE = """<!doctype html><title>probe</title><pre id="out"></pre>
<iframe id="phone" width="360" height="800" style="border:0" src="report.html"></iframe>
<iframe id="desk" width="1280" height="800" style="border:0" src="report.html"></iframe>
<iframe id="hostile" width="360" height="800" style="border:0" src="hostile.html"></iframe>
<script>
function width(name) {
  const root = document.getElementById(name).contentDocument.documentElement;
  return [root.clientWidth, root.scrollWidth];
}
window.addEventListener("load", function () {
  const inner = document.getElementById("desk").contentDocument;
  const table = inner.getElementById("budget-table");
  const heads = Array.from(table.tHead.rows[0].cells);
  const at = heads.findIndex(function (head) { return head.textContent === "ε at most"; });
  function column() {
    return Array.from(table.tBodies[0].rows).map(function (r) { return r.cells[at].dataset.sort; });
  }
  heads[at].querySelector("button").click();
  const up = column(), upSort = heads[at].getAttribute("aria-sort");
  heads[at].querySelector("button").click();
  const down = column();
  const images = Array.from(inner.images);
  document.getElementById("out").textContent = JSON.stringify({
    phone: width("phone"), desk: width("desk"), hostile: width("hostile"),
    up: up, upSort: upSort, down: down,
    broken: images.filter(function (i) { return i.complete && !i.naturalWidth; }).length,
    images: images.length,
    tableFits: ["findings-results", "findings-conditions", "exposure-table", "budget-table"]
      .map(function (id) { return inner.getElementById(id); })
      .map(function (t) { return [t.offsetWidth, t.parentElement.clientWidth]; }),
    background: inner.defaultView.getComputedStyle(inner.body).backgroundColor
  });
});
</script>"""


def _browse(folder: Path, page: str) -> tuple[str, list[str]]:
    """Return the page's document after its scripts ran, and what the console said."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    profile = folder / f"profile-{page}"
    done = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={profile}", (folder / page).as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if not done.stdout.strip():
        pytest.skip(f"{browser} does not run here: {done.stderr.strip()[-200:]}")
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "report.html").write_text(render_html(sample_report()), encoding="utf-8")
    (folder / "hostile.html").write_text(render_html(hostile_report()), encoding="utf-8")
    (folder / "probe.html").write_text(PROBE, encoding="utf-8")
    document, console = _browse(folder, "probe.html")
    (out,) = re.findall(r'<pre id="out">(.*?)</pre>', document, flags=re.DOTALL)
    return json.loads(html.unescape(out)), console


def test_a_phone_needs_no_sideways_scrolling(seen: tuple[dict[str, Any], list[str]]) -> None:
    assert seen[0]["phone"] == [360, 360]
    assert seen[0]["hostile"] == [360, 360]
    assert seen[0]["desk"] == [1280, 1280]


def test_the_console_stays_silent_and_every_image_loads(
    seen: tuple[dict[str, Any], list[str]],
) -> None:
    assert seen[1] == []
    assert seen[0]["broken"] == 0
    assert seen[0]["images"] > 80


def test_the_style_sheet_applies_and_the_main_tables_fit_a_desktop(
    seen: tuple[dict[str, Any], list[str]],
) -> None:
    assert seen[0]["background"] == "rgb(244, 245, 247)"
    for table, box in seen[0]["tableFits"]:
        assert table <= box


def test_a_heading_sorts_its_table_by_number(seen: tuple[dict[str, Any], list[str]]) -> None:
    up, down = ([float(value) for value in seen[0][key]] for key in ("up", "down"))
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert len(set(up)) > 3
    assert seen[0]["upSort"] == "ascending"


def test_the_browser_refuses_a_script_that_was_tampered_with(tmp_path: Path) -> None:
    text = render_html(sample_report())
    tampered = text.replace('"use strict";', 'document.title = "owned";', 1)
    assert tampered != text
    (tmp_path / "tampered.html").write_text(tampered, encoding="utf-8")
    document, console = _browse(tmp_path, "tampered.html")
    assert any("Content Security Policy" in line for line in console)
    assert "<title>owned" not in document
