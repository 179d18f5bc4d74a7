"""Ridge regression of label histograms, shrunk to the prior and never trusted below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Chosen", "Regression", "choose", "fit", "normalised"]

Float64 = npt.NDArray[np.float64]

_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """``population + (features - centre) @ slopes``."""

    population: Float64
    centre: Float64
    slopes: Float64

    def predict(self, features: Float64) -> Float64:
        """Return histograms (users, classes), neither clipped nor normalised."""
        result: Float64 = self.population + (features - self.centre) @ self.slopes
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A penalty, by cross-validation.

    Attributes
    ----------
    penalty : float
        Infinite if the population's shares are as good a prediction.
    predicted : ndarray of float64, shape (users, classes)
        Each training user's histogram, predicted from the others; not normalised.
    error, error_of_prior : float
        Weighted mean total variation of the predictions, and of the population's shares.
    """

    penalty: float
    predicted: Float64
    error: float
    error_of_prior: float


def fit(
    features: Float64, histograms: Float64, weights: Float64, population: Float64, penalty: float
) -> Regression:
    """Fit a weighted ridge regression whose intercept is the population's shares.

    Weights are relative: their mean counts as one. An infinite penalty predicts the population's
    shares for everyone.
    """
    return _path(features, histograms, weights, population, (penalty,))[0]


def choose(
    features: Float64,
    histograms: Float64,
    weights: Float64,
    population: Float64,
    *,
    penalties: Sequence[float],
    standard_errors: float,
) -> Chosen:
    """Choose a penalty by weighted five-fold cross-validation on total variation.

    Of ``penalties`` and infinity it is the largest whose error is not more than
    ``standard_errors`` standard errors of the paired differences above the least error.

    Parameters
    ----------
    features : ndarray of float64, shape (users, features)
        At least two users.
    histograms : ndarray of float64, shape (users, classes)
    weights : ndarray of float64, shape (users,)
    population : ndarray of float64, shape (classes,)
    """
    tried = (*sorted(penalties), math.inf)
    fold = np.arange(len(features)) % min(_FOLDS, len(features))
    predicted = np.empty((len(tried), *histograms.shape))
    for number in range(int(fold.max()) + 1):
        own, rest = fold == number, fold != number
        path = _path(features[rest], histograms[rest], weights[rest], population, tried)
        for position, model in enumerate(path):
            predicted[position, own] = model.predict(features[own])
    errors = np.stack([_total_variation(normalised(p), histograms) for p in predicted])
    share = weights / weights.sum()
    means = errors @ share
    best = int(means.argmin())
    chosen = best
    for position in range(best + 1, len(tried)):
        difference = errors[position] - errors[best]
        spread = float(np.sqrt(np.square(share * (difference - difference @ share)).sum()))
        if means[position] - means[best] <= standard_errors * spread:
            chosen = position
    return Chosen(tried[chosen], predicted[chosen], float(means[chosen]), float(means[-1]))


def normalised(histograms: Float64) -> Float64:
    """Clip at zero and make each row sum to one; a row without a positive entry is uniform."""
    clipped = np.clip(histograms, 0.0, None)
    clipped[clipped.sum(axis=1) == 0] = 1.0
    result: Float64 = clipped / clipped.sum(axis=1, keepdims=True)
    return result


def _total_variation(guessed: Float64, histograms: Float64) -> Float64:
    result: Float64 = np.abs(guessed - histograms).sum(1) / 2
    return result


def _path(
    features: Float64,
    histograms: Float64,
    weights: Float64,
    population: Float64,
    penalties: Sequence[float],
) -> list[Regression]:
    """Fit all penalties from one decomposition; there are fewer users than features."""
    centre = weights @ features / weights.sum()
    root = np.sqrt(weights / weights.mean())[:, None]
    inputs, wanted = (features - centre) * root, (histograms - population) * root
    values, vectors = np.linalg.eigh(inputs @ inputs.T)
    turned = vectors.T @ wanted
    values = np.maximum(values, 0)
    return [
        Regression(population, centre, inputs.T @ (vectors @ (turned / (values + p)[:, None])))
        for p in penalties
    ]
