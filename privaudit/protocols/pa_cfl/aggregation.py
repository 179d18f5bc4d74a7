"""What the aggregation server computes: fine clusters and aggregates (sections 5.6, 5.7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FineClustering", "cluster_aggregates", "fine_clustering", "global_aggregate"]

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class FineClustering:
    """The final clusters.

    Attributes
    ----------
    assignment : ndarray of int64, shape (users,)
    iterations : int
    converged : bool
        False if the cap was reached; then ``assignment`` is the one of least total cosine distance
        among those visited.
    """

    assignment: npt.NDArray[np.int64]
    iterations: int
    converged: bool


def _cosines(vectors: Matrix, centroids: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)[:, None]
    scale = norms * np.linalg.norm(centroids, axis=1)[None, :]
    dots = vectors.astype(np.float64) @ centroids.T
    cosines: npt.NDArray[np.float64] = np.zeros_like(dots)
    np.divide(dots, scale, out=cosines, where=scale > 0)
    return cosines


def _centroids(
    vectors: Matrix, assignment: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Weighted mean of each cluster; clusters are numbered 0..K-1 without gaps."""
    membership = np.zeros((int(assignment.max()) + 1, len(vectors)))
    membership[assignment, np.arange(len(vectors))] = weights
    membership /= membership.sum(axis=1, keepdims=True)
    centroids: npt.NDArray[np.float64] = membership @ vectors.astype(np.float64)
    return centroids


def _without_gaps(assignment: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.unique(assignment, return_inverse=True)[1].astype(np.int64)


def fine_clustering(
    vectors: Matrix,
    initial: npt.NDArray[np.int64],
    *,
    weights: npt.NDArray[np.float64],
    iterations: int,
) -> FineClustering:
    """Reassign users to the centroid of smallest cosine distance until nothing changes.

    Parameters
    ----------
    vectors : ndarray of float32, shape (users, d)
        Privacy-preserving gradients as the AS holds them.
    initial : ndarray of int64, shape (users,)
        The pre-clusters.
    weights : ndarray of float64, shape (users,)
        Positive; the dataset sizes in the paper.
    iterations : int
        Cap; the paper has none, but the iteration need not converge.
    """
    assignment = _without_gaps(initial)
    best, least = assignment, np.inf
    for iteration in range(1, iterations + 1):
        distance = 1.0 - _cosines(vectors, _centroids(vectors, assignment, weights))
        # Least over the clusterings that were visited, each judged by its own centroids.
        total = float(distance[np.arange(len(vectors)), assignment].sum())
        if total < least:
            best, least = assignment, total
        updated = _without_gaps(distance.argmin(axis=1))
        if np.array_equal(updated, assignment):
            return FineClustering(assignment, iteration, True)
        assignment = updated
    return FineClustering(best, iterations, False)


def cluster_aggregates(
    vectors: Matrix,
    assignment: npt.NDArray[np.int64],
    *,
    centroid_weights: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the aggregate of each cluster, weighted by a softmax of the cosines to its centroid.

    Returns
    -------
    ndarray of float64, shape (clusters, d)
    """
    cosines = _cosines(vectors, _centroids(vectors, assignment, centroid_weights))
    weights = np.exp(cosines[np.arange(len(vectors)), assignment])
    return _centroids(vectors, assignment, weights)


def global_aggregate(
    aggregates: npt.NDArray[np.float64], assignment: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the size-weighted mean of the normalised cluster aggregates.

    A cluster whose aggregate is zero contributes zero.
    """
    sizes = np.bincount(assignment, minlength=len(aggregates)).astype(np.float64)
    norms = np.linalg.norm(aggregates, axis=1)
    directions = np.divide(
        aggregates, norms[:, None], out=np.zeros_like(aggregates), where=norms[:, None] > 0
    )
    result: npt.NDArray[np.float64] = (sizes / sizes.sum()) @ directions
    return result
