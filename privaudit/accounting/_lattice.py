r"""Laws of a privacy loss on a lattice, rounded up or down in the convex order.

The delta of a shuffled mechanism at a given epsilon is :math:`E[(\sum_{i\le n} Z_i)_+]` over a
normalisation. Spreading the mass of a cell to the two ends of the cell, its mean kept, can only
raise that expectation; contracting mass, the mean kept, can only lower it. Both are accurate to
second order in the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LatticeLaw", "Loss", "Piece", "round_down", "round_up"]

Array = NDArray[np.float64]

#: Losses below -_NATS / theta have less than exp(-_NATS) of the weight of a loss of zero under the
#: tilt theta; the upper bound raises them to there, the lower bound drops them.
_NATS = 45.0


@dataclass(frozen=True, slots=True)
class Piece:
    r"""A stretch of the output line on which loss and density are exponentials.

    On :math:`w \in [a, b]` the loss is :math:`p + q e^{r w}`, increasing in w, and the density
    of w is :math:`\kappa e^{\sigma w}`.
    """

    a: float
    b: float
    p: float
    q: float
    r: float
    kappa: float
    sigma: float

    def loss(self, w: Array) -> Array:
        """Return the loss at ``w``."""
        return self.p + self.q * np.exp(self.r * w)

    def inverse(self, loss: Array) -> Array:
        """Return w at which the loss is ``loss``."""
        return np.asarray(np.log((loss - self.p) / self.q) / self.r, dtype=np.float64)

    def mass(self, w: Array) -> Array:
        """Return the probability of each interval between consecutive ``w``."""
        return np.asarray(self.kappa * _integral(self.sigma, w), dtype=np.float64)

    def moment(self, w: Array) -> Array:
        """Return the integral of the loss over each interval between consecutive ``w``."""
        return self.p * self.mass(w) + self.q * self.kappa * _integral(self.sigma + self.r, w)

    def density(self, w: Array) -> Array:
        """Return the density of the loss, per unit of loss, at ``w``; monotone in w."""
        slope = abs(self.q * self.r) * np.exp(self.r * w)
        return np.asarray(self.kappa * np.exp(self.sigma * w) / slope, dtype=np.float64)


def _integral(rate: float, w: Array) -> Array:
    left, width = w[:-1], np.diff(w)
    return np.asarray(np.exp(rate * left) * np.expm1(rate * width) / rate, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Loss:
    """A law of the loss: pieces in increasing order, an atom at each end, an atom at zero.

    ``bottom`` and ``top`` are (loss, probability). The pieces and end atoms have total mass
    ``share``; the rest, ``1 - share``, is at zero.
    """

    pieces: tuple[Piece, ...]
    bottom: tuple[float, float]
    top: tuple[float, float]
    share: float = 1.0

    def points(self, cells: int) -> tuple[Array, Array]:
        """Return (losses, masses) of a rough discretisation, for choosing the tilt."""
        values, masses = [[self.bottom[0], self.top[0]]], [[self.bottom[1], self.top[1]]]
        for piece in self.pieces:
            w = np.linspace(piece.a, piece.b, cells + 1)
            mass = piece.mass(w)
            values.append(list(piece.moment(w) / mass))
            masses.append(list(mass))
        losses = np.concatenate([np.array(v) for v in values] + [np.zeros(1)])
        weights = np.concatenate([self.share * np.array(m) for m in masses] + [np.zeros(1)])
        weights[-1] = 1 - self.share
        return losses, weights


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """Masses ``weights`` at ``origin + step * arange(len(weights))``; they may sum to < 1."""

    origin: float
    step: float
    weights: Array

    @property
    def support(self) -> Array:
        """Return the lattice points."""
        return np.asarray(self.origin + self.step * np.arange(self.weights.size), np.float64)


def _depth(loss: Loss, n: int, theta: float) -> float:
    """Return how far below zero the lattice must reach.

    A single loss below ``-n * top`` makes the sum negative, whatever the other n - 1 are.
    """
    reach = min(-loss.bottom[0], n * loss.top[0])
    return reach if theta <= 0 else min(reach, max(_NATS / theta, loss.top[0]))


def _split(weights: Array, lattice: Array, step: float, moment: Array, mass: Array) -> None:
    """Add each mass to the two ends of its lattice cell, its mean kept."""
    kept = mass > 0
    moment, mass = moment[kept], mass[kept]
    position = (moment / mass - lattice[0]) / step
    cell = np.clip(np.floor(position).astype(np.int64), 0, lattice.size - 2)
    share = np.clip(position - cell, 0.0, 1.0)
    weights += np.bincount(cell, mass * (1 - share), minlength=lattice.size)
    weights += np.bincount(cell + 1, mass * share, minlength=lattice.size)


def _place(loss: Loss, law: LatticeLaw) -> tuple[Array, float]:
    """Return (weights of everything above the lattice's first point, mass below that point)."""
    lattice, weights = law.support, np.zeros(law.weights.size)
    below = loss.bottom[1]
    for piece in loss.pieces:
        low, high = (float(x) for x in piece.loss(np.array([piece.a, piece.b])))
        inner = lattice[(lattice > low) & (lattice < high)]
        w = np.clip(piece.inverse(inner), piece.a, piece.b)
        ends = [piece.a] if low >= lattice[0] else []
        if ends == [] and high > lattice[0]:
            start = float(np.clip(piece.inverse(lattice[:1])[0], piece.a, piece.b))
            below += float(piece.mass(np.array([piece.a, start]))[0])
            ends = [start]
        elif ends == []:
            below += float(piece.mass(np.array([piece.a, piece.b]))[0])
            continue
        edges = np.concatenate((ends, w[w > ends[0]], [piece.b]))
        _split(weights, lattice, law.step, piece.moment(edges), piece.mass(edges))
    top, probability = loss.top
    _split(weights, lattice, law.step, np.array([top * probability]), np.array([probability]))
    return weights, below


def round_up(loss: Loss, n: int, theta: float, points: int) -> LatticeLaw:
    """Return a lattice law with a larger (or equal) expected positive part of the n-fold sum.

    Zero is a lattice point, so the mass of ``1 - share`` stays where it is; losses below the
    lattice are raised to its first point.
    """
    top = loss.top[0]
    depth = _depth(loss, n, theta)
    while True:
        step = (depth + top) / max(points, min(32 * points, math.ceil(8 * (depth + top) / top)))
        if top > step:
            step = top / math.ceil(top / step)
        below, above = math.ceil(depth / step), math.ceil(top / step - 1e-9)
        law = LatticeLaw(-below * step, step, np.zeros(below + above + 1))
        weights, rest = _place(loss, law)
        weights[0] += rest
        weights *= loss.share
        weights[below] += 1 - loss.share
        if float(weights @ law.support) <= 0 or depth >= -loss.bottom[0]:
            return LatticeLaw(law.origin, step, weights)
        depth = min(2 * depth, -loss.bottom[0])


def round_down(loss: Loss, n: int, theta: float, points: int) -> LatticeLaw | None:
    r"""Return a lattice law with a smaller expected positive part, or None if it is too coarse.

    Both ends of the law lie on the lattice. The integrated tail of the law spread on the lattice
    interpolates the true one, G, and exceeds it in a cell by at most step^2/8 times the greatest
    density there, or, next to an end, by step/2 times density times the distance from the end.
    Lowering it by as much at the inner points leaves a convex function below G: a law that is
    smaller in the convex order. Losses below the lattice are left out altogether (a sum with one
    of them counts as zero), or, where the lattice reaches ``-n * top``, are raised to there, which
    changes nothing.
    """
    top = loss.top[0]
    depth = _depth(loss, n, theta)
    while True:
        step = (depth + top) / points
        law = LatticeLaw(-depth, step, np.zeros(points + 1))
        weights, rest = _place(loss, law)
        exact = depth >= min(-loss.bottom[0], n * top) * (1 - 1e-12)
        if exact:
            weights[0] += rest
        else:
            # Round the first cell down: its mass then bounds what the contraction takes from it.
            weights[0], weights[1] = weights[0] + weights[1], 0.0
            weights[1] = _half_cell(loss, law)
            weights[0] -= weights[1]
        if float(weights @ law.support) <= 0 or depth >= -loss.bottom[0]:
            break
        depth = min(2 * depth, -loss.bottom[0])
    excess = _chord_excess(loss, law, exact)
    weights[1:-1] -= -2 * excess[1:-1] / step
    weights[:-2] -= excess[1:-1] / step
    weights[2:] -= excess[1:-1] / step
    if not (weights >= -1e-15).all():
        return None
    return LatticeLaw(law.origin, step, np.maximum(weights, 0.0))
