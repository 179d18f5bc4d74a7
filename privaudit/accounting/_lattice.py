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
_NATS = 34.0
_TINY = float(np.finfo(np.float64).tiny)


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

    def ends(self) -> tuple[float, float]:
        """Return the least and the largest loss."""
        low, high = (self.p + self.q * math.exp(self.r * w) for w in (self.a, self.b))
        return low, high

    def inverse(self, loss: Array) -> Array:
        """Return w at which the loss is ``loss``."""
        ratio = np.maximum((loss - self.p) / self.q, _TINY)
        return np.asarray(np.log(ratio) / self.r, dtype=np.float64)

    def mass(self, w: Array) -> Array:
        """Return the probability of each interval between consecutive ``w``."""
        return np.asarray(self.kappa * _integral(self.sigma, w), dtype=np.float64)

    def masses(self, w: Array) -> tuple[Array, Array]:
        """Return each interval's probability and the integral of the loss over it."""
        mass = self.mass(w)
        return mass, self.p * mass + self.q * self.kappa * _integral(self.sigma + self.r, w)

    def density(self, w: Array) -> Array:
        """Return the density of the loss, per unit of loss, at ``w``; monotone in w."""
        slope = abs(self.q * self.r) * np.exp(self.r * w)
        return np.asarray(self.kappa * np.exp(self.sigma * w) / slope, dtype=np.float64)


def _integral(rate: float, w: Array) -> Array:
    left, width = w[:-1], w[1:] - w[:-1]
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
        values = [np.array([self.bottom[0], self.top[0]])]
        masses = [np.array([self.bottom[1], self.top[1]])]
        for piece in self.pieces:
            w = np.asarray(piece.a + (piece.b - piece.a) / cells * np.arange(cells + 1), np.float64)
            mass, moment = piece.masses(w)
            values.append(moment / mass)
            masses.append(mass)
        losses = np.concatenate([*values, [0.0]])
        weights = self.share * np.concatenate([*masses, [0.0]])
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


def _split(
    weights: Array, lattice: Array, step: float, first: int, moment: Array, mass: Array
) -> None:
    """Add masses, one a lattice cell from the ``first`` on, to the cells' ends, the mean kept."""
    last = first + mass.size
    right = np.minimum(np.maximum((moment - lattice[first:last] * mass) / step, 0.0), mass)
    weights[first:last] += mass - right
    weights[first + 1 : last + 1] += right


def _place(loss: Loss, lattice: Array, step: float) -> tuple[Array, float]:
    """Return (weights of everything above the first lattice point, mass below that point)."""
    weights = np.zeros(lattice.size)
    below = 0.0
    for value, probability in (loss.bottom, loss.top):
        if value < lattice[0]:
            below += probability
        else:
            cell = min(int((value - lattice[0]) / step), lattice.size - 2)
            share = min(max((value - float(lattice[cell])) / step, 0.0), 1.0)
            weights[cell] += probability * (1 - share)
            weights[cell + 1] += probability * share
    for piece in loss.pieces:
        low, high = piece.ends()
        start = piece.a
        if high <= lattice[0]:
            start = piece.b
        elif low < lattice[0]:
            start = min(max(float(piece.inverse(lattice[:1])[0]), piece.a), piece.b)
        if start > piece.a:
            below += float(piece.mass(np.array([piece.a, start]))[0])
        if start == piece.b:
            continue
        # The edges between the lattice points i .. j - 1 inside the piece and its ends.
        i = max(1, int(np.searchsorted(lattice, low, side="right")))
        j = max(i, min(int(np.searchsorted(lattice, high)), lattice.size - 1))
        w = np.minimum(np.maximum(piece.inverse(lattice[i:j]), start), piece.b)
        mass, moment = piece.masses(np.concatenate(([start], w, [piece.b])))
        _split(weights, lattice, step, i - 1, moment, mass)
    return weights, below


def round_up(loss: Loss, n: int, theta: float, points: int) -> LatticeLaw:
    """Return a lattice law with a larger (or equal) expected positive part of the n-fold sum.

    Zero is a lattice point, so the mass of ``1 - share`` stays where it is; losses below the
    lattice are raised to its first point.
    """
    top = loss.top[0]
    depth = _depth(loss, n, theta)
    while True:
        cells = max(points, min(32 * points, math.ceil(8 * (depth + top) / top)))
        step = (depth + top) / cells
        if top > step:
            step = top / math.ceil(top / step)
        below, above = math.ceil(depth / step), math.ceil(top / step - 1e-9)
        lattice = np.asarray(step * np.arange(-below, above + 1), dtype=np.float64)
        weights, rest = _place(loss, lattice, step)
        weights[0] += rest
        weights *= loss.share
        weights[below] += 1 - loss.share
        if float(weights @ lattice) <= 0 or depth >= -loss.bottom[0]:
            return LatticeLaw(-below * step, step, weights)
        depth = min(2 * depth, -loss.bottom[0])


