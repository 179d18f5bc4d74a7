"""Reading a bundle: lines at once, arrays when they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from privaudit.errors import CorruptRecordingError, PrivauditWarning
from privaudit.recording._blobs import BlobRef
from privaudit.recording._files import shown_name
from privaudit.recording._lines import Entry, Event
from privaudit.recording._manifest import Manifest, TruthManifest
from privaudit.recording._problems import DEFAULT_LIMITS, Limits, Problem, Refusal
from privaudit.recording._scan import (
    Bundle,
    read_manifest_bytes,
    report_state,
    scan_entries,
    scan_events,
    scan_manifest,
)
from privaudit.recording._store import BlobStore, StoredArrays
from privaudit.transcript import Array, Message, Transcript, Truth

__all__ = [
    "Recording",
    "read_recording",
    "read_truth",
    "report_unused",
    "scan_secrets",
    "scan_truth_manifest",
]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A bundle that was read.

    Attributes
    ----------
    transcript : Transcript
        Its arrays are read from disk when they are asked for.
    manifest : Manifest
    problems : tuple of Problem
        What is missing, and warnings; nothing of severity ``"corrupt"``.
    times : mapping of int to float
        Seconds on the recorder's clock by the ``seq`` of messages that carry them.
    errors : mapping of int to str
        Errors by the ``seq`` of the replies that were errors.
    """

    transcript: Transcript
    manifest: Manifest
    problems: tuple[Problem, ...]
    times: Mapping[int, float] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return all(problem.severity != "incomplete" for problem in self.problems)


class _Strict:
    """Collects tolerated problems and raises at the first that is not."""

    def __init__(self, folder: Path, *, tolerate_incomplete: bool) -> None:
        self.problems: list[Problem] = []
        self._folder = folder
        self._tolerated = {"warning", "incomplete"} if tolerate_incomplete else {"warning"}

    def __call__(self, problem: Problem) -> None:
        if problem.severity not in self._tolerated:
            raise CorruptRecordingError(f"{self._folder}: {problem}")
        self.problems.append(problem)


def read_recording(
    folder: Path, *, limits: Limits = DEFAULT_LIMITS, tolerate_incomplete: bool = True
) -> Recording:
    """Read a bundle, which may come from a stranger.

    Every line and size is checked now; the bytes of a blob when an array of it is asked for
    (:func:`verify` reads them all).

    Parameters
    ----------
    folder : Path
    limits : Limits
        Bounds on what is read.
    tolerate_incomplete : bool
        Whether a recording without its end is read, and reported in ``problems``.

    Raises
    ------
    CorruptRecordingError
        Names the folder, the file, the place, and what is wrong.
    ConfigurationError
        If there is no such folder.
    """
    folder = Path(folder)
    report = _Strict(folder, tolerate_incomplete=tolerate_incomplete)
    raw = read_manifest_bytes(folder, limits=limits, report=report)
    bundle = Bundle.open(folder, limits=limits, report=report)
    manifest = None if raw is None else scan_manifest(raw, bundle)
    assert manifest is not None  # the reporter raises otherwise
    messages: list[Message] = []
    times: dict[int, float] = {}
    errors: dict[int, str] = {}
    for event in scan_events(manifest, bundle):
        messages.append(_message(event, bundle.store))
        if event.t is not None:
            times[event.seq] = event.t
        if event.error is not None:
            errors[event.seq] = event.error
    secrets = _read_secrets(manifest, bundle)
    report_unused(bundle)
    transcript = Transcript(
        parties=manifest.parties,
        messages=tuple(messages),
        secrets=secrets,
        public=manifest.public,
        public_arrays=StoredArrays(bundle.store, manifest.public_arrays, owner="public arrays"),
        facts=manifest.facts,
    )
    return Recording(transcript, manifest, tuple(report.problems), times, errors)


def read_truth(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> Truth:
    """Read a truth folder; arrays are read when they are asked for.

    Warns
    -----
    PrivauditWarning
        If the recorder did not come to its end, or the last line was cut.

    Raises
    ------
    CorruptRecordingError
        Names the folder, the file, the place, and what is wrong.
    ConfigurationError
        If there is no such folder.
    """
    folder = Path(folder)
    report = _Strict(folder, tolerate_incomplete=True)
    raw = read_manifest_bytes(folder, limits=limits, report=report)
    bundle = Bundle.open(folder, limits=limits, report=report)
    manifest = None if raw is None else scan_truth_manifest(raw, bundle)
    assert manifest is not None  # the reporter raises otherwise
    targets: dict[str, dict[str, BlobRef]] = {}
    for _, entry in scan_entries(
        "targets.jsonl", "target", bundle, complete=manifest.complete, digest=manifest.targets
    ):
        targets.setdefault(entry.owner, {})[entry.name] = entry.blob
    for problem in report.problems:
        if problem.severity == "incomplete":
            warnings.warn(f"{folder}: {problem}", PrivauditWarning, stacklevel=2)
    return Truth(
        {
            target: StoredArrays(bundle.store, refs, owner=f"target '{target}'")
            for target, refs in targets.items()
        }
    )


def scan_truth_manifest(raw: bytes, bundle: Bundle) -> TruthManifest | None:
    """Check the manifest of a truth folder."""
    try:
        manifest = TruthManifest.from_bytes(raw, limits=bundle.limits)
    except Refusal as refusal:
        bundle.report(Problem("corrupt", "manifest.json", "", str(refusal)))
        return None
    report_state(manifest, bundle)
    return manifest


def report_unused(bundle: Bundle) -> None:
    """Report files in ``arrays/`` that nothing refers to."""
    for name in bundle.store.unused():
        what = "nothing refers to it; it may be left over from an interrupted run"
        bundle.report(Problem("warning", f"arrays/{shown_name(name)}", "", what))


def _message(event: Event, store: BlobStore) -> Message:
    refs = {} if event.blob is None else dict.fromkeys(event.blob.specs, event.blob)
    return Message(
        seq=event.seq,
        round=event.round,
        kind=event.kind,
        sender=event.sender,
        receiver=event.receiver,
        arrays=StoredArrays(store, refs, owner=event.label),
        meta=event.meta,
    )


def scan_secrets(manifest: Manifest | None, bundle: Bundle) -> Iterator[tuple[int, Entry]]:
    """Yield the numbered lines of secrets whose party is known; any is without a manifest."""
    file = "secrets.jsonl"
    known = None if manifest is None else {party.id for party in manifest.parties}
    complete = manifest is not None and manifest.complete
    digest = None if manifest is None else manifest.secrets
    for number, entry in scan_entries(file, "party", bundle, complete=complete, digest=digest):
        if known is None or entry.owner in known:
            yield number, entry
        else:
            what = f"'party' is '{entry.owner}', which is not a party of the manifest"
            bundle.report(Problem("corrupt", file, f"line {number}", what))


def _read_secrets(manifest: Manifest, bundle: Bundle) -> dict[str, Mapping[str, Array]]:
    secrets: dict[str, dict[str, BlobRef]] = {}
    for _, entry in scan_secrets(manifest, bundle):
        secrets.setdefault(entry.owner, {})[entry.name] = entry.blob
    return {
        party: StoredArrays(bundle.store, refs, owner=f"secrets of '{party}'")
        for party, refs in secrets.items()
    }
