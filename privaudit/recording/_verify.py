"""Finding everything that is wrong with a bundle; every byte of it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privaudit.recording._blobs import BlobRef
from privaudit.recording._manifest import TRUTH_FORMAT, format_of
from privaudit.recording._problems import DEFAULT_LIMITS, Limits, Problem, Refusal
from privaudit.recording._reader import report_unused, scan_secrets, scan_truth_manifest
from privaudit.recording._scan import (
    Bundle,
    read_manifest_bytes,
    scan_entries,
    scan_events,
    scan_manifest,
)

__all__ = ["verify"]


def verify(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Problem, ...]:
    """Return every problem of a bundle, or of a truth folder, in the order of its files.

    Reads every blob, once each. No problem means: nothing is missing, and nothing was changed
    since it was recorded by somebody who did not also change the digests.

    Raises
    ------
    ConfigurationError
        If there is no such folder.
    """
    folder = Path(folder)
    problems: list[Problem] = []
    raw = read_manifest_bytes(folder, limits=limits, report=problems.append)
    if raw is None:
        return tuple(problems)
    bundle = Bundle.open(folder, limits=limits, report=problems.append)
    blobs = _BlobCheck(bundle)
    is_truth = format_of(raw, limits=limits) == TRUTH_FORMAT
    sound = _verify_truth(raw, bundle, blobs) if is_truth else _verify_run(raw, bundle, blobs)
    if sound:  # what a manifest that cannot be read refers to is not known
        report_unused(bundle)
    return tuple(problems)


def _verify_run(raw: bytes, bundle: Bundle, blobs: _BlobCheck) -> bool:
    """Verify a bundle, and tell whether its manifest could be read."""
    manifest = scan_manifest(raw, bundle)
    for name, ref in ({} if manifest is None else manifest.public_arrays).items():
        blobs.check(ref, file="manifest.json", where=f"public array '{name}'")
    for event in scan_events(manifest, bundle):
        if event.blob is not None:
            where = f"line {event.seq + 1}, {event.label}"
            blobs.check(event.blob, file="events.jsonl", where=where)
    for number, entry in scan_secrets(manifest, bundle):
        where = f"line {number}, {entry.name} of party '{entry.owner}'"
        blobs.check(entry.blob, file="secrets.jsonl", where=where)
    return manifest is not None


def _verify_truth(raw: bytes, bundle: Bundle, blobs: _BlobCheck) -> bool:
    """Verify a truth folder, and tell whether its manifest could be read."""
    manifest = scan_truth_manifest(raw, bundle)
    complete = manifest is not None and manifest.complete
    digest = None if manifest is None else manifest.targets
    for number, entry in scan_entries(
        "targets.jsonl", "target", bundle, complete=complete, digest=digest
    ):
        where = f"line {number}, {entry.name} of target '{entry.owner}'"
        blobs.check(entry.blob, file="targets.jsonl", where=where)
    return manifest is not None


class _BlobCheck:
    """Reads each blob once, however many messages refer to it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._read: dict[str, BlobRef] = {}

    def check(self, ref: BlobRef, *, file: str, where: str) -> None:
        """Report what is wrong with a blob, at the first place that refers to it."""
        if self._bundle.store.file_of(ref.digest) is None:
            return  # has been reported with its line
        if ref.digest in self._read:
            if self._read[ref.digest] != ref:
                what = f"declares other arrays of {ref.digest} than an earlier reference to it"
                self._bundle.report(Problem("corrupt", file, where, what))
            return
        self._read[ref.digest] = ref
        try:
            arrays = self._bundle.store.read(ref)
        except Refusal as refusal:
            self._bundle.report(Problem("corrupt", file, where, str(refusal)))
            return
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                count = int(array.size - np.isfinite(array).sum())
                what = f"{count} of {array.size} values of array '{name}' are not finite"
                self._bundle.report(Problem("warning", file, where, what))
