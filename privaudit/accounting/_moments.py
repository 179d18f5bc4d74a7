r"""Renyi moments of one shuffled Laplace coordinate, conditional on the number of clones.

User 1 holds u or -m (u, m >= 0), and k reports (its own among them) are in the blanket
Laplace(0, 1):

.. math:: A_k(u,-m;\alpha) = E[S_u^\alpha S_{-m}^{1-\alpha}],\qquad
   S_x = \tfrac1k \textstyle\sum_{i\le k} R_x(W_i)/B(W_i),\ W_i \sim B.

One report's ratio for u is :math:`e^{|w|-|w-u|}`: constant, :math:`e^{-u}`, for w <= 0, and rising
from there to :math:`e^u` at w >= u. So :math:`S_u` depends on the reports right of 0 only,
:math:`S_{-m}` on those left of it only, and given the number r on the right they are independent:

.. math:: A_k = E_r\big[E[S_u^\alpha|r]\,E[S_{-m}^{1-\alpha}|r]\big],\qquad r\sim Bin(k,\tfrac12).

Each ratio is spread, its mean kept, onto ``parts + 1`` equidistant values from :math:`e^{-u}` to
:math:`e^u`. Both powers are convex, so that can only raise :math:`A_k`; sums are then on a lattice,
and everything is a finite sum of positive probabilities. ``parts = 1`` leaves three values of the
pair of ratios.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import NumericalError

__all__ = [
    "Half",
    "Window",
    "clone_moments",
    "growth",
    "joined",
    "nats_needed",
    "ratio_law",
    "zcdp_of_clones",
]

Array = NDArray[np.float64]

#: Sums over at most so many reports are carried out in full.
_WHOLE = 30
#: What a truncated sum leaves out (it is bounded and added) is about exp(-_NATS) of A_k - 1.
_NATS = 10.0
#: Relative allowance for rounding in a conditional moment of 50 clones, growing with their number.
_ROUNDING = 1e-13


def zcdp_of_clones(k: Array | float, t: float) -> Array:
    r"""Return rho with :math:`D_\alpha \le \rho\alpha`: :math:`\tfrac k2\ln^2(1+(e^t-1)/k)`.

    Theorem B of docs/accounting.md: sub-additivity of entropy and Hoeffding's lemma for the
    log-ratio of the two sums, whose range in each report is at most
    :math:`2\ln(1+(e^t-1)/k)`. Proven for every order; for k = 1 it is Bun and Steinke's t^2/2.
    """
    k = np.asarray(k, dtype=np.float64)
    return np.asarray(k / 2 * np.log1p(math.expm1(t) / k) ** 2, dtype=np.float64)


def ratio_law(u: float, parts: int) -> Array:
    """Return the law of the ratio of a report right of 0, given that it is.

    Shape (parts + 1,): the probabilities of ``exp(-u) + i * 2 sinh(u) / parts``.
    """
    low, step = math.exp(-u), 2 * math.sinh(u) / parts
    places = np.arange(parts + 1)
    # Where the ratio takes the lattice values; given w > 0 the density of w is exp(-w).
    w = 0.5 * np.log1p(math.expm1(2 * u) / parts * places)
    width = np.diff(w)
    mass = -np.exp(-w[:-1]) * np.expm1(-width)
    moment = low * np.exp(w[:-1]) * np.expm1(width) - (low + step * places[:-1]) * mass
    share = np.clip(moment / step, 0.0, mass)
    law = np.zeros(parts + 1)
    law[:-1] += mass - share
    law[1:] += share
    law[-1] += math.exp(-u)
    return law


@functools.lru_cache(maxsize=1024)
def _binomial_half(k: int) -> Array:
    from scipy import special

    r = np.arange(k + 1)
    log = special.gammaln(k + 1.0) - special.gammaln(r + 1.0) - special.gammaln(k - r + 1.0)
    return np.asarray(np.exp(log - k * math.log(2)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Window:
    """The counts r, from low to high = k - low, that are summed over.

    ``left_out`` bounds the probability of the others.
    """

    low: int
    high: int
    left_out: float

    @classmethod
    def of(cls, k: int, nats: float) -> Window:
        """Leave out probability exp(-nats). Hoeffding: P(|r - k/2| >= s) <= 2 exp(-2 s^2 / k)."""
        reach = math.sqrt(k * nats / 2) if math.isfinite(nats) else math.inf
        if reach >= k / 2 - 1:
            return cls(0, k, 0.0)
        low = math.floor(k / 2 - reach)
        return cls(low, k - low, 2 * math.exp(-nats))


def growth(k: int, u: Array, orders: Array) -> tuple[Array, Array]:
    r"""Return (a, b) with :math:`E[f^2]^{1/2}\le e^{a(u)+b(m)}`, f the product in A_k(u, -m).

    :math:`\ln S\le S-1`, and :math:`-\ln S\le\max(0,\kappa(1-S))` with
    :math:`\kappa=m/(1-e^{-m})`; S is a mean of k independent terms, which spread to the two ends of
    their range have a moment generating function in closed form; Cauchy and Schwarz's inequality
    for the product. Shapes (us, orders).
    """
    u = u[:, None]
    low, high, share = np.expm1(-u), np.expm1(u), 1 / (np.exp(u) + 1)

    def log_moment(rate: Array) -> Array:
        mean = np.log(share * np.exp(rate * (high - low)) + 1 - share) + rate * low
        return np.asarray(k * mean, dtype=np.float64)

    with np.errstate(over="ignore"):
        rise = log_moment(4 * orders / k)
        fall = np.logaddexp(0.0, log_moment(4 * u / low * (orders - 1) / k))
    return rise / 4, fall / 4


def nats_needed(k: int, u: float, orders: Array) -> float:
    """Return how improbable the counts left out must be so that they do not matter."""
    if k <= _WHOLE:
        return math.inf
    (rise,), (fall,) = growth(k, np.array([u]), orders)
    likely = 4 * math.sinh(u / 2) ** 2 + math.expm1(-u) ** 2
    value = 0.8 * orders * (orders - 1) * likely / k
    return float((2 * (_NATS + rise + fall - value - np.log(np.minimum(value, 1.0)))).max())


class Half:
    """The lattice laws of the sums of 0 .. ``most`` ratios of reports right of 0.

    Parameters
    ----------
    u : float
        Magnitude of the user's input, > 0.
    parts : int
        Lattice steps of one ratio.
    most : int
        Largest number of reports.
    """

    def __init__(self, u: float, parts: int, most: int) -> None:
        self.u, self.parts = u, parts
        law = ratio_law(u, parts)
        self.laws = np.zeros((most + 1, parts * most + 1))
        self.laws[0, 0] = 1.0
        for r in range(most):
            row = self.laws[r, : parts * r + 1]
            self.laws[r + 1, : row.size + parts] = np.convolve(row, law)

    def moments(self, k: int, window: Window, powers: Array) -> Array:
        """Return ``E[S**p | r] - 1`` for the powers p: shape (counts of the window, powers).

        S is the mean of k ratios: r of them on this side, the others at their least value.

        Raises
        ------
        NumericalError
            If a power is not finite.
        """
        top = self.parts * window.high
        scale = 2 * math.sinh(self.u) / (self.parts * k)

        def values(columns: NDArray[np.intp]) -> Array:
            log_s = np.log1p(columns * scale + math.expm1(-self.u))
            return np.asarray(np.expm1(log_s[:, None] * powers), dtype=np.float64)

        with np.errstate(over="ignore", divide="ignore"):
            # Powers are greatest at one end.
            ends = values(np.array([0, top]))
        if not math.isfinite(ends.max()):
            raise NumericalError(
                f"a Renyi moment of order {powers.max():.3g} at t = {2 * self.u:.3g} is not finite"
            )
        first, last = 0, top + 1
        if window.low > 0:
            # What is beyond these columns is less than the allowance for rounding in `joined`.
            least = math.exp(-60 - 2 * self.u * float(powers.max()))
            lowest, highest = self.laws[[window.low, window.high], : top + 1]
            first = int(np.searchsorted(np.cumsum(lowest), least))
            last -= int(np.searchsorted(np.cumsum(highest[::-1]), least))
        laws = self.laws[window.low : window.high + 1, first:last]
        return np.asarray(laws @ values(np.arange(first, last)), dtype=np.float64)


def joined(
    k: int, window: Window, u: Array, moments: Array, orders: Array, *, equal: bool = False
) -> Array:
    """Return upper bounds on ``A_k(u, -m; alpha) - 1`` for the magnitudes u, m in ``u``.

    Parameters
    ----------
    k : int
    window : Window
    u : ndarray, shape (us,)
    moments : ndarray, shape (us, counts, 2 * orders)
        Of the powers alpha, then of 1 - alpha.
    orders : ndarray, shape (orders,)
    equal : bool
        Whether only m = u is asked for.

    Returns
    -------
    ndarray, shape (us, us, orders), or (us, orders) if ``equal``
    """
    weight = _binomial_half(k)[window.low : window.high + 1]
    x = np.moveaxis(moments[:, :, : orders.size], 2, 0) * weight
    # k - r reports are left of 0 where r are right of it.
    y = np.moveaxis(moments[:, ::-1, orders.size :], 2, 0)

    def total(x: Array, y: Array) -> Array:
        # E[(X + 1)(Y + 1)] - 1 = E[XY] + E[X] + E[Y]
        if equal:
            return np.asarray((x * y).sum(axis=2) + x.sum(axis=2) + y @ weight)
        both = x @ y.swapaxes(1, 2)
        return np.asarray(both + x.sum(axis=2)[:, :, None] + (y @ weight)[:, None, :])

    value, size = np.moveaxis(total(x, y), 0, -1), np.moveaxis(total(np.abs(x), np.abs(y)), 0, -1)
    # For float64: laws of sums of up to k terms, and logarithms multiplied by the order.
    allowance = _ROUNDING * (1 + k / 50) * size
    allowance += 8 * np.finfo(np.float64).eps * orders * (1 + np.abs(value))
    value = value + allowance
    if window.left_out > 0:
        rise, fall = growth(k, u, orders)
        reach = rise + fall if equal else rise[:, None] + fall[None]
        with np.errstate(over="ignore"):
            value = value + math.sqrt(window.left_out) * np.exp(reach)
    return np.asarray(np.maximum(value, 0.0), dtype=np.float64)


def clone_moments(k: int, t: float, orders: Array, *, parts: int = 1) -> Array:
    """Return an upper bound on ``A_k(t/2, -t/2; alpha) - 1`` for each order.

    Parameters
    ----------
    k : int
        Reports in the blanket, user 1's among them; >= 1.
    t : float
        Distance of the pair, in units of the noise scale; > 0.
    orders : ndarray, shape (m,)
        Renyi orders alpha > 1.
    parts : int
        Lattice steps of one ratio; more are closer to A_k.

    Returns
    -------
    ndarray, shape (m,)

    Raises
    ------
    NumericalError
        If a value is not finite.
    """
    orders, u = np.asarray(orders, dtype=np.float64), t / 2
    window = Window.of(k, nats_needed(k, u, orders))
    found = Half(u, parts, window.high).moments(k, window, np.concatenate((orders, 1 - orders)))
    bounds = joined(k, window, np.array([u]), found[None], orders, equal=True)
    return np.asarray(bounds[0], dtype=np.float64)
