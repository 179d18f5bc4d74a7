"""Exact sums of big integers, and of their products, by arithmetic on arrays of digits.

A big integer is a row of digits of 16 bits, so that sum_i x_i y_i is a weighted sum of the entries
of X^T Y, X and Y the (n, digits) matrices. The products run in float64: an entry is a sum of at
most `BLOCK` products below 2 ** 32, so below 2 ** 46, and every partial sum is an exact integer.
Nothing has to be reduced modulo anything on the way, whatever the backend of big integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privaudit.secure_computation.integers import Bytes, blocks

__all__ = ["add", "inner_product", "magnitudes", "signs"]

#: Summands of `add`, so that the sums of their digits fit 32 bits and carry into one digit.
SUMMANDS = 1 << 16


def _digits(rows: Bytes) -> npt.NDArray[np.uint16]:
    """Return (n, digits), most significant digit first."""
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (1, 0)))
    return np.ascontiguousarray(rows).view(">u2")


def magnitudes(vector: npt.NDArray[np.int64]) -> Bytes:
    """Return |v| as rows of four bytes; ``vector`` has |v| < 2 ** 32."""
    return np.abs(vector).astype(">u4").view(np.uint8).reshape(-1, 4)


def signs(vector: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """Return the signs of a vector, the companion of `magnitudes`."""
    return np.sign(vector).astype(np.int8)


def inner_product(
    left: Bytes, right: Bytes, *, left_signs: npt.NDArray[np.int8] | None = None
) -> int:
    """Return sum_i sign_i left_i right_i, exactly.

    Parameters
    ----------
    left, right : ndarray of uint8, shapes (n, width) and (n, other width)
        Non-negative integers, one a row.
    left_signs : ndarray of int8, shape (n,), optional
        -1, 0, or 1 for each row; absent: all 1.
    """
    sums = np.zeros(((left.shape[1] + 1) // 2, (right.shape[1] + 1) // 2), dtype=np.int64)
    for rows in blocks(left.shape[0]):
        digits = _digits(left[rows]).astype(np.float64)
        if left_signs is not None:
            digits *= left_signs[rows, np.newaxis]
        sums += (digits.T @ _digits(right[rows]).astype(np.float64)).astype(np.int64)
    total = 0
    for row in sums.tolist():
        inner = 0
        for entry in row:
            inner = (inner << 16) + entry
        total = (total << 16) + inner
    return total


def add(arrays: Sequence[Bytes]) -> Bytes:
    """Return the sums of integers row by row, not reduced, two or three bytes wider.

    Parameters
    ----------
    arrays : sequence of ndarray of uint8, shape (n, width)
        At least one and at most `SUMMANDS`, of one shape.
    """
    digits = _digits(arrays[0]).shape[1]
    sums = np.zeros((arrays[0].shape[0], digits + 1), dtype=np.uint32)
    for array in arrays:
        sums[:, 1:] += _digits(array)
    for column in range(digits, 0, -1):
        sums[:, column - 1] += sums[:, column] >> 16
    return sums.astype(">u2").view(np.uint8)  # the cast keeps the lower 16 bits
