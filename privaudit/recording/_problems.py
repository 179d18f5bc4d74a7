"""What can be wrong with a bundle, and the bounds within which one is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["DEFAULT_LIMITS", "Limits", "Problem", "Refusal", "Report", "Severity"]

Severity: TypeAlias = Literal["corrupt", "incomplete", "warning"]

_MIB = 2**20
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a bundle.

    Attributes
    ----------
    severity : {"corrupt", "incomplete", "warning"}
        ``"corrupt"``: the bundle must not be used. ``"incomplete"``: what is there is sound, the
        end is missing. ``"warning"``: worth knowing, nothing is lost.
    file : str
        Name of the file relative to the bundle.
    where : str
        Line, message or array; empty when the whole file is meant.
    what : str
        What is wrong, what is allowed, and what to do.
    """

    severity: Severity
    file: str
    where: str
    what: str

    def __str__(self) -> str:
        place = f"{self.file}, {self.where}" if self.where else self.file
        return f"{self.severity}: {place}: {self.what}"


#: Called with each problem as it is found; one that raises ends the reading.
Report: TypeAlias = Callable[[Problem], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that are checked before anything of that size is read or allocated.

    Attributes
    ----------
    max_array_bytes : int
        Bytes of all arrays of one blob, unpacked.
    max_bundle_bytes : int
        Bytes of all files in ``arrays/`` together.
    max_blobs : int
        Number of files in ``arrays/``.
    max_events : int
        Lines of ``events.jsonl``, and of ``secrets.jsonl`` or ``targets.jsonl``.
    max_line_bytes : int
        Bytes of one line, and of the header of one blob.
    max_manifest_bytes : int
        Bytes of ``manifest.json``.
    max_parties : int
        Number of parties.
    max_name_length : int
        Characters of a party's id, a role, a kind, or the name of an array.
    max_depth : int
        Nesting of JSON.
    """

    max_array_bytes: int = 2 * _GIB
    max_bundle_bytes: int = 256 * _GIB
    max_blobs: int = 1_000_000
    max_events: int = 1_000_000
    max_line_bytes: int = 4 * _MIB
    max_manifest_bytes: int = 16 * _MIB
    max_parties: int = 100_000
    max_name_length: int = 256
    max_depth: int = 32


DEFAULT_LIMITS = Limits()


class Refusal(Exception):
    """Something read from a bundle is not acceptable; the caller knows the file and the place."""
