"""Write a report's files, each whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from privaudit import plugins
from privaudit.errors import ConfigurationError, PluginError, did_you_mean
from privaudit.reports.base import Reporter
from privaudit.reports.model import AuditReport

__all__ = ["replace_file", "write_report"]


def write_report(
    report: AuditReport, folder: Path, *, formats: Sequence[str] = ("html", "json", "md")
) -> tuple[Path, ...]:
    """Write ``report.<format>`` for every format into ``folder``, which is made if need be.

    Formats are the registered reporters (``privaudit list reporters``). All are rendered before
    any is written, and each file replaces an older one in one step, so that a reader never sees
    half a report.

    Returns
    -------
    tuple of Path
        The files, in the order of ``formats``.

    Raises
    ------
    ConfigurationError
        If a format is unknown, two of them write to one file, or ``folder`` is a file or cannot be
        written to.
    PluginError
        If a reporter cannot be imported, is claimed twice, or names no plain file.
    ExternalToolError
        If a program that a format needs fails.
    """
    contents: dict[str, bytes] = {}
    for name, reporter in _reporters(formats).items():
        if reporter.file_name in contents:
            raise ConfigurationError(
                f"formats: '{name}' and another one both write {reporter.file_name}"
            )
        contents[reporter.file_name] = reporter.render(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file_name, content in contents.items():
            replace_file(folder / file_name, content)
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: the report cannot be written there ({error.strerror})"
        ) from error
    return tuple(folder / file_name for file_name in contents)


def _reporters(formats: Sequence[str]) -> dict[str, Reporter]:
    """Return the reporters of some formats, each once."""
    known = plugins.available("reporter")
    for name in formats:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigurationError(f"formats: {name!r} is not one of {', '.join(known)}.{hint}")
    reporters: dict[str, Reporter] = {}
    for name in dict.fromkeys(formats):
        reporters[name] = plugins.load("reporter", name)()
        file_name = reporters[name].file_name
        if not file_name or file_name.startswith(".") or Path(file_name).name != file_name:
            raise PluginError(f"reporter '{name}' writes to {file_name!r}, which is no plain name")
    return reporters


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
