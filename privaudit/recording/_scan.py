"""Walk through a bundle or a truth folder and report everything that is wrong with its lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from privaudit.errors import ConfigurationError
from privaudit.recording._blobs import BlobRef
from privaudit.recording._files import read_bounded
from privaudit.recording._json import decode
from privaudit.recording._lines import Entry, Event, Line, parse_entry, parse_event, read_lines
from privaudit.recording._manifest import ZEROS, Manifest, TruthManifest
from privaudit.recording._problems import Limits, Problem, Refusal, Report
from privaudit.recording._store import BlobStore

__all__ = [
    "Bundle",
    "read_manifest_bytes",
    "report_state",
    "scan_entries",
    "scan_events",
    "scan_manifest",
]


@dataclass(frozen=True, slots=True)
class Bundle:
    """An open bundle: where it is, how it is read, and to whom problems go."""

    folder: Path
    limits: Limits
    report: Report
    store: BlobStore

    @classmethod
    def open(cls, folder: Path, *, limits: Limits, report: Report) -> Bundle:
        """List the blobs of a folder."""
        return cls(folder, limits, report, BlobStore(folder, limits=limits, report=report))

    def check_blob(self, ref: BlobRef, *, file: str, where: str) -> bool:
        """Report a blob that is missing or of impossible size; tell whether it is fine."""
        try:
            self.store.check(ref)
        except Refusal as refusal:
            self.report(Problem("corrupt", file, where, str(refusal)))
            return False
        return True


def read_manifest_bytes(folder: Path, *, limits: Limits, report: Report) -> bytes | None:
    """Return the bytes of a folder's manifest, or None after reporting why there are none.

    Raises
    ------
    ConfigurationError
        If there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}")
    try:
        return read_bounded(folder / "manifest.json", limit=limits.max_manifest_bytes)
    except FileNotFoundError:
        what = "is missing: the folder is not a recording"
    except Refusal as refusal:
        what = str(refusal)
    report(Problem("corrupt", "manifest.json", "", what))
    return None


def scan_manifest(raw: bytes, bundle: Bundle) -> Manifest | None:
    """Check a manifest and its public arrays."""
    file = "manifest.json"
    try:
        manifest = Manifest.from_bytes(raw, limits=bundle.limits)
    except Refusal as refusal:
        bundle.report(Problem("corrupt", file, "", str(refusal)))
        return None
    report_state(manifest, bundle)
    for name, ref in manifest.public_arrays.items():
        bundle.check_blob(ref, file=file, where=f"public array '{name}'")
    return manifest


def report_state(manifest: Manifest | TruthManifest, bundle: Bundle) -> None:
    """Report a manifest that is not complete or carries no digest."""
    if not manifest.complete:
        reason = getattr(manifest, "reason", None) or "the recorder did not come to its end"
        what = f"the recording is not complete: {reason}"
        bundle.report(Problem("incomplete", "manifest.json", "", what))
    if manifest.digest is None:
        what = "carries no digest: changes to it cannot be found"
        bundle.report(Problem("warning", "manifest.json", "'digest'", what))


def scan_events(manifest: Manifest | None, bundle: Bundle) -> Iterator[Event]:
    """Yield every message that can be read, in order, and report all else.

    Without a manifest, parties and the end of the file are not checked.
    """
    file, report = "events.jsonl", bundle.report
    known = None if manifest is None else {party.id for party in manifest.parties}
    head, number, cut = ZEROS, 0, False
    try:
        for line in read_lines(bundle.folder / file, limits=bundle.limits):
            where = f"line {line.number}"
            event, cut = _parse_event(line, bundle)
            if cut:
                break
            number = line.number
            if event is not None and _is_sound(event, number, head, known, bundle):
                yield event
            head = hashlib.sha256(line.data).hexdigest()
            if not line.ended:
                what = "the last newline is missing; the line itself is whole"
                report(Problem("warning", file, where, what))
    except FileNotFoundError:
        report(Problem("corrupt", file, "", "is missing"))
        return
    except Refusal as refusal:
        report(Problem("corrupt", file, "", str(refusal)))
        return
    if manifest is not None:
        _check_end(manifest, number, head, cut, bundle)


