"""Distances of full gradients: a reference, not something the management server could compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError

__all__ = ["cosine_distances"]


def cosine_distances(vectors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return 1 - cos of each pair of full gradients.

    This reads every coordinate of every gradient, so it is *not private*: it shows how well the
    users could be grouped if nothing were hidden.

    Parameters
    ----------
    vectors
        (N, d) finite numbers, N at least 2; none is the zero vector, whose angle is undefined.

    Returns
    -------
    numpy.ndarray
        (N, N) float64, symmetric, zero on the diagonal, values in [0, 2].

    Raises
    ------
    privaudit.errors.InvalidDataError
        The shape is not (N >= 2, d >= 1), or a vector is zero or not finite.

    Examples
    --------
    >>> cosine_distances([[1.0, 0.0], [0.0, 2.0]])
    array([[0., 1.],
           [1., 0.]])
    """
    from sklearn.metrics import pairwise

    matrix: npt.NDArray[Any] = np.asarray(vectors, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
        raise InvalidDataError(
            f"vectors have the shape {matrix.shape}; needed: (users >= 2, coordinates >= 1)"
        )
    usable = np.isfinite(matrix).all(axis=1) & matrix.any(axis=1)
    if not usable.all():
        raise InvalidDataError(
            f"vector {int(np.argmin(usable))} is zero or not finite: it has no direction; "
            "leave that user out"
        )
    distances: npt.NDArray[np.float64] = pairwise.cosine_distances(matrix)
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0.0)
    return distances
