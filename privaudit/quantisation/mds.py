"""Multidimensional scaling of the centres of a codebook: classical, weighted, and SMACOF.

On Euclidean points classical scaling *is* the projection on the leading principal axes: it
contracts distances, keeps them all when the embedding has the points' rank, and does not change
under translations and rotations of the points. The sign of each axis is made so that its entry of
largest magnitude is positive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = ["classical_mds", "smacof", "stress"]

Matrix = npt.NDArray[np.float64]


def classical_mds(
    points: npt.NDArray[np.floating],
    dimensions: int,
    *,
    weights: npt.NDArray[np.floating] | npt.NDArray[np.integer] | None = None,
) -> Matrix:
    """Embed points by classical scaling of their Euclidean distances.

    ``B = -J D2 J / 2`` with ``D2`` the squared distances and ``J = I - 1 w'``; the embedding is
    ``V_r L_r^(1/2)`` of the leading eigenpairs of ``W^(1/2) B W^(1/2)``, divided by ``w^(1/2)``
    (Torgerson 1952; weighted form of Gower). Negative eigenvalues count as zero.

    Parameters
    ----------
    points : ndarray of float, shape (k, d)
    dimensions : int
        r, from 1 to k - 1 (any r for a single point, whose embedding is zero).
    weights : ndarray of float or int, shape (k,), optional
        Masses of the points, at least one positive; equal by default.

    Returns
    -------
    ndarray of float64, shape (k, dimensions)

    Raises
    ------
    ConfigurationError
        If ``dimensions`` is out of range or the weights are no masses.

    Examples
    --------
    >>> classical_mds(np.array([[0.0, 0.0], [3.0, 4.0]]), 1)
    array([[ 2.5],
           [-2.5]])
    """
    k = len(points)
    if dimensions < 1 or (dimensions >= k > 1):
        raise ConfigurationError(
            f"an embedding of {k} centres has 1 to {max(1, k - 1)} dimensions, got {dimensions}: "
            "give fewer dimensions or more codewords"
        )
    if weights is None:
        mass = np.full(k, 1 / k)
    else:
        mass = np.asarray(weights, dtype=np.float64)
        if mass.shape != (k,) or not (np.isfinite(mass).all() and (mass >= 0).all() and mass.any()):
            raise ConfigurationError(f"weights must be {k} numbers >= 0, not all zero")
        mass = mass / mass.sum()
    if k == 1:
        return np.zeros((1, dimensions))
    squared = _squared_distances(points)
    # J D2 J' without the matrix J.
    rows = squared @ mass
    gram = -0.5 * (squared - rows[:, None] - rows[None, :] + mass @ rows)
    root = np.sqrt(mass)
    scaled = root[:, None] * gram * root[None, :]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    leading = vectors[:, ::-1][:, :dimensions]
    lengths = np.sqrt(np.clip(values[::-1][:dimensions], 0, None))
    if (mass > 0).all():
        embedding = leading * lengths / root[:, None]
    else:
        # A point without mass lies where its distances to the others put it (Gower's formula).
        shares = np.where(lengths > 1e-12 * max(lengths[0], 1e-300), lengths, np.inf)
        embedding = gram @ (root[:, None] * leading) / shares
    return _signed(embedding)


def smacof(
    points: npt.NDArray[np.floating],
    dimensions: int,
    *,
    start: Matrix | None = None,
    iterations: int = 300,
    tolerance: float = 1e-6,
) -> Matrix:
    """Embed points by minimising the raw stress of their distances, from a classical start.

    The Guttman transform ``X <- R(X) X / k`` (de Leeuw 1977), until the stress falls by less than
    ``tolerance`` of itself. A random start ends in poor local minima when ``dimensions`` is 1; it
    is possible through ``start`` for experiments only.

    Parameters
    ----------
    points : ndarray of float, shape (k, d)
    dimensions : int
    start : ndarray of float, shape (k, dimensions), optional
    iterations : int
    tolerance : float

    Returns
    -------
    ndarray of float64, shape (k, dimensions)
    """
    embedding = classical_mds(points, dimensions) if start is None else start.astype(np.float64)
    wanted = np.sqrt(_squared_distances(points))
    last = np.inf
    for _ in range(iterations):
        held = np.sqrt(_squared_distances(embedding))
        now = float(((held - wanted) ** 2).sum())
        if last - now <= tolerance * max(now, np.finfo(np.float64).tiny):
            break
        last = now
        ratios = np.divide(-wanted, held, out=np.zeros_like(wanted), where=held > 0)
        ratios[np.diag_indices_from(ratios)] = 0
        ratios[np.diag_indices_from(ratios)] = -ratios.sum(axis=1)
        embedding = ratios @ embedding / len(embedding)
    return _signed(embedding)


def stress(points: npt.NDArray[np.floating], embedding: npt.NDArray[np.floating]) -> float:
    """Return Kruskal's stress-1 of an embedding: 0 keeps every distance.

    Examples
    --------
    >>> stress(np.array([[0.0], [1.0], [3.0]]), np.array([[0.0], [1.0], [3.0]]))
    0.0
    """
    wanted = np.sqrt(_squared_distances(points))
    held = np.sqrt(_squared_distances(embedding))
    total = float((held**2).sum())
    return float(np.sqrt(((wanted - held) ** 2).sum() / total)) if total > 0 else 0.0


def _squared_distances(points: npt.NDArray[np.floating]) -> Matrix:
    centred = np.asarray(points, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    result: Matrix = squares[:, None] + squares[None, :] - 2 * (centred @ centred.T)
    np.clip(result, 0, None, out=result)
    np.fill_diagonal(result, 0)
    return result


def _signed(embedding: Matrix) -> Matrix:
    largest = np.abs(embedding).argmax(axis=0)
    signs = np.sign(embedding[largest, np.arange(embedding.shape[1])])
    return embedding * np.where(signs == 0, 1, signs)
