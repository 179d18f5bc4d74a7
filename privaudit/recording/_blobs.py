"""Content-addressed blobs: all arrays of one message in one file, named by its SHA-256.

Written as safetensors. Read as safetensors or as ``.npz`` without pickle, within the bounds that
the referring line declares: nothing is allocated before the sizes have been checked.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from privaudit.errors import ConfigurationError
from privaudit.recording._files import read_bounded, write_atomically
from privaudit.recording._json import check_fields, check_text, decode, is_count
from privaudit.recording._npz import MAX_NPZ_OVERHEAD, read_npz
from privaudit.recording._problems import DEFAULT_LIMITS, Limits, Refusal
from privaudit.transcript import Array, ArraySpec

__all__ = [
    "Blob",
    "BlobRef",
    "check_digest",
    "encode_blob",
    "is_blob_name",
    "parse_single",
    "parse_specs",
    "read_blob",
    "single_json",
    "specs_json",
    "store_blob",
]

#: Names of the types in bundles, and those of safetensors for the same.
DTYPES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}
_NUMPY = {code: np.dtype(name).str for name, code in DTYPES.items()}

_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOB_NAME = re.compile(r"(\.[0-9a-f]{64}\.safetensors\.tmp|[0-9a-f]{64}\.(safetensors|npz))")

#: numpy 1.x holds at most 32 dimensions.
_MAX_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A reference to a blob: its digest and what it must hold."""

    digest: str
    specs: Mapping[str, ArraySpec]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, as declared."""
        return sum(spec.nbytes for spec in self.specs.values())


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob in memory, not yet on disk."""

    ref: BlobRef
    data: bytes


def is_blob_name(name: str) -> bool:
    """Tell whether a recorder could have written a file of this name into ``arrays/``."""
    return _BLOB_NAME.fullmatch(name) is not None


def check_digest(value: Any, *, what: str) -> str:
    """Return a SHA-256 in lower-case hexadecimal, or raise Refusal: no path passes."""
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        shown = repr(value)[:80]
        raise Refusal(f"{what} must be 64 lower-case hexadecimal digits, got {shown}")
    return value


def encode_blob(arrays: Mapping[str, Array]) -> Blob:
    """Return arrays as the bytes of one blob; equal arrays give equal bytes, in whatever order.

    Raises
    ------
    ConfigurationError
        If a name or type cannot be written, or the arrays exceed the limit of readers.
    """
    plain = {name: _writable(name, arrays[name]) for name in sorted(arrays)}
    total = sum(array.nbytes for array in plain.values())
    if total > DEFAULT_LIMITS.max_array_bytes:
        raise ConfigurationError(
            f"arrays of {total} bytes in one message; at most {DEFAULT_LIMITS.max_array_bytes} "
            "are allowed: send them in parts"
        )
    data = safetensors_numpy.save(plain)
    specs = {name: ArraySpec(plain[name].dtype.str, plain[name].shape) for name in arrays}
    return Blob(BlobRef(hashlib.sha256(data).hexdigest(), specs), data)


def store_blob(folder: Path, blob: Blob) -> None:
    """Write a blob into ``folder`` unless it is there already.

    Raises
    ------
    PrivauditError
        If the disk is full or the folder cannot be written.
    """
    path = folder / f"{blob.ref.digest}.safetensors"
    if not path.exists():
        write_atomically(path, blob.data)


def _writable(name: str, array: Array) -> Array:
    try:
        check_text(name, what=f"the name of array {name!r}", limits=DEFAULT_LIMITS)
        if name == "__metadata__":
            raise Refusal("'__metadata__' is reserved by safetensors and cannot name an array")
    except Refusal as refusal:
        raise ConfigurationError(str(refusal)) from None
    if array.dtype.name not in DTYPES:
        raise ConfigurationError(
            f"array '{name}' has dtype {array.dtype}; allowed are {', '.join(DTYPES)}"
        )
    if array.ndim > _MAX_DIMENSIONS:
        raise ConfigurationError(f"array '{name}' has {array.ndim} dimensions, more than 32")
    # safetensors takes the buffer as it lies: order and byte order must be right before.
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def specs_json(specs: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """Return ``{name: [dtype, shape]}``."""
    return {name: [np.dtype(s.dtype).name, list(s.shape)] for name, s in specs.items()}


def parse_specs(value: Any, *, limits: Limits) -> dict[str, ArraySpec]:
    """Check declared types and shapes; their bytes are bounded before anything is read."""
    if not isinstance(value, dict):
        raise Refusal("'specs' must be a JSON object")
    specs = {
        check_text(name, what="the name of an array", limits=limits): _parse_spec(spec, name)
        for name, spec in value.items()
    }
    total = sum(_bound(spec) for spec in specs.values())
    if total > limits.max_array_bytes:
        raise Refusal(f"declares arrays of {total} bytes; the limit is {limits.max_array_bytes}")
    return specs


def _bound(spec: ArraySpec) -> int:
    """Bytes of an array, empty dimensions counted as one: numpy bounds this product too."""
    return math.prod(max(n, 1) for n in spec.shape) * np.dtype(spec.dtype).itemsize


def _parse_spec(value: Any, name: str) -> ArraySpec:
    if not isinstance(value, list) or len(value) != 2:
        raise Refusal(f"the specification of array '{name}' must be [dtype, shape]")
    dtype, shape = value
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Refusal(
            f"array '{name}' has dtype {str(dtype)[:40]!r}; allowed are {', '.join(DTYPES)}"
        )
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(is_count, shape)):
        raise Refusal(
            f"the shape of array '{name}' must be a list of at most {_MAX_DIMENSIONS} "
            "non-negative integers"
        )
    return ArraySpec(np.dtype(dtype).str, tuple(shape))


