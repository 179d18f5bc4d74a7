"""What Laplace noise leaves to be known, at the noise's true likelihood."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = ["laplace_log_ratio", "laplace_posterior_mean"]

Float64 = npt.NDArray[np.float64]


def laplace_posterior_mean(
    noised: npt.ArrayLike,
    *,
    scale: float,
    prior_mean: npt.ArrayLike = 0.0,
    prior_deviation: npt.ArrayLike,
) -> Float64:
    r"""Return :math:`E[x \mid y]` for :math:`y = x + \mathrm{Laplace}(b)`, x Gaussian.

    The posterior is two Gaussians, shifted by :math:`\pm s^2 / b` and cut at y; their weights are
    :math:`w_\pm = e^{\pm (y - m) / b} \Phi(\mp (y - m) / s - s / b)`, up to a common factor, and
    the mean is :math:`m + (s^2 / b) (w_- - w_+) / (w_- + w_+)`, with :math:`w_-` that of x below y.
    Least in mean squared error of all estimates.

    Parameters
    ----------
    noised : array_like of float
        y.
    scale : float
        b > 0; PA-CFL's is :math:`2 \Phi / \varepsilon_0`.
    prior_mean, prior_deviation : array_like of float
        m and s > 0, of shapes that broadcast with ``noised``.

    Raises
    ------
    ConfigurationError
        If scale or a deviation is not positive.
    """
    from scipy.special import log_ndtr

    deviation = np.asarray(prior_deviation, dtype=np.float64)
    if not scale > 0 or not (deviation > 0).all():
        raise ConfigurationError(
            f"scale and prior_deviation must be > 0, got {scale} and least {deviation.min()}"
        )
    mean = np.asarray(prior_mean, dtype=np.float64)
    distance = np.asarray(noised, dtype=np.float64) - mean
    below = -distance / scale + log_ndtr(distance / deviation - deviation / scale)
    above = distance / scale + log_ndtr(-distance / deviation - deviation / scale)
    result: Float64 = mean + deviation**2 / scale * np.tanh((below - above) / 2)
    return result


def laplace_log_ratio(noised: npt.ArrayLike, shift: npt.ArrayLike, *, scale: float) -> Float64:
    r"""Return :math:`\log p(y \mid \mu) - \log p(y \mid 0) = (|y| - |y - \mu|) / b`, summed.

    Where :math:`\mu` is small beside b this is the correlation with the signs of y, which needs
    half as many observations as the correlation with y itself.

    Parameters
    ----------
    noised : array_like of float, shape (m,)
    shift : array_like of float, shape (..., m)
    scale : float
    """
    y = np.asarray(noised, dtype=np.float64)
    mu = np.asarray(shift, dtype=np.float64)
    result: Float64 = np.sum(np.abs(y) - np.abs(y - mu), axis=-1) / scale
    return result
