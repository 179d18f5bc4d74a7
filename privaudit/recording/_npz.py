"""Arrays from ``.npz`` files of strangers: no pickle, bounded before anything is unpacked."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO

import numpy as np

from privaudit.recording._problems import Refusal
from privaudit.transcript import Array, ArraySpec

__all__ = ["MAX_NPZ_OVERHEAD", "read_npz"]

#: Bytes that a member may take besides its elements: its two zip headers and its npy header.
MAX_NPZ_OVERHEAD = 4096

_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_ZIP64_MARK = b"PK\x06\x07"

#: What zipfile and numpy raise on archives that are damaged or made to be.
_UNSOUND = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    SyntaxError,
    ValueError,
    EOFError,
    NotImplementedError,
    RecursionError,
)


def read_npz(data: bytes, specs: Mapping[str, ArraySpec]) -> dict[str, Array]:
    """Unpack exactly the declared arrays.

    Raises
    ------
    Refusal
        If the archive holds anything else, or an array of another type, shape or size.
    """
    _check_directory(data, len(specs))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if sorted(members) != sorted(f"{name}.npy" for name in specs):
                raise Refusal(f"holds {sorted(members)[:10]}, declared are {sorted(specs)[:10]}")
            return {
                name: _read_member(archive, members[f"{name}.npy"], name, spec)
                for name, spec in specs.items()
            }
    except _UNSOUND as error:
        raise Refusal(f"not a sound .npz file: {error}") from None


def _check_directory(data: bytes, members: int) -> None:
    """Bound the number of members and the size of the directory before it is parsed."""
    if len(data) < _END.size or data[-_END.size :][:4] != _END_MARK:
        raise Refusal("not a sound .npz file: no directory at its end")
    end = _END.unpack(data[-_END.size :])
    entries, size = end[4], end[5]
    if data[-_END.size - 20 :][:4] == _ZIP64_MARK:
        raise Refusal("a ZIP64 directory is not read; write .safetensors")
    if entries != members or size > MAX_NPZ_OVERHEAD * (members + 1):
        raise Refusal(f"holds {entries} arrays in a directory of {size} bytes, not {members}")


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, spec: ArraySpec
) -> Array:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise Refusal(f"array '{name}' is encrypted or packed by a method other than deflate")
    if info.file_size > spec.nbytes + MAX_NPZ_OVERHEAD:
        raise Refusal(f"array '{name}' unpacks to {info.file_size} bytes, not {spec.nbytes}")
    with archive.open(info) as member:
        _check_header(member, name, spec)
    with archive.open(info) as member:
        array: Array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise Refusal(f"array '{name}' is followed by more bytes")
    return array


def _check_header(member: IO[bytes], name: str, spec: ArraySpec) -> None:
    """Check type and shape before the array is allocated."""
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(member)
    else:
        raise Refusal(f"array '{name}' is in version {version} of the npy format")
    if dtype.hasobject:
        raise Refusal(f"array '{name}' holds Python objects, which are never read")
    if dtype.str != spec.dtype or shape != spec.shape:
        raise Refusal(
            f"array '{name}' is {dtype.str} {list(shape)}, declared is {spec.dtype} "
            f"{list(spec.shape)}"
        )
