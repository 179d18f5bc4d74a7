"""How skewed users' labels are, estimated from what was predicted of all of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["CONCENTRATIONS", "dispersions", "expected_dispersion", "skew_weights"]

Float64 = npt.NDArray[np.float64]

#: Dirichlet concentrations that are told apart; infinite: users draw from the population.
CONCENTRATIONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)

#: Users of evenly spread skew that are counted besides those seen, so that few decide less.
_PSEUDO_USERS = 2.0

_ROUNDS = 200

#: Least standard deviation of a log dispersion, so that a perfect fit does not decide alone.
_LEAST_DEVIATION = 0.05

_TINY = 1e-12


def dispersions(histograms: Float64, population: Float64) -> Float64:
    """Return each histogram's squared distance from the population's shares, at least 1e-12."""
    squared: Float64 = np.square(histograms - population).sum(1)
    return np.maximum(squared, _TINY)


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
    sizes: Sequence[int],
    population: Float64,
) -> Float64:
    """Estimate which share of the users has each of :data:`CONCENTRATIONS`; shares sum to one.

    How a prediction's dispersion depends on the skew is learned from simulated users: its
    logarithm is linear in that of the expected dispersion, with normal errors. Under this law the
    shares are the maximum of the observed users' posterior (expectation maximisation, with a
    Dirichlet prior worth two users): an empirical-Bayes estimate that looks at messages alone.

    Parameters
    ----------
    simulated : ndarray of float64, shape (simulated users,)
        Dispersions of their predicted histograms, predicted without their own truth.
    concentrations, records : ndarray, shape (simulated users,)
        What those users were drawn with.
    observed : ndarray of float64, shape (users,)
        Dispersions of the attacked users' predicted histograms.
    sizes : sequence of int
        Numbers of records that the attacked users may have.
    """
    expected = np.log(
        [
            expected_dispersion(a, int(n), population)
            for a, n in zip(concentrations, records, strict=True)
        ]
    )
    found = np.log(simulated)
    centred = expected - expected.mean()
    # Predictions that do not follow the skew, or against it, tell nothing of it.
    slope = max(0.0, float(centred @ found) / max(float(centred @ centred), _TINY))
    errors = found - found.mean() - slope * centred
    deviation = max(float(errors.std()), _LEAST_DEVIATION)
    wanted = np.log(
        [np.mean([expected_dispersion(a, n, population) for n in sizes]) for a in CONCENTRATIONS]
    )
    predicted = found.mean() + slope * (wanted - expected.mean())
    logarithms = -0.5 * np.square((np.log(observed)[:, None] - predicted) / deviation)
    likelihood = np.exp(logarithms - logarithms.max(1, keepdims=True))
    weights = np.full(len(CONCENTRATIONS), 1 / len(CONCENTRATIONS))
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(1, keepdims=True)
        counted = posterior.sum(0) + _PSEUDO_USERS / len(CONCENTRATIONS)
        weights = counted / counted.sum()
    result: Float64 = weights
    return result
