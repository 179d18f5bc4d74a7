"""Grouping by affinity propagation on a similarity matrix, with the rules for when it fails."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError

__all__ = ["Grouping", "affinity_propagation", "cosine_similarities", "members_of", "numbered"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The groups of a round's clients.

    Attributes
    ----------
    assignment : ndarray of int64, shape (clients,)
        Groups are numbered from 0 in the order of their first client.
    warning : str
        Which fallback was taken, or empty.
    """

    assignment: Int64
    warning: str = ""


def numbered(assignment: npt.ArrayLike) -> Int64:
    """Return the groups numbered from 0, in the order of their first client.

    Examples
    --------
    >>> numbered([4, 1, 4, 0])
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(assignment, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def members_of(assignment: Int64) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the clients of each group."""
    return tuple(
        tuple(int(i) for i in np.flatnonzero(assignment == k)) for k in range(assignment.max() + 1)
    )


def cosine_similarities(vectors: npt.NDArray[np.floating]) -> Float64:
    """Return the cosines between all rows (eq. 3), with ones on the diagonal.

    Parameters
    ----------
    vectors : ndarray of floats, shape (clients, d)

    Returns
    -------
    ndarray of float64, shape (clients, clients)

    Raises
    ------
    InvalidDataError
        If a vector is zero or not finite: its cosine is not defined.
    """
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise InvalidDataError(
            f"the cosine of vector {int(bad[0])} is not defined: its norm is {norms[bad[0]]}; with "
            "similarity_on = 'delta' a client that did not learn has a zero vector"
        )
    wide /= norms[:, None]
    cosines = np.clip(wide @ wide.T, -1.0, 1.0)
    cosines = (cosines + cosines.T) / 2
    np.fill_diagonal(cosines, 1.0)
    return cosines


def affinity_propagation(similarities: Float64, *, seed: int) -> Grouping:
    """Cluster by affinity propagation (Frey and Dueck 2007), the clustering of DisUE (eq. 4).

    Damping 0.5 and the median as preference, scikit-learn's defaults. Where it does not converge
    it is tried again with damping 0.9 and 1000 iterations; where that fails too, and for one or
    two clients, all are one group. Every fallback is told.

    Parameters
    ----------
    similarities : ndarray of float64, shape (clients, clients)
        Symmetric.
    seed : int
        Of the tiny noise by which scikit-learn breaks ties.

    Raises
    ------
    InvalidDataError
        If the matrix is not square, symmetric and finite.
    """
    clients = len(similarities)
    if (
        similarities.shape != (clients, clients)
        or not np.isfinite(similarities).all()
        or not np.allclose(similarities, similarities.T)
    ):
        raise InvalidDataError(
            "similarities must be a symmetric matrix of finite numbers, got shape "
            f"{similarities.shape}"
        )
    if clients <= 2:
        return Grouping(
            np.zeros(clients, dtype=np.int64),
            f"one group without clustering: {clients} client(s) took part",
        )
    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    for damping, iterations in ((0.5, 200), (0.9, 1000)):
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            labels = (
                AffinityPropagation(
                    affinity="precomputed",
                    damping=damping,
                    max_iter=iterations,
                    random_state=seed,
                )
                .fit(similarities)
                .labels_
            )
        # Older releases mark failure by labels of -1, newer ones by a warning alone.
        failed = any(issubclass(w.category, ConvergenceWarning) for w in raised)
        if not failed and (labels >= 0).all():
            again = (
                ""
                if damping == 0.5
                else "affinity propagation converged only with damping 0.9 and 1000 iterations"
            )
            return Grouping(numbered(labels), again)
    return Grouping(
        np.zeros(clients, dtype=np.int64),
        "affinity propagation did not converge, also with damping 0.9: one group",
    )
