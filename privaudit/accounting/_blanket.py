r"""One coordinate of the shuffled Laplace mechanism: the exact privacy blanket and its lower bound.

Lengths are in units of the noise scale, inputs lie in [-h, h] with h = epsilon0 / 2, and the
randomizer at x is Laplace(x, 1). For a blanket B of mass gamma that every user contains, any
neighbouring pair (u, v) of user 1, and any inputs of the others,

.. math:: \delta(\varepsilon) \le \frac{1}{\gamma n} E\Big[\Big(\sum_{i \le M} L_i\Big)_+\Big],
   \quad M \sim Bin(n, \gamma),\quad L = \frac{R_u(W) - e^\varepsilon R_v(W)}{B(W)},\ W \sim B

(Balle, Bell, Gascón, Nissim, CRYPTO 2019, Lemma 5.3). It is evaluated here, not bounded further.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from privaudit.accounting._counts import threshold_epsilon
from privaudit.accounting._lattice import Loss, Piece, round_down, round_up
from privaudit.accounting._sums import expected_positive_part, tilt

__all__ = [
    "LARGEST_EPSILON0",
    "blanket_delta",
    "blanket_epsilon",
    "dataset_delta",
    "dataset_epsilon",
]

#: Above it the blanket holds less than exp(-30) of a report, and the local bound is returned.
LARGEST_EPSILON0 = 60.0
#: Above it the lattice of the lower bound may be too coarse, and one threshold is tried as well.
_COARSE_EPSILON0 = 5.0
#: Least lattice points of the lower bound, whose ends cost more than those of the upper one.
_POINTS_DOWN = 480
#: Cells in which pairs of one sign are covered; refined once if the first ones do not suffice.
_CELLS = (6, 24)


def _points(n: int) -> int:
    """Return the lattice points across the loss: errors are of second order in their inverse.

    It falls slowly with n, so that the bound falls with n too.
    """
    return int(2000 * (20 / max(n, 20)) ** 0.35)


def _frame(loss: Loss, n: int, coarse: int) -> tuple[float, int]:
    """Return (tilt, lattice points): enough for a dozen steps within the loss's deviation."""
    values, masses = loss.points(64)
    theta, _, weights = tilt(values, masses)
    mean = float(weights @ values)
    deviation = math.sqrt(float(weights @ (values - mean) ** 2))
    across = (loss.top[0] - loss.bottom[0]) / max(deviation, 1e-300)
    return theta, max(_points(n), min(4000, math.ceil(12 * across))) // coarse


def _pair(t: float, others: float, epsilon: float, share: float = 1.0) -> Loss:
    """Return the law of L for u = t/2, v = -t/2 and W ~ Laplace(others, 1), others in u, v, 0."""
    h, e = t / 2, math.exp
    if others == 0:
        return Loss(
            pieces=(
                Piece(-h, 0.0, e(-h), -e(epsilon - h), -2.0, 0.5, 1.0),
                Piece(0.0, h, -e(epsilon - h), e(-h), 2.0, 0.5, -1.0),
            ),
            bottom=(e(-h) - e(epsilon + h), e(-h) / 2),
            top=(-e(h) * math.expm1(epsilon - t), e(-h) / 2),
            share=share,
        )
    if others > 0:
        return Loss(
            pieces=(Piece(-h, h, 1.0, -e(epsilon), -2.0, e(-h) / 2, 1.0),),
            bottom=(1 - e(epsilon + t), e(-t) / 2),
            top=(-math.expm1(epsilon - t), 0.5),
            share=share,
        )
    return Loss(
        pieces=(Piece(-h, h, -e(epsilon), 1.0, 2.0, e(-h) / 2, -1.0),),
        bottom=(e(-t) - e(epsilon), 0.5),
        top=(-e(t) * math.expm1(epsilon - t), e(-t) / 2),
        share=share,
    )


def blanket_delta(n: int, t: float, gamma: float, epsilon: float, *, coarse: int = 1) -> float:
    """Bound delta above for the pair (t/2, -t/2) when each other user has blanket mass gamma.

    The blanket is Laplace(0, 1). The bound increases in t and decreases in gamma. ``coarse``
    divides the lattice points; the bound stays one.
    """
    if epsilon >= t:
        return 0.0
    loss = _pair(t, 0, epsilon, gamma)
    theta, points = _frame(loss, n, coarse)
    law = round_up(loss, n, theta, points)
    return min(1.0, expected_positive_part(law, n, upper=True) / (gamma * n))


