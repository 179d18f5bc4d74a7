"""Make links that lead out of ``docs/`` work on the site as they do in a viewer of the repository.

A hook of MkDocs. What a page links to outside ``docs/`` (the README, the sample reports) is added
to the site under ``repository/``, and the links of these and of all pages are turned accordingly.
The sample reports are linked as Markdown, which viewers of repositories show; the site has their
HTML instead.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Where the site has what lies outside the documentation.
FOLDER = "repository"
FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
EXTERNAL = re.compile(r"[a-z]+:|#")


def on_files(files: Any, *, config: Any) -> Any:
    """Add what pages link to outside the documentation, and what is linked from there."""
    waiting = sorted(DOCS.rglob("*.md"))
    added: set[Path] = set()
    while waiting:
        page = waiting.pop()
        for _, target, _ in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            if EXTERNAL.match(target):
                continue
            file = _shown((page.parent / target.partition("#")[0]).resolve())
            if not file.is_file() or file.is_relative_to(DOCS) or file in added:
                continue
            if not file.is_relative_to(ROOT):
                continue
            added.add(file)
            source = f"{FOLDER}/{file.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, source, abs_src_path=str(file)))
            if file.suffix == ".md":
                waiting.append(file)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page that lead across the border of the documentation."""
    here = page.file.src_uri
    origin = ROOT / here.removeprefix(f"{FOLDER}/") if _outside(here) else DOCS / here

    def turned(match: re.Match[str]) -> str:
        start, target, end = match.groups()
        if EXTERNAL.match(target):
            return match[0]
        path, mark, anchor = target.partition("#")
        file = _shown((origin.parent / path).resolve())
        if file.is_relative_to(DOCS):
            there = file.relative_to(DOCS).as_posix()
        elif file.is_relative_to(ROOT):
            there = f"{FOLDER}/{file.relative_to(ROOT).as_posix()}"
        else:
            return match[0]
        return f"{start}{posixpath.relpath(there, posixpath.dirname(here))}{mark}{anchor}{end}"

    # Code is left as it is.
    parts, last = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(turned, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join((*parts, LINK.sub(turned, markdown[last:])))


def _outside(source: str) -> bool:
    return source.startswith(f"{FOLDER}/")


def _shown(file: Path) -> Path:
    """Return the HTML of a sample report in place of its Markdown."""
    page = file.with_suffix(".html")
    return page if file.name == "report.md" and page.is_file() else file
