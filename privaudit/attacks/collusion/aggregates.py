"""Taking an aggregate apart: the weights from the part one knows, a value from the rest.

The aggregation server sends each user ``[important | rest]``, a weighted sum over the users of a
cluster of what it received of them. Whoever knows every ``rest`` that went in (the management
server made them) finds the weights, and with them the members of the cluster, by least squares:
there are d2 equations for at most N unknowns. Whoever then knows the important values of all
members but one finds those of the last by subtraction.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["last_summand", "mixing_weights", "subtract_equally"]

Vector = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]

#: Largest relative residual at which the users' reports explain an aggregate sent as float32.
RESIDUAL = 1e-5
#: A weight below this fraction of the largest is that of a user who is not in the sum. Softmax
#: weights of cosines differ by a factor of at most e**2.
NEGLIGIBLE = 1e-3
#: Columns taken at a time, so that float64 copies stay small.
CHUNK = 65_536


def mixing_weights(rest: Vector, reports: npt.NDArray[np.float32]) -> Weights | None:
    """Find the weights of a sum of known vectors.

    Parameters
    ----------
    rest : ndarray of float32, shape (d2,)
        The aggregate's part at the less important coordinates.
    reports : ndarray of float32, shape (users, d2)
        What the aggregation server received of each user at those coordinates.

    Returns
    -------
    ndarray of float64, shape (users,), or None
        Zero for users who are not in the sum. None if there are fewer equations than unknowns, the
        reports do not determine the weights, or do not explain the aggregate.
    """
    users, d2 = reports.shape
    if d2 < users or not (np.isfinite(rest).all() and np.isfinite(reports).all()):
        return None
    gram, moment, square = np.zeros((users, users)), np.zeros(users), 0.0
    for start in range(0, d2, CHUNK):
        part = reports[:, start : start + CHUNK].astype(np.float64)
        target = rest[start : start + CHUNK].astype(np.float64)
        gram += part @ part.T
        moment += part @ target
        square += float(target @ target)
    scale = np.sqrt(np.diag(gram))
    if square == 0 or (scale == 0).any():
        return None
    correlation = gram / np.outer(scale, scale)
    if np.linalg.cond(correlation) > 1e10:
        return None
    weights: Weights = np.linalg.solve(correlation, moment / scale) / scale
    weights[np.abs(weights) < NEGLIGIBLE * np.abs(weights).max()] = 0.0
    error = 0.0
    for start in range(0, d2, CHUNK):
        part = reports[:, start : start + CHUNK].astype(np.float64)
        difference = rest[start : start + CHUNK] - weights @ part
        error += float(difference @ difference)
    return weights if error <= RESIDUAL**2 * square else None


def last_summand(
    total: Vector, weights: Mapping[str, float], known: Mapping[str, Vector]
) -> tuple[str, Vector] | None:
    """Return the only summand that is not known, and its value.

    Parameters
    ----------
    total : ndarray of float32, shape (k,)
    weights : mapping of str to float
        The weight of each summand that is in the sum.
    known : mapping of str to ndarray of float32, shape (k,)

    Returns
    -------
    tuple of str and ndarray of float32, shape (k,), or None
        None unless exactly one summand is unknown.
    """
    unknown = [name for name in weights if name not in known]
    if len(unknown) != 1:
        return None
    rest = total.astype(np.float64)
    for name, weight in weights.items():
        if name in known:
            rest -= weight * known[name].astype(np.float64)
    return unknown[0], (rest / weights[unknown[0]]).astype(np.float32)


def subtract_equally(total: Vector, known: npt.NDArray[np.float32]) -> Vector | None:
    """Return the one further summand of a mean, supposing equal weights.

    Softmax weights of cosines are near equal, not equal: the result is an approximation.

    Parameters
    ----------
    total : ndarray of float32, shape (k,)
    known : ndarray of float32, shape (members known, k)

    Returns
    -------
    ndarray of float32, shape (k,), or None
        None if the known members explain the total by themselves, so that there is no further one.
    """
    parts, aim = known.astype(np.float64), total.astype(np.float64)
    weights = np.linalg.lstsq(parts.T, aim, rcond=None)[0]
    if np.linalg.norm(aim - weights @ parts) <= RESIDUAL * np.linalg.norm(aim):
        return None
    further: Vector = ((len(parts) + 1) * aim - parts.sum(axis=0)).astype(np.float32)
    return further
