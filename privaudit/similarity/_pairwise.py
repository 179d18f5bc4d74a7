"""The (N, N) distance matrix of N permutation sequences, on all cores."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.similarity._pairs import NO_PATH_AT_RADIUS_ZERO, as_lane_type
from privaudit.similarity._validation import (
    check_distinct,
    check_persistence,
    check_radius,
    index_matrix,
)

__all__ = ["METRICS", "SUMMARIES", "pairwise_distances"]

Metric: TypeAlias = Literal["dtw", "fastdtw", "jaccard", "rbo"]
SequenceOrder: TypeAlias = Literal["rank", "index"]
Progress: TypeAlias = Callable[[int, int], None]
# Writes the distances of the pairs (first[p], second[p]) to its third argument.
_Kernel: TypeAlias = Callable[
    [npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]], None
]

METRICS: tuple[Metric, ...] = get_args(Metric)

#: One line on each metric, and on the reference that needs full updates.
SUMMARIES: Mapping[str, str] = {
    "dtw": "Exact dynamic time warping of the sequences (PA-CFL, section 5.4).",
    "fastdtw": "The approximation of the paper's experiments; equal to the fastdtw package.",
    "jaccard": "One minus the share of common coordinates.",
    "rbo": "One minus rank-biased overlap: better and cheaper on the same message.",
    "cosine": "One minus the cosine of full updates: a reference that is not private.",
}

_STEPS_PER_TASK = 5e7  # milliseconds of work: dear beside a thread's hand-over, cheap to wait for
_BATCH = 16  # pairs; the DTW kernel takes that many at once
_UNIT = 2.0**62  # rank weights are integers in units of 2^-62, so that sums are exact


def pairwise_distances(
    sequences: npt.ArrayLike,
    *,
    metric: Metric,
    sequence_order: SequenceOrder = "rank",
    radius: int = 1,
    persistence: float = 0.999,
    threads: int | None = None,
    progress: Progress | None = None,
) -> npt.NDArray[np.float64]:
    """Return the distance of every pair of permutation sequences.

    Parameters
    ----------
    sequences
        (N, k) coordinate indices in rank order (largest gradient element first), N at least 2,
        k at least 1, each index at least 0. ``jaccard`` and ``rbo`` need distinct indices in
        a row.
    metric
        ``dtw``: exact dynamic time warping on the indices (PA-CFL, section 5.4), O(k^2) a pair.
        ``fastdtw``: its approximation, equal to the ``fastdtw`` package (section 7.1), O(k); of a
        pair, the lower user comes first, which matters when costs tie.
        ``jaccard``: 1 - |A ∩ B| / |A ∪ B| of the index sets, O(k).
        ``rbo``: 1 - RBO_EXT, rank-biased overlap (Webber, Moffat and Zobel 2010), O(k).
    sequence_order
        ``rank`` is the paper's. ``index`` sorts each sequence by coordinate before ``dtw`` or
        ``fastdtw``: a deviation, which finds groups where rank order does not. It changes nothing
        for ``jaccard`` and is refused for ``rbo``, which compares ranks.
    radius
        FastDTW's radius; used by ``fastdtw`` only.
    persistence
        RBO's p in (0, 1); used by ``rbo`` only.
    threads
        How many threads to use; None: one for each usable core. The result does not depend on it.
    progress
        Called in the calling thread, now and then, with the number of pairs done and in all.

    Returns
    -------
    numpy.ndarray
        (N, N) float64, symmetric, zero on the diagonal. Coordinates for ``dtw`` and ``fastdtw``;
        in [0, 1] for the others. Memory O(N^2 + N k + threads * k).

    Raises
    ------
    privaudit.errors.ConfigurationError
        A parameter or the sequences are not allowed.

    Examples
    --------
    >>> pairwise_distances([[4, 1, 7], [7, 4, 9], [4, 1, 7]], metric="jaccard")
    array([[0. , 0.5, 0. ],
           [0.5, 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    if metric not in METRICS:
        raise ConfigurationError(
            f"metric is {metric!r}; allowed: {', '.join(METRICS)}."
            f"{did_you_mean(str(metric), METRICS)}"
        )
    orders = get_args(SequenceOrder)
    if sequence_order not in orders:
        raise ConfigurationError(
            f"sequence_order is {sequence_order!r}; allowed: {', '.join(orders)}."
            f"{did_you_mean(str(sequence_order), orders)}"
        )
    if metric == "rbo" and sequence_order == "index":
        raise ConfigurationError(
            "metric 'rbo' compares ranks, which sequence_order 'index' discards; "
            "use sequence_order 'rank', or the metric 'jaccard'"
        )
    radius = check_radius(radius)
    persistence = check_persistence(persistence)
    workers = _usable_cores() if threads is None else threads
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ConfigurationError(f"threads is {threads!r}; allowed: integers from 1, or None")

    values = index_matrix(sequences)
    k = values.shape[1]
    if metric in ("dtw", "fastdtw") and sequence_order == "index":
        values = np.sort(values, axis=1)
    if metric == "dtw":
        return _matrix(_dtw_kernel(values), values.shape[0], k * k, workers, progress)
    if metric == "fastdtw":
        steps = k * 16 * (4 * radius + 6)  # a visited cell costs some 16 vectorised ones
        distances = _matrix(_fastdtw_kernel(values, radius), len(values), steps, workers, progress)
        if np.isnan(distances).any():
            raise ConfigurationError(NO_PATH_AT_RADIUS_ZERO)
        return distances
    kernel = _jaccard_kernel(values) if metric == "jaccard" else _rbo_kernel(values, persistence)
    return _matrix(kernel, len(values), 16 * k, workers, progress)


def _dtw_kernel(values: npt.NDArray[np.int64]) -> _Kernel:
    from privaudit.similarity._dtw_kernel import dtw_pairs

    lanes, _, infinity = as_lane_type(values, values)
    return lambda first, second, out: dtw_pairs(lanes, lanes, first, second, infinity, out)


def _fastdtw_kernel(values: npt.NDArray[np.int64], radius: int) -> _Kernel:
    from privaudit.similarity._fastdtw_kernel import fastdtw_pairs

    floats = np.ascontiguousarray(values, dtype=np.float64)
    return lambda first, second, out: fastdtw_pairs(floats, floats, first, second, radius, out)


def _overlaps(values: npt.NDArray[np.int64], weights: npt.NDArray[np.int64]) -> Callable[..., Any]:
    """Return a function of (first, second) that gives (shared indices, their total weight)."""
    from privaudit.similarity._rank_kernel import BLOCK, overlap_pairs

    ranks = np.argsort(values, axis=1, kind="stable")
    in_order = np.take_along_axis(values, ranks, axis=1)
    check_distinct(in_order, "sequences")
    items = in_order
    if items.max() >= BLOCK * values.shape[1]:  # more blocks than items in a row: close the gaps
        _, items = np.unique(items, return_inverse=True)
    items = items.astype(np.int32)
    ranks = ranks.astype(np.int32)
    edges = np.arange(0, int(items.max()) + 1 + BLOCK, BLOCK)
    starts = np.array([np.searchsorted(row, edges) for row in items])

    def overlaps(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Any:
        common = np.zeros(len(first), dtype=np.int64)
        weighted = np.zeros(len(first), dtype=np.int64)
        overlap_pairs(items, ranks, starts, weights, first, second, common, weighted)
        return common, weighted

    return overlaps


def _jaccard_kernel(values: npt.NDArray[np.int64]) -> _Kernel:
    k = values.shape[1]
    overlaps = _overlaps(values, np.zeros(k + 1, dtype=np.int64))

    def kernel(
        first: npt.NDArray[np.int64],
        second: npt.NDArray[np.int64],
        out: npt.NDArray[np.float64],
    ) -> None:
        common, _ = overlaps(first, second)
        out[:] = 1.0 - common / (2 * k - common)

    return kernel


def _rbo_kernel(values: npt.NDArray[np.int64], persistence: float) -> _Kernel:
    """Return the kernel of 1 - RBO_EXT for rankings of equal length k.

    With X_d the overlap at depth d, RBO_EXT = sum_d a_d X_d + p^k X_k / k where
    a_d = (1-p)/p p^d / d. As X_d counts the shared indices whose worse rank is at most d, the sum
    over depths is a sum over shared indices of w[worse rank], w[r] = sum_{d >= r} a_d: one pass,
    no cumulation. In exact arithmetic sum_r w[r] + p^k = 1, the value of identical rankings; the
    distance is the weight that is missing from this total, relative to it. Identical rankings so
    have distance 0 and disjoint ones 1, exactly, and the result is the same for (i, j), (j, i).
    """
    k = values.shape[1]
    depth = np.arange(1, k + 1)
    terms = (1 - persistence) / persistence * persistence**depth / depth
    weights = np.zeros(k + 1, dtype=np.int64)
    weights[:k] = np.rint(np.cumsum(terms[::-1])[::-1] * _UNIT)
    tail = float(np.rint(persistence**k * _UNIT))
    whole = int(weights.sum())
    overlaps = _overlaps(values, weights)

    def kernel(
        first: npt.NDArray[np.int64],
        second: npt.NDArray[np.int64],
        out: npt.NDArray[np.float64],
    ) -> None:
        common, weighted = overlaps(first, second)
        shared_tail = np.rint(tail * (common / k)).astype(np.int64)
        out[:] = ((whole - weighted) + (int(tail) - shared_tail)) / (whole + int(tail))

    return kernel


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _matrix(
    kernel: _Kernel, users: int, steps: int, workers: int, progress: Progress | None
) -> npt.NDArray[np.float64]:
    """Fill the matrix, pair by pair, in tasks of a few milliseconds.

    ``steps`` is the work of one pair in vectorised elementary steps, which sizes the tasks.
    """
    rows, columns = np.triu_indices(users, k=1)
    pairs = len(rows)
    share = math.ceil(pairs / (4 * workers))  # a few tasks for each worker, however cheap they are
    size = max(1, min(share, int(_STEPS_PER_TASK / steps)))
    size = math.ceil(size / _BATCH) * _BATCH
    tasks = [slice(start, min(start + size, pairs)) for start in range(0, pairs, size)]
    values = np.empty(pairs)

    def work(task: slice) -> int:
        kernel(rows[task], columns[task], values[task])
        return int(task.stop - task.start)

    done = 0
    if workers == 1 or len(tasks) == 1:
        for task in tasks:
            done += work(task)
            if progress is not None:
                progress(done, pairs)
    else:
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    done += future.result()
                    if progress is not None:
                        progress(done, pairs)
            except BaseException:  # an interrupt must not wait for the tasks still queued
                pool.shutdown(cancel_futures=True)
                raise
    distances = np.zeros((users, users))
    distances[rows, columns] = values
    distances[columns, rows] = values
    return distances
