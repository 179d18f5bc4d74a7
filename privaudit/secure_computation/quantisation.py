"""Symmetric quantisation of real vectors to signed integers.

Big-integer protocols compute on integers. A vector w becomes q = round(w Q / max|w|), with
Q = 2 ** (bits - 1) - 1 and ties to even, so that |q| <= Q and the largest element is exactly Q in
magnitude. A cosine needs no common scale: each vector has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError

__all__ = ["BITS", "Quantised", "dequantise", "largest_integer", "quantise"]

#: Lengths that are supported.
BITS: Final = (8, 16, 24)


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised vector and what turns it back into reals.

    Attributes
    ----------
    values : ndarray of int32, shape (d,)
        The integers, at most ``largest_integer(bits)`` in magnitude.
    scale : float
        Integers for a unit of the original vector: values / scale approximates it.
    bits : int
        Length of the integers with their sign.
    """

    values: npt.NDArray[np.int32]
    scale: float
    bits: int


def largest_integer(bits: int) -> int:
    """Return Q = 2 ** (bits - 1) - 1.

    Raises
    ------
    ConfigurationError
        If ``bits`` is not one of `BITS`.

    Examples
    --------
    >>> largest_integer(16)
    32767
    """
    if bits not in BITS:
        allowed = ", ".join(str(b) for b in BITS)
        raise ConfigurationError(f"bits of quantisation: {bits!r} is not one of {allowed}")
    return (1 << (bits - 1)) - 1


def quantise(vector: npt.ArrayLike, *, bits: int = 16) -> Quantised:
    """Return a vector's nearest integers on a symmetric grid (ties to even).

    Parameters
    ----------
    vector : array_like of float, shape (d,)
        Finite values, not all zero. Computed with in float64.
    bits : {8, 16, 24}
        Length of an integer with its sign.

    Raises
    ------
    ConfigurationError
        If ``bits`` is not supported.
    InvalidDataError
        If the vector is not of shape (d,) with d >= 1, holds NaN or infinity, is zero, or is so
        small that its scale is infinite.

    Examples
    --------
    >>> quantise([0.5, -1.0, 0.0], bits=8).values.tolist()
    [64, -127, 0]
    """
    largest = largest_integer(bits)
    values = _real_vector(vector)
    greatest = float(np.abs(values).max())
    if greatest == 0:
        raise InvalidDataError("a zero vector has no direction, so no cosine, and no scale")
    scale = largest / greatest
    if not math.isfinite(scale):
        raise InvalidDataError(
            f"the largest magnitude of the vector, {greatest!r}, is too small to scale to"
            f" {bits} bits; multiply the vector by a constant first"
        )
    # A scale that was rounded up could carry the largest element no further than Q + 1e-9.
    return Quantised(np.rint(values * scale).astype(np.int32), scale, bits)


def _real_vector(vector: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(vector)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "fiu":
        raise InvalidDataError(
            "a vector to quantise has shape (d,), d >= 1, and real numbers; this one has shape"
            f" {values.shape} and dtype {values.dtype}"
        )
    values = values.astype(np.float64, copy=False)
    for name, test in _NOT_FINITE:
        found = np.flatnonzero(test(values))
        if found.size:
            raise InvalidDataError(
                f"a vector to quantise is finite; this one holds {name} at {found.size} of"
                f" {values.size} places, first at index {found[0]}"
            )
    return values


_NOT_FINITE: Final[
    tuple[tuple[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]], ...]
] = (("NaN", np.isnan), ("infinity", np.isinf))


def dequantise(quantised: Quantised) -> npt.NDArray[np.float64]:
    """Return the real vector that the integers stand for, shape (d,)."""
    return quantised.values / quantised.scale
