"""Answers kept on disk between processes, by content: computed again whenever in doubt.

The folder is ``$PRIVAUDIT_CACHE``, else ``accounting`` in privaudit's folder of the user's caches
(``$XDG_CACHE_HOME``, ``~/.cache``, ``~/Library/Caches`` or ``%LOCALAPPDATA%``). An empty
``$PRIVAUDIT_CACHE`` switches it off. A folder that cannot be written to is not an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["folder", "read", "write"]

#: To be raised with every change of the algorithm that may change an answer.
ALGORITHM = "vector-renyi-7"

#: Bounds on what is kept: entries, and bytes of one that is read.
_MOST_ENTRIES = 2000
_MOST_BYTES = 65536


def folder() -> Path | None:
    """Return where answers are kept, or None if they are not."""
    named = os.environ.get("PRIVAUDIT_CACHE")
    if named is not None:
        return Path(named) if named else None
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home
        return None
    return base / "privaudit" / "accounting" if base.is_absolute() else None


def _key(parameters: Mapping[str, str]) -> str:
    return json.dumps({"algorithm": ALGORITHM, **parameters}, sort_keys=True)


def _file(place: Path, key: str) -> Path:
    return place / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def read(parameters: Mapping[str, str]) -> dict[float, tuple[float, float]]:
    """Return the pairs of bounds kept for the parameters, by order; empty if there are none.

    An entry that is damaged, too long, or of other parameters or another algorithm is passed over.
    """
    place = folder()
    if place is None:
        return {}
    key = _key(parameters)
    try:
        with _file(place, key).open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            return {}
        entry = json.loads(content)
        if entry["key"] != key or entry["digest"] != _digest(key, entry["bounds"]):
            return {}
        bounds = [tuple(float.fromhex(x) for x in row) for row in entry["bounds"]]
        found = {order: (basic, refined) for order, basic, refined in bounds}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}
    sound = all(
        math.isfinite(order) and order > 1 and math.isfinite(basic) and 0 <= refined <= basic
        for order, (basic, refined) in found.items()
    )
    return found if sound else {}


def write(parameters: Mapping[str, str], found: Mapping[float, tuple[float, float]]) -> None:
    """Keep pairs of bounds by order, whole or not at all; the oldest entries make room."""
    place = folder()
    if place is None:
        return
    key = _key(parameters)
    rows = [[x.hex() for x in (order, *bounds)] for order, bounds in sorted(found.items())]
    content = json.dumps({"key": key, "bounds": rows, "digest": _digest(key, rows)}).encode()
    if len(content) > _MOST_BYTES:
        return
    file = _file(place, key)
    temporary = place / f".{file.name}.{secrets.token_hex(8)}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
        _make_room(place)
    except OSError:
        # A full disk or a read-only folder costs time, not the answer.
        return


def _digest(key: str, rows: object) -> str:
    return hashlib.sha256((key + json.dumps(rows)).encode()).hexdigest()


def _make_room(place: Path) -> None:
    entries = [file for file in place.iterdir() if len(file.stem) == 64 and file.suffix == ".json"]
    if len(entries) <= _MOST_ENTRIES:
        return
    entries.sort(key=lambda file: file.stat().st_mtime)
    for file in entries[: len(entries) - _MOST_ENTRIES * 9 // 10]:
        file.unlink(missing_ok=True)
