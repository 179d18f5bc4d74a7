"""Checks shared by the single-pair functions and the matrix function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = [
    "check_distinct",
    "check_persistence",
    "check_radius",
    "index_matrix",
    "number_vector",
    "ranking",
]

LARGEST_INDEX = 2**53  # above it float64, in which distances are given, skips integers


def check_radius(radius: int) -> int:
    """Return ``radius`` if it is a non-negative integer."""
    if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or radius < 0:
        raise ConfigurationError(f"radius is {radius!r}; allowed: integers from 0 (default 1)")
    return int(radius)


def check_persistence(persistence: float) -> float:
    """Return ``persistence`` if it lies strictly between 0 and 1."""
    if not 0.0 < persistence < 1.0:  # false for NaN too
        raise ConfigurationError(
            f"persistence is {persistence!r}; allowed: numbers between 0 and 1, both excluded "
            "(0.999 looks about 1,000 ranks deep)"
        )
    return float(persistence)


def _check_indices(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise ConfigurationError(
            f"{what} has the type {values.dtype}; needed: integer coordinate indices"
        )
    if values.size and (values.min() < 0 or values.max() >= LARGEST_INDEX):
        raise ConfigurationError(
            f"{what} holds indices from {values.min()} to {values.max()}; "
            f"allowed: 0 to {LARGEST_INDEX - 1}"
        )
    return values.astype(np.int64, copy=False)


def index_matrix(sequences: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return ``sequences`` as (N, k) int64 with N >= 2 and k >= 1."""
    try:
        values = np.asarray(sequences)
    except ValueError as error:  # rows of different lengths
        raise ConfigurationError(f"sequences must all have one length: {error}") from error
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise ConfigurationError(
            f"sequences has the shape {values.shape}; needed: (users >= 2, ranks >= 1)"
        )
    return _check_indices(values, "sequences")


def number_vector(sequence: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return ``sequence`` as a non-empty vector of int64 or finite float64."""
    values = np.asarray(sequence)
    if values.ndim != 1 or values.size == 0:
        raise ConfigurationError(f"{what} has the shape {values.shape}; needed: (length >= 1,)")
    if values.dtype.kind in "iu":
        if max(abs(int(values.min())), abs(int(values.max()))) >= LARGEST_INDEX:
            raise ConfigurationError(f"{what} holds integers beyond ±{LARGEST_INDEX - 1}")
        return values.astype(np.int64, copy=False)
    if values.dtype.kind != "f":
        raise ConfigurationError(f"{what} has the type {values.dtype}; needed: numbers")
    if not np.isfinite(values).all():
        raise ConfigurationError(f"{what} holds values that are not finite")
    return values.astype(np.float64, copy=False)


def ranking(sequence: npt.ArrayLike, what: str) -> npt.NDArray[np.int64]:
    """Return ``sequence`` as a non-empty vector of distinct indices."""
    values = _check_indices(number_vector(sequence, what), what)
    check_distinct(np.sort(values)[np.newaxis], what)
    return values


def check_distinct(sorted_rows: npt.NDArray[np.int64], what: str) -> None:
    """Raise if one of the rows, each in ascending order, repeats an index."""
    repeated = sorted_rows[:, 1:] == sorted_rows[:, :-1]
    if repeated.any():
        row, column = (int(i) for i in np.argwhere(repeated)[0])
        raise ConfigurationError(
            f"{what} repeats the index {int(sorted_rows[row, column])} in row {row}; "
            "a ranking holds an index at most once (dtw and fastdtw allow repetitions)"
        )
