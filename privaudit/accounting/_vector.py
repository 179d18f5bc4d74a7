r"""The whole jointly clipped vector after per-coordinate shuffling: certified Renyi bounds.

Positions are in units of the noise scale; h = epsilon0 / 2. User 1 holds u or v with
:math:`\|u\|,\|v\|\le h`. For coordinate j with :math:`t_j=|u_j-v_j|` and centre :math:`c_j`, each
other user is in the blanket Laplace(c_j, 1) with probability at least :math:`\gamma`, and

.. math:: F_\alpha \le G_\alpha(t;\gamma) = \tfrac{1}{\alpha-1}
   \ln E_{k-1\sim Bin(n-1,\gamma)} A_k(t;\alpha).

*Basic*: if :math:`G_\alpha(t;e^{-h-|c|}) \le \lambda(t^2/2+2c^2)` for all admissible (t, c), then,
as :math:`u^2+v^2=t^2/2+2c^2`, the vector satisfies :math:`D_\alpha\le 2\lambda h^2`.

*Refined* (the other users are clipped too): if :math:`G_\alpha(t;e^{-y})\le\lambda t^2/2+\nu y^2`
for all t and :math:`y\le 2h-t/2`, with :math:`1/\nu=1/(2\lambda)+1/K`, then
:math:`D_\alpha\le h^2(2\lambda+K)`. It rests on the convexity of :math:`k\mapsto A_k`, which is
checked on the table computed.

Both premises are certified on a grid of cells: the penalty at the left end of a cell, G at its
right end (G increases in t and decreases in gamma).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._moments import clone_moments, zcdp_of_clones
from privaudit.accounting.bracket import NumericalError

__all__ = ["VectorRenyi", "certified_renyi", "clone_harmonic", "orders_for"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VectorRenyi:
    """Upper bounds on the Renyi divergence of one round, for each order.

    Attributes
    ----------
    orders, local, basic, refined : tuple of float
    convex : bool
        Whether A_k was convex in k on the whole table; the refined bound needs it.
    """

    orders: tuple[float, ...]
    local: tuple[float, ...]
    basic: tuple[float, ...]
    refined: tuple[float, ...]
    convex: bool


def clone_harmonic(n: int, gamma: float) -> float:
    r"""Return :math:`E[1/(1+Bin(n-1,\gamma))] = (1-(1-\gamma)^n)/(n\gamma)`."""
    if gamma >= 1:
        return 1.0 / n
    return -math.expm1(n * math.log1p(-gamma)) / (n * gamma)


def orders_for(rho_low: float, rho_high: float, delta: float) -> tuple[float, ...]:
    """Return Renyi orders that cover the best ones for zCDP budgets in [rho_low, rho_high].

    They are taken from one fixed grid, ``1 + 2**(i / 4)``, so that queries share tables.
    """
    low = 0.5 * math.sqrt(math.log(1 / delta) / rho_high)
    high = 2.0 * math.sqrt(math.log(1 / delta) / rho_low)
    first, last = math.floor(4 * math.log2(low)), math.ceil(4 * math.log2(high))
    return tuple(1 + 2.0 ** (i / 4) for i in range(first, last + 1))


def _nodes(n: int) -> NDArray[np.int64]:
    """Return the clone counts tabulated: all up to 100, then in steps of 2 %, left ends."""
    nodes = list(range(1, min(n, 100) + 1))
    while nodes[-1] < n:
        nodes.append(min(n, max(nodes[-1] + 1, math.floor(nodes[-1] * 1.02))))
    return np.array(nodes, dtype=np.int64)


def _mixing(n: int, gammas: Array, nodes: NDArray[np.int64]) -> Array:
    """Return P(k in [node, next node)) for k - 1 ~ Bin(n - 1, gamma): shape (gammas, nodes).

    All of the mass from a node to the next goes to the left one: A_k decreases in k.
    """
    from scipy import stats

    survival = stats.binom.sf(nodes[None, :] - 2, n - 1, gammas[:, None])
    below = np.concatenate((survival[:, 1:], np.zeros((gammas.size, 1))), axis=1)
    return np.asarray(survival - below, dtype=np.float64)


def _grid(low: float, high: float, ratio: float) -> Array:
    count = 1 + max(1, math.ceil(math.log(high / low) / math.log(ratio)))
    return np.geomspace(low, high, count)


def _bounds(table: Array, mixing: Array, orders: Array) -> Array:
    """Return G for each (t, gamma, order) from A_k - 1: (t, node, order) and (gamma, node)."""
    mean = np.einsum("gk,tka->tga", mixing, table, optimize=True)
    return np.asarray(np.log1p(mean) / (orders - 1), dtype=np.float64)


@functools.lru_cache(maxsize=256)
def _known(n: int, epsilon0: float) -> dict[float, tuple[float, float, bool]]:
    """Return what was computed before: (basic, refined, convex) by order."""
    return {}


def certified_renyi(n: int, epsilon0: float, orders: tuple[float, ...]) -> VectorRenyi:
    """Return certified bounds on the Renyi divergence of the whole vector in one round.

    Parameters
    ----------
    n : int
        Honest users in the cluster, user 1 among them.
    epsilon0 : float
        Budget of one coordinate; the noise scale is 2 Phi / epsilon0, the clipping joint.
    orders : tuple of float
        Renyi orders > 1.

    Raises
    ------
    NumericalError
        If a value is not finite.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    local = tuple(float(x) for x in alpha * epsilon0**2 / 2)
    if n == 1:
        return VectorRenyi(orders, local, local, local, True)
    known = _known(n, epsilon0)
    missing = tuple(a for a in orders if a not in known)
    if missing:
        known.update(zip(missing, _certify(n, epsilon0, missing), strict=True))
    basic, refined, convex = zip(*(known[a] for a in orders), strict=True)
    return VectorRenyi(orders, local, basic, refined, all(convex))


