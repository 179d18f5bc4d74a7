r"""The premise of the vector bounds, checked on cells that cover every pair of inputs.

For one coordinate let user 1 hold u or v, and let x be the root mean square of the others' inputs.
The premise is

.. math:: F_\alpha(u,v;x)\le\lambda(u^2+v^2)+K x^2
   \qquad\text{for all } |u|,|v|\le h,\ 0\le x\le h.

A cell is a box of (u, v, x): F is bounded at the corner where it is greatest, the right side taken
at the corner where it is least. Two bounds on F are used, the lesser where both apply:

- the blanket at 0: for u >= 0 >= v, F <= G(u, |v|; exp(-x));
- the blanket at the pair's centre c: F <= G(t/2, t/2; exp(-|c| - x)) with t = |u - v|.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._pairs import MomentTable, mixing_weights

__all__ = ["Premise", "magnitudes", "narrowest_up_to"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]

#: Right ends of the cells of the centre, in units of the distance.
_CENTRES = (
    *(0.02, 0.04, 0.07, 0.1, 0.14, 0.18, 0.22, 0.27, 0.32, 0.38, 0.44, 0.5, 0.6, 0.75, 1.0),
    *(1.3, 1.7, 2.2, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0, 40.0, 100.0, 1000.0),
)
#: Cells of x on first sight, each of so many fine ones.
_STRIDE = 14
#: Boxes whose bound is at least this part of the premise's right side are looked at more closely.
_CLOSE = 0.9


def narrowest_up_to(h: float) -> int:
    """Return up to how many users cells are narrowest."""
    return 12 if h < 1.5 else 5


def magnitudes(n: int, h: float) -> tuple[Array, int]:
    """Return the right ends of the cells of |u|, and from which one on pairs are tabulated.

    Narrow where the bound is tight: G(u, u) / u^2 falls from u = 0 like 1 - u / 2, which wider
    cells may use up; and near h. Slowly wider with n, so that the bounds fall with n.
    """
    wider = min(max(n - 50, 0) / 450, 1.0)
    few = n <= narrowest_up_to(h)
    close = few and h < 1.5
    slack = (0.007 if close else 0.010) + 0.007 * wider
    ends = [min(slack / 2, h / 50)]
    while ends[-1] < h:
        width = 0.028 if few else min(0.05 + 0.02 * wider, 0.025 + 0.01 * wider + 0.025 * h)
        width = min(0.02 if close else width, slack / 2 + ends[-1] / 4)
        most = 0.02 if close else (0.034 if few else 0.04 + 0.03 * wider)
        width = min(width, most * max(1.0, h / 2) / ends[-1])
        ends.append(ends[-1] * (1 + width))
        if ends[-1] > h * 0.985:
            ends[-1:] = [h * 0.99, h] if ends[-2] < h * 0.98 else [h]
    found = np.array(ends)
    return found, int(np.searchsorted(found, min(0.06, h / 4)))


def _fine_grid(top: float, h: float) -> Array:
    """Return a grid of 0 .. top: narrow near 0, of at most 0.5 % (or of h / 2, if more) beyond."""
    grid = [0.0]
    while grid[-1] < top:
        step = max(5e-4 * min(1.0, h), 0.01 * grid[-1])
        grid.append(grid[-1] + min(step, 0.005 * max(1.0, h / 2)))
    grid[-1] = top
    return np.array(grid)


class Premise:
    """All cells for one n, epsilon0 and some orders, with the bounds on F in each.

    Parameters
    ----------
    n : int
    epsilon0 : float
    alpha : ndarray, shape (m,)
    """

    def __init__(self, n: int, epsilon0: float, alpha: Array) -> None:
        self.alpha, self.h = alpha, epsilon0 / 2
        self.ends, first = magnitudes(n, self.h)
        self.starts = np.concatenate((self.ends[:1], self.ends[:-1]))
        self.table = MomentTable(n, alpha, self.ends, first)
        self.first = first
        # The fine grid of y = c + x has h among its points.
        below = _fine_grid(self.h, self.h)
        self.y = np.concatenate((below, self.h + _fine_grid(self.h, self.h)[1:]))
        self.at_h = below.size - 1
        self.weights = mixing_weights(n, np.exp(-self.y), self.table.nodes)
        self.equal = self._renyi(self.weights, self.table.equal)
        self._centre_cells()
        self._pair_cells()

    def _renyi(self, weights: Array, moments: Array) -> Array:
        """Return G: shape (..., weights, orders)."""
        mean = np.tensordot(moments, weights, axes=([-2], [1]))
        # exp(-50) is for moments that do not fit in float64; see `fits`.
        value = np.log1p(np.moveaxis(mean, -1, -2) + math.exp(-50))
        return np.asarray(value / (self.alpha - 1), dtype=np.float64)

    def _up(self, y: Array) -> Places:
        """Return the place in the fine grid at or above y."""
        place = np.searchsorted(self.y, y * (1 - 1e-12))
        return np.asarray(np.minimum(place, self.y.size - 1), dtype=np.intp)

    def _centre_cells(self) -> None:
        """Cover the pairs of one sign, and those with a magnitude below the first pair's.

        Both have c >= t/2 - that magnitude. The first cell of t is (0, t_1]: its bound is Theorem
        B's, whose ratio to t^2 does not decrease in t.
        """
        least, rows, penalties, rights = float(self.ends[self.first]), [], [], []
        for row, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            low, high = (0.0 if row == 0 else max(0.0, start - least)), self.h - start * (row > 0)
            if high <= low:
                continue
            cuts = [low, *(2 * end * x for x in _CENTRES if low < 2 * end * x < high), high]
            if end > 0.1 * self.h:
                cuts = [*cuts, *np.arange(low, high, 0.15 * max(1.0, self.h / 2))]
            ends = np.unique(cuts)
            rows.append(np.full(ends.size - 1, row))
            penalties.append(2 * start**2 + 2 * ends[:-1] ** 2)
            rights.append(ends[1:])
        self.centre_row = np.concatenate(rows)
        self.centre_penalty = np.concatenate(penalties)
        self.centre_right = np.concatenate(rights)

    def _pair_cells(self) -> None:
        """Cover u > 0 > v with both magnitudes above the first pair's."""
        ends, starts = self.ends[self.first :], self.starts[self.first :]
        one, two = (x.ravel() for x in np.indices((ends.size - 1, ends.size - 1)) + 1)
        self.pair = np.stack((one, two))
        self.pair_penalty = starts[one] ** 2 + starts[two] ** 2
        # The same cell by the blanket at its centre.
        self.pair_right = np.maximum(ends[one] - starts[two], ends[two] - starts[one]) / 2
        half = (ends[one] + ends[two]) / 2
        row = np.searchsorted(self.ends, half * (1 - 1e-12))
        self.pair_row = np.minimum(row, self.ends.size - 1)

    def _at_centre(self, row: Places, right: Array, x: Array) -> Array:
        """Return the bound by the blanket at the centre, rows and x broadcast: (..., orders)."""
        y = right + x
        found = self.equal[row, self._up(y)]
        found[y > self.y[-1] * (1 + 1e-9)] = np.inf
        return np.asarray(found, dtype=np.float64)

    def basic(self) -> Array:
        """Return 2 lambda h^2 for each order, lambda with K = 0 and x = h."""
        h = np.array(self.h)
        ratio = self._at_centre(self.centre_row, self.centre_right, h)
        greatest = (ratio / self.centre_penalty[:, None]).max(axis=0)
        at_zero = self._renyi(self.weights[[self.at_h]], self.table.pairs)[:, :, 0]
        bound = np.minimum(
            at_zero[self.pair[0], self.pair[1]],
            self._at_centre(self.pair_row, self.pair_right, h),
        )
        ratio = (bound / self.pair_penalty[:, None]).max(axis=0, initial=0.0)
        return np.asarray(2 * self.h**2 * np.maximum(greatest, ratio), dtype=np.float64)

    def refined(self, basic: Array) -> list[tuple[float, float]]:
        """Return (lambda, K) of each order: the least h^2 (2 lambda + K) found."""
        ends = np.unique(np.append(np.arange(0, self.at_h, _STRIDE), self.at_h))
        # The first cell of x costs nothing in K: it is a fine one.
        ends = np.unique(np.append(ends, 1))
        x = self.y[ends]
        at_zero = self._renyi(self.weights[ends[1:]], self.table.pairs)
        at_zero = at_zero[self.pair[0], self.pair[1]]
        centre = self._at_centre(self.centre_row[:, None], self.centre_right[:, None], x[None, 1:])
        pairs = self._at_centre(self.pair_row[:, None], self.pair_right[:, None], x[None, 1:])
        bounds = np.concatenate((centre, np.minimum(pairs, at_zero)))
        p = np.concatenate((self.centre_penalty, self.pair_penalty))
        answer = []
        for order in range(self.alpha.size):
            g = bounds[:, :, order]
            most = float(basic[order]) / (2 * self.h**2)
            boxes = _Boxes.of(g, p, x[:-1], most)
            lam, k = boxes.best()
            paid = k * x[None, :-1] ** 2
            # Where x costs little, cells of x are narrow enough as they are.
            close = (g >= _CLOSE * (lam * p[:, None] + paid)) & (paid >= 0.1 * g)
            close[:, 0] = False
            boxes = _Boxes.of(np.where(close, 0.0, g), p, x[:-1], most)
            boxes = boxes.joined(self._closely(np.argwhere(close), p, ends, order))
            answer.append(min((lam, k), boxes.best(), key=lambda found: 2 * found[0] + found[1]))
        return answer

    def _closely(self, close: Places, p: Array, ends: Places, order: int) -> _Boxes:
        """Return the boxes named (which cell, which cell of x), divided into fine cells of x."""
        which, part = close[:, 0], close[:, 1]
        fine = ends[part][:, None] + np.arange(_STRIDE)
        inside = fine < ends[part + 1][:, None]
        fine = np.minimum(fine, ends[part + 1][:, None] - 1)
        x = self.y[fine + 1]
        centres = self.centre_row.size
        row = np.concatenate((self.centre_row, self.pair_row))[which]
        right = np.concatenate((self.centre_right, self.pair_right))[which]
        g = self._at_centre(row[:, None], right[:, None], x)[:, :, order]
        pairs = np.flatnonzero(which >= centres)
        one, two = self.pair[:, which[pairs] - centres]
        moments = self.table.pairs[one, two, :, order]
        mean = np.einsum("pxk,pk->px", self.weights[fine[pairs] + 1], moments)
        g[pairs] = np.minimum(g[pairs], np.log1p(mean + math.exp(-50)) / (self.alpha[order] - 1))
        penalty = np.broadcast_to(p[which][:, None], g.shape)
        return _Boxes(g[inside], penalty[inside], self.y[fine][inside] ** 2, 0.0, math.inf)


