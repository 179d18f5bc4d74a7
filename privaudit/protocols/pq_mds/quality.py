"""How good a clustering is, and how much each party decides it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["agreement", "clustering_quality", "influence_shares", "normalised_error"]

Labels = npt.NDArray[np.integer]
_BLOCK = 4096


def clustering_quality(found: Labels, truth: Labels) -> dict[str, float]:
    """Compare clusters with classes.

    Returns
    -------
    dict
        ``ari`` (adjusted Rand index), ``nmi`` (normalised mutual information, arithmetic mean),
        ``purity`` (share of rows in the largest class of their cluster), and
        ``clustering_accuracy`` (the same with each class matched to one cluster at most, by the
        best assignment).

    Examples
    --------
    >>> clustering_quality(np.array([1, 1, 0]), np.array([0, 0, 1]))["clustering_accuracy"]
    1.0
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(truth, found)
    classes, clusters = linear_sum_assignment(-table)
    return agreement(found, truth) | {
        "purity": float(table.max(axis=0).sum() / len(truth)),
        "clustering_accuracy": float(table[classes, clusters].sum() / len(truth)),
    }


def agreement(one: Labels, other: Labels) -> dict[str, float]:
    """Return the adjusted Rand index and the normalised mutual information of two partitions."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "ari": float(adjusted_rand_score(other, one)),
        "nmi": float(normalized_mutual_info_score(other, one)),
    }


def influence_shares(uploads: Sequence[npt.NDArray[np.floating]]) -> tuple[float, ...]:
    """Return each party's share of the total variance of the concatenated uploads.

    k-means minimises squared distances, to which a column contributes its variance. All zero if
    nothing varies.
    """
    variances = [float(np.var(upload, axis=0, dtype=np.float64).sum()) for upload in uploads]
    total = sum(variances)
    return tuple(v / total if total > 0 else 0.0 for v in variances)


def normalised_error(
    features: npt.NDArray[np.floating], guesses: npt.NDArray[np.floating]
) -> float:
    """Return squared error over that of the mean row: 0 is perfect, 1 as good as the mean."""
    mean = features.mean(axis=0, dtype=np.float64)
    total = error = 0.0
    # In blocks: a whole image set in float64 would be the largest array of a run.
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK].astype(np.float64)
        total += float(((block - mean) ** 2).sum())
        error += float(((block - guesses[start : start + _BLOCK]) ** 2).sum())
    return error / total if total > 0 else 0.0
