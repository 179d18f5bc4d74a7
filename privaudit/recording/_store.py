"""The blobs of one bundle on disk, and mappings of arrays that are read when they are asked for."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from privaudit.errors import CorruptRecordingError
from privaudit.recording._blobs import BlobRef, max_file_bytes, read_blob
from privaudit.recording._files import shown_name
from privaudit.recording._problems import Limits, Problem, Refusal, Report
from privaudit.transcript import Array, ArraySpec

__all__ = ["BlobStore", "StoredArrays"]

#: Unpacked blobs that are kept, so that a message's arrays are not read once each.
_CACHE_BYTES = 64 * 2**20
_CACHE_BLOBS = 1024

_SUFFIXES = (".safetensors", ".npz")


class BlobStore:
    """Blobs of one bundle: listed when made, each checked whenever it is read from disk.

    Parameters
    ----------
    folder : Path
        The bundle.
    limits : Limits
    report : callable
        Is given what is wrong with ``arrays/`` itself.
    """

    def __init__(self, folder: Path, *, limits: Limits, report: Report) -> None:
        self.folder = folder
        self._limits = limits
        self._cache: OrderedDict[str, tuple[BlobRef, dict[str, Array]]] = OrderedDict()
        self._held = 0
        self._sizes = _list_sizes(folder / "arrays", limits=limits, report=report)
        self._used: set[str] = set()

    def file_of(self, digest: str) -> str | None:
        """Return the name of the file that holds a blob, or None if it is missing."""
        for suffix in _SUFFIXES:
            if digest + suffix in self._sizes:
                return digest + suffix
        return None

    def check(self, ref: BlobRef) -> None:
        """Check that a blob is there and of possible size, without reading it.

        Raises
        ------
        Refusal
            If it is missing, or its size and the declared arrays do not agree.
        """
        name = self.file_of(ref.digest)
        if name is None:
            raise Refusal(f"its arrays are missing: no {ref.digest}.safetensors (or .npz)")
        self._used.add(name)
        size, suffix = self._sizes[name], Path(name).suffix
        most = max_file_bytes(ref, suffix, limits=self._limits)
        least = 0 if suffix == ".npz" else ref.nbytes
        if not least <= size <= most:
            raise Refusal(
                f"arrays/{name} has {size} bytes, but arrays of {ref.nbytes} bytes are declared"
            )

    def unused(self) -> tuple[str, ...]:
        """Return the names of files that nothing referred to so far."""
        return tuple(sorted(set(self._sizes) - self._used))

    def read(self, ref: BlobRef) -> dict[str, Array]:
        """Return the arrays of a blob, read-only.

        Raises
        ------
        Refusal
            If it is missing, was changed, or does not hold what is declared.
        """
        cached = self._cache.get(ref.digest)
        if cached is not None and cached[0].specs == ref.specs:
            self._cache.move_to_end(ref.digest)
            return cached[1]
        name = self.file_of(ref.digest)
        if name is None:
            raise Refusal(f"its arrays are missing: no {ref.digest}.safetensors (or .npz)")
        try:
            arrays = read_blob(self.folder / "arrays" / name, ref, limits=self._limits)
        except FileNotFoundError:
            raise Refusal(f"arrays/{name} is missing") from None
        except Refusal as refusal:
            raise Refusal(f"arrays/{name}: {refusal}") from None
        self._keep(ref, arrays)
        return arrays

    def _keep(self, ref: BlobRef, arrays: dict[str, Array]) -> None:
        if ref.nbytes > _CACHE_BYTES:
            return
        self._drop(ref.digest)
        self._cache[ref.digest] = (ref, arrays)
        self._held += ref.nbytes
        while self._held > _CACHE_BYTES or len(self._cache) > _CACHE_BLOBS:
            self._drop(next(iter(self._cache)))

    def _drop(self, digest: str) -> None:
        if digest in self._cache:
            self._held -= self._cache.pop(digest)[0].nbytes

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: all but the arrays that happen to be in memory."""
        return {**self.__dict__, "_cache": OrderedDict(), "_held": 0}


class StoredArrays(Mapping[str, Array]):
    """Arrays by name, each read from its blob when asked for; ``specs`` are known beforehand.

    Reading raises :class:`privaudit.errors.CorruptRecordingError` if the blob is missing or was
    changed; the message names the bundle and ``owner``.
    """

    __slots__ = ("_owner", "_refs", "_store", "specs")

    def __init__(self, store: BlobStore, refs: Mapping[str, BlobRef], *, owner: str) -> None:
        self._store = store
        self._refs = dict(refs)
        self._owner = owner
        self.specs: Mapping[str, ArraySpec] = {n: ref.specs[n] for n, ref in self._refs.items()}

    def __getitem__(self, name: str) -> Array:
        ref = self._refs[name]
        try:
            return self._store.read(ref)[name]
        except Refusal as refusal:
            raise CorruptRecordingError(f"{self._store.folder}: {self._owner}: {refusal}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __repr__(self) -> str:
        return f"StoredArrays({', '.join(self._refs)})"


def _list_sizes(folder: Path, *, limits: Limits, report: Report) -> dict[str, int]:
    """Return the size of every regular file in ``arrays/``; report what else is there."""
    sizes: dict[str, int] = {}
    total = 0
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            report(Problem("corrupt", "arrays", "", "is a link or a file, not a folder"))
            return {}
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    what = "is a link, a folder or a device; only regular files are read"
                    report(Problem("corrupt", f"arrays/{shown_name(entry.name)}", "", what))
                    continue
                sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
                total += sizes[entry.name]
                if len(sizes) > limits.max_blobs:
                    what = f"holds more than {limits.max_blobs} files"
                    report(Problem("corrupt", "arrays", "", what))
                    return sizes
    except FileNotFoundError:
        return {}
    except OSError as error:
        report(Problem("corrupt", "arrays", "", f"cannot be listed: {error.strerror}"))
    if total > limits.max_bundle_bytes:
        what = f"holds {total} bytes; the limit is {limits.max_bundle_bytes}"
        report(Problem("corrupt", "arrays", "", what))
    return sizes
