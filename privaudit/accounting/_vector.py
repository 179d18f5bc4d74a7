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

from privaudit.accounting._table import CellTable
from privaudit.accounting.bracket import NumericalError

__all__ = ["VectorRenyi", "certified_renyi", "clone_harmonic", "orders_for"]

Array = NDArray[np.float64]

#: Clusters beyond this size are accounted as if they had no more users.
_MOST_USERS = 2000
#: Orders with (alpha - 1) epsilon0 beyond it overflow float64: the local bound stands for them.
_MOST_NATS = 500.0
#: Most rounds of splitting the cells that decide a bound.
_ROUNDS = 60
#: Factors by which lambda is raised above the least possible one, in search of the best trade.
_COARSE = (1.0, 1.01, 1.04, 1.12, 1.3, 1.7, 2.5, 4.0)


@dataclass(frozen=True, slots=True)
class VectorRenyi:
    """Upper bounds on the Renyi divergence of one round, for each order.

    Attributes
    ----------
    orders, local, basic, refined : tuple of float
    convex : tuple of bool
        Whether A_k was convex in k on the whole table. The refined bound needs it; for orders
        without it the basic bound stands in its place.
    """

    orders: tuple[float, ...]
    local: tuple[float, ...]
    basic: tuple[float, ...]
    refined: tuple[float, ...]
    convex: tuple[bool, ...]


def clone_harmonic(n: int, gamma: float) -> float:
    r"""Return :math:`E[1/(1+Bin(n-1,\gamma))] = (1-(1-\gamma)^n)/(n\gamma)`."""
    if gamma >= 1:
        return 1.0 / n
    return -math.expm1(n * math.log1p(-gamma)) / (n * gamma)


def orders_for(rho_low: float, rho_high: float, delta: float, epsilon0: float) -> tuple[float, ...]:
    """Return Renyi orders that cover the best ones for zCDP budgets in [rho_low, rho_high].

    They are taken from one fixed grid, ``1 + 2**(i / 4)``, so that queries share tables, and kept
    to those whose moments fit in float64 at ``epsilon0``.
    """
    low = 0.5 * math.sqrt(math.log(1 / delta) / rho_high)
    high = 2.0 * math.sqrt(math.log(1 / delta) / rho_low)
    last = min(math.ceil(4 * math.log2(high)), math.floor(4 * math.log2(_MOST_NATS / epsilon0)))
    first = min(math.floor(4 * math.log2(low)), last - 8)
    return tuple(1 + 2.0 ** (i / 4) for i in range(first, last + 1))


def certified_renyi(n: int, epsilon0: float, orders: tuple[float, ...]) -> VectorRenyi:
    """Return certified bounds on the Renyi divergence of the whole vector in one round.

    Parameters
    ----------
    n : int
        Honest users in the cluster, user 1 among them. Above 2,000 the bounds are the better of
        those for 2,000 users (more users can only lower them) and of Theorem B in closed form.
    epsilon0 : float
        Budget of one coordinate; the noise scale is 2 Phi / epsilon0, the clipping joint.
    orders : tuple of float
        Renyi orders > 1.

    Raises
    ------
    NumericalError
        If a value is not finite.
    """
    local = tuple(a * epsilon0**2 / 2 for a in orders)
    if n == 1:
        return VectorRenyi(orders, local, local, local, (True,) * len(orders))
    known = _known(n, epsilon0)
    for order, bound in zip(orders, local, strict=True):
        if (order - 1) * epsilon0 > _MOST_NATS:
            known[order] = bound, bound, True
    missing = tuple(a for a in orders if a not in known)
    if missing:
        found = _certify(min(n, _MOST_USERS), epsilon0, missing, closed=False)
        if n > _MOST_USERS:
            closed = _certify(n, epsilon0, missing, closed=True)
            found = [
                (min(a[0], b[0]), min(a[1], b[1]), a[2]) for a, b in zip(found, closed, strict=True)
            ]
        known.update(zip(missing, found, strict=True))
    basic, refined, convex = zip(*(known[a] for a in orders), strict=True)
    return VectorRenyi(orders, local, basic, refined, convex)


@functools.lru_cache(maxsize=256)
def _known(n: int, epsilon0: float) -> dict[float, tuple[float, float, bool]]:
    """Return what was computed before: (basic, refined, convex) by order."""
    return {}


def forget() -> None:
    """Empty the tables kept between queries."""
    _known.cache_clear()


