r"""The whole jointly clipped vector after per-coordinate shuffling: certified Renyi bounds.

Positions are in units of the noise scale; h = epsilon0 / 2. User 1 holds u or v with
:math:`\|u\|,\|v\|\le h`; in coordinate j the others' inputs have root mean square
:math:`x_j`. If

.. math:: F_\alpha(u,v;x)\le\lambda(u^2+v^2)+K x^2

holds for one coordinate, whatever its inputs in [-h, h], then, summing over coordinates,
:math:`D_\alpha\le 2\lambda h^2+K\sum_j x_j^2`.

*Basic*: x = h in every coordinate, K = 0: :math:`D_\alpha\le 2\lambda h^2`. *Refined*: the others
are jointly clipped too, so :math:`\sum_j x_j^2\le h^2` and :math:`D_\alpha\le h^2(2\lambda+K)`.
:mod:`privaudit.accounting._cells` checks the premise.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from privaudit.accounting import _cache
from privaudit.accounting._cells import Premise, narrowest_up_to
from privaudit.accounting._pairs import fits
from privaudit.accounting.bracket import NumericalError

__all__ = ["VectorRenyi", "certified_renyi", "clone_harmonic", "first_orders", "forget", "on_grid"]

#: Beyond it shuffling is given no credit: the blanket holds less than exp(-16) of a report.
LARGEST_EPSILON0 = 32.0
#: Clusters beyond this size are accounted as if they had no more users.
MOST_USERS = 10_000_000


@dataclass(frozen=True, slots=True)
class VectorRenyi:
    """Upper bounds on the Renyi divergence of one round, for each order.

    Attributes
    ----------
    orders, local, basic, refined : tuple of float
    """

    orders: tuple[float, ...]
    local: tuple[float, ...]
    basic: tuple[float, ...]
    refined: tuple[float, ...]


def clone_harmonic(n: int, gamma: float) -> float:
    r"""Return :math:`E[1/(1+Bin(n-1,\gamma))] = (1-(1-\gamma)^n)/(n\gamma)`."""
    if gamma >= 1:
        return 1.0 / n
    if gamma * n < 1e-12:
        return 1.0
    return -math.expm1(n * math.log1p(-gamma)) / (n * gamma)


def on_grid(place: int) -> float:
    """Return an order of the one grid from which all are taken, so that queries share tables."""
    return float(1 + 2.0 ** (place / 4))


def first_orders(
    rho_low: float, rho_high: float, users: int, delta: float
) -> tuple[list[int], list[int]]:
    """Return places of orders likely best, for the basic and for the refined bound.

    The zCDP budgets of these lie about rho_high, and between rho_low and rho_high.
    """

    def place(rho: float) -> int:
        return round(4 * math.log2(math.sqrt(math.log(1 / delta) / rho)))

    between = rho_low * (rho_high / rho_low) ** (users / (users + 50))
    return [place(rho_high) - 1, place(rho_high)], [place(between) + i for i in (-1, 0, 1)]


def certified_renyi(n: int, epsilon0: float, orders: tuple[float, ...]) -> VectorRenyi:
    """Return certified bounds on the Renyi divergence of the whole vector in one round.

    Parameters
    ----------
    n : int
        Honest users in the cluster, user 1 among them. Above ten million the bounds are those for
        ten million: one more honest user is independent post-processing of the shuffled reports,
        so it can only lower the divergence.
    epsilon0 : float
        Budget of one coordinate; the noise scale is 2 Phi / epsilon0, the clipping joint. Above 32
        the local bound is returned.
    orders : tuple of float
        Renyi orders > 1; where moments of one do not fit in float64, it has the local bound.

    Raises
    ------
    NumericalError
        If a value is not finite.
    """
    local = tuple(a * epsilon0**2 / 2 for a in orders)
    n = min(n, MOST_USERS)
    if n == 1 or epsilon0 > LARGEST_EPSILON0:
        return VectorRenyi(orders, local, local, local)
    parameters = {"n": str(n), "epsilon0": float(epsilon0).hex()}
    known = _known(n, epsilon0)
    if not known:
        known.update(_cache.read(parameters))
    for order, bound in zip(orders, local, strict=True):
        if order not in known and not fits(n, epsilon0, order):
            known[order] = bound, bound
    missing = tuple(a for a in orders if a not in known)
    if missing:
        known.update(zip(missing, _certify(n, epsilon0, missing), strict=True))
        _cache.write(parameters, known)
    basic, refined = zip(*(known[a] for a in orders), strict=True)
    if _near_anchor(n, epsilon0):
        fewer = certified_renyi(narrowest_up_to(epsilon0 / 2), epsilon0, orders)
        basic = tuple(min(pair) for pair in zip(basic, fewer.basic, strict=True))
        refined = tuple(min(pair) for pair in zip(refined, fewer.refined, strict=True))
    return VectorRenyi(orders, local, basic, refined)


def _near_anchor(n: int, epsilon0: float) -> bool:
    """Return whether the bound at fewer users, on the narrowest cells, may be less than that at n.

    It holds for n too: one more honest user is post-processing. Elsewhere more users gain more than
    wider cells cost.
    """
    anchor = narrowest_up_to(epsilon0 / 2)
    if n <= anchor:
        return False
    gamma = math.exp(-epsilon0 / 2)
    gained = clone_harmonic(n, gamma) / clone_harmonic(anchor, gamma)
    return n <= 3 * anchor // 2 or gained > 0.93


@functools.lru_cache(maxsize=256)
def _known(n: int, epsilon0: float) -> dict[float, tuple[float, float]]:
    """Return what was computed before: (basic, refined) by order."""
    return {}


def forget() -> None:
    """Empty the tables kept within the process; those on disk stay."""
    _known.cache_clear()


def _certify(n: int, epsilon0: float, orders: tuple[float, ...]) -> list[tuple[float, float]]:
    """Compute (basic, refined) for each order."""
    alpha = np.asarray(orders, dtype=np.float64)
    premise = Premise(n, epsilon0, alpha)
    basic = premise.basic()
    local = alpha * epsilon0**2 / 2
    h = epsilon0 / 2
    refined = np.array([h * h * (2 * lam + k) for lam, k in premise.refined(basic)])
    if not (np.isfinite(basic).all() and np.isfinite(refined).all()):
        raise NumericalError(f"a Renyi bound for n = {n}, epsilon0 = {epsilon0} is not finite")
    basic = np.minimum(basic, local)
    refined = np.minimum(refined, basic)
    return [(float(b), float(r)) for b, r in zip(basic, refined, strict=True)]
