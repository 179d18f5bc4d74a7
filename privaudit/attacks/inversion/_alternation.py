"""Records of one gradient told apart by what is known of the last layer; numpy, no image searched.

Where one hidden layer of rectified units lies before the last, the derivative at its units is
``d_r = m_r * (e_r V)`` for record r: V, the last layer's weights, is known; e_r, the probabilities
less the label, is roughly that of any record of the class; and m_r says which units are on. The
``d_r`` lie in a known space of B dimensions among hundreds of rows, and masked vectors are no
linear space, so that hardly another vector is in both. It is met by alternating projections from
random masks, then by linear algebra on the rows that are off, up to rounding.

Choosing rows at random and hoping that they are off (SPEAR) takes about ``2 ** (B - 1)`` choices;
this takes some ten starts a record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Head", "masked_directions"]

Float64 = npt.NDArray[np.float64]

#: Most rounds of projections of a start; most end much sooner.
_STEPS = 60

#: Rounds after which the slope of each start is fitted again.
_REFIT = 15

#: Cosine from which two starts have met the same direction.
_SAME = 0.999

#: Shares of what a unit has when it is on below which it counts as off, one after the other.
_OFF = (0.3, 0.1, 1e-2)

#: Relative distance from masked derivatives at which a direction is one; mixtures keep far more.
_FIT = 2e-3


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The last layer, behind one layer of rectified units.

    Attributes
    ----------
    weights : ndarray, shape (classes, rows)
        Of the last layer.
    slopes : ndarray, shape (n, classes)
        Guesses of the derivative of the loss at the logits, up to scale: probabilities of some
        record less a label.
    """

    weights: Float64
    slopes: Float64


def masked_directions(
    space: Float64, head: Head, *, surplus: int, rng: np.random.Generator
) -> Float64:
    """Return directions whose image in a column space is a masked derivative of the head.

    Parameters
    ----------
    space : ndarray, shape (rows, rank)
        Orthonormal columns.
    surplus : int
        Rows more than unknowns that a direction must explain, off and on alike.

    Returns
    -------
    ndarray, shape (found, rank)
        Of length one; not necessarily independent.
    """
    lengths = np.linalg.norm(space, axis=1)
    live = lengths > 1e-4 * lengths.max()
    whole = head.slopes @ head.weights
    met = _distinct(_alternated(space, whole, head.weights, rng=rng))
    exact = [_exact(space, live, direction, head.weights, surplus) for direction in met]
    return np.array([d for d in exact if d is not None]).reshape(-1, space.shape[1])


def _alternated(
    space: Float64, whole: Float64, weights: Float64, *, rng: np.random.Generator
) -> Float64:
    """Project in turn on the space and on masks of ``whole`` (n, rows), from random masks."""
    on = rng.random(whole.shape) < 0.5
    directions: Float64 = (on * whole) @ space
    small = 1e-9 * np.eye(len(weights))
    for step in range(1, _STEPS + 1):
        seen = directions @ space.T
        on = np.abs(seen - whole) < np.abs(seen)
        if step % _REFIT == 0:
            # The record's own slope explains what is on better than that of another record.
            products = np.einsum("nr,cr,dr->ncd", on, weights, weights, optimize=True) + small
            right = (on * seen) @ weights.T
            whole = np.linalg.solve(products, right[..., None])[..., 0] @ weights
        directions = (on * whole) @ space
    return directions


def _distinct(directions: Float64) -> Float64:
    lengths = np.linalg.norm(directions, axis=1)
    directions = directions[lengths > 0] / lengths[lengths > 0, None]
    same = np.abs(directions @ directions.T) > _SAME
    # The first of those that agree; how often a direction was met is of no use.
    first = ~np.tril(same, -1).any(1)
    kept: Float64 = directions[first]
    return kept


def _exact(
    space: Float64,
    live: npt.NDArray[np.bool_],
    direction: Float64,
    weights: Float64,
    surplus: int,
) -> Float64 | None:
    """Return the direction that is zero wherever this one nearly is, if masks explain it."""
    rank, classes = space.shape[1], len(weights)
    on = live & (np.abs(space @ direction) > _OFF[0] * np.abs(space @ direction).max())
    for share in _OFF:
        seen = space @ direction
        if on.sum() < classes + surplus:
            return None
        slope, *_ = np.linalg.lstsq(weights[:, on].T, seen[on], rcond=None)
        off = live & (np.abs(seen) < share * np.abs(slope @ weights))
        if off.sum() < rank + surplus:
            return None
        direction = np.linalg.svd(space[off])[2][-1]
        on = live & ~off
    seen = space @ direction
    slope, *_ = np.linalg.lstsq(weights[:, on].T, seen[on], rcond=None)
    explained = np.where(on, slope @ weights, 0.0)
    return direction if np.linalg.norm(seen - explained) < _FIT else None