def _certify(
    n: int, epsilon0: float, orders: tuple[float, ...], *, closed: bool
) -> list[tuple[float, float, bool]]:
    """Compute (basic, refined, whether A_k is convex in k) for each order."""
    alpha = np.asarray(orders, dtype=np.float64)
    table = CellTable(n, epsilon0, alpha, closed=closed)
    for _ in range(_ROUNDS):
        basic, basic_cells = _basic(table)
        refined, refined_cells = _refined(table)
        if not table.split(basic_cells | refined_cells):
            break
    basic = np.minimum(alpha * epsilon0**2 / 2, basic)
    convex = table.convex()
    refined = np.where(convex, np.minimum(basic, refined), basic)
    if np.isnan(basic).any() or np.isnan(refined).any():
        raise NumericalError(f"a Renyi bound for n = {n}, epsilon0 = {epsilon0} is not a number")
    return [(float(b), float(r), bool(c)) for b, r, c in zip(basic, refined, convex, strict=True)]


def _basic(table: CellTable) -> tuple[Array, NDArray[np.bool_]]:
    """Return 2 lambda h^2 for each order, and the cells of t that decide it."""
    c, half_square = table.c, table.starts**2 / 2
    penalty = half_square[:, None] + 2 * c[None, :-1] ** 2
    admissible = c[None, :-1] <= table.h - table.starts[:, None] / 2 + 1e-12
    weight = np.where(admissible, 1 / penalty, 0.0)
    ratio = (table.basic * weight[:, :, None]).max(axis=1)
    greatest = ratio.max(axis=0)
    return 2 * table.h**2 * greatest, (ratio >= 0.99 * greatest).any(axis=1)


def _refined(table: CellTable) -> tuple[Array, NDArray[np.bool_]]:
    """Return the least h^2 (2 lambda + K) found for each order, and the cells that decide it."""
    y, half_square = table.y, table.starts**2 / 2
    # The first cell of y has no penalty of its own, so lambda must cover it alone.
    alone = table.refined[:, 0, :] / half_square[:, None]
    least = alone.max(axis=0)
    deciding = (alone >= 0.99 * least).any(axis=1)
    admissible = y[None, 1:-1] <= 2 * table.h - table.starts[:, None] / 2 + 1e-12
    weight = np.where(admissible, 1 / y[None, 1:-1] ** 2, 0.0)
    best = np.empty(table.alpha.size)
    for order in range(table.alpha.size):
        search = _Trade(table.refined[:, 1:, order], half_square, weight, float(least[order]))
        best[order], cells = search.best()
        best[order] *= table.h**2
        deciding[cells] = True
    return best, deciding


class _Trade:
    """The search for lambda: nu(lambda) is the greatest of many lines that fall with lambda."""

    def __init__(self, bound: Array, half_square: Array, weight: Array, least: float) -> None:
        self.cell, _ = np.nonzero(weight > 0)
        self.height = (bound * weight)[weight > 0]
        self.slope = (half_square[:, None] * weight)[weight > 0]
        self.least = least

    def nu(self, factor: float) -> float:
        """Return what nu must be when lambda is ``factor`` times the least."""
        return max(0.0, float((self.height - self.slope * (self.least * factor)).max(initial=0.0)))

    def value(self, factor: float) -> float:
        """Return 2 lambda + K, or infinity where no K exists."""
        lam, nu = self.least * factor, self.nu(factor)
        if nu >= 2 * lam:
            return math.inf
        return 2 * lam + (1 / (1 / nu - 1 / (2 * lam)) if nu > 0 else 0.0)

    def best(self) -> tuple[float, NDArray[np.intp]]:
        """Return the least value found and the cells of t on which it rests."""
        coarse = [self.value(factor) for factor in _COARSE]
        i = min(range(len(coarse)), key=lambda j: coarse[j])
        low, high = _COARSE[max(0, i - 1)], _COARSE[min(len(_COARSE) - 1, i + 1)]
        # Between low and high only lines above nu(high) at low can be the greatest.
        above = self.height - self.slope * (self.least * low) >= self.nu(high)
        self.cell, self.height, self.slope = self.cell[above], self.height[above], self.slope[above]
        fine = [low * (high / low) ** (j / 12) for j in range(13)]
        found = min((self.value(factor), factor) for factor in fine)
        nu = self.nu(found[1])
        lines = self.height - self.slope * (self.least * found[1])
        deciding = self.cell[lines >= 0.97 * nu] if nu > 0 else self.cell[:0]
        return found[0], deciding
