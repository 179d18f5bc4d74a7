r"""Renyi bounds of one shuffled coordinate on cells of its distance, its centre, the clones.

For a cell of t, the bound is taken at its right end and what it is compared with at its left end;
likewise for the centre c (basic bound) and for y = |c| + x_rms (refined bound), in which the
blanket's mass exp(-h - c) or exp(-y) falls. Cells that decide a bound are split.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._moments import clone_moments, zcdp_of_clones

__all__ = ["CellTable"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Clone counts whose weight is less than exp(-_NATS) are taken together.
_NATS = 45.0


class CellTable:
    """Bounds G on cells of t, for each cell of c or y and each order.

    Parameters
    ----------
    n : int
        Honest users.
    epsilon0 : float
    alpha : ndarray, shape (m,)
        Renyi orders.
    closed : bool
        Whether to use Theorem B's closed form instead of the three-atom sums.

    Attributes
    ----------
    ends, starts : ndarray, shape (cells,)
        Right ends of the cells of t, and what t is at least in the penalty. The first cell starts
        at 0: its bound is Theorem B's, whose ratio to t^2 does not decrease in t, so that the
        penalty may be taken at its right end too.
    c, y : ndarray
        Ends of the cells of c and y, from 0.
    basic, refined : ndarray, shape (cells, cells of c or y, m)
        G at the right ends.
    """

    def __init__(self, n: int, epsilon0: float, alpha: Array, *, closed: bool) -> None:
        self.n, self.h, self.alpha, self.closed = n, epsilon0 / 2, alpha, closed
        self.c = np.concatenate(([0.0], _grid(min(0.001, self.h / 50), self.h, 1.05)))
        self.y = np.concatenate(([0.0], _grid(min(0.002, self.h / 50), 2 * self.h, 1.05)))
        self.nodes = _nodes(n)
        self._basic_mixing = _mixing(n, np.exp(-self.h - self.c[1:]), self.nodes)
        self._refined_mixing = _mixing(n, np.exp(-self.y[1:]), self.nodes)
        # ln P(k < next node) where the blanket is least: what the counts of a node can weigh.
        following = np.append(self.nodes[1:], n + 1)
        self._tail = _log_cdf(following - 2, n - 1, math.exp(-epsilon0))
        self._not_convex = np.zeros(alpha.size, dtype=np.bool_)
        # Slowly, so that the bound falls with n: what cells cost, and what they may give away.
        self._slack = slack = 0.015 + 0.01 * min(max(n - 100, 0) / 400, 1.0)
        self.ends = _ends(min(slack, epsilon0 / 50), epsilon0, slack)
        first = np.expm1(_closed_exponents(float(self.ends[0]), self.nodes, alpha))[None]
        self.basic, self.refined = self._bounds(np.concatenate((first, self._rows(self.ends[1:]))))

    @property
    def starts(self) -> Array:
        """Return what t is at least in the penalty of each cell."""
        return np.concatenate((self.ends[:1], self.ends[:-1]))

    def split(self, cells: NDArray[np.bool_]) -> bool:
        """Halve those of the cells that are wide; say whether there were any."""
        wide = cells & (self.ends > (1 + self._slack) * self.starts)
        if not wide.any():
            return False
        middles, places = np.sqrt(self.starts * self.ends)[wide], np.flatnonzero(wide)
        basic, refined = self._bounds(self._rows(middles))
        self.ends = np.insert(self.ends, places, middles)
        self.basic = np.insert(self.basic, places, basic, axis=0)
        self.refined = np.insert(self.refined, places, refined, axis=0)
        return True

    def convex(self) -> NDArray[np.bool_]:
        """Return, for each order, whether A_k was convex in k wherever it was computed."""
        return ~self._not_convex

    def _bounds(self, rows: Array) -> tuple[Array, Array]:
        def mixed(mixing: Array) -> Array:
            mean = np.tensordot(rows, mixing, axes=([1], [1])).swapaxes(1, 2)
            return np.asarray(np.log1p(mean) / (self.alpha - 1), dtype=np.float64)

        return mixed(self._basic_mixing), mixed(self._refined_mixing)

    def _rows(self, t: Array) -> Array:
        """Return bounds on A_k(t; alpha) - 1, shape (t, nodes, orders)."""
        rows = np.empty((t.size, self.nodes.size, self.alpha.size))
        for i, distance in enumerate(float(x) for x in t):
            exponents = _closed_exponents(distance, self.nodes, self.alpha)
            rows[i] = np.expm1(exponents)
            if self.closed:
                continue
            # Counts that weigh nothing even so keep Theorem B's bound.
            weight = self._tail + exponents.max(axis=1)
            least = int(np.argmax(weight >= -_NATS))
            for j in range(least, self.nodes.size):
                rows[i, j] = clone_moments(int(self.nodes[j]), distance, self.alpha)
            self._check_convex(rows[i, least:], self.nodes[least:])
        return rows

    def _check_convex(self, row: Array, nodes: Counts) -> None:
        slopes = np.diff(row, axis=0) / np.diff(nodes)[:, None]
        # Differences of sums known to about 1e-11 of themselves.
        doubt = 1e-10 * (row[:-2] + row[1:-1]) if row.shape[0] > 2 else np.zeros((0, 1))
        self._not_convex |= (np.diff(slopes, axis=0) < -doubt - 1e-14).any(axis=0)


def _closed_exponents(t: float, nodes: Counts, alpha: Array) -> Array:
    """Return Theorem B's bound on ln A_k, or pure t-DP's where that is less: (nodes, orders)."""
    exponent = np.outer(zcdp_of_clones(nodes.astype(np.float64), t), alpha * (alpha - 1))
    return np.asarray(np.minimum(exponent, (alpha - 1) * t), dtype=np.float64)


def _ends(first: float, last: float, slack: float) -> Array:
    """Return right ends of cells of t: narrow near 0, where the bound is tight.

    G(t) / t^2 falls like 1 - t / 4 from there, which wider cells may use up.
    """
    ends = [first]
    while ends[-1] < last:
        ends.append(min(last, ends[-1] * (1 + slack / 2 + min(ends[-1] / 8, 0.1))))
    return np.array(ends)


def _nodes(n: int) -> Counts:
    """Return the clone counts tabulated: all up to 100, then in steps of about 2.5 %."""
    nodes = list(range(1, min(n, 100) + 1))
    while nodes[-1] < n:
        nodes.append(min(n, nodes[-1] + math.floor(nodes[-1] / 40)))
    return np.array(nodes, dtype=np.int64)


def _log_cdf(counts: Counts, trials: int, probability: float) -> Array:
    from scipy import stats

    return np.asarray(stats.binom.logcdf(counts, trials, probability), dtype=np.float64)


def _mixing(n: int, gammas: Array, nodes: Counts) -> Array:
    """Return P(k in [node, next node)) for k - 1 ~ Bin(n - 1, gamma): shape (gammas, nodes).

    All of the mass from a node to the next goes to the left one: A_k decreases in k.
    """
    from scipy import stats

    gamma = gammas[:, None]
    if nodes.size == n:
        return np.asarray(stats.binom.pmf(nodes[None, :] - 1, n - 1, gamma), dtype=np.float64)
    below = stats.binom.cdf(nodes[None, :] - 2, n - 1, gamma)
    above = stats.binom.sf(nodes[None, :] - 2, n - 1, gamma)
    ends = np.ones((gammas.size, 1))
    by_cdf = np.diff(np.concatenate((below, ends), axis=1), axis=1)
    by_sf = -np.diff(np.concatenate((above, 0 * ends), axis=1), axis=1)
    # The difference of the smaller tails keeps its relative accuracy.
    return np.asarray(np.where(below < 0.5, by_cdf, by_sf), dtype=np.float64)


def _grid(low: float, high: float, ratio: float) -> Array:
    count = 1 + max(1, math.ceil(math.log(high / low) / math.log(ratio)))
    return np.geomspace(low, high, count)