def _parse_event(line: Line, bundle: Bundle) -> tuple[Event | None, bool]:
    """Return the message of a line, and whether the line is a last one that was cut."""
    where = f"line {line.number}"
    if not line.ended and not _is_whole(line.data, bundle):
        what = f"the last line was cut after {len(line.data)} bytes; it is left out"
        bundle.report(Problem("incomplete", "events.jsonl", where, what))
        return None, True
    try:
        return parse_event(line.data, limits=bundle.limits), False
    except Refusal as refusal:
        bundle.report(Problem("corrupt", "events.jsonl", where, str(refusal)))
        return None, False


def _is_whole(data: bytes, bundle: Bundle) -> bool:
    """Tell whether bytes are JSON; no proper beginning of a JSON object is."""
    try:
        decode(data, limits=bundle.limits)
    except Refusal:
        return False
    return True


def _is_sound(event: Event, number: int, head: str, known: set[str] | None, bundle: Bundle) -> bool:
    """Check a message against the line before it, the parties and the blobs; report the rest."""
    found: list[tuple[str, str]] = []
    where = f"line {number}"
    if event.seq != number - 1:
        found.append(
            (where, f"'seq' is {event.seq}, must be {number - 1}: a line is lost or moved")
        )
    if event.prev != head and number == 1:
        found.append((where, "'prev' of the first line must be 64 zeros"))
    elif event.prev != head:
        what = (
            f"has SHA-256 {head}, but line {number} expects {event.prev}: it was changed, or a "
            "line was lost or moved"
        )
        found.append((f"line {number - 1}", what))
    for end, party in (("sender", event.sender), ("receiver", event.receiver)):
        if known is not None and party not in known:
            found.append((where, f"'{end}' is '{party}', which is not a party of the manifest"))
    for place, what in found:
        bundle.report(Problem("corrupt", "events.jsonl", place, what))
    if event.blob is None:
        return not found
    label = f"{where}, {event.label}"
    return bundle.check_blob(event.blob, file="events.jsonl", where=label) and not found


def _check_end(manifest: Manifest, number: int, head: str, cut: bool, bundle: Bundle) -> None:
    file = "events.jsonl"
    expected = manifest.n_events
    if expected is not None and number + cut != expected:
        what = f"has {number + cut} lines, the manifest says {expected}: lines were lost or added"
        bundle.report(Problem("corrupt", file, "", what))
    elif manifest.head_hash is not None and not cut and manifest.head_hash != head:
        what = f"has SHA-256 {head}, 'head_hash' is {manifest.head_hash}: it was changed"
        bundle.report(Problem("corrupt", file, f"line {number}", what))


def scan_entries(
    file: str, owner: str, bundle: Bundle, *, complete: bool, digest: str | None
) -> Iterator[tuple[int, Entry]]:
    """Yield the numbered lines of secrets or targets, and report all that cannot be read.

    ``digest`` is the SHA-256 that the whole file must have, if it is known.
    """
    hasher = hashlib.sha256()
    number = 0
    try:
        for line in read_lines(bundle.folder / file, limits=bundle.limits):
            number = line.number
            hasher.update(line.data + b"\n" if line.ended else line.data)
            where = f"line {number}"
            try:
                entry = parse_entry(line.data, owner, limits=bundle.limits)
            except Refusal as refusal:
                cut = not line.ended and not complete and not _is_whole(line.data, bundle)
                what = "the last line was cut; it is left out" if cut else str(refusal)
                bundle.report(Problem("incomplete" if cut else "corrupt", file, where, what))
                continue
            label = f"{where}, {entry.name} of {owner} '{entry.owner}'"
            if bundle.check_blob(entry.blob, file=file, where=label):
                yield number, entry
    except FileNotFoundError:
        if digest is not None:
            bundle.report(Problem("corrupt", file, "", "is missing"))
        return
    except Refusal as refusal:
        bundle.report(Problem("corrupt", file, "", str(refusal)))
        return
    if digest is not None and hasher.hexdigest() != digest:
        what = f"has SHA-256 {hasher.hexdigest()}, the manifest says {digest}: it was changed"
        bundle.report(Problem("corrupt", file, "", what))
    elif digest is None and complete and number:
        what = "the manifest gives no digest for it: changes to it cannot be found"
        bundle.report(Problem("warning", file, "", what))
