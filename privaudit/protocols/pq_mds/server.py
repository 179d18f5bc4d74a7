"""What the server does: k-means on the concatenated uploads."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = ["Clustering", "cluster", "one_hot"]


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """The cluster of each row, and the centres.

    Attributes
    ----------
    labels : ndarray of int64, shape (n,)
    centroids : ndarray of float32, shape (k, columns)
    """

    labels: npt.NDArray[np.int64]
    centroids: npt.NDArray[np.float32]


def cluster(
    rows: npt.NDArray[np.floating],
    clusters: int,
    *,
    initialisations: int,
    rng: np.random.Generator,
) -> Clustering:
    """Cluster rows by scikit-learn's k-means, the best of several starts.

    Rows with fewer distinct values than clusters leave clusters empty.

    Raises
    ------
    ConfigurationError
        If there are more clusters than rows.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if clusters > len(rows):
        raise ConfigurationError(f"clusters must be at most the number of rows, {len(rows)}")
    model = KMeans(
        clusters, n_init=initialisations, random_state=int(rng.integers(2**31)), copy_x=True
    )
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: the run says so in words of its own.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.fit_predict(rows)
    return Clustering(labels.astype(np.int64), model.cluster_centers_.astype(np.float32))


def one_hot(codes: npt.NDArray[np.integer], codewords: int) -> npt.NDArray[np.float32]:
    """Return codes as indicators, shape (n, subspaces * codewords).

    Examples
    --------
    >>> one_hot(np.array([[1, 0]]), 2)
    array([[0., 1., 1., 0.]], dtype=float32)
    """
    n, subspaces = codes.shape
    result = np.zeros((n, subspaces, codewords), dtype=np.float32)
    np.put_along_axis(result, codes[:, :, None].astype(np.int64), 1, axis=2)
    return result.reshape(n, -1)
