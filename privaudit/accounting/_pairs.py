r"""Bounds on A_k(u, -m) for a grid of magnitudes, and their means over the number of clones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._moments import Half, Window, joined, nats_needed, ratio_law

__all__ = [
    "MomentTable",
    "clone_counts",
    "closed_exponents",
    "convex_majorant",
    "fits",
    "mixing_weights",
]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Clone counts whose weight is less than exp(-_NATS) keep the closed bounds.
_NATS = 40.0
#: Lattice steps of one ratio, for up to so many clones and beyond.
_FINE, _FINE_UP_TO, _COARSE = 4, 64, 2
#: Counts are tabulated one by one up to twice this, then in steps of one part in as many.
_SPACING = 30
#: Sums are evaluated for up to so many clones; where the magnitude is small, for up to so many.
_SUMS_UP_TO, _SMALL_SUMS_UP_TO = 1000, 60
#: Least order from which on Theorem C is close (within 2 %) for small magnitudes.
_CLOSE = 14.0
#: Hoelder exponents, less one, tried in Theorem C.
_HOELDER = (0.001, 0.004, 0.015, 0.06, 0.25)
#: Moments beyond exp(_LARGEST) are not represented; see :func:`fits`.
_LARGEST = 600.0
#: Largest number of clones over which a mean is taken term by term.
_TERM_BY_TERM = 3000


class MomentTable:
    """Bounds on ``A_k - 1`` at the clone counts of :func:`clone_counts`.

    Parameters
    ----------
    n : int
        Honest users.
    alpha : ndarray, shape (m,)
        Renyi orders.
    magnitudes : ndarray, shape (rows,)
        Increasing; the last one is epsilon0 / 2.
    first_pair : int
        The row from which on all pairs of magnitudes are tabulated; before it only equal ones.

    Attributes
    ----------
    nodes : ndarray of int, shape (nodes,)
    equal : ndarray, shape (rows, nodes, m)
        For (u, -u); by Theorem B in the first row, which stands for all smaller magnitudes.
    pairs : ndarray, shape (rows - first_pair, rows - first_pair, nodes, m)
        For (u, -m), u along the first axis.

    Both bound a decreasing and convex function of the count from above; see
    :func:`convex_majorant`.
    """

    def __init__(self, n: int, alpha: Array, magnitudes: Array, first_pair: int) -> None:
        from scipy import stats

        self.alpha, self.magnitudes, self.first_pair = alpha, magnitudes, first_pair
        self.nodes = clone_counts(n)
        u, v = magnitudes, magnitudes[first_pair:]
        closed = np.minimum(closed_exponents(u, u, self.nodes, alpha), _LARGEST)
        self.equal = np.expm1(closed)
        closed_pairs = closed_exponents(v[:, None], v[None, :], self.nodes, alpha)
        self.pairs = np.expm1(np.minimum(closed_pairs, _LARGEST))
        # ln P(k < next node) where the blanket is about least: what the counts of a node can weigh.
        gamma = math.exp(-1.2 * float(u[-1]))
        tail = stats.binom.logcdf(_places(self.nodes) - 1, n - 1, gamma)
        weighs = tail + closed.max(axis=(0, 2)) >= -_NATS
        self.least = int(np.argmax(weighs))
        self._sum()
        self._one_clone()
        # Only Theorem B's ratio to the squared magnitudes is known not to decrease down to 0.
        least = theorem_b_exponents(u[:1], u[:1], self.nodes, alpha)
        self.equal[:1] = np.expm1(np.minimum(least, _LARGEST))
        self.equal = convex_majorant(self.equal, self.nodes)
        self.pairs = convex_majorant(self.pairs, self.nodes)

    def _sum(self) -> None:
        """Evaluate the sums wherever a count weighs something."""
        summed = [j for j in range(self.least, self.nodes.size) if self.nodes[j] <= _SUMS_UP_TO]
        if not summed:
            return
        small = [j for j in summed if self.nodes[j] <= _SMALL_SUMS_UP_TO or self.alpha[0] < _CLOSE]
        first, u = self.first_pair, self.magnitudes
        self._stretch(u[:first], small, 1, 1, equal=True)
        self._stretch(u[first:], summed, _FINE, _COARSE, equal=False)
        diagonal = np.arange(self.pairs.shape[0])
        self.equal[first:] = np.minimum(self.equal[first:], self.pairs[diagonal, diagonal])

    def _stretch(self, u: Array, nodes: list[int], fine: int, coarse: int, *, equal: bool) -> None:
        """Evaluate the sums at the nodes for a stretch of magnitudes."""
        if not (nodes and u.size):
            return
        nats = {j: nats_needed(int(self.nodes[j]), float(u[-1]), self.alpha) for j in nodes}
        rows = [self._row(float(x), nats, fine, coarse) for x in u]
        bounds = self.equal[: u.size] if equal else self.pairs
        for j in nodes:
            k, found = int(self.nodes[j]), np.stack([row.pop(j) for row in rows])
            value = joined(k, Window.of(k, nats[j]), u, found, self.alpha, equal=equal)
            np.minimum(bounds[..., j, :], value, out=bounds[..., j, :])

    def _row(self, u: float, nats: dict[int, float], fine: int, coarse: int) -> dict[int, Array]:
        """Return E[S^p | r] - 1 by node, for the powers alpha and 1 - alpha."""
        powers = np.concatenate((self.alpha, 1 - self.alpha))
        windows = {j: Window.of(int(self.nodes[j]), x) for j, x in nats.items()}
        parts = {j: fine if self.nodes[j] <= _FINE_UP_TO else coarse for j in nats}
        most: dict[int, int] = {}
        for j, part in parts.items():
            most[part] = max(most.get(part, 0), windows[j].high)
        halves = {part: Half(u, part, count) for part, count in most.items()}
        return {
            j: halves[parts[j]].moments(int(self.nodes[j]), windows[j], powers) for j in windows
        }

    def _one_clone(self) -> None:
        """Use the Laplace mechanism's own divergence where user 1's report is alone."""
        a = self.alpha

        def laplace(t: Array) -> Array:
            rise = a / (2 * a - 1) * np.expm1(np.minimum(t[..., None] * (a - 1), 700.0))
            fall = (a - 1) / (2 * a - 1) * np.expm1(-t[..., None] * a)
            return np.asarray((rise + fall) * (1 + 1e-9), dtype=np.float64)

        u = self.magnitudes
        v = u[self.first_pair :]
        self.equal[:, 0] = np.minimum(self.equal[:, 0], laplace(2 * u))
        self.pairs[:, :, 0] = np.minimum(self.pairs[:, :, 0], laplace(v[:, None] + v[None, :]))


def theorem_b_exponents(u: Array, m: Array, nodes: Counts, alpha: Array) -> Array:
    """Return Theorem B's bound on ln A_k(u, -m): shape of u and m, (nodes, orders)."""
    k = nodes.astype(np.float64)[:, None]
    ranges = np.log1p(np.expm1(2 * u)[..., None, None] / k)
    ranges = ranges + np.log1p(np.expm1(2 * m)[..., None, None] / k)
    return np.asarray(k / 8 * ranges**2 * (alpha * (alpha - 1)), dtype=np.float64)


