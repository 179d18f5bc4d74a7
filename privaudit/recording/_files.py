"""Files of a bundle: opened without following links, written atomically, appended line by line."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from privaudit.errors import PrivauditError
from privaudit.recording._problems import Refusal

__all__ = [
    "LineLog",
    "cannot_write",
    "open_regular",
    "read_bounded",
    "shown_name",
    "write_atomically",
]

# Not every system has these; where one is missing, the check of the file's type stands alone.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; links, folders and devices are refused.

    Raises
    ------
    FileNotFoundError
        If there is nothing of that name.
    Refusal
        If it is not a regular file or cannot be opened.
    """
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Refusal("is a link, a folder or a device; only regular files are read")
        descriptor = os.open(path, _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Refusal("is a link, a folder or a device; only regular files are read")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refusal(f"cannot be opened: {error.strerror}") from None
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path, *, limit: int) -> bytes:
    """Read a whole regular file of at most ``limit`` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise Refusal(f"has {size} bytes; the limit is {limit}")
        data = file.read(size + 1)
    if len(data) != size:
        raise Refusal("changed while it was read")
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there in full or not at all.

    Raises
    ------
    PrivauditError
        If the disk is full or the folder cannot be written; names the path.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


class LineLog:
    """A file to which whole lines are appended, each handed to the system at once.

    A line that cannot be written in full is taken back, so that the lines before it stay readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self._size = 0
        self._hash = hashlib.sha256()
        try:
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise cannot_write(path, error) from error

    @property
    def sha256(self) -> str:
        """Digest of everything written so far."""
        return self._hash.hexdigest()

    def append(self, line: bytes) -> None:
        """Append one line; the newline is added."""
        rest = data = line + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._take_back()
            raise cannot_write(self.path, error) from error
        self._size += len(data)
        self.lines += 1
        self._hash.update(data)

    def _take_back(self) -> None:
        try:
            self._file.truncate(self._size)
        except OSError:
            return  # the reader drops a cut last line

    def close(self, *, sync: bool = False) -> None:
        """Close the file; with ``sync``, after its bytes have reached the disk."""
        try:
            if sync and not self._file.closed:
                os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise cannot_write(self.path, error) from error


def cannot_write(path: Path, error: OSError) -> PrivauditError:
    """Return the error for a path that the system does not let us write."""
    return PrivauditError(
        f"cannot write {path}: {error.strerror or error}. What was recorded before stays readable."
    )


def shown_name(name: str) -> str:
    """Return a file's name so that it is safe to print: a stranger may have chosen it."""
    return name if name.isprintable() else ascii(name)
