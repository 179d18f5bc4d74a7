"""Rules that every reader of recordings keeps."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from privaudit._conformance.digests import digest_transcript, digest_truth, require
from privaudit.errors import PrivauditError, PrivauditWarning
from privaudit.recording import Reader, ReadRun

__all__ = ["check_reader"]

#: Places, as shares of a file's length, at which the kit cuts and flips.
PLACES = (0.0, 0.1, 0.35, 0.6, 0.85, 0.999)


def check_reader(reader: Reader, path: Path) -> None:
    """Check that a reader keeps the rules, on a sound recording of its format.

    The rules, by the names that messages start with:

    ``recognises``
        It recognises the recording, and neither an empty file or folder, a text, nor a path that
        does not exist, about which it raises nothing.
    ``parties``
        Both ends of every message, and owners of secrets, are declared parties.
    ``order``
        Messages are numbered from 0 without gaps.
    ``same-answer``
        Reading twice gives the same transcript, truth and digest, to the last bit.
    ``unchanged``
        The recording is as before.
    ``damaged``
        A recording that was cut, or of which a byte was flipped, is read (where that does not
        show) or refused with an error of privaudit; nothing else is raised.
    ``digest``
        A copy that reads as another transcript has another digest.

    Parameters
    ----------
    reader : Reader
    path : Path
        A small recording; it is copied, damaged and read some dozens of times.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    require(bool(reader.name), "recognises", "a reader has a name")
    require(reader.recognises(path), "recognises", f"'{reader.name}' does not recognise {path}")
    before = _bytes_of(path)
    _check_run(reader.read(path))
    first = _digests(reader, path)
    require(
        _digests(reader, path) == first,
        "same-answer",
        f"'{reader.name}' read {path.name} differently the second time",
    )
    with tempfile.TemporaryDirectory() as name:
        _check_foreign(reader, Path(name))
        for what, copy in _damaged(path, Path(name)):
            _check_damaged(reader, what, copy, first)
    require(_bytes_of(path) == before, "unchanged", f"'{reader.name}' changed the recording")


def _check_run(run: ReadRun) -> None:
    known = {party.id for party in run.transcript.parties}
    for message in run.transcript.messages:
        require(
            message.sender in known and message.receiver in known,
            "parties",
            f"message {message.seq} goes from '{message.sender}' to '{message.receiver}', which "
            "are not both declared",
        )
    require(set(run.transcript.secrets) <= known, "parties", "a secret belongs to no party")
    numbers = [message.seq for message in run.transcript.messages]
    require(numbers == list(range(len(numbers))), "order", "messages must be numbered 0, 1, 2, ...")


def _digests(reader: Reader, path: Path) -> tuple[str, str, str]:
    run, truth = reader.read(path), reader.truth(path)
    told = "" if truth is None else digest_truth(truth)
    return digest_transcript(run.transcript), told, run.digest


def _check_foreign(reader: Reader, folder: Path) -> None:
    (folder / "empty").write_bytes(b"")
    (folder / "text.txt").write_text("not a recording\n")
    (folder / "nothing").mkdir()
    for name in ("empty", "text.txt", "nothing", "absent"):
        try:
            claimed = reader.recognises(folder / name)
        except Exception as error:
            raise AssertionError(
                f"[recognises] '{reader.name}' raised {error!r} about a path that is not its own"
            ) from error
        require(not claimed, "recognises", f"'{reader.name}' claims '{name}', which is not its own")


def _check_damaged(reader: Reader, what: str, path: Path, sound: tuple[str, str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivauditWarning)
        try:
            if not reader.recognises(path):
                return
            found = _digests(reader, path)
        except PrivauditError:
            return
        except Exception as error:
            raise AssertionError(
                f"[damaged] '{reader.name}' raised {error!r} where {what}; raise "
                "CorruptRecordingError that names the file and what is wrong"
            ) from error
    require(
        found[0] == sound[0] or found[2] != sound[2],
        "digest",
        f"'{reader.name}' read another transcript where {what}, under the same digest",
    )


def _damaged(path: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield copies of the recording in which one file was cut or one byte flipped."""
    copy = folder / f"copy-{path.name}"
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        content = file.read_bytes()
        target = copy / file.relative_to(path) if path.is_dir() else copy
        for place in PLACES if content else ():
            at = int(place * len(content))
            for what, bytes_ in (
                (f"{file.name} was cut at byte {at}", content[:at]),
                (
                    f"the lowest bit of byte {at} of {file.name} was flipped",
                    _flipped(content, at, 1),
                ),
                (
                    f"the highest bit of byte {at} of {file.name} was flipped",
                    _flipped(content, at, 128),
                ),
            ):
                if path.is_dir():
                    shutil.copytree(path, copy, dirs_exist_ok=True)
                target.write_bytes(bytes_)
                yield what, copy
        if path.is_dir() and content:
            target.write_bytes(content)


def _flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]


def _bytes_of(path: Path) -> dict[str, bytes]:
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return {str(file): file.read_bytes() for file in files}
