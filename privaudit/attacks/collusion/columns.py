"""Undoing a shuffle column by column: which value is whose, once colluders point at their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError

__all__ = ["Attribution", "attribute"]


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """What is left in each column after the colluders' own values are taken out.

    Attributes
    ----------
    values : ndarray of float32, shape (d2,)
        The value of every user that is left, where it is determined; ``nan`` elsewhere.
    candidates : ndarray of int32, shape (d2,)
        Number of distinct values left, hence the number of users among whom a value cannot be
        told apart; less than the number of users left only where their values coincide.
    ambiguous : int
        Columns in which a colluder's value occurs more than once. Which occurrence is taken out
        makes no difference to what is left.
    unmatched : int
        Columns in which a colluder's value does not occur. A faithful protocol has none.
    """

    values: npt.NDArray[np.float32]
    candidates: npt.NDArray[np.int32]
    ambiguous: int
    unmatched: int


def attribute(shuffled: npt.NDArray[np.float32], known: npt.NDArray[np.float32]) -> Attribution:
    """Take the colluders' values out of columns that were permuted independently.

    Values are compared by their bits, so that equality is exact and ``nan`` equals itself.

    Parameters
    ----------
    shuffled : ndarray of float32, shape (users of the pre-cluster, d2)
        Each column is a multiset: its order says nothing.
    known : ndarray of float32, shape (colluders in the pre-cluster, d2)
        The reports that the colluders sent, in their own order.

    Raises
    ------
    InvalidDataError
        If the shapes do not fit, or a type is not float32.
    """
    if shuffled.dtype != np.float32 or known.dtype != np.float32:
        raise InvalidDataError(f"reports are float32, got {shuffled.dtype} and {known.dtype}")
    if shuffled.ndim != 2 or known.ndim != 2 or shuffled.shape[1] != known.shape[1]:
        raise InvalidDataError(
            f"reports have shapes (users, d2) and (colluders, d2), got {shuffled.shape} and "
            f"{known.shape}"
        )
    bits = np.ascontiguousarray(shuffled).view(np.uint32)
    own = np.ascontiguousarray(known).view(np.uint32)
    left = np.ones(bits.shape, dtype=bool)
    several = np.zeros(bits.shape[1], dtype=bool)
    missing = np.zeros(bits.shape[1], dtype=bool)
    for report in own:
        match = left & (bits == report)
        count = match.sum(axis=0)
        several |= count > 1
        missing |= count == 0
        first = match.argmax(axis=0)
        found = np.flatnonzero(count)
        left[first[found], found] = False
    return _summary(shuffled, bits, left, int(several.sum()), int(missing.sum()))


def _summary(
    shuffled: npt.NDArray[np.float32],
    bits: npt.NDArray[np.uint32],
    left: npt.NDArray[np.bool_],
    ambiguous: int,
    unmatched: int,
) -> Attribution:
    columns = np.arange(bits.shape[1])
    # Sort what is left of each column to the front; taken-out entries repeat the first one left,
    # so that they add no distinct value.
    first = left.argmax(axis=0)
    filled = np.where(left, bits, bits[first, columns])
    filled.sort(axis=0)
    distinct = 1 + (np.diff(filled, axis=0) != 0).sum(axis=0)
    candidates = np.where(left.any(axis=0), distinct, 0).astype(np.int32)
    values = np.where(candidates == 1, shuffled[first, columns], np.float32(np.nan))
    return Attribution(values.astype(np.float32), candidates, ambiguous, unmatched)