def dataset_delta(n: int, t: float, others: int, epsilon: float, *, coarse: int = 1) -> float:
    """Bound delta below for user 1 at t/2 or -t/2 and all others at ``others * t/2`` (-1, 0, 1).

    This is the divergence of one concrete neighbouring pair (gamma = 1, B = R of the others),
    rounded down; 0, which is true but idle, if the lattice would have to be very fine.
    """
    if epsilon >= t:
        return 0.0
    loss = _pair(t, others, epsilon)
    theta, points = _frame(loss, n, coarse)
    law = round_down(loss, n, theta, max(points, _POINTS_DOWN // coarse))
    return 0.0 if law is None else expected_positive_part(law, n, upper=False) / n


def _solve(profile: Callable[[float, int], float], delta: float, top: float) -> tuple[float, float]:
    """Return (below, above): profile(below) > delta >= profile(above), both on the fine lattice.

    ``profile(epsilon, coarse)`` decreases in epsilon and is 0 at ``top``. A coarse lattice finds
    the place; a few fine evaluations around it give the answer.
    """
    goal = math.log(delta)
    if profile(0.0, 1) <= delta:
        return 0.0, 0.0
    below, above, slope = _bracket(lambda e: profile(e, 4), goal, top)
    low, high = 0.0, top
    guess = 0.5 * (below + above)
    for step in range(40):
        margin = max(1e-9 * top, 4.0**step * 1e-7 * guess)
        value = profile(guess, 1)
        gap = (math.log(value) - goal) if value > 0 else -1.0
        if gap > 0:
            low = guess
        else:
            high = guess
        if high - low <= 1e-6 * high:
            break
        shift = gap / slope + (margin if gap > 0 else -margin)
        guess = guess + shift
        if not low < guess < high:
            guess = 0.5 * (low + high)
    return low, high


def _bracket(
    profile: Callable[[float], float], goal: float, top: float
) -> tuple[float, float, float]:
    """Return (below, above, minus the slope of ln delta), to about 1e-3 of the answer."""
    below, above = 0.0, top
    at_below, at_above = math.log(max(profile(0.0), 1e-300)) - goal, math.nan
    for step in range(60):
        if above - below <= 1e-3 * below:
            break
        middle = 0.5 * (below + above)
        if not math.isnan(at_above) and step % 4:
            # ln delta is nearly quadratic in epsilon: interpolate its square root's place.
            share = at_below / (at_below - at_above)
            middle = below + min(max(share, 0.02), 0.98) * (above - below)
        value = profile(middle)
        gap = math.log(value) - goal if value > 0 else math.nan
        if gap > 0:
            below, at_below = middle, gap
        else:
            above, at_above = middle, gap
    if math.isnan(at_above) or at_above == at_below:
        return below, above, 1.0 / max(top - below, 1e-12 * top)
    return below, above, (at_below - at_above) / (above - below)


def _same_sign_delta(n: int, epsilon0: float, epsilon: float, cells: int) -> float:
    """Bound delta above over all pairs u, v of one sign.

    For those |u - v| = t <= h, and the blanket Laplace(c, 1) at their centre, |c| <= h - t/2, has
    mass at least exp(-h - |c|). Cells of t: right end in the pair, left end in the mass.
    """
    h = epsilon0 / 2
    worst = 0.0
    for i in range(cells):
        left = epsilon + (h - epsilon) * i / cells
        right = epsilon + (h - epsilon) * (i + 1) / cells
        gamma = math.exp(-2 * h + left / 2)
        worst = max(worst, blanket_delta(n, right, gamma, epsilon, coarse=4))
    return worst


@functools.lru_cache(maxsize=4096)
def blanket_epsilon(n: int, epsilon0: float, delta: float) -> float:
    """Return an upper bound on epsilon of one shuffled coordinate, rounded up.

    Pairs of opposite sign: the worst is (h, -h), mass exp(-h) (delta increases in u >= 0 and
    decreases in v <= 0). Pairs of one sign are h-DP by themselves, so nothing is to be shown when
    the answer is at least h; below it they are bounded on cells at the answer found, and if they
    were ever worse the answer would be raised.
    """
    if epsilon0 > LARGEST_EPSILON0:
        return epsilon0
    h = epsilon0 / 2

    def opposite(epsilon: float, coarse: int) -> float:
        return blanket_delta(n, epsilon0, math.exp(-h), epsilon, coarse=coarse)

    _, above = _solve(opposite, delta, epsilon0)
    if above >= h:
        return min(above, epsilon0)
    for cells in _CELLS:
        if _same_sign_delta(n, epsilon0, above, cells) <= delta:
            return above

    def same(epsilon: float, coarse: int) -> float:
        return _same_sign_delta(n, epsilon0, epsilon, _CELLS[-1]) if epsilon < h else 0.0

    return max(above, _solve(same, delta, h)[1])


@functools.lru_cache(maxsize=4096)
def dataset_epsilon(n: int, epsilon0: float, delta: float) -> tuple[float, int]:
    """Return a lower bound on epsilon, rounded down, and where the others stand (-1, 0, 1)."""
    threshold = threshold_epsilon(n, epsilon0, delta) if epsilon0 > _COARSE_EPSILON0 else 0.0
    if epsilon0 > LARGEST_EPSILON0:
        return threshold, -1

    def solved(others: int) -> float:
        def profile(epsilon: float, coarse: int) -> float:
            return dataset_delta(n, epsilon0, others, epsilon, coarse=coarse)

        return _solve(profile, delta, epsilon0)[0]

    return max((threshold, 1), *((solved(others), others) for others in (1, -1, 0)))