def single_json(ref: BlobRef) -> dict[str, Any]:
    """Return the reference of a blob that holds one array: ``{"arrays": ..., "spec": ...}``."""
    (spec,) = specs_json(ref.specs).values()
    return {"arrays": ref.digest, "spec": spec}


def parse_single(value: Any, name: str, *, limits: Limits) -> BlobRef:
    """Check the reference of a blob that holds the one array ``name``."""
    fields = check_fields(value, ("arrays", "spec"), what=f"the reference of array '{name}'")
    specs = parse_specs({name: fields["spec"]}, limits=limits)
    return BlobRef(check_digest(fields["arrays"], what="'arrays'"), specs)


def max_file_bytes(ref: BlobRef, suffix: str, *, limits: Limits) -> int:
    """Bytes that a file holding the declared arrays may have at most."""
    overhead = limits.max_line_bytes + 8
    if suffix == ".npz":
        overhead = MAX_NPZ_OVERHEAD * (len(ref.specs) + 1)
    return ref.nbytes + overhead


def read_blob(path: Path, ref: BlobRef, *, limits: Limits) -> dict[str, Array]:
    """Read one blob, check its digest and what it holds, and return read-only arrays.

    Raises
    ------
    Refusal
        If the bytes do not have the digest, or do not hold the declared arrays.
    FileNotFoundError
        If the file is missing.
    """
    data = read_bounded(path, limit=max_file_bytes(ref, path.suffix, limits=limits))
    found = hashlib.sha256(data).hexdigest()
    if found != ref.digest:
        raise Refusal(f"its bytes have SHA-256 {found}, not {ref.digest}: it was changed")
    if path.suffix == ".npz":
        arrays = read_npz(data, ref.specs)
    else:
        _check_header(data, ref.specs, limits=limits)
        try:
            arrays = safetensors_numpy.load(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise Refusal(f"not a sound safetensors file: {error}") from None
    for name, array in arrays.items():
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise Refusal(f"array '{name}' is of booleans and holds bytes other than 0 and 1")
        array.flags.writeable = False
    return arrays


def _check_header(data: bytes, specs: Mapping[str, ArraySpec], *, limits: Limits) -> None:
    """Check the header of a safetensors file against what is declared, before it is unpacked."""
    if len(data) < 8:
        raise Refusal("not a safetensors file: shorter than 8 bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(len(data) - 8, limits.max_line_bytes):
        raise Refusal(f"not a sound safetensors file: a header of {length} bytes")
    header = decode(data[8 : 8 + length], limits=limits)
    if not isinstance(header, dict):
        raise Refusal("not a sound safetensors file: the header is not an object")
    header.pop("__metadata__", None)
    if sorted(header) != sorted(specs):
        raise Refusal(f"holds arrays {sorted(header)[:10]}, declared are {sorted(specs)[:10]}")
    for name, entry in header.items():
        fields = check_fields(entry, ("dtype", "shape", "data_offsets"), what=f"array '{name}'")
        spec, offsets = specs[name], fields["data_offsets"]
        if fields["shape"] != list(spec.shape) or _NUMPY.get(str(fields["dtype"])) != spec.dtype:
            raise Refusal(
                f"array '{name}' is {str(fields['dtype'])[:20]} {str(fields['shape'])[:80]}, "
                f"declared is {np.dtype(spec.dtype).name} {list(spec.shape)}"
            )
        if (
            not isinstance(offsets, list)
            or len(offsets) != 2
            or not all(map(is_count, offsets))
            or offsets[1] - offsets[0] != spec.nbytes
            or offsets[1] > len(data) - 8 - length
        ):
            raise Refusal(f"array '{name}' lies at {str(offsets)[:80]}, outside the file")
