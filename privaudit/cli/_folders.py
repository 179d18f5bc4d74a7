"""Folders that commands are given: which report they hold, and what must not be written there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from privaudit.campaigns.folders import AUDIT, CAMPAIGN
from privaudit.errors import ConfigurationError

if TYPE_CHECKING:
    from privaudit.reports import AuditReport

__all__ = ["refuse_export", "refuse_no_campaign", "report_at"]

_TABLES: Final = (".csv", ".parquet")
#: Folders of a campaign or an audit, below which every file is its own.
_PARTS: Final = ("runs", "logs", "cells", "outcomes")


def report_at(path: Path) -> AuditReport:
    """Read a report, or say why there is none yet.

    Raises
    ------
    ConfigurationError
    """
    from privaudit.reports import read_report

    file = path / "report.json" if path.is_dir() else path
    folder = file.parent
    if not file.exists() and (folder / CAMPAIGN).is_file():
        raise ConfigurationError(
            f"{folder} holds an unfinished campaign; run the same command again: privaudit run "
            f"CAMPAIGN.toml -o {folder}"
        )
    return read_report(path)


def refuse_no_campaign(folder: Path) -> None:
    """Refuse the folder of an audit, for which no campaign can be made.

    Raises
    ------
    ConfigurationError
    """
    if (folder / CAMPAIGN).exists():
        return
    if (folder / AUDIT).exists() or (folder / "report.json").exists():
        raise ConfigurationError(
            f"{folder} holds an audit, not a campaign; privaudit report {folder} writes its report "
            f"again, and privaudit check {folder} --policy FILE holds it against limits"
        )


def refuse_export(file: Path) -> None:
    """Refuse to write an export onto what a campaign or an audit holds.

    Within such a folder it may replace an earlier export alone.

    Raises
    ------
    ConfigurationError
    """
    # The folder may be a link, and so may the file.
    for target in {file.parent.resolve() / file.name, file.resolve()}:
        for folder in target.parents:
            if not any((folder / name).exists() for name in (CAMPAIGN, AUDIT)):
                continue
            inner = target.relative_to(folder).parts
            own = (
                inner[0] in _PARTS
                or (len(inner) == 1 and inner[0].startswith((CAMPAIGN, "campaign.json")))
                or (len(inner) == 1 and inner[0] == AUDIT)
                or (target.stem.split(".")[0] == "report" and target.suffix not in _TABLES)
            )
            if own or (target.exists() and target.suffix not in _TABLES):
                raise ConfigurationError(
                    f"{file} is a file of what {folder} holds, which an export must not replace; "
                    "name another file"
                )
