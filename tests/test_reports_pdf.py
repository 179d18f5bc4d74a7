"""PDF reports: printed by a browser that may be missing, fail, or hang; and how they look."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from reports_hostile import hostile_report
from reports_sample import sample_report

from privaudit.errors import ConfigurationError, ExternalToolError
from privaudit.reports import write_report
from privaudit.reports._html import render_html
from privaudit.reports._pdf import find_browser, print_to_pdf


def browser(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a program the browser; ``$TARGET`` is where it is asked to print to."""
    program = folder / "chromium"
    find = 'for a in "$@"; do case "$a" in --print-to-pdf=*) TARGET="${a#*=}";; esac; done\n'
    program.write_text(f"#!/bin/sh\n{find}{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PRIVAUDIT_CHROMIUM", str(program))
    return program


def test_without_a_browser_the_error_says_what_to_install_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVAUDIT_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"apt install chromium.*PRIVAUDIT_CHROMIUM") as e:
        write_report(sample_report(), tmp_path / "out", formats=("html", "pdf"))
    assert e.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_named_browser_that_is_not_there_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVAUDIT_CHROMIUM", "/no/such/browser")
    with pytest.raises(ConfigurationError, match="/no/such/browser"):
        find_browser()


def test_a_browser_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; sleep 300", monkeypatch)
    with pytest.raises(ExternalToolError, match=r"within 1 s and was ended") as error:
        print_to_pdf("<p>x</p>", seconds=1)
    assert error.value.exit_code == 3
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not _alive(child):
            break
        time.sleep(0.05)
    assert not _alive(child)


def _alive(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    if state.parent.parent.is_dir() and not state.is_file():
        return False
    if state.is_file():
        return state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'No usable sandbox! Update your kernel' >&2; exit 133", "NO_SANDBOX=1"),
        ("echo 'cannot open display' >&2; exit 3", "code 3. It said: cannot open display"),
        ("exit 0", "printed no PDF. It said nothing"),
        ('echo "<html>" > "$TARGET"', "printed no PDF"),
        ('printf "%%PDF-1.4 and then the disk was full" > "$TARGET"', "printed no PDF"),
    ],
)
def test_a_browser_that_fails_is_quoted_and_an_older_report_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    browser(tmp_path, script, monkeypatch)
    older = tmp_path / "report.pdf"
    older.write_bytes(b"%PDF-1.4 older %%EOF")
    with pytest.raises(ExternalToolError) as error:
        write_report(sample_report(), tmp_path, formats=("pdf",))
    assert said in str(error.value)
    assert older.read_bytes() == b"%PDF-1.4 older %%EOF"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chromium", "report.pdf"]


def test_the_browser_is_told_to_ask_nothing_of_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    browser(
        tmp_path,
        f'printf "%s\\n" "$@" > {told}; printf "%%PDF-1.4 %%%%EOF" > "$TARGET"',
        monkeypatch,
    )
    assert print_to_pdf("<p>x</p>") == b"%PDF-1.4 %%EOF"
    flags = told.read_text().splitlines()
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in flags
    assert "--disable-background-networking" in flags
    profile = next(f for f in flags if f.startswith("--user-data-dir="))
    assert not Path(profile.split("=", 1)[1]).exists(), "the profile outlives the printing"
    # Root has no sandbox; anybody else keeps it unless told otherwise.
    assert ("--no-sandbox" in flags) == (os.geteuid() == 0)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample report as a real browser prints it."""
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium is installed")
    folder = tmp_path_factory.mktemp("pdf")
    try:
        write_report(sample_report(), folder, formats=("pdf",))
    except ExternalToolError as error:
        pytest.skip(f"{found} does not run here: {error}")
    return folder / "report.pdf"


def _tool(name: str, *arguments: object) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"{name} (poppler) is not installed")
    command = [name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_printed_report_is_tagged_titled_and_outlined(printed: Path) -> None:
    content = printed.read_bytes()
    assert b"/StructTreeRoot" in content
    assert b"/Outlines" in content
    assert f"Title:           {sample_report().title}" in _tool("pdfinfo", printed)


def test_every_page_of_a_long_table_has_its_headings_and_folds_are_open(printed: Path) -> None:
    pages = _tool("pdftotext", "-layout", printed, "-").split("\f")
    report = sample_report()
    text = "\n".join(pages)
    for finding in report.findings:
        assert finding.id in text
    targets = [t for f in report.findings for t in f.per_target]
    assert text.count(targets[-1]) > 1, "folded tables are missing on paper"
    holding = [p for p in pages if "certified on a grid" in p or "In its domain" in p]
    assert all("Theorem" in page for page in holding)


def test_no_text_is_printed_over_another_or_beyond_the_edge_of_its_page(printed: Path) -> None:
    for page in _tool("pdftotext", "-bbox", printed, "-").split("<page")[1:]:
        head, *lines = page.splitlines()
        (width,) = re.findall(r'width="([0-9.]+)"', head)
        words = sorted(
            tuple(float(x) for x in re.findall(r'="([0-9.]+)"', line.split(">")[0])[:4])
            for line in lines
            if "<word" in line
        )
        assert words, "an empty page"
        for i, (left, top, right, bottom) in enumerate(words):
            assert 0 < left < right < float(width)
            for other in words[i + 1 :]:
                if other[0] >= right - 1:
                    break
                shared = min(bottom, other[3]) - max(top, other[1])
                assert shared < 2, f"two words overlap at {left:.0f}, {top:.0f}"


def test_a_hostile_report_prints_as_text(tmp_path: Path) -> None:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium is installed")
    try:
        content = print_to_pdf(render_html(hostile_report()))
    except ExternalToolError as error:
        pytest.skip(f"{found} does not run here: {error}")
    (tmp_path / "hostile.pdf").write_bytes(content)
    assert b"/JavaScript" not in content
    assert "<script>" in _tool("pdftotext", tmp_path / "hostile.pdf", "-")
