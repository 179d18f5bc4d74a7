"""Which registered reader a recording is for."""

from __future__ import annotations

import warnings
from pathlib import Path

from privaudit import plugins
from privaudit.errors import CorruptRecordingError, PluginError, PrivauditWarning, did_you_mean
from privaudit.recording import Reader

__all__ = ["chosen_reader", "named_reader", "reader_for"]


def named_reader(name: str) -> Reader:
    """Return the reader that is registered under a name.

    Raises
    ------
    PluginError
        If there is none, two distributions claim it, or it cannot be imported.
    """
    reader: Reader = plugins.load("reader", name)()
    return reader


def chosen_reader(path: Path, name: str = "") -> Reader:
    """Return the reader of a name, or the one that recognises a recording if none is named.

    Raises
    ------
    CorruptRecordingError
        If none is named, and none recognises it.
    PluginError
        If there is none of that name, or none is named and several recognise the recording.
    """
    return named_reader(name) if name else reader_for(path)


def reader_for(path: Path) -> Reader:
    """Return the registered reader that recognises a recording.

    Warns
    -----
    PrivauditWarning
        If a registered reader cannot be used; the others are asked.

    Raises
    ------
    CorruptRecordingError
        If none recognises it.
    PluginError
        If several do.
    """
    found: list[Reader] = []
    for name in plugins.available("reader"):
        try:
            reader = named_reader(name)
            if reader.recognises(path):
                found.append(reader)
        except PluginError as error:
            warnings.warn(str(error), PrivauditWarning, stacklevel=2)
    if len(found) > 1:
        raise PluginError(
            f"{path} is recognised by the readers {' and '.join(r.name for r in found)}; name one "
            "(--reader NAME, or privaudit.load(path, reader=...)) or uninstall the other"
        )
    if not found:
        raise CorruptRecordingError(_unrecognised(path))
    return found[0]


def _unrecognised(path: Path) -> str:
    if path.exists():
        known = ", ".join(plugins.available("reader"))
        return (
            f"{path} is not a recorded run: none of the readers {known} recognises it; a bundle "
            "has a manifest.json in it or in its folder 'run'. Record one with: privaudit "
            "simulate pa-cfl -o FOLDER"
        )
    beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    return (
        f"{path} is not a recorded run: there is no such file or folder."
        f"{did_you_mean(path.name, beside)}"
    )
