"""Privacy protection of the less important subvector (section 5.5): clip, noise, shuffle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["clip", "noise", "shuffle_per_coordinate"]

Matrix = npt.NDArray[np.float32]


def clip(vector: npt.NDArray[np.floating], *, threshold: float) -> npt.NDArray[np.float64]:
    """Scale a vector down to the Euclidean norm ``threshold`` if it is longer."""
    values = vector.astype(np.float64)
    norm = float(np.linalg.norm(values))
    return values if norm <= threshold else values * (threshold / norm)


def noise(
    clipped: npt.NDArray[np.float64],
    *,
    threshold: float,
    epsilon0: float,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Add Laplace noise of scale ``2 * threshold / epsilon0`` to each coordinate.

    The result is rounded to float32 for the wire. Floating-point noise has a privacy defect of
    its own (Mironov, CCS 2012), which no bound of this package covers.
    """
    scale = 2.0 * threshold / epsilon0
    with np.errstate(over="ignore"):
        return (clipped + rng.laplace(0.0, scale, clipped.shape)).astype(np.float32)


def shuffle_per_coordinate(reports: Matrix, *, rng: np.random.Generator) -> Matrix:
    """Permute each column independently and uniformly at random.

    Parameters
    ----------
    reports : ndarray of float32, shape (users of one pre-cluster, d2)

    Returns
    -------
    ndarray of float32, same shape
    """
    shuffled: Matrix = rng.permuted(reports, axis=0)
    return shuffled