def round_down(loss: Loss, n: int, theta: float, points: int) -> LatticeLaw | None:
    r"""Return a lattice law with a smaller expected positive part, or None if it is too coarse.

    Both ends of the law lie on the lattice. The integrated tail :math:`G(x)=E(L-x)_+` of the law
    spread on the lattice interpolates the true one; :func:`_excess` bounds by how much it lies
    above. Lowering it by as much at the inner points leaves a convex function below G: a law that
    is smaller in the convex order. Losses below the lattice are left out (a sum with one of them
    counts as zero) or, where the lattice reaches ``-n * top``, raised to there, which changes
    nothing.
    """
    top = loss.top[0]
    depth = _depth(loss, n, theta)
    while True:
        step = (depth + top) / points
        lattice = np.asarray(-depth + step * np.arange(points + 1), dtype=np.float64)
        whole = depth >= min(-loss.bottom[0], n * top) * (1 - 1e-12)
        if whole:
            weights, rest = _place(loss, lattice, step)
            weights[0] += rest
        else:
            # The first cell is rounded down to its left end: an atom from which to contract.
            inner, below_second = _place(loss, lattice[1:], step)
            _, below_first = _place(loss, lattice, step)
            weights = np.concatenate(([below_second - below_first], inner))
        if float(weights @ lattice) <= 0 or depth >= -loss.bottom[0]:
            break
        depth = min(2 * depth, -loss.bottom[0])
    excess = _excess(loss, lattice, step, first_is_atom=not whole)
    contracted = _contract(weights, excess / step)
    if not (contracted >= 0).all():
        contracted = _contract(weights, _least_feasible(excess, weights[1:-1] * step) / step)
    # What is left below zero is rounding of masses of one.
    return LatticeLaw(-depth, step, contracted) if (contracted >= -1e-13).all() else None


def _contract(weights: Array, lowered: Array) -> Array:
    """Return the masses after lowering the integrated tail at the inner points by step * that."""
    answer = weights.copy()
    answer[1:-1] += 2 * lowered
    answer[:-2] -= lowered
    answer[2:] -= lowered
    return answer


def _least_feasible(excess: Array, room: Array) -> Array:
    """Return the least values above ``excess``, 0 at the ends, with second differences <= room.

    With q a function of second difference ``room``: q plus the least concave majorant of excess
    minus q, by the upper hull.
    """
    size = excess.size + 2
    q = np.zeros(size)
    q[2:] = np.cumsum(np.cumsum(room))
    obstacle = np.concatenate(([0.0], excess, [0.0])) - q
    hull: list[int] = []
    for i in range(size):
        while len(hull) > 1:
            j, k = hull[-1], hull[-2]
            rise = (obstacle[j] - obstacle[k]) * (i - k)
            if rise > (obstacle[i] - obstacle[k]) * (j - k):
                break
            hull.pop()
        hull.append(i)
    majorant = np.interp(np.arange(size), hull, obstacle[hull])
    return np.asarray(np.maximum(majorant + q, 0.0)[1:-1], dtype=np.float64)


def _excess(loss: Loss, lattice: Array, step: float, *, first_is_atom: bool) -> Array:
    """Bound, at the inner points, how far the interpolated integrated tail exceeds the true one.

    In a cell of mass m and density at most f the excess is at most step^2 f / 8 and step m / 4.
    Next to an end, where the tail cannot be lowered, it is at most the distance from the end times
    step f / 2 and times m.
    """
    density, mass = np.zeros(lattice.size - 1), np.zeros(lattice.size - 1)
    for piece in loss.pieces:
        low, high = piece.ends()
        meets = (lattice[1:] > low) & (lattice[:-1] < high)
        w = np.clip(piece.inverse(np.clip(lattice, low, high)), piece.a, piece.b)
        at = piece.density(w)
        density = np.where(meets, np.maximum(density, np.maximum(at[:-1], at[1:])), density)
        mass += np.where(meets, piece.mass(w), 0.0)
    if first_is_atom:
        density[0] = mass[0] = 0.0
    inside = np.minimum(step * step * density / 8, step * mass / 4)
    at_end = np.minimum(step * step * density / 2, step * mass)
    excess = np.maximum(inside[:-1], inside[1:])
    excess[0], excess[-1] = max(excess[0], at_end[0]), max(excess[-1], at_end[-1])
    return np.asarray(excess * (1 + 1e-9), dtype=np.float64)
