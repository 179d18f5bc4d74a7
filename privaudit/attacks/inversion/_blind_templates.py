"""What updates look like at each coordinate, learned from auxiliary users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inference._simulation import TrainingParameters, draw_user
from privaudit.errors import ConfigurationError
from privaudit.models import build, classifier_rows
from privaudit.protocols.pa_cfl.sequences import permutation_sequence
from privaudit.protocols.training import local_update

__all__ = ["Templates", "learn_templates"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Least noise variance, as a share of the mean square of the values: rounding, and what auxiliary
#: records cannot tell.
_LEAST_NOISE = 1e-6

#: Added to the variance of a logarithmic rank, which few simulated federations estimate badly.
_RANK_VARIANCE = 0.1

#: Federations simulated to see which coordinates are important, and in which order.
_FEDERATIONS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    r"""A linear model of users' updates at the candidate coordinates.

    :math:`V_{ie} = f_i^T W_e + \sigma_e \epsilon`, with factors :math:`f_i = (h_i, z_i)`: label
    shares, and coordinates along the main directions in which users of equal labels differ.

    Attributes
    ----------
    coordinates : ndarray of int64, shape (candidates,)
        By falling importance in the simulated federations; the biases of the last layer are among
        them.
    loadings : ndarray of float64, shape (classes + directions, candidates)
    noise : ndarray of float64, shape (candidates,)
        Variances.
    mean : ndarray of float64, shape (classes + directions,)
        Of the factors.
    precision : ndarray of float64, shape (classes + directions, classes + directions)
        Of the factors.
    log_rank, log_rank_variance : ndarray of float64, shape (candidates,)
        Of the place in the order of importance, from 1.
    biases : ndarray of int64, shape (classes,)
        Where the biases of the last layer are among the candidates.
    classes : int
    scale : float
        Root mean square of the simulated updates at the candidates, by which values are divided.
    """

    coordinates: Int64
    loadings: Float64
    noise: Float64
    mean: Float64
    precision: Float64
    log_rank: Float64
    log_rank_variance: Float64
    biases: Int64
    classes: int
    scale: float


def learn_templates(
    knowledge: Knowledge,
    *,
    users: int,
    k: int,
    records: Int64,
    training: TrainingParameters,
    simulated_users: int,
    directions: int,
    candidates: int,
    rng: np.random.Generator,
) -> Templates:
    """Simulate users with auxiliary records, and fit the model to their updates.

    Parameters
    ----------
    users : int
        Of the attacked federation.
    k : int
        Important coordinates.
    records : ndarray of int64, shape (users,)
        Sizes of users' data; simulated users have one of them.
    simulated_users : int
        To which the model is fitted, besides those of the federations that show which coordinates
        are important.
    directions : int
        Directions in which users of equal labels differ; at most half of the simulated users.
    candidates : int
        Candidate coordinates for each of the k.

    Raises
    ------
    ConfigurationError
        If the training of too many simulated users diverged.
    """
    spec, auxiliary, parameters = knowledge.model, knowledge.auxiliary, knowledge.parameters
    assert spec is not None
    assert auxiliary is not None
    assert parameters is not None
    model, dimension = build(spec, seed=0), len(parameters)

    def simulated() -> tuple[Float32, Float64]:
        user = draw_user(auxiliary, spec.classes, int(rng.choice(records)), rng=rng)
        update = local_update(
            model,
            user.images,
            user.labels,
            parameters=parameters,
            learning_rate=training.learning_rate,
            batch_size=training.batch_size,
            epochs=training.epochs,
            mode=training.mode,
            rng=rng,
        )
        return update, np.bincount(user.labels, minlength=spec.classes) / len(user)

    scores = np.zeros((_FEDERATIONS, dimension))
    weights = 1.0 / (2.0 + np.arange(k))
    for federation in scores:
        for _ in range(users):
            update, _ = simulated()
            if np.isfinite(update).all():
                federation[permutation_sequence(update, k=k)] += weights
    count = min(dimension, candidates * k)
    order = np.argsort(-scores.sum(0), kind="stable")[:count]
    own = classifier_rows(spec).bias_offset + np.arange(spec.classes)
    coordinates = np.concatenate([order, np.setdiff1d(own, order)])
    places = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")
    ranks = np.log1p(np.minimum(places[:, coordinates], count))

    updates, histograms = [], []
    for _ in range(simulated_users):
        update, histogram = simulated()
        if np.isfinite(update).all():
            updates.append(update[coordinates].astype(np.float64))
            histograms.append(histogram)
    if len(updates) < 2 * spec.classes:
        raise ConfigurationError(
            f"{len(updates)} of {simulated_users} simulated users trained without diverging, and "
            f"templates need {2 * spec.classes}; simulate more, or check the learning rate"
        )
    values, shares = np.stack(updates), np.stack(histograms)
    scale = max(float(np.sqrt(np.square(values).mean())), 1e-30)
    loadings, noise = _fit(values / scale, shares, directions)
    extra = len(loadings) - spec.classes
    return Templates(
        coordinates=coordinates,
        loadings=loadings,
        noise=noise,
        mean=np.concatenate([np.full(spec.classes, 1 / spec.classes), np.zeros(extra)]),
        precision=_precision(shares, extra),
        log_rank=ranks.mean(0),
        log_rank_variance=ranks.var(0) + _RANK_VARIANCE,
        biases=np.array([int(np.flatnonzero(coordinates == e)[0]) for e in own], np.int64),
        classes=spec.classes,
        scale=scale,
    )


def _fit(values: Float64, shares: Float64, directions: int) -> tuple[Float64, Float64]:
    """Regress values on label shares, and take the main directions of what is left."""
    users, classes = shares.shape
    ridge = shares.T @ shares + 1e-3 * np.eye(classes)
    means = np.linalg.solve(ridge, shares.T @ values)
    residual = values - shares @ means
    freedom = users - classes
    count = min(directions, users // 2 - classes)
    # Of the small Gram matrix, not of the wide residual: its eigenvectors give the same axes.
    _, axes = np.linalg.eigh(residual @ residual.T)
    axes = axes[:, ::-1][:, : max(count, 0)]
    along = axes.T @ residual
    noise = np.square(residual - axes @ along).sum(0) / max(1, freedom - axes.shape[1])
    loadings = np.vstack([means, along / np.sqrt(freedom)])
    return loadings, np.maximum(noise, _LEAST_NOISE).astype(np.float64)


def _precision(shares: Float64, directions: int) -> Float64:
    """Return the inverse covariance of the factors; directions have variance one."""
    classes = shares.shape[1]
    covariance = np.eye(classes + directions)
    covariance[:classes, :classes] = np.cov(shares.T) + 1e-4 * np.eye(classes)
    precision: Float64 = np.linalg.inv(covariance).astype(np.float64)
    return precision
