"""Protocols, attacks and other parts are found through entry points; built-ins register alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

from privaudit.errors import PluginError, did_you_mean

__all__ = ["GROUPS", "available", "load", "whole_name"]

#: Short name of a kind of plug-in, and its entry-point group.
GROUPS: Mapping[str, str] = {
    "protocol": "privaudit.protocols",
    "attack": "privaudit.attacks",
    "scorer": "privaudit.scorers",
    "engine": "privaudit.engines",
    "reader": "privaudit.readers",
    "reporter": "privaudit.reporters",
}


@lru_cache(maxsize=256)
def _name_of(distribution: Distribution) -> str:
    # Parsing a distribution's metadata takes longer than everything else here, and all entry
    # points of one share the object.
    return distribution.name


def _origin(entry: EntryPoint) -> str:
    return _name_of(entry.dist) if entry.dist is not None else entry.value


def available(kind: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a kind by name, sorted; a name taken twice has two of them."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUPS[kind]):
        # One distribution may be listed twice on the path (an editable install beside a wheel).
        found.setdefault(entry.name, {})[f"{_origin(entry)}:{entry.value}"] = entry
    return {name: tuple(entries.values()) for name, entries in sorted(found.items())}


def whole_name(kind: str, name: str) -> str:
    """Return the registered name that a name means: itself, or the one that ends in ``/name``.

    A name that means nothing is returned as it is; :func:`load` says what is known.

    Raises
    ------
    PluginError
        If several registered names end so.
    """
    names = available(kind)
    if name in names:
        return name
    last = [known for known in names if known.rsplit("/", 1)[-1] == name]
    if len(last) > 1:
        raise PluginError(f"'{name}' may be {' or '.join(last)}; give the whole name")
    return last[0] if last else name


def load(kind: str, name: str) -> Any:
    """Import and return the plug-in of a name.

    Raises
    ------
    PluginError
        If no plug-in has the name (with a suggestion), if two distributions claim it (naming
        both), or if importing it fails (naming its distribution and the cause).
    """
    entries = available(kind)
    if name not in entries:
        listed = ", ".join(entries) or "none: is privaudit installed?"
        raise PluginError(
            f"no {kind} is named '{name}'; available: {listed}.{did_you_mean(name, entries)}"
        )
    claims = entries[name]
    if len(claims) > 1:
        origins = " and ".join(sorted(f"{_origin(e)} ({e.value})" for e in claims))
        raise PluginError(f"{kind} '{name}' is claimed by {origins}; uninstall one of them")
    try:
        return claims[0].load()
    except Exception as error:
        raise PluginError(
            f"{kind} '{name}' of distribution {_origin(claims[0])} cannot be imported: {error!r}"
        ) from error