def closed_exponents(u: Array, m: Array, nodes: Counts, alpha: Array) -> Array:
    """Return the least of the closed bounds on ln A_k(u, -m): shape of u and m, (nodes, orders).

    Theorem B; pure differential privacy, (alpha - 1)(u + m); Theorem C where m = u or k is large.
    """
    u, m = np.broadcast_arrays(u, m)
    exponent = theorem_b_exponents(u, m, nodes, alpha)
    exponent = np.minimum(exponent, (u + m)[..., None, None] * (alpha - 1))
    large = nodes > _SMALL_SUMS_UP_TO if u.ndim == 1 else nodes > _SUMS_UP_TO
    if large.any():
        found = _tilted_exponents(u, m, nodes[large], alpha)
        exponent[..., large, :] = np.minimum(exponent[..., large, :], found)
    return np.asarray(exponent, dtype=np.float64)


def _tilted_exponents(u: Array, m: Array, nodes: Counts, alpha: Array) -> Array:
    r"""Return Theorem C's bound on ln A_k: the moment generating function of a linear form.

    With S_u = 1 + X, S_-m = 1 + Y: ln(1+X) <= X, and -ln(1+Y) <= -Y + kappa Y^2 with
    kappa = (m - y)/y^2, y = 1 - exp(-m); Hoelder's inequality with exponents p, q; X and Y are
    means of k terms, and Y is sub-Gaussian with variance sinh^2(m) / k.
    """
    k = nodes.astype(np.float64)[:, None]
    values, index = np.unique(np.concatenate((u.ravel(), m.ravel())), return_inverse=True)
    lattice = [_centred(float(value)) for value in values]
    places = np.stack([x for x, _ in lattice])[:, None, None]
    laws = np.stack([law for _, law in lattice])[:, None, None]
    at_u, at_m = index[: u.size].reshape(u.shape), index[u.size :].reshape(m.shape)
    m = m[..., None, None]
    least = -np.expm1(-m)
    kappa = np.where(m > 1e-3, (m - least) / least**2, 0.5 + m)
    best = np.full((*u.shape, nodes.size, alpha.size), np.inf)
    for eta in _HOELDER:
        p, q = 1 + eta, (1 + eta) / eta
        spread = 2 * q * (alpha - 1) * kappa * np.sinh(m) ** 2 / k
        rest = np.where(spread < 0.9, -np.log1p(-np.minimum(spread, 0.9)) / (2 * q), np.inf)
        # E[exp(a X - b Y)] - 1 of one report: it is right of 0, or left of it. By magnitude.
        rising, falling = p * alpha / k, -p * (alpha - 1) / k
        with np.errstate(over="ignore", invalid="ignore"):
            up = (np.expm1(rising[..., None] * places) * laws).sum(axis=-1)
            down = (np.expm1(falling[..., None] * places) * laws).sum(axis=-1)
            up_low = np.expm1(rising * places[..., 0])
            down_low = np.expm1(falling * places[..., 0])
            right, left = up[at_u], up_low[at_u]
            right = right + down_low[at_m] + right * down_low[at_m]
            left = left + down[at_m] + left * down[at_m]
            found = k * np.log1p((right + left) / 2) / p * (1 + 1e-9) + rest
        best = np.fmin(best, np.where(np.isfinite(found), found, np.inf))
    return best


