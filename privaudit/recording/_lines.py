"""Lines of a bundle: messages, secrets and targets, parsed one at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaudit.recording._blobs import BlobRef, check_digest, parse_single, parse_specs
from privaudit.recording._files import open_regular
from privaudit.recording._json import check_fields, check_text, decode, is_count
from privaudit.recording._problems import Limits, Refusal
from privaudit.transcript import JSON, PartyId

__all__ = ["Entry", "Event", "Line", "parse_entry", "parse_event", "read_lines"]

_REQUIRED = ("seq", "kind", "sender", "receiver", "prev")
_OPTIONAL: Mapping[str, Any] = {
    "t": None,
    "round": None,
    "arrays": None,
    "specs": {},
    "meta": {},
    "error": None,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of ``events.jsonl``."""

    seq: int
    t: float | None
    round: int | None
    kind: str
    sender: PartyId
    receiver: PartyId
    blob: BlobRef | None
    meta: Mapping[str, JSON]
    error: str | None
    prev: str

    @property
    def label(self) -> str:
        """How problems name the message."""
        return f"message {self.seq} ({self.kind}, {self.sender} to {self.receiver})"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of ``secrets.jsonl`` or ``targets.jsonl``: one array of a party or target."""

    owner: str
    name: str
    blob: BlobRef


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file; ``ended`` is false if it lacks its newline."""

    number: int
    data: bytes
    ended: bool


def read_lines(path: Path, *, limits: Limits) -> Iterator[Line]:
    """Yield the lines of a file without their newlines; never more than one is in memory.

    Raises
    ------
    Refusal
        If the file cannot be read, a line is too long, or there are too many.
    FileNotFoundError
        If there is no such file.
    """
    with open_regular(path) as file:
        number = 0
        while data := file.readline(limits.max_line_bytes + 1):
            number += 1
            if number > limits.max_events:
                raise Refusal(f"has more than {limits.max_events} lines")
            ended = data.endswith(b"\n")
            if not ended and len(data) > limits.max_line_bytes:
                raise Refusal(f"line {number} is longer than {limits.max_line_bytes} bytes")
            yield Line(number, data[:-1] if ended else data, ended)


def parse_event(data: bytes, *, limits: Limits) -> Event:
    """Check and read one message; raise Refusal if anything in it is not as it must be."""
    content = check_fields(
        decode(data, limits=limits), _REQUIRED, optional=_OPTIONAL, what="the line"
    )
    if not is_count(content["seq"]):
        raise Refusal("'seq' must be a non-negative integer")
    if content["round"] is not None and not is_count(content["round"]):
        raise Refusal("'round' must be null or a non-negative integer")
    if not isinstance(content["meta"], dict):
        raise Refusal("'meta' must be a JSON object")
    if content["error"] is not None and not isinstance(content["error"], str):
        raise Refusal("'error' must be null or text")
    return Event(
        seq=content["seq"],
        t=_time(content["t"]),
        round=content["round"],
        kind=check_text(content["kind"], what="'kind'", limits=limits),
        sender=check_text(content["sender"], what="'sender'", limits=limits),
        receiver=check_text(content["receiver"], what="'receiver'", limits=limits),
        blob=_event_blob(content["arrays"], content["specs"], limits=limits),
        meta=content["meta"],
        error=content["error"],
        prev=check_digest(content["prev"], what="'prev'"),
    )


def _time(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal("'t' must be null or a number of seconds")
    if (isinstance(value, int) and abs(value) >= 2**63) or not math.isfinite(value):
        raise Refusal("'t' is out of range")
    return float(value)


def _event_blob(digest: Any, specs: Any, *, limits: Limits) -> BlobRef | None:
    parsed = parse_specs(specs, limits=limits)
    if digest is None:
        if parsed:
            raise Refusal("'arrays' is null although 'specs' names arrays")
        return None
    checked = check_digest(digest, what="'arrays'")
    if not parsed:
        raise Refusal("'specs' names no arrays although 'arrays' is given")
    return BlobRef(checked, parsed)


def parse_entry(data: bytes, owner: str, *, limits: Limits) -> Entry:
    """Check and read one line of secrets (``owner`` is ``"party"``) or targets (``"target"``)."""
    content = check_fields(
        decode(data, limits=limits), (owner, "name", "arrays", "spec"), what="the line"
    )
    name = check_text(content["name"], what="'name'", limits=limits)
    reference = {"arrays": content["arrays"], "spec": content["spec"]}
    return Entry(
        owner=check_text(content[owner], what=f"'{owner}'", limits=limits),
        name=name,
        blob=parse_single(reference, name, limits=limits),
    )
