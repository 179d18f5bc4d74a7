"""Output folders: what marks them, what they must not hold, and that refusals leave none behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from privaudit.errors import OutputExistsError, PrivauditError

__all__ = ["AUDIT", "CAMPAIGN", "given_back", "refuse_campaign", "refuse_file"]

#: What an audit writes into its folder before its work begins.
AUDIT: Final = "audit.json"
#: The results of a campaign.
CAMPAIGN: Final = "campaign.sqlite"


def refuse_file(out: Path) -> None:
    """Refuse a path that is a file, or lies below one.

    Raises
    ------
    OutputExistsError
    """
    for part in (out, *out.parents):
        if part.exists() and not part.is_dir():
            raise OutputExistsError(f"{part} is a file; name a folder with -o")


def refuse_campaign(out: Path) -> None:
    """Refuse the folder of a campaign, whose report would be replaced; ``--force`` or not.

    Raises
    ------
    OutputExistsError
    """
    if (out / CAMPAIGN).exists():
        raise OutputExistsError(
            f"{out} holds a campaign ({CAMPAIGN}), whose report and runs would be mixed with "
            "others; name another folder with -o"
        )


@contextmanager
def given_back(out: Path) -> Iterator[None]:
    """Remove what was made of a folder if the work is refused before it gave anything."""
    made = [part for part in (out, *out.parents) if not part.exists()]
    held = set(out.rglob("*")) if out.is_dir() else set()
    try:
        yield
    except (OSError, PrivauditError):
        added = set(out.rglob("*")) - held if out.is_dir() else set()
        if all(part.is_dir() or part == out / AUDIT for part in added):
            for part in added:
                if part.is_dir():
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    part.unlink(missing_ok=True)
            for part in made:
                if part.is_dir() and not any(part.iterdir()):
                    part.rmdir()
        raise
