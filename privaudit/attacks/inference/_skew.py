"""How skewed users' labels are, estimated from the messages of all of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privaudit.attacks.inference._ridge import Regression, fit

__all__ = ["CONCENTRATIONS", "expected_dispersion", "skew_features", "skew_weights"]

Float64 = npt.NDArray[np.float64]

#: Dirichlet concentrations that are told apart; infinite: users draw from the population.
CONCENTRATIONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)

#: Users of evenly spread skew that are counted besides those seen, so that few decide less.
_PSEUDO_USERS = 2.0

_ROUNDS = 200

#: Penalty of the regression of the skew, on standardised features.
_PENALTY = 10.0

#: Standard deviations to which such features are clipped: none outside what was simulated decides.
_FARTHEST = 3.0

#: Added to squared distances, so that logarithms of equal shares are finite.
_LEAST_DISTANCE = 1e-4

#: Least standard deviation of a log dispersion, so that a perfect fit does not decide alone.
_LEAST_DEVIATION = 0.05

#: Offsets of all observed users that are tried, in standard deviations.
_OFFSETS = np.linspace(-2.5, 2.5, 11)

_TINY = 1e-12


def skew_features(totals: Float64) -> Float64:
    """Return what tells a user's skew and is the same however classes are named.

    Parameters
    ----------
    totals : ndarray of float64, shape (users, kinds, classes)
        Of each kind, a number >= 0 for each class.

    Returns
    -------
    ndarray of float64, shape (users, kinds * (classes + 2))
        Of each kind the classes' shares in ascending order, the logarithm of their squared
        distance from equal shares, and the logarithm of the sum.
    """
    sums = totals.sum(2, keepdims=True)
    shares = np.sort(totals / np.maximum(sums, _TINY), axis=2)
    distance = np.square(shares - 1 / totals.shape[2]).sum(2, keepdims=True)
    found = np.concatenate([shares, np.log(distance + _LEAST_DISTANCE), np.log1p(sums)], axis=2)
    return found.reshape(len(totals), -1)


def expected_dispersion(concentration: float, records: int, population: Float64) -> float:
    r"""Return the expected squared distance of a user's label histogram from the population's.

    For n records of shares drawn from Dirichlet(:math:`\alpha K p`), with K classes of population
    shares p: :math:`(1 - \sum_c p_c^2) (1/n + (1 - 1/n) / (\alpha K + 1))`.
    """
    skew = 1 / (concentration * np.count_nonzero(population) + 1)
    spread = 1 - float(np.square(population).sum())
    return max(spread * (1 / records + (1 - 1 / records) * skew), _TINY)


def skew_weights(
    simulated: Float64,
    concentrations: Float64,
    records: npt.NDArray[np.int64],
    observed: Float64,
    *,
    groups: npt.NDArray[np.int64],
    sizes: Sequence[int],
    population: Float64,
) -> Float64:
    """Estimate which share of the users has each of :data:`CONCENTRATIONS`; shares sum to one.

    A ridge regression learns the logarithm of the expected dispersion from simulated users. How its
    predictions follow the truth is seen on simulated users of other records: a line with normal
    errors. Under this law the shares are the maximum of the observed users' posterior (expectation
    maximisation, with a Dirichlet prior worth two users): an empirical-Bayes estimate that looks at
    messages alone. That users of other records may differ as a whole, whatever their skew, is
    allowed for: the observed users' predictions share an offset, normal with the deviation between
    groups beyond that within them, over which the shares are averaged by likelihood.

    Parameters
    ----------
    simulated : ndarray of float64, shape (simulated users, features)
        Their :func:`skew_features`.
    concentrations, records : ndarray, shape (simulated users,)
        What those users were drawn with.
    observed : ndarray of float64, shape (users, features)
        Those of the attacked users.
    groups : ndarray of int64, shape (simulated users,)
        Simulated users of different groups have no record in common.
    sizes : sequence of int
        Numbers of records that the attacked users may have.
    """
    expected = np.log(
        [
            expected_dispersion(a, int(n), population)
            for a, n in zip(concentrations, records, strict=True)
        ]
    )
    found, seen = _predicted(simulated, expected, observed, groups)
    centred = expected - expected.mean()
    # Predictions that do not follow the skew, or against it, tell nothing of it.
    slope = max(0.0, float(centred @ found) / max(float(centred @ centred), _TINY))
    errors = found - found.mean() - slope * centred
    deviation = max(float(errors.std()), _LEAST_DEVIATION)
    wanted = np.log(
        [np.mean([expected_dispersion(a, n, population) for n in sizes]) for a in CONCENTRATIONS]
    )
    predicted = found.mean() + slope * (wanted - expected.mean())
    offsets = _OFFSETS * _deviation_between(errors, groups)
    fits = [
        _shares(-0.5 * np.square((seen[:, None] - predicted - offset) / deviation))
        for offset in offsets
    ]
    evidence = np.array([log for log, _ in fits]) - 0.5 * np.square(_OFFSETS)
    trust = np.exp(evidence - evidence.max())
    result: Float64 = trust @ np.stack([weights for _, weights in fits]) / trust.sum()
    return result


def _predicted(
    simulated: Float64, expected: Float64, observed: Float64, groups: npt.NDArray[np.int64]
) -> tuple[Float64, Float64]:
    """Return predictions for simulated users, from those of other groups, and for observed ones."""
    spread = simulated.std(0)
    scale = np.where(spread > _TINY, spread, 1.0)
    inputs, attacked = (
        np.clip((x - simulated.mean(0)) / scale, -_FARTHEST, _FARTHEST)
        for x in (simulated, observed)
    )

    def model(kept: npt.NDArray[np.bool_]) -> Regression:
        target = expected[kept, None]
        return fit(inputs[kept], target, np.ones(len(target)), target.mean(0), _PENALTY)

    found = np.full(len(expected), expected.mean())
    numbers = np.unique(groups)
    if len(numbers) > 1:
        for number in numbers:
            own = groups == number
            found[own] = model(~own).predict(inputs[own])[:, 0]
    everyone = np.ones(len(expected), np.bool_)
    seen = model(everyone).predict(attacked)[:, 0]
    return found, np.clip(seen, expected.min(), expected.max())


def _deviation_between(errors: Float64, groups: npt.NDArray[np.int64]) -> float:
    """Return the standard deviation of groups' means beyond what few users explain."""
    _, place = np.unique(groups, return_inverse=True)
    users = np.bincount(place)
    means = np.bincount(place, weights=errors) / users
    within = float(np.square(errors - means[place]).mean())
    return float(np.sqrt(max(0.0, float(means.var()) - within * float(np.mean(1 / users)))))


def _shares(logarithms: Float64) -> tuple[float, Float64]:
    """Return log posterior and shares of a mixture, from log densities (users, components)."""
    largest = logarithms.max(1, keepdims=True)
    likelihood = np.exp(logarithms - largest)
    count = logarithms.shape[1]
    weights = np.full(count, 1 / count)
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(1, keepdims=True)
        counted = posterior.sum(0) + _PSEUDO_USERS / count
        weights = counted / counted.sum()
    evidence = largest.sum() + np.log(likelihood @ weights).sum()
    evidence += _PSEUDO_USERS / count * np.log(weights).sum()
    return float(evidence), weights
