"""Codes from indices: equal indices are equal codes, whatever numbers they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "codes_of", "group_mean", "relabelled"]

Columns = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int64]
Table = npt.NDArray[np.float64]


def relabelled(values: Table) -> tuple[Codes, Table]:
    """Return numbers for the distinct rows of one subspace's indices.

    Returns
    -------
    codes : ndarray of int64, shape (rows,)
        From 0 on, in the lexicographic order of the indices.
    levels : ndarray of float64, shape (codes, r)
        The index of each code.
    """
    # Indices are looked up in one table, so that those of one code agree to the last bit.
    codes = np.zeros(len(values), dtype=np.int64)
    for column in values.T:
        _, rank = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (int(rank.max()) + 1) + rank, return_inverse=True)
    first = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes.astype(np.int64), values[first]


def codes_of(indices: Table, subspaces: Sequence[Columns]) -> tuple[Codes, tuple[Table, ...]]:
    """Recover the code of each row in each subspace from its indices, up to a relabelling.

    Parameters
    ----------
    indices : ndarray of float64, shape (rows, columns)
    subspaces : sequence of ndarray of int64
        Columns of each subspace.

    Returns
    -------
    codes : ndarray of int64, shape (rows, subspaces)
    levels : tuple of ndarray of float64, shape (codes, r)
    """
    found = [relabelled(indices[:, columns]) for columns in subspaces]
    return np.stack([codes for codes, _ in found], axis=1), tuple(level for _, level in found)


def group_mean(codes: Codes, values: Table, groups: int) -> tuple[Table, npt.NDArray[np.int64]]:
    """Return the mean of the rows of each code, zero where there is none, and their number."""
    count = np.bincount(codes, minlength=groups)
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, codes, values)
    return sums / np.maximum(count, 1)[:, None], count
