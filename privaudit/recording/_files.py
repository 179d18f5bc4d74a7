"""Files of a bundle: opened without following links, written atomically, appended line by line."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from privaudit.errors import OutputExistsError, PrivauditError
from privaudit.recording._problems import Refusal

__all__ = ["LineLog", "open_regular", "prepare_folder", "read_bounded", "write_atomically"]

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
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Refusal(f"has more than {limit} bytes")
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
        raise _cannot_write(path, error) from error


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
            raise _cannot_write(path, error) from error

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
            raise _cannot_write(self.path, error) from error
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
            raise _cannot_write(self.path, error) from error


def _cannot_write(path: Path, error: OSError) -> PrivauditError:
    return PrivauditError(
        f"cannot write {path}: {error.strerror or error}. What was recorded before stays readable."
    )


def prepare_folder(
    folder: Path,
    *,
    force: bool,
    is_ours: Callable[[Path], bool],
    names: frozenset[str],
    is_blob: Callable[[str], bool],
    private: bool = False,
) -> None:
    """Make an empty folder with an ``arrays`` folder in it.

    A folder that holds something is cleared only with ``force``, and only if it holds nothing but
    what a recorder writes. With ``private``, only the owner can read it.

    Raises
    ------
    OutputExistsError
        If the folder holds something that is not to be, or must never be, cleared.
    PrivauditError
        If the folder cannot be made.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputExistsError(f"{folder} is a file; give a folder that is empty or new")
        mode = 0o700 if private else 0o777
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            _clear(folder, force=force, is_ours=is_ours, names=names, is_blob=is_blob)
        if private:
            folder.chmod(mode)
        (folder / "arrays").mkdir(mode=mode)
    except OSError as error:
        if isinstance(error, OutputExistsError):
            raise
        raise _cannot_write(folder, error) from error


def _clear(
    folder: Path,
    *,
    force: bool,
    is_ours: Callable[[Path], bool],
    names: frozenset[str],
    is_blob: Callable[[str], bool],
) -> None:
    arrays = folder / "arrays"
    foreign = [entry.name for entry in folder.iterdir() if entry.name not in names | {"arrays"}]
    if arrays.is_symlink() or (arrays.exists() and not arrays.is_dir()):
        foreign.append("arrays (not a folder)")
    elif arrays.exists():
        foreign += [f"arrays/{e.name}" for e in arrays.iterdir() if not is_blob(e.name)]
    if foreign or not is_ours(folder):
        held = sorted(foreign or (entry.name for entry in folder.iterdir()))
        shown = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "")
        raise OutputExistsError(
            f"{folder} is not empty and is not a recording (it holds {shown}), so it is not "
            "cleared, not even with --force; give another folder"
        )
    if not force:
        raise OutputExistsError(
            f"{folder} holds a recording already; give another folder, or --force to replace it"
        )
    if arrays.exists():
        for entry in arrays.iterdir():
            entry.unlink()
        arrays.rmdir()
    for entry in folder.iterdir():
        entry.unlink()