def _certify(n: int, epsilon0: float, orders: tuple[float, ...]) -> list[tuple[float, float, bool]]:
    """Compute (basic, refined, whether A_k is convex in k) for each order."""
    alpha = np.asarray(orders, dtype=np.float64)
    h = epsilon0 / 2
    local = alpha * epsilon0**2 / 2
    nodes = _nodes(n)
    t_grid = _grid(min(0.01, epsilon0 / 50), epsilon0, 1.01 if n < 100 else 1.02)
    table = np.empty((t_grid.size, nodes.size, alpha.size))
    # Cell (0, t_1]: Theorem B at t_1, whose ratio to t^2 does not decrease in t.
    with np.errstate(over="raise"):
        try:
            table[0] = np.expm1(
                np.outer(zcdp_of_clones(nodes.astype(float), t_grid[0]), alpha * (alpha - 1))
            )
        except FloatingPointError as error:
            raise NumericalError(f"Theorem B overflows at order {alpha.max():.3g}") from error
    for i, t in enumerate(t_grid[1:], start=1):
        for position, k in enumerate(nodes):
            table[i, position] = clone_moments(int(k), float(t), alpha)
    penalty_t = np.concatenate((t_grid[:1], t_grid[:-1]))
    basic = _basic(n, h, alpha, nodes, table, t_grid, penalty_t)
    refined = _refined(n, h, alpha, nodes, table, t_grid, penalty_t)
    step = np.diff(nodes).astype(float)
    slopes = np.diff(table, axis=1) / step[None, :, None]
    tolerance = 1e-9 * table[:, :1, :] + 1e-13
    convex = (np.diff(slopes, axis=1) >= -tolerance).all(axis=(0, 1))
    basic = np.minimum(local, basic)
    refined = np.where(convex, np.minimum(basic, refined), basic)
    return [(float(b), float(r), bool(c)) for b, r, c in zip(basic, refined, convex, strict=True)]


def _basic(
    n: int,
    h: float,
    alpha: Array,
    nodes: NDArray[np.int64],
    table: Array,
    t_grid: Array,
    penalty_t: Array,
) -> Array:
    c = np.concatenate(([0.0], _grid(min(0.001, h / 50), h, 1.05)))
    bound = _bounds(table, _mixing(n, np.exp(-h - c[1:]), nodes), alpha)
    penalty = penalty_t[:, None] ** 2 / 2 + 2 * c[None, :-1] ** 2
    admissible = c[None, :-1] <= h - penalty_t[:, None] / 2 + 1e-12
    ratio = np.where(admissible[:, :, None], bound / penalty[:, :, None], 0.0)
    return np.asarray(2 * h * h * ratio.max(axis=(0, 1)), dtype=np.float64)


def _refined(
    n: int,
    h: float,
    alpha: Array,
    nodes: NDArray[np.int64],
    table: Array,
    t_grid: Array,
    penalty_t: Array,
) -> Array:
    y = np.concatenate(([0.0], _grid(min(0.002, h / 50), 2 * h, 1.05)))
    bound = _bounds(table, _mixing(n, np.exp(-y[1:]), nodes), alpha)
    admissible = y[None, :-1] <= 2 * h - penalty_t[:, None] / 2 + 1e-12
    half_square = penalty_t**2 / 2
    # The first cell of y has no penalty of its own, so lambda must cover it alone.
    least = (bound[:, 0, :] / half_square[:, None]).max(axis=0)
    best = np.full(alpha.size, np.inf)
    for factor in 1 + np.concatenate(([0.0], np.geomspace(0.005, 3.0, 28))):
        lam = least * factor
        short = bound[:, 1:, :] - half_square[:, None, None] * lam[None, None, :]
        short = np.where(admissible[:, 1:, None], short, 0.0)
        nu = (short / y[None, 1:-1, None] ** 2).max(axis=(0, 1)).clip(min=0.0)
        feasible = nu < 2 * lam
        with np.errstate(divide="ignore"):
            other = np.where(
                feasible & (nu > 0), 1 / (1 / np.maximum(nu, 1e-300) - 1 / (2 * lam)), 0.0
            )
        value = np.where(feasible, h * h * (2 * lam + other), np.inf)
        best = np.minimum(best, value)
    return best
