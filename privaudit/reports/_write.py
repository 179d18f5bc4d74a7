"""Write a report's files, each whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.reports._html import render_html
from privaudit.reports._json import render_json
from privaudit.reports._machine import render_junit, render_sarif
from privaudit.reports._markdown import render_markdown
from privaudit.reports.model import AuditReport

__all__ = ["FORMATS", "replace_file", "write_report"]

#: How each format is rendered.
FORMATS: Final[Mapping[str, Callable[[AuditReport], str]]] = {
    "html": render_html,
    "json": render_json,
    "md": render_markdown,
    "sarif": render_sarif,
    "junit": render_junit,
}
#: The end of a format's file name, where it is not the format's name.
_SUFFIXES: Final[Mapping[str, str]] = {"junit": "junit.xml"}


def _file_name(format: str) -> str:
    return f"report.{_SUFFIXES.get(format, format)}"


def write_report(
    report: AuditReport, folder: Path, *, formats: Sequence[str] = ("html", "json", "md")
) -> tuple[Path, ...]:
    """Write ``report.<format>`` for every format into ``folder``, which is made if need be.

    JUnit goes to ``report.junit.xml``. All formats are rendered before any is written, and each
    file replaces an older one in one step, so that a reader never sees half a report.

    Returns
    -------
    tuple of Path
        The files, in the order of ``formats``.

    Raises
    ------
    ConfigurationError
        If a format is unknown, or ``folder`` is a file or cannot be written to.
    """
    for name in formats:
        if name not in FORMATS:
            hint = did_you_mean(name, FORMATS)
            raise ConfigurationError(f"formats: {name!r} is not one of {', '.join(FORMATS)}.{hint}")
    texts = {name: FORMATS[name](report) for name in dict.fromkeys(formats)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_file(folder / _file_name(name), text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: the report cannot be written there ({error.strerror})"
        ) from error
    return tuple(folder / _file_name(name) for name in texts)


def replace_file(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, in place of an older one."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
