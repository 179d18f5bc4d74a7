"""Ridge regression of label histograms, shrunk to the prior and never trusted below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Chosen", "Regression", "choose", "fit", "normalised"]

Float64 = npt.NDArray[np.float64]

Int64 = npt.NDArray[np.int64]

#: Share of users, of the skews that gain least, who must not be served worse than by the prior.
_WORST = 0.5


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
    worst_gain : float
        How much less than the prior the strata err that gain least, half of the weight.
    """

    penalty: float
    predicted: Float64
    error: float
    error_of_prior: float
    worst_gain: float

    @property
    def is_prior(self) -> bool:
        """Whether everyone is predicted to have the population's shares."""
        return math.isinf(self.penalty)


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
    groups: Int64,
    strata: Int64 | None = None,
    penalties: Sequence[float],
    standard_errors: float,
) -> Chosen:
    """Choose a penalty by weighted cross-validation on total variation, one fold a group.

    Users of a group may have records in common, users of different groups must not: else
    validation rewards what the regression remembers of single records. Of ``penalties`` and
    infinity those are considered whose predictions err no more than the prior even in the strata
    that gain least and have half of the weight together. Chosen is the largest of them whose
    error is not more than ``standard_errors`` standard errors of the paired differences above the
    least.

    Parameters
    ----------
    features : ndarray of float64, shape (users, features)
    histograms : ndarray of float64, shape (users, classes)
    weights : ndarray of float64, shape (users,)
    population : ndarray of float64, shape (classes,)
    groups : ndarray of int64, shape (users,)
        With a single group nothing can be validated, and the prior is chosen.
    strata : ndarray of int64, shape (users,), optional
        Kinds of users of which it is not sure that they are attacked; None for a single one.
    """
    tried = (*sorted(penalties), math.inf)
    numbers = np.unique(groups)
    if len(numbers) < 2:
        tried = (math.inf,)
    predicted = np.empty((len(tried), *histograms.shape))
    for number in numbers:
        own = groups == number
        rest = ~own if len(numbers) > 1 else own
        path = _path(features[rest], histograms[rest], weights[rest], population, tried)
        for position, model in enumerate(path):
            predicted[position, own] = model.predict(features[own])
    errors = np.stack([_total_variation(normalised(p), histograms) for p in predicted])
    share = weights / weights.sum()
    kinds = np.zeros(len(share), np.int64) if strata is None else strata
    worst = np.array([_worst_gain(errors[-1] - e, share, kinds) for e in errors])
    means = errors @ share
    considered = np.flatnonzero(worst >= 0)
    best = int(considered[means[considered].argmin()])
    chosen = best
    for position in considered[considered > best]:
        difference = errors[position] - errors[best]
        spread = float(np.sqrt(np.square(share * (difference - difference @ share)).sum()))
        if means[position] - means[best] <= standard_errors * spread:
            chosen = int(position)
    return Chosen(
        tried[chosen],
        predicted[chosen],
        float(means[chosen]),
        float(means[-1]),
        float(worst[chosen]),
    )


def _worst_gain(gains: Float64, share: Float64, strata: Int64) -> float:
    """Return the mean gain of the strata that gain least, half of the weight together."""
    mass = np.bincount(strata, weights=share)
    held = np.flatnonzero(mass > 0)
    mean = np.bincount(strata, weights=share * gains)[held] / mass[held]
    order = mean.argsort(kind="stable")
    before = np.concatenate([[0.0], np.cumsum(mass[held][order])[:-1]])
    counted = np.clip(_WORST - before, 0.0, mass[held][order])
    return float(counted @ mean[order] / counted.sum())


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
