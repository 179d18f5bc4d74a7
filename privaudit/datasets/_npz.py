"""A bounded reader of NumPy archives with images and labels, without pickle."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import DatasetNotFoundError, InvalidDataError

__all__ = ["read_npz"]

_REQUIRED = ("images", "labels")
_OPTIONAL = ("test_images", "test_labels")
_LARGEST = 2**31

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


def read_npz(path: Path) -> tuple[Arrays, Arrays | None, int]:
    """Read images and labels, and test images and labels where the file has them.

    Parameters
    ----------
    path : Path

    Returns
    -------
    train : tuple
        Images, float32 of shape (n, channels, height, width) in [0, 1]; labels, int64 of shape
        (n,), from 0 to classes - 1.
    test : tuple or None
    classes : int
        Number of distinct labels of the whole file.

    Raises
    ------
    DatasetNotFoundError
        If there is no file at the path.
    InvalidDataError
        If the file is no archive of arrays, is too large, or an array is missing, not finite, out
        of range, or of a wrong type or shape; the message names the array.
    """
    if not path.is_file():
        raise DatasetNotFoundError(
            f"no data file at {path.absolute()}: a name that ends in .npz is the path of a file, "
            "relative to the working directory, with arrays 'images' and 'labels'"
        )
    arrays = _read_members(path)
    for name in _REQUIRED:
        if name not in arrays:
            raise InvalidDataError(
                f"{path} has no array '{name}'; needed are 'images' and 'labels', optional "
                f"'test_images' and 'test_labels'"
            )
    has_test = [name in arrays for name in _OPTIONAL]
    if any(has_test) and not all(has_test):
        raise InvalidDataError(
            f"{path}: 'test_images' and 'test_labels' go together; only "
            f"'{_OPTIONAL[has_test.index(True)]}' is there"
        )
    prefixes = ("", "test_") if all(has_test) else ("",)
    images = [_images(arrays[f"{p}images"], path, f"{p}images") for p in prefixes]
    labels = [_labels(arrays[f"{p}labels"], path, f"{p}labels") for p in prefixes]
    for prefix, some, their in zip(prefixes, images, labels, strict=True):
        if len(some) != len(their) or len(some) == 0:
            raise InvalidDataError(
                f"{path}: '{prefix}images' has {len(some)} records and '{prefix}labels' "
                f"{len(their)}; they must be equally many, and at least one"
            )
    if len(images) == 2 and images[0].shape[1:] != images[1].shape[1:]:
        raise InvalidDataError(
            f"{path}: 'images' are {images[0].shape[1:]} (channels, height, width) and "
            f"'test_images' {images[1].shape[1:]}"
        )
    known = np.unique(np.concatenate(labels))
    if len(known) < 2:
        raise InvalidDataError(f"{path}: 'labels' has one distinct value, {known[0]}; needs two")
    # Labels that are 0..classes-1 already are their own positions among the sorted values.
    labels = [np.searchsorted(known, values).astype(np.int64) for values in labels]
    parts = list(zip(images, labels, strict=True))
    return parts[0], parts[1] if len(parts) == 2 else None, len(known)


def _read_members(path: Path) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            held = {info.filename: info for info in archive.infolist()}
            wanted = [n for n in (*_REQUIRED, *_OPTIONAL) if f"{n}.npy" in held]
            # zipfile never gives more bytes than the directory declares.
            size = sum(held[f"{name}.npy"].file_size for name in wanted)
            if size > _LARGEST:
                raise InvalidDataError(
                    f"{path} declares {size} bytes of arrays; at most {_LARGEST} are read"
                )
            for name in wanted:
                arrays[name] = _read_array(archive, held[f"{name}.npy"], path, name)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise InvalidDataError(f"{path} is not a readable .npz file: {error}") from error
    return arrays


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, name: str
) -> npt.NDArray[Any]:
    try:
        # The header first: it could declare an array that is larger than what follows.
        with archive.open(info) as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read_header is None:
                raise ValueError(f"format version {version} is not 1.0 or 2.0")
            shape, _, dtype = read_header(stream)
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never unpickled")
        if math.prod(shape) * dtype.itemsize > info.file_size:
            raise ValueError(f"it declares {dtype} of shape {shape} and is shorter")
        with archive.open(info) as stream:
            array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        raise InvalidDataError(f"{path}: array '{name}' cannot be read: {error}") from error
    return array


def _images(array: npt.NDArray[Any], path: Path, name: str) -> npt.NDArray[np.float32]:
    if array.dtype == np.uint8:
        images = array.astype(np.float32) / np.float32(255)
    elif array.dtype.kind == "f":
        _check_range(array, path, name)
        images = array.astype(np.float32)
    else:
        raise InvalidDataError(
            f"{path}: '{name}' must be uint8, or floats in [0, 1], got {array.dtype}"
        )
    return np.ascontiguousarray(_channels_first(images, path, name))


def _check_range(array: npt.NDArray[Any], path: Path, name: str) -> None:
    for accepted, problem in (
        (np.isfinite(array), "is not finite"),
        ((array >= 0) & (array <= 1), "is not in [0, 1]; integers of 0..255 must be uint8"),
    ):
        if not accepted.all():
            index = np.unravel_index(int(np.argmin(accepted)), array.shape)
            where = ", ".join(str(int(i)) for i in index)
            raise InvalidDataError(f"{path}: {name}[{where}] = {array[index]} {problem}")


def _channels_first(
    images: npt.NDArray[np.float32], path: Path, name: str
) -> npt.NDArray[np.float32]:
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4:
        first, last = (1 <= images.shape[axis] <= 4 for axis in (1, 3))
        if first and not last:
            return images
        if last and not first:
            return images.transpose(0, 3, 1, 2)
    raise InvalidDataError(
        f"{path}: '{name}' of shape {images.shape} must be (n, height, width), (n, height, width, "
        "channels) or (n, channels, height, width), with exactly one axis of 1 to 4 channels"
    )


def _labels(array: npt.NDArray[Any], path: Path, name: str) -> npt.NDArray[np.int64]:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidDataError(
            f"{path}: '{name}' must be integers of shape (n,), got {array.dtype} of shape "
            f"{array.shape}"
        )
    if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise InvalidDataError(f"{path}: '{name}' holds {array.max()}, too large for int64")
    return array.astype(np.int64)