def _centred(u: float) -> tuple[Array, Array]:
    """Return (values less one, probabilities) of a ratio on its own side, spread on a lattice."""
    parts = 6
    values = math.expm1(-u) + 2 * math.sinh(u) / parts * np.arange(parts + 1)
    return np.asarray(values, dtype=np.float64), ratio_law(u, parts)


def fits(n: int, epsilon0: float, order: float) -> bool:
    """Return whether float64 holds the moments of an order wherever they matter.

    Moments beyond exp(600) are taken as exp(600); that is sound if even at the least mass of the
    blanket, exp(-epsilon0), they contribute less than the allowance for rounding, exp(-50). (The
    lower tail of a sum of unlike coins is below that of like ones of the same mean: Hoeffding 1956,
    Theorem 4.)
    """
    from scipy import stats

    nodes = clone_counts(n)
    h = np.array([epsilon0 / 2])
    exponents = closed_exponents(h, h, nodes, np.array([order]))[0, :, 0]
    large = exponents > _LARGEST - 1
    if not large.any():
        return True
    gamma = math.exp(-epsilon0)
    places = _places(nodes)[large]
    tail = stats.binom.logcdf(places - 1, n - 1, gamma)
    below = places < (n - 1) * gamma - 1
    return bool((below & (tail + exponents[large] < -50)).all())


