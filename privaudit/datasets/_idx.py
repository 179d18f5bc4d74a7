"""A bounded reader of IDX files, plain or gzip-compressed, the format of MNIST.

torchvision's own MNIST class is not used: it needs the uncompressed files, hence a writable root,
and some of its versions unpickle a legacy ``processed`` folder.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError

__all__ = ["read_idx"]

# MNIST's images are 47 MB; this leaves room for its larger relatives and none for a gzip bomb.
_LARGEST = 2**29


def read_idx(path: Path, *, ndim: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes; a name that ends in ``.gz`` is decompressed.

    Parameters
    ----------
    path : Path
    ndim : int
        Number of dimensions the file must have.

    Returns
    -------
    ndarray of uint8

    Raises
    ------
    InvalidDataError
        If the magic number, the number of dimensions or the length do not fit, the compression is
        damaged, or the file declares more than 512 MiB.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            return _read(cast(BinaryIO, stream), path, ndim)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDataError(f"{path} cannot be read: {error}") from error


def _read(stream: BinaryIO, path: Path, ndim: int) -> npt.NDArray[np.uint8]:
    # Two zero bytes, 8 for unsigned bytes, the number of dimensions; then big-endian extents.
    magic = bytes([0, 0, 8, ndim])
    header = stream.read(4 + 4 * ndim)
    if len(header) < 4 + 4 * ndim or header[:4] != magic:
        raise InvalidDataError(
            f"{path} is not an IDX file of unsigned bytes with {ndim} dimension(s): it begins with "
            f"{header[:4].hex() or 'nothing'}, expected {magic.hex()}"
        )
    shape = tuple(int(extent) for extent in np.frombuffer(header, dtype=">u4", offset=4))
    size = math.prod(shape)
    if size > _LARGEST:
        raise InvalidDataError(f"{path} declares {size} bytes; at most {_LARGEST} are read")
    content = stream.read(size)
    if len(content) != size or stream.read(1):
        held = f"{len(content)}" if len(content) < size else "more"
        raise InvalidDataError(
            f"{path} declares shape {shape}, that is {size} bytes, and holds {held}"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
