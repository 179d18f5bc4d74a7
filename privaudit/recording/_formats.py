"""Formats of recordings: the seam for other readers, and the reader of bundles."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol

from privaudit.recording._reader import read_recording, read_truth
from privaudit.transcript import JSON, Transcript, Truth

__all__ = ["BundleReader", "ReadRun", "Reader", "bundle_at"]

_NOTHING: Mapping[str, JSON] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ReadRun:
    """A recorded run, whatever the format it lay in.

    Attributes
    ----------
    transcript : Transcript
    protocol : str
        Name of the protocol that was recorded.
    digest : str
        Changes with anything in the recording; cells of attacks are keyed by it.
    complete : bool
        Whether the recorder came to its end.
    problems : tuple of str
        What is missing, and warnings.
    settings, outcome : mapping of str to JSON
        How the run was configured and how it ended, where the format says so.
    """

    transcript: Transcript
    protocol: str
    digest: str
    complete: bool = True
    problems: tuple[str, ...] = ()
    settings: Mapping[str, JSON] = field(default_factory=lambda: _NOTHING)
    outcome: Mapping[str, JSON] = field(default_factory=lambda: _NOTHING)


class Reader(Protocol):
    """A format of recordings, made without arguments and registered in ``privaudit.readers``.

    Attributes
    ----------
    name : str
        Registered name.
    """

    name: ClassVar[str]

    def recognises(self, path: Path) -> bool:
        """Tell from names or first bytes whether a file or folder is in this format.

        It is asked about anything, and raises nothing.
        """
        ...

    def read(self, path: Path) -> ReadRun:
        """Read a recording, which may come from a stranger: nothing in it is run or trusted.

        Raises
        ------
        CorruptRecordingError
            If it is damaged, hostile, or larger than is reasonable.
        """
        ...

    def truth(self, path: Path) -> Truth | None:
        """Read what really was, which lies apart; None if it was not handed over.

        Raises
        ------
        CorruptRecordingError
            As :meth:`read`.
        """
        ...


def bundle_at(path: Path) -> Path | None:
    """Return the bundle that a path means, itself or its ``run`` folder; None if neither is one."""
    for candidate in (path, path / "run"):
        if (candidate / "manifest.json").is_file():
            return candidate
    return None


def _digest(bundle: Path, head_hash: str | None) -> str:
    """Return the head of the hash chain; of a bundle that is not whole, a digest of its lines."""
    if head_hash is not None:
        return head_hash
    lines = [bundle / name for name in ("manifest.json", "events.jsonl", "secrets.jsonl")]
    digest = hashlib.sha256(b"\0".join(f.read_bytes() if f.is_file() else b"" for f in lines))
    return f"incomplete-{digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class BundleReader:
    """Bundles of the format privaudit-view/1, with a folder 'truth' beside them if there is one."""

    name: ClassVar[str] = "privaudit-view"

    def recognises(self, path: Path) -> bool:
        """Tell whether ``path``, or a folder ``run`` in it, has a manifest."""
        return bundle_at(path) is not None

    def read(self, path: Path) -> ReadRun:
        """Read the bundle; see :func:`privaudit.recording.read_recording`."""
        bundle = bundle_at(path) or path
        recording = read_recording(bundle)
        manifest = recording.manifest
        return ReadRun(
            transcript=recording.transcript,
            protocol=manifest.protocol,
            digest=_digest(bundle, manifest.head_hash if recording.complete else None),
            complete=recording.complete,
            problems=tuple(str(problem) for problem in recording.problems),
            settings=manifest.settings,
            outcome=dict(manifest.outcome or {}),
        )

    def truth(self, path: Path) -> Truth | None:
        """Read the folder ``truth`` beside the bundle, if there is one."""
        beside = (bundle_at(path) or path).parent / "truth"
        return read_truth(beside) if beside.is_dir() else None
