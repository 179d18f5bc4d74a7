"""A recorder that writes a bundle as the run goes, in memory that does not grow with it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Literal

import numpy as np

from privaudit.errors import ConfigurationError, PrivauditError
from privaudit.recording._blobs import encode_blob, single_json, specs_json, store_blob
from privaudit.recording._files import LineLog, write_atomically
from privaudit.recording._folders import RUN, TRUTH, check_apart, check_usable, make_empty
from privaudit.recording._json import canonical
from privaudit.recording._lines import parse_entry, parse_event
from privaudit.recording._manifest import ZEROS, Manifest, TruthManifest
from privaudit.recording._problems import DEFAULT_LIMITS, Refusal
from privaudit.transcript import (
    JSON,
    Array,
    Capability,
    Message,
    Party,
    PartyId,
    check_ends,
    check_parties,
    frozen_arrays,
)

__all__ = ["BundleRecorder"]


class BundleRecorder:
    """Write what happens in a run into a folder, message by message.

    Use it as a context manager: a run that is interrupted leaves a readable bundle whose manifest
    says that it is not complete, and so does a run that is killed. A recording is itself a risk to
    privacy: it holds all that the observer saw, and the secrets that it was given.

    Not thread-safe: callers that send from several threads hold a lock.

    Parameters
    ----------
    folder : Path
        Where the bundle goes; must be empty or new.
    protocol : str
        Name of the protocol.
    truth : Path, optional
        Where the truth goes: a folder of its own, readable by its owner only. Without it, what is
        noted as truth is not kept.
    observer : str
        Whose messages are recorded: ``"all"``, or the party or role at which the recorder stands.
    settings : mapping of str to JSON, optional
        How the run was configured.
    force : bool
        Replace an earlier recording. A folder that holds anything else is never cleared.

    Raises
    ------
    OutputExistsError
        If a folder is not empty.
    ConfigurationError
        If the folders overlap, or a text or setting cannot be written.
    PrivauditError
        If a file cannot be written; what was recorded before stays readable.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from privaudit.transcript import Party
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> with BundleRecorder(folder, protocol="example") as recorder:
    ...     recorder.declare([Party("user-1", "user"), Party("server", "server")])
    ...     message = recorder.send(kind="update", sender="user-1", receiver="server", round=1,
    ...                             arrays={"gradient": np.zeros(3, np.float32)})
    ...     recorder.finish({"status": "completed"})
    >>> sorted(path.name for path in folder.iterdir())
    ['arrays', 'events.jsonl', 'manifest.json', 'secrets.jsonl']
    """

    def __init__(
        self,
        folder: Path,
        *,
        protocol: str,
        truth: Path | None = None,
        observer: str = "all",
        settings: Mapping[str, JSON] | None = None,
        force: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._truth_folder = None if truth is None else Path(truth)
        self._manifest = Manifest(protocol, observer=observer, settings=dict(settings or {}))
        self._state: Literal["open", "writing", "closed"] = "open"
        self._seq = 0
        self._head = ZEROS
        data = _manifest_bytes(self._manifest)
        check_apart(self._folder, self._truth_folder)
        check_usable(self._folder, RUN, force=force)
        if self._truth_folder is not None:
            check_usable(self._truth_folder, TRUTH, force=force)
        make_empty(self._folder, RUN)
        write_atomically(self._folder / "manifest.json", data)
        self._events = LineLog(self._folder / "events.jsonl")
        self._secrets = LineLog(self._folder / "secrets.jsonl")
        self._targets: LineLog | None = None
        if self._truth_folder is not None:
            make_empty(self._truth_folder, TRUTH)
            self._write_truth_manifest(TruthManifest())
            self._targets = LineLog(self._truth_folder / "targets.jsonl")

    def declare(self, parties: Sequence[Party], *, facts: Iterable[Capability] = ()) -> None:
        """State the parties of the run; see :class:`privaudit.transcript.Recorder`."""
        with self._writing():
            check_parties(parties, already=self._manifest.parties)
            self._change(parties=tuple(parties), facts=frozenset(facts))

    def send(
        self,
        *,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        round: int | None = None,
        arrays: Mapping[str, Array] | None = None,
        meta: Mapping[str, JSON] | None = None,
        t: float | None = None,
        error: str | None = None,
    ) -> Message:
        """Record one message; see :class:`privaudit.transcript.Recorder`.

        ``t`` (seconds on a clock of the caller's choice) and ``error`` (a reply that is an error)
        are for live deployments; simulated runs leave them out, so that equal runs give equal
        bytes.
        """
        with self._writing():
            check_ends(self._manifest.parties, kind=kind, sender=sender, receiver=receiver)
            message = Message(
                seq=self._seq,
                round=round,
                kind=kind,
                sender=sender,
                receiver=receiver,
                arrays=frozen_arrays(arrays),
                meta=MappingProxyType(dict(meta or {})),
            )
            self._append_event(message, t=t, error=error)
        return message

    def publish(self, name: str, value: JSON | Array) -> None:
        """Record a public value; see :class:`privaudit.transcript.Recorder`."""
        with self._writing():
            if isinstance(value, np.ndarray):
                blob = encode_blob(frozen_arrays({name: value}))
                store_blob(self._folder / "arrays", blob)
                self._change(public_arrays={**self._manifest.public_arrays, name: blob.ref})
            else:
                self._change(public={**self._manifest.public, name: value})

    def keep_secret(self, party: PartyId, name: str, array: Array) -> None:
        """Record a secret; see :class:`privaudit.transcript.Recorder`."""
        with self._writing():
            check_ends(self._manifest.parties, kind=f"secret {name}", sender=party, receiver=party)
            _append_entry(self._secrets, "party", party, name, array)

    def note_truth(self, target: str, **arrays: Array) -> None:
        """Record truth, if there is a folder for it; see :class:`privaudit.transcript.Recorder`."""
        with self._writing():
            if self._targets is not None:
                for name, array in arrays.items():
                    _append_entry(self._targets, "target", target, name, array)

    def finish(self, outcome: Mapping[str, JSON]) -> None:
        """State how the run ended, and that the recording is complete.

        Raises
        ------
        ConfigurationError
            If no parties were declared, or the recording has ended already.
        """
        with self._writing():
            if not self._manifest.parties:
                raise ConfigurationError("declare the parties before finishing a recording")
            canonical(outcome, what="outcome")
            self._close_logs(sync=True)
            if self._targets is not None:
                self._write_truth_manifest(
                    TruthManifest(complete=True, targets=self._targets.sha256)
                )
            self._change(
                complete=True,
                reason=None,
                n_events=self._seq,
                head_hash=self._head,
                secrets=self._secrets.sha256,
                outcome=dict(outcome),
            )
        self._state = "closed"

    def __enter__(self) -> BundleRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state == "closed":
            return
        self._state = "closed"
        try:
            self._close_logs(sync=False)
            self._change(
                reason="closed before it was finished"
                if kind is None
                else f"interrupted ({kind.__name__})"
            )
        except PrivauditError as failure:
            # The manifest of the start says already that the recording is not complete.
            if error is None:
                raise
            error.add_note(f"The recording could not be closed: {failure}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Refuse to go on after the end, or after a failure that may have left half a step."""
        if self._state == "closed":
            raise ConfigurationError(f"the recording {self._folder} has ended")
        if self._state == "writing":
            raise PrivauditError(
                f"the recording {self._folder} failed or was interrupted while it was written; "
                "what was recorded before stays readable, nothing can be added"
            )
        self._state = "writing"
        try:
            yield
        except ConfigurationError:
            self._state = "open"  # refused before anything was written
            raise
        self._state = "open"

    def _append_event(self, message: Message, *, t: float | None, error: str | None) -> None:
        what = f"message {message.seq} ({message.kind})"
        blob = encode_blob(message.arrays) if message.arrays else None
        line = canonical(
            {
                "seq": message.seq,
                "t": t,
                "round": message.round,
                "kind": message.kind,
                "sender": message.sender,
                "receiver": message.receiver,
                "arrays": None if blob is None else blob.ref.digest,
                "specs": {} if blob is None else specs_json(blob.ref.specs),
                "meta": message.meta,
                "error": error,
                "prev": self._head,
            },
            what=what,
            ordered=("specs",),
        )
        _check_line(line, parse_event, what=what)
        if blob is not None:
            store_blob(self._folder / "arrays", blob)
        self._events.append(line)
        self._seq += 1
        self._head = hashlib.sha256(line).hexdigest()

    def _change(self, **changes: Any) -> None:
        manifest = dataclasses.replace(self._manifest, **changes)
        data = _manifest_bytes(manifest)
        write_atomically(self._folder / "manifest.json", data)
        self._manifest = manifest

    def _write_truth_manifest(self, manifest: TruthManifest) -> None:
        assert self._truth_folder is not None
        write_atomically(self._truth_folder / "manifest.json", manifest.to_bytes())

    def _close_logs(self, *, sync: bool) -> None:
        for log in (self._events, self._secrets, self._targets):
            if log is not None:
                log.close(sync=sync)


def _append_entry(log: LineLog, owner: str, who: str, name: str, array: Array) -> None:
    what = f"{name} of {owner} '{who}'"
    blob = encode_blob(frozen_arrays({name: array}))
    line = canonical({owner: who, "name": name, **single_json(blob.ref)}, what=what)
    _check_line(line, functools.partial(parse_entry, owner=owner), what=what)
    store_blob(log.path.parent / "arrays", blob)
    log.append(line)


def _check_line(line: bytes, parse: Callable[..., object], *, what: str) -> None:
    """Refuse to write what no reader would accept."""
    limit = DEFAULT_LIMITS.max_line_bytes - 1
    if len(line) > limit:
        raise ConfigurationError(
            f"{what}: a line of {len(line)} bytes, at most {limit} are allowed; long values "
            "belong in arrays"
        )
    try:
        parse(line, limits=DEFAULT_LIMITS)
    except Refusal as refusal:
        raise ConfigurationError(f"{what}: {refusal}") from None


def _manifest_bytes(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest that every reader accepts."""
    data = manifest.to_bytes()
    if len(data) > DEFAULT_LIMITS.max_manifest_bytes:
        raise ConfigurationError(
            f"a manifest of {len(data)} bytes, at most {DEFAULT_LIMITS.max_manifest_bytes} are "
            "allowed; publish long values as arrays"
        )
    try:
        Manifest.from_bytes(data, limits=DEFAULT_LIMITS)
    except Refusal as refusal:
        raise ConfigurationError(f"the recording cannot be described: {refusal}") from None
    return data
