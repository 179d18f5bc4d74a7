"""Class counts: what the group label sampler and the group weights are computed from (eq. 5, 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.transcript import PartyId

__all__ = ["class_counts", "cluster_counts", "label_distribution", "teacher_weights"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


def class_counts(labels: Int64, *, classes: int) -> Int64:
    """Return how many records of each class there are, shape (classes,).

    Examples
    --------
    >>> class_counts(np.array([2, 0, 2]), classes=4)
    array([1, 0, 2, 0])
    """
    return np.bincount(labels, minlength=classes).astype(np.int64)


def cluster_counts(counts: Mapping[PartyId, Int64], clusters: Sequence[Sequence[PartyId]]) -> Int64:
    """Return n_y^k: the records of class y that the members of cluster k hold in this round.

    Parameters
    ----------
    counts : mapping of client to ndarray of int64, shape (classes,)
        As the clients sent them.
    clusters : sequence of sequences of clients

    Returns
    -------
    ndarray of int64, shape (clusters, classes)

    Raises
    ------
    InvalidDataError
        If a member sent no counts, or counts of another length, negative, or all zero. There is
        no fallback to a uniform distribution: what was not sent is not known.
    """
    lengths = sorted({c.shape for c in counts.values()})
    if len(lengths) > 1:
        raise InvalidDataError(f"class counts differ in shape among clients: {lengths}")
    rows = []
    for members in clusters:
        for client in members:
            if client not in counts:
                raise InvalidDataError(
                    f"'{client}' sent no class counts; the label sampler (eq. 5) and the group "
                    "weights (eq. 6) need those of every client of the round"
                )
            if (counts[client] < 0).any() or not counts[client].any():
                raise InvalidDataError(
                    f"class counts of '{client}' must be non-negative and not all zero, got "
                    f"{counts[client].tolist()}"
                )
        rows.append(np.sum([counts[client] for client in members], axis=0, dtype=np.int64))
    return np.stack(rows)


def label_distribution(counts: Int64) -> Float64:
    """Return p(y), from which labels of generated images are drawn (eq. 5).

    The share of each class among the records of all clusters. A class that nobody holds has
    probability 0 and is never drawn.

    Parameters
    ----------
    counts : ndarray of int64, shape (clusters, classes)
        n_y^k, as of :func:`cluster_counts`.

    Returns
    -------
    ndarray of float64, shape (classes,)

    Raises
    ------
    InvalidDataError
        If there is no record.

    Examples
    --------
    >>> label_distribution(np.array([[3, 0, 1], [0, 0, 4]]))
    array([0.375, 0.   , 0.625])
    """
    total = _checked(counts).sum(axis=0)
    share: Float64 = total / total.sum()
    return share


def teacher_weights(counts: Int64) -> Float64:
    """Return alpha_y^k, the weight of cluster k's model on images of class y (eq. 6).

    The share of the cluster among all records of the class. FedFTG adds 1e-6 to the denominator;
    here a class without records has weight 0 everywhere, and all others sum to 1 over the clusters.

    Parameters
    ----------
    counts : ndarray of int64, shape (clusters, classes)

    Returns
    -------
    ndarray of float64, shape (clusters, classes)

    Examples
    --------
    >>> teacher_weights(np.array([[3, 0, 1], [1, 0, 4]]))
    array([[0.75, 0.  , 0.2 ],
           [0.25, 0.  , 0.8 ]])
    """
    total = _checked(counts).sum(axis=0)
    weights = np.zeros(counts.shape)
    np.divide(counts, total, out=weights, where=total > 0)
    return weights


def _checked(counts: Int64) -> Int64:
    if counts.ndim != 2 or (counts < 0).any() or not counts.any():
        raise InvalidDataError(
            "class counts of clusters are of shape (clusters, classes), non-negative, with at "
            f"least one record, got shape {counts.shape}"
        )
    return counts
