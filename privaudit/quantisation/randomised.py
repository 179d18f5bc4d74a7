"""Codes and codebooks with differential privacy: randomized response and noisy Lloyd steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.quantisation.kmeans import assign

__all__ = ["SENSITIVITY", "cell_statistics", "noisy_lloyd", "randomized_response", "unit_ball"]

#: L2 sensitivity of the counts and sums of one step when one row is replaced: a row that moves
#: from one cell to another changes two counts by 1 and two sums by at most 1 each.
SENSITIVITY = 2.0


def randomized_response(
    codes: npt.NDArray[np.integer], *, categories: int, epsilon: float, rng: np.random.Generator
) -> npt.NDArray[np.integer]:
    """Return codes by k-ary randomized response.

    The true code with probability ``exp(epsilon) / (exp(epsilon) + K - 1)``, each other one with
    ``1 / (exp(epsilon) + K - 1)`` (Kairouz, Bonawitz and Ramage, ICML 2016): ``epsilon``-DP.

    Parameters
    ----------
    codes : ndarray of int, any shape
        From 0 to ``categories`` - 1.
    categories : int
    epsilon : float
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, same shape and type
    """
    if categories < 1 or not epsilon > 0:
        raise ConfigurationError(
            f"categories must be at least 1 and epsilon > 0, got {categories} and {epsilon}"
        )
    if categories == 1:
        return codes.copy()
    lie = rng.random(codes.shape) >= 1 / (1 + (categories - 1) * np.exp(-epsilon))
    # A lie is uniform over the other values: skip the true one.
    others = rng.integers(categories - 1, size=codes.shape)
    others += others >= codes
    return np.where(lie, others, codes).astype(codes.dtype)


def unit_ball(
    features: npt.NDArray[np.floating], bounds: tuple[float, float]
) -> npt.NDArray[np.float32]:
    """Clip each feature to bounds and map the box into the ball of radius 1 about the origin."""
    low, high = bounds
    radius = np.sqrt(features.shape[1]) * (high - low) / 2
    clipped = np.clip(features, low, high).astype(np.float64)
    return np.asarray((clipped - (low + high) / 2) / radius, dtype=np.float32)


def cell_statistics(
    points: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return the number of points of each cell and their sum; shape (k, 1 + d)."""
    codes = assign(points, centres)
    statistics = np.zeros((len(centres), 1 + points.shape[1]))
    np.add.at(statistics[:, 0], codes, 1)
    np.add.at(statistics[:, 1:], codes, points)
    return statistics


def noisy_lloyd(
    features: npt.NDArray[np.floating],
    k: int,
    *,
    bounds: tuple[float, float],
    noise_multiplier: float,
    steps: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Return k centres by Lloyd steps on counts and sums with Gaussian noise.

    Each step releases the statistics of the cells with noise of standard deviation
    ``noise_multiplier * SENSITIVITY`` (Su et al., CODASPY 2016, with Gaussian noise): in all
    ``steps / (2 noise_multiplier^2)``-zCDP when one row is replaced. The first centres are drawn
    without the rows; cells whose noisy count is below one split the fullest cell, which uses
    released numbers only.

    Parameters
    ----------
    features : ndarray of float, shape (n, d)
    k : int
    bounds : tuple of float
        To which features are clipped; a choice made without looking at the rows.
    noise_multiplier : float
        Standard deviation over the sensitivity.
    steps : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float32, shape (k, d)
        Within the bounds.
    """
    points = unit_ball(features, bounds)
    d = points.shape[1]
    edge = 1 / np.sqrt(d)
    centres = rng.uniform(-edge, edge, size=(k, d)).astype(np.float32)
    for _ in range(steps):
        noise = rng.normal(scale=noise_multiplier * SENSITIVITY, size=(k, 1 + d))
        noisy = cell_statistics(points, centres) + noise
        counts = noisy[:, 0]
        moved = noisy[:, 1:] / np.maximum(counts, 1)[:, None]
        small = counts < 1
        if small.any() and not small.all():
            fullest = moved[counts.argmax()]
            moved[small] = fullest + rng.normal(scale=0.1 * edge, size=(int(small.sum()), d))
        centres = np.clip(moved, -edge, edge).astype(np.float32)
    low, high = bounds
    radius = np.sqrt(d) * (high - low) / 2
    return np.asarray(centres * radius + (low + high) / 2, dtype=np.float32)
