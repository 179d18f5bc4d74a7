"""The premise of the vector bounds, shown again with every step rounded outwards.

The search for (lambda, K) is that of :mod:`privaudit.accounting._cells`, in float64, and need not
be trusted: what it proposes is then checked on all cells, with moments, mixing weights, majorant
and both sides of each inequality bounded as :mod:`privaudit.accounting._outward` tells.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._cells import _STRIDE, Premise
from privaudit.accounting._outward import (
    binomial_weights,
    down,
    expm1_below,
    laplace_moment,
    report_law,
    sum_powers,
    theorem_b_moment,
    up,
)
from privaudit.accounting.bracket import NumericalError

__all__ = ["certified_divergence"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]

#: By how much a proposal is enlarged, in turn, until it holds on all cells.
_MARGINS = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2)
#: Lattice steps of one ratio where pairs are tabulated, and below.
_FINE, _COARSE = 4, 1


def certified_divergence(n: int, epsilon0: float, order: float, *, refined: bool) -> float:
    """Return an upper bound on the Renyi divergence of one round, every step rounded outwards.

    Raises
    ------
    NumericalError
        If no proposal could be shown.
    UnmetRequirementsError
        If python-flint is not installed.
    """
    premise = _OutwardPremise(n, epsilon0, np.array([order]))
    h = epsilon0 / 2
    basic = premise.basic()
    proposal = premise.refined(basic)[0] if refined else (float(basic[0]) / (2 * h * h), 0.0)
    for margin in _MARGINS:
        lam, k = (x * (1 + margin) for x in proposal)
        if premise.holds(lam, k, refined=refined):
            return float(up(np.array(h * h * (2 * lam + k)), 8))
    raise NumericalError(
        f"no Renyi bound of order {order:.4g} could be certified for n = {n}, epsilon0 = {epsilon0}"
    )


class _OutwardPremise(Premise):
    """Cells as in :class:`Premise`, with moments and weights that are proven upper bounds."""

    def __init__(self, n: int, epsilon0: float, alpha: Array) -> None:
        super().__init__(n, epsilon0, alpha)
        order = float(alpha[0])
        equal, pairs = _moments(n, self.ends, self.first, order)
        self.weights = binomial_weights(n, self.y)
        self.table.equal, self.table.pairs = equal[..., None], pairs[..., None]
        self.equal = self._renyi(self.weights, self.table.equal)
        # E[A_k - 1] for each row (or pair) and each place of the fine grid of y.
        self.equal_mean = up(equal @ self.weights.T, n)
        self.flat_pairs = pairs[self.pair[0], self.pair[1]]
        for row, start in enumerate(self.starts):
            low, high = start - self.ends[self.first], self.h - start
            if row > 0 and not (self.centre_row == row).any() and low <= high * (1 + 1e-9):
                raise NumericalError("cells of the premise leave a gap")

    def holds(self, lam: float, k: float, *, refined: bool) -> bool:
        """Return whether F <= lam (u^2 + v^2) + k x^2 is shown on all cells."""
        cells = np.arange(self.centre_row.size + self.pair_row.size)
        if not refined:
            at = np.full(cells.size, self.at_h)
            return bool(self._shown(cells, at, np.zeros(cells.size), lam, 0.0).all())
        ends = np.unique(np.append(np.arange(0, self.at_h, _STRIDE), (1, self.at_h)))
        for left, right in itertools.pairwise(ends):
            at = np.full(cells.size, right)
            x = np.full(cells.size, self.y[left])
            open_ = cells[~self._shown(cells, at, x, lam, k)]
            for place in range(left, right):
                if not open_.size:
                    break
                at, x = np.full(open_.size, place + 1), np.full(open_.size, self.y[place])
                if not self._shown(open_, at, x, lam, k).all():
                    return False
        return True

    def _shown(self, cells: Places, at: Places, x: Array, lam: float, k: float) -> NDArray[np.bool]:
        """Return where the premise holds: cells, place of the greatest x, and the least x."""
        alpha = float(self.alpha[0])
        centres = self.centre_row.size
        penalty = np.concatenate((self.centre_penalty, self.pair_penalty))[cells]
        paid = down(lam * down(penalty, 8) + k * down(x * x, 4), 8)
        goal = expm1_below(down((alpha - 1) * paid, 4))
        right = np.concatenate((self.centre_right, self.pair_right))[cells]
        row = np.concatenate((self.centre_row, self._rows_of_pairs()))[cells]
        y = up(right + self.y[at]) + 1e-15 * self.h
        # c + x <= 2h - t/2, so beyond the grid there is nothing but rounding of its last point.
        place = np.minimum(np.searchsorted(self.y, y), self.y.size - 1)
        inside = y <= self.y[-1] * (1 + 1e-12)
        shown = inside & (self.equal_mean[row, place] <= goal)
        rest = np.flatnonzero(~shown & (cells >= centres))
        if rest.size:
            moments = self.flat_pairs[cells[rest] - centres]
            mean = up((moments * self.weights[at[rest]]).sum(axis=1), self.weights.shape[1])
            shown[rest] = mean <= goal[rest]
        return np.asarray(shown, dtype=np.bool)

    def _rows_of_pairs(self) -> Places:
        ends = self.ends[self.first :]
        one, two = self.pair
        half = np.where(one == two, ends[one], up((ends[one] + ends[two]) / 2))
        return np.asarray(np.minimum(np.searchsorted(self.ends, half), self.ends.size - 1))


def _moments(n: int, ends: Array, first: int, order: float) -> tuple[Array, Array]:
    """Return upper bounds on A_k - 1, k = 1 .. n, convex in k: (rows, n) and (pairs, pairs, n)."""
    high = [_one_side(float(u), n, order, _FINE) for u in ends[first:]]
    low = [_one_side(float(u), n, order, _COARSE) for u in ends[1:first]]
    pairs = np.empty((len(high), len(high), n))
    equal = np.empty((ends.size, n))
    for k in range(1, n + 1):
        weight = np.array([math.comb(k, r) / 2**k for r in range(k + 1)])
        x, y = (np.stack([sides[k - 1][i] for sides in high]) for i in (0, 1))
        pairs[:, :, k - 1] = _less_one(up((x * weight) @ y[:, ::-1].T, 2 * k + 4))
        for row, sides in enumerate(low, start=1):
            x, y = sides[k - 1]
            equal[row, k - 1] = _less_one(up(np.array((x * weight) @ y[::-1]), 2 * k + 4))
    diagonal = np.arange(len(high))
    equal[first:] = pairs[diagonal, diagonal]
    # One report alone is the Laplace mechanism.
    equal[1:, 0] = np.minimum(equal[1:, 0], laplace_moment(up(2 * ends[1:]), order))
    sums = up(ends[first:, None] + ends[None, first:])
    alone = laplace_moment(sums.ravel(), order).reshape(sums.shape)
    pairs[:, :, 0] = np.minimum(pairs[:, :, 0], alone)
    equal[0] = theorem_b_moment(float(ends[0]), n, order)
    return _majorant(equal), _majorant(pairs)


def _one_side(u: float, n: int, order: float, parts: int) -> list[tuple[Array, Array]]:
    """Return, for k = 1 .. n, upper bounds on E[S^order | r] and E[S^(1 - order) | r] by r."""
    law = report_law(u, parts)
    laws = np.zeros((n + 1, parts * n + 1))
    laws[0, 0] = 1.0
    for r in range(n):
        row, following = laws[r, : parts * r + 1], laws[r + 1]
        for step, probability in enumerate(law.tolist()):
            following[step : step + row.size] += probability * row
        laws[r + 1] = np.where(following > 0, up(following, parts + 1), 0.0)
    found = []
    # 1 - order, rounded either way, since S may lie on either side of 1.
    falling = 1 - order
    powers = (order, float(np.nextafter(falling, -math.inf)), float(np.nextafter(falling, 0.0)))
    for k in range(1, n + 1):
        values = sum_powers(u, parts, k, powers)
        values = np.stack((values[:, 0], np.maximum(values[:, 1], values[:, 2])), axis=1)
        means = up(laws[: k + 1, : parts * k + 1] @ values, parts * k + 1)
        found.append((means[:, 0], means[:, 1]))
    return found


def _less_one(moments: Array) -> Array:
    return np.asarray(np.maximum(np.nextafter(moments - 1, math.inf), 0.0), dtype=np.float64)


def _majorant(values: Array) -> Array:
    """Return a decreasing, convex sequence (along the last axis) above a decreasing one's bounds.

    2 M(k+1) - M(k+2) is exact but for one rounding, which is made upwards.
    """
    raised = np.minimum.accumulate(values, axis=-1)
    for k in range(raised.shape[-1] - 3, -1, -1):
        least = np.nextafter(2 * raised[..., k + 1] - raised[..., k + 2], math.inf)
        np.maximum(raised[..., k], least, out=raised[..., k])
    return raised
