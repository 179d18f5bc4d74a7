"""Telling a record in a mean of gradients, by how gradients of other records vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["GradientLaw", "fit_law"]

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GradientLaw:
    r"""Gaussian law of a record's gradient given its class.

    Attributes
    ----------
    means : ndarray of float64, shape (classes, m)
        Zero for a class without auxiliary records.
    basis : ndarray of float64, shape (rank, m)
        Orthonormal directions in which auxiliary gradients deviate from the mean of their class.
    variances : ndarray of float64, shape (rank,)
        Their variances.
    floor : float
        Variance in directions that the auxiliary gradients do not span.
    """

    means: Float64
    basis: Float64
    variances: Float64
    floor: float

    def log_ratios(
        self,
        update: Float64,
        gradients: Float64,
        labels: npt.NDArray[np.int64],
        *,
        records: int,
        noise: float = 0.0,
    ) -> Float64:
        r"""Return log-likelihood ratios that each gradient is one of those whose mean was sent.

        The mean of n gradients is :math:`v \sim N(\sum_c h_c \mu_c, \Sigma / n + s^2 I)`; with the
        record it moves by :math:`\delta = (g_x - \mu_y) / n`. The ratio is
        :math:`\delta^T S^{-1} r - \delta^T S^{-1} \delta / 2`, r the residual of v after the class
        shares h are fitted by least squares under S.

        Parameters
        ----------
        update : ndarray of float64, shape (m,)
            The mean v.
        gradients : ndarray of float64, shape (candidates, m)
        labels : ndarray of int64, shape (candidates,)
        records : int
            n.
        noise : float
            Standard deviation s of noise on each coordinate of v.
        """
        variance = self.floor / records + noise**2
        spread = self.variances / records
        shrink = spread / (spread + variance)

        def solved(vectors: Float64) -> Float64:
            # Woodbury, in the basis in which the covariance is diagonal.
            inside = (vectors @ self.basis.T) * shrink
            result: Float64 = (vectors - inside @ self.basis) / variance
            return result

        weighted = solved(self.means)
        shares = np.linalg.lstsq(weighted @ self.means.T, weighted @ update, rcond=1e-9)[0]
        residual = update - shares @ self.means
        moves = (gradients - self.means[labels]) / records
        filtered = solved(moves)
        ratios: Float64 = filtered @ residual - 0.5 * np.einsum("ij,ij->i", filtered, moves)
        return ratios


def fit_law(gradients: Float64, labels: npt.NDArray[np.int64], *, classes: int) -> GradientLaw:
    """Fit means and covariance to auxiliary gradients.

    ``floor`` is the mean square, a direction, of what one half of the records has outside the span
    of the other half: what the covariance of few records in many dimensions misses.
    """
    counts = np.bincount(labels, minlength=classes)
    means = np.zeros((classes, gradients.shape[1]))
    np.add.at(means, labels, gradients)
    means /= np.maximum(counts, 1)[:, None]
    deviations = gradients - means[labels]
    half, _ = _principal(deviations[::2])
    second = deviations[1::2]
    outside = second - (second @ half.T) @ half
    free = max(1, gradients.shape[1] - len(half))
    floor = float(np.square(outside).sum() / max(1, len(second)) / free)
    typical = float(np.square(deviations).mean())
    basis, variances = _principal(deviations)
    return GradientLaw(means, basis, variances, max(floor, 1e-6 * typical, 1e-30))


def _principal(rows: Float64) -> tuple[Float64, Float64]:
    """Return orthonormal directions of the rows, and the mean square of the rows in each."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    basis = (vectors[:, kept] / np.sqrt(values[kept])).T @ rows
    return basis, values[kept] / len(rows)