class _Boxes:
    """Constraints lambda p + K q >= g, in the two unknowns lambda and K."""

    def __init__(self, g: Array, p: Array, q: Array, least: float, most: float) -> None:
        self.g, self.p, self.q, self.least, self.most = g, p, q, least, most

    @classmethod
    def of(cls, g: Array, p: Array, x: Array, most: float) -> _Boxes:
        """Keep the constraints that matter: those not met by the least possible lambda alone."""
        least = float((g[:, 0] / p).max())
        kept = g > least * p[:, None]
        kept[:, 0] = False
        square = np.broadcast_to(x[None] ** 2, g.shape)
        penalty = np.broadcast_to(p[:, None], g.shape)
        return cls(g[kept], penalty[kept], square[kept], least, max(most, least))

    def joined(self, other: _Boxes) -> _Boxes:
        g, p, q = (
            np.concatenate((one, two))
            for one, two in zip((self.g, self.p, self.q), (other.g, other.p, other.q), strict=True)
        )
        return _Boxes(g, p, q, self.least, self.most)

    def best(self) -> tuple[float, float]:
        """Return (lambda, K) with 2 lambda + K least.

        K(lambda) is a maximum of lines, so the sum is convex: the two lines that are greatest at
        the ends of an interval meet where to look next.
        """
        tried: dict[float, tuple[float, float]] = {}

        def at(lam: float) -> tuple[float, float]:
            """Return (2 lambda + K, its slope)."""
            if lam not in tried:
                k, slope = self._k(lam)
                tried[lam] = 2 * lam + k, 2 + slope
            return tried[lam]

        low, high = self.least, self.most * (1 + 1e-9)
        self._drop(low, at(high)[0] - 2 * high)
        for _ in range(60):
            (left, falls), (right, rises) = at(low), at(high)
            if falls >= 0 or rises <= 0:
                break
            middle = (right - left + falls * low - rises * high) / (falls - rises)
            if not low < middle < high:
                break
            found, slope = at(middle)
            if found - (left + falls * (middle - low)) <= 3e-5 * found:
                break
            low, high = (middle, high) if slope < 0 else (low, middle)
        lam = min(tried, key=lambda x: tried[x][0])
        return lam, self._k(lam)[0]

    def _drop(self, low: float, k: float) -> None:
        """Drop lines that at ``low``, where all are greatest, are below what K is everywhere."""
        kept = self.g - low * self.p > k * self.q * (1 - 1e-12)
        self.g, self.p, self.q = self.g[kept], self.p[kept], self.q[kept]

    def _k(self, lam: float) -> tuple[float, float]:
        """Return K(lambda) and its slope."""
        if not self.g.size:
            return 0.0, 0.0
        values = (self.g - lam * self.p) / self.q
        place = int(values.argmax())
        if values[place] <= 0:
            return 0.0, 0.0
        return float(values[place]), -float(self.p[place] / self.q[place])