def clone_counts(n: int) -> Counts:
    """Return the clone counts tabulated, for every n the first ones of the same sequence."""
    nodes = [1]
    while _following(nodes[-1]) <= n:
        nodes.append(_following(nodes[-1]))
    return np.array(nodes, dtype=np.int64)


def _following(node: int) -> int:
    return node + max(1, node // _SPACING)


def _places(nodes: Counts) -> Counts:
    """Return the last count before each following node."""
    return np.append(nodes[1:], _following(int(nodes[-1]))) - 1


def convex_majorant(values: Array, nodes: Counts) -> Array:
    """Return a decreasing and convex bound by its values at the last counts before the next nodes.

    ``values`` (shape (..., nodes, m)) are bounds on a decreasing function of the count, so each
    holds from its node on. The majorant is linear between its places; it is raised above the values
    only where they are not convex.
    """
    raised = np.minimum.accumulate(values, axis=-2)
    places = _places(nodes).astype(np.float64)
    slope = np.zeros_like(raised[..., -1, :])
    for j in range(nodes.size - 2, -1, -1):
        width = places[j + 1] - places[j]
        least = raised[..., j + 1, :] + slope * width
        np.maximum(raised[..., j, :], least, out=raised[..., j, :])
        slope = (raised[..., j, :] - raised[..., j + 1, :]) / width
    return raised


def mixing_weights(n: int, gammas: Array, nodes: Counts) -> Array:
    """Return the weights of the mean over k - 1 ~ Bin(n - 1, gamma): shape (gammas, nodes).

    Of a function of k given at the nodes' places and linear between them.
    """
    places = _places(nodes)
    if n > _TERM_BY_TERM:
        return _weights_by_tails(n, gammas, places)
    from scipy import special

    k = np.arange(1, n + 1)
    right = np.searchsorted(places, k)
    left = np.maximum(right - 1, 0)
    share = np.where(right > 0, (k - places[left]) / np.maximum(places[right] - places[left], 1), 1)
    log = special.gammaln(n) - special.gammaln(k) - special.gammaln(n - k + 1.0)
    gamma = gammas[:, None]
    log = log + special.xlogy(k - 1, gamma) + special.xlog1py(n - k, -gamma)
    spread = np.zeros((n, nodes.size))
    np.add.at(spread, (k - 1, right), share)
    np.add.at(spread, (k - 1, left), 1 - share)
    return np.asarray((np.exp(log) @ spread) * (1 + 1e-11), dtype=np.float64)


def _weights_by_tails(n: int, gammas: Array, places: Counts) -> Array:
    """Return the same weights from tails of the binomial law."""
    from scipy import stats

    gamma, trials = gammas[:, None], n - 1
    edges = np.concatenate(([0], places)).astype(np.float64)

    def between(count: int, shift: int) -> Array:
        """Return P(edges[j] < b + shift <= edges[j + 1]) for b ~ Bin(count, gamma)."""
        below = stats.binom.cdf(edges - shift, count, gamma)
        above = stats.binom.sf(edges - shift, count, gamma)
        use = below[:, :-1] < 0.5
        return np.asarray(np.where(use, np.diff(below), -np.diff(above)), dtype=np.float64)

    mass = between(trials, 1)
    # E[k; k in a stretch] = mass + E[b; ..], and b P(b) = trials gamma P'(b - 1).
    mean = mass + trials * gamma * between(trials - 1, 2)
    width = np.diff(edges)
    share = np.clip(mean - edges[:-1] * mass, 0.0, width * mass) / width
    answer = share.copy()
    answer[:, 0] = mass[:, 0]
    answer[:, :-1] += (mass - share)[:, 1:]
    return answer * (1 + 1e-9)
