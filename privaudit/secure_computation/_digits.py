"""Exact sums of products of big integers by matrix products of their digits.

A big integer is a row of digits of 16 bits, so that sum_i x_i y_i is a weighted sum of the entries
of X^T Y, X and Y the (n, digits) matrices. The products run in float64: an entry is a sum of at
most `BLOCK` products below 2 ** 32, so below 2 ** 46, and every partial sum is an exact integer.
Nothing has to be reduced modulo anything on the way, whatever the backend of big integers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.secure_computation.integers import Bytes, blocks

__all__ = ["inner_product", "magnitudes", "signs"]

Digits = npt.NDArray[np.float64]


def _digits(rows: Bytes) -> Digits:
    """Return (n, digits) float64, most significant digit first."""
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (1, 0)))
    return np.ascontiguousarray(rows).view(">u2").astype(np.float64)


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
        digits = _digits(left[rows])
        if left_signs is not None:
            digits *= left_signs[rows, np.newaxis]
        sums += (digits.T @ _digits(right[rows])).astype(np.int64)
    total = 0
    for row in sums.tolist():
        inner = 0
        for entry in row:
            inner = (inner << 16) + entry
        total = (total << 16) + inner
    return total
