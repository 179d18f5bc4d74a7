"""Permutation sequences: pi_i of a user and pi^g of the management server (sections 5.2, 5.3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["global_permutation", "permutation_sequence", "remainder_coordinates"]


def permutation_sequence(update: npt.NDArray[np.floating], *, k: int) -> npt.NDArray[np.int64]:
    """Return the coordinates of the k largest magnitudes, largest first; ties by coordinate.

    Parameters
    ----------
    update : ndarray of float, shape (d,)
    k : int

    Returns
    -------
    ndarray of int64, shape (k,)

    Notes
    -----
    PA-CFL, section 5.2, operations top-k and argsort of Figure 4.

    Examples
    --------
    >>> permutation_sequence(np.array([0.1, -3.0, 2.0, 3.0]), k=3)
    array([1, 3, 2])
    """
    magnitude = np.abs(update)
    # A partition alone would break ties at the k-th place arbitrarily; every coordinate at or
    # above the k-th magnitude is kept and a stable sort decides.
    threshold = np.partition(magnitude, len(magnitude) - k)[len(magnitude) - k]
    candidates = np.flatnonzero(magnitude >= threshold)
    order = np.argsort(-magnitude[candidates], kind="stable")
    return candidates[order[:k]].astype(np.int64)


def global_permutation(
    sequences: npt.NDArray[np.int64], *, dimension: int, k: int
) -> npt.NDArray[np.int64]:
    """Return pi^g: the k coordinates of largest importance score, ties by coordinate.

    The score of coordinate e is the sum over users of ``1 / (1 + j)``, with j the 1-based position
    of e in the user's sequence (section 5.3).

    Parameters
    ----------
    sequences : ndarray of int64, shape (users, k)
    dimension : int
    k : int

    Returns
    -------
    ndarray of int64, shape (k,)

    Examples
    --------
    >>> global_permutation(np.array([[4, 2], [2, 0]]), dimension=5, k=2)
    array([2, 4])
    """
    positions = np.arange(1, sequences.shape[1] + 1)
    weights = np.broadcast_to(1.0 / (1.0 + positions), sequences.shape)
    scores = np.bincount(sequences.ravel(), weights=weights.ravel(), minlength=dimension)
    seen = np.unique(sequences)
    return seen[np.argsort(-scores[seen], kind="stable")][:k].astype(np.int64)


def remainder_coordinates(
    permutation: npt.NDArray[np.int64], *, dimension: int
) -> npt.NDArray[np.int64]:
    """Return the coordinates outside pi^g, ascending: the order of the less important subvector.

    Examples
    --------
    >>> remainder_coordinates(np.array([2, 0]), dimension=5)
    array([1, 3, 4])
    """
    outside = np.ones(dimension, dtype=bool)
    outside[permutation] = False
    return np.flatnonzero(outside).astype(np.int64)
