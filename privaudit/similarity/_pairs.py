"""The metrics for one pair of sequences, which may differ in length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.similarity._validation import (
    check_persistence,
    check_radius,
    number_vector,
    ranking,
)

__all__ = [
    "NO_PATH_AT_RADIUS_ZERO",
    "as_lane_type",
    "dtw",
    "fastdtw",
    "jaccard",
    "rank_biased_overlap",
]

NO_PATH_AT_RADIUS_ZERO = (
    "radius 0 leaves no warping path between sequences of these lengths, because one of them is "
    "odd at some level of halving (the fastdtw package fails there too); use a radius from 1"
)


def as_lane_type(
    x: npt.NDArray[Any], y: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any]:
    """Return ``x`` and ``y`` in the fastest type that keeps DTW exact, and its infinity.

    That is int32 (relative to the smallest value) if both hold integers and the largest partial
    sum, the longer length times the range, stays below the infinity of the kernel; otherwise
    float64, which is exact for integer sums below 2^53.
    """
    from privaudit.similarity._dtw_kernel import INT32_INFINITY

    if x.dtype.kind == "i" and y.dtype.kind == "i":
        lowest = min(int(x.min()), int(y.min()))
        spread = max(int(x.max()), int(y.max())) - lowest
        if max(x.shape[-1], y.shape[-1]) * spread < INT32_INFINITY:
            small_x = np.ascontiguousarray(x - lowest, dtype=np.int32)
            small_y = small_x if y is x else np.ascontiguousarray(y - lowest, dtype=np.int32)
            return small_x, small_y, np.int32(INT32_INFINITY)
    wide_x = np.ascontiguousarray(x, dtype=np.float64)
    wide_y = wide_x if y is x else np.ascontiguousarray(y, dtype=np.float64)
    return wide_x, wide_y, np.float64(np.inf)


def dtw(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the exact dynamic-time-warping distance with local cost |x_r - y_s|.

    Parameters
    ----------
    x, y
        (n,) and (m,) integers or finite floats, n and m at least one.

    Returns
    -------
    float
        The minimum over warping paths P of the sum of |x_r - y_s| over (r, s) in P (PA-CFL,
        section 5.4, equation for rho_ij); equal, bit for bit, to the plain dynamic programme in
        float64. Time O(n m), memory O(n + m).

    Raises
    ------
    privaudit.errors.ConfigurationError
        A sequence is empty, not a vector, or not finite.

    Examples
    --------
    >>> dtw([1, 2, 3, 4, 5], [2, 3, 4])
    2.0
    """
    from privaudit.similarity._dtw_kernel import dtw_pairs

    lanes_x, lanes_y, infinity = as_lane_type(
        number_vector(x, "x")[np.newaxis], number_vector(y, "y")[np.newaxis]
    )
    distances = np.empty(1)
    only = np.zeros(1, dtype=np.int64)
    dtw_pairs(lanes_x, lanes_y, only, only, infinity, distances)
    return float(distances[0])


def fastdtw(x: npt.ArrayLike, y: npt.ArrayLike, *, radius: int = 1) -> float:
    """Return FastDTW's approximation of `dtw`: never smaller, in time O((n + m) radius).

    Parameters
    ----------
    x, y
        (n,) and (m,) integers or finite floats, n and m at least one.
    radius
        How many coarse cells around the coarse path are searched at the next finer level.

    Returns
    -------
    float
        The number that the pure Python implementation of the ``fastdtw`` package returns
        (S. Salvador and P. Chan, Intelligent Data Analysis 11(5), 2007).

    Raises
    ------
    privaudit.errors.ConfigurationError
        A sequence is unusable; ``radius`` is negative; or it is 0 and a length is odd at some
        level of halving, where the package ends with an IndexError.

    Examples
    --------
    >>> fastdtw([1, 2, 3, 4, 5], [2, 3, 4], radius=1)
    2.0
    """
    from privaudit.similarity._fastdtw_kernel import fastdtw_pairs

    radius = check_radius(radius)
    float_x = number_vector(x, "x").astype(np.float64)[np.newaxis]
    float_y = number_vector(y, "y").astype(np.float64)[np.newaxis]
    distances = np.empty(1)
    only = np.zeros(1, dtype=np.int64)
    fastdtw_pairs(float_x, float_y, only, only, radius, distances)
    if np.isnan(distances[0]):
        raise ConfigurationError(NO_PATH_AT_RADIUS_ZERO)
    return float(distances[0])


def jaccard(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the Jaccard distance 1 - |A ∩ B| / |A ∪ B| of the two sets of indices.

    Raises
    ------
    privaudit.errors.ConfigurationError
        A sequence is empty, repeats an index, or holds something else than indices.

    Examples
    --------
    >>> jaccard([4, 1, 7], [7, 4, 9])
    0.5
    """
    a, b = ranking(x, "x"), ranking(y, "y")
    common = np.intersect1d(a, b, assume_unique=True).size
    return 1.0 - common / (a.size + b.size - common)


def rank_biased_overlap(x: npt.ArrayLike, y: npt.ArrayLike, *, persistence: float) -> float:
    """Return the extrapolated rank-biased overlap (a similarity) of two rankings.

    Parameters
    ----------
    x, y
        (n,) and (m,) distinct indices, best rank first.
    persistence
        p in (0, 1), the probability of going one rank deeper; 1 / (1 - p) ranks are looked at in
        expectation.

    Returns
    -------
    float
        RBO_EXT in [0, 1]: 1 for identical, 0 for disjoint rankings. With X_d the number of
        shared indices among the first d of each, s the shorter and l the longer length
        (W. Webber, A. Moffat and J. Zobel, A similarity measure for indefinite rankings, ACM
        TOIS 28(4), 2010, equation 32)::

            (1-p)/p (sum_{d=1..l} X_d/d p^d + sum_{d=s+1..l} X_s (d-s)/(s d) p^d)
                + ((X_l - X_s)/l + X_s/s) p^l

    Raises
    ------
    privaudit.errors.ConfigurationError
        A ranking is empty or repeats an index, or ``persistence`` is out of its range.

    Examples
    --------
    >>> round(rank_biased_overlap([1, 2, 3], [1, 3, 2], persistence=0.9), 6)
    0.955
    """
    p = check_persistence(persistence)
    a, b = ranking(x, "x"), ranking(y, "y")
    s, longer = sorted((a.size, b.size))
    _, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    arrivals = np.bincount(np.maximum(in_a, in_b), minlength=longer)
    shared = np.cumsum(arrivals)  # X_1 .. X_l
    depth = np.arange(1, longer + 1)
    terms = shared / depth * p**depth
    beyond = depth[s:]
    terms[s:] += shared[s - 1] * (beyond - s) / (s * beyond) * p**beyond
    tail = (shared[-1] - shared[s - 1]) / longer + shared[s - 1] / s
    similarity = (1 - p) / p * float(terms.sum()) + tail * p**longer
    return min(max(float(similarity), 0.0), 1.0)
