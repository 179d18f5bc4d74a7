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

from privaudit.accounting._lattice import (
    LatticeLaw,
    Piece,
    contracted,
    expected_positive_part,
    spread,
)

__all__ = ["blanket_delta", "blanket_epsilon", "dataset_delta", "dataset_epsilon"]


def _resolution(n: int) -> int:
    """Return the lattice points across the range of the loss; the error is second order in it."""
    for largest, points in ((20, 2000), (100, 640), (10_000, 240), (100_000, 120)):
        if n <= largest:
            return points
    return 60


def _pair_about_zero(t: float, epsilon: float) -> tuple[list[Piece], list[tuple[float, float]]]:
    """Return the law of L for u = t/2, v = -t/2, W ~ Laplace(0, 1)."""
    h = t / 2
    e = math.exp
    pieces = [
        Piece(-h, 0.0, e(-h), -e(epsilon - h), -2.0, 0.5, 1.0),
        Piece(0.0, h, -e(epsilon - h), e(-h), 2.0, 0.5, -1.0),
    ]
    atoms = [(e(-h) - e(epsilon + h), e(-h) / 2), (e(h) - e(epsilon - h), e(-h) / 2)]
    return pieces, atoms


def blanket_delta(n: int, t: float, gamma: float, epsilon: float) -> float:
    """Bound delta above for the pair (t/2, -t/2) when each other user has blanket mass gamma.

    The blanket is Laplace(0, 1). The bound is increasing in t and decreasing in gamma.
    """
    if epsilon >= t:
        return 0.0
    pieces, atoms = _pair_about_zero(t, epsilon)
    low, high = atoms[0][0], atoms[1][0]
    # Zero is a lattice point, so that the atom of the users outside the blanket is not spread.
    step = (high - low) / _resolution(n)
    if high > 4 * step:
        step = high / math.ceil(high / step)
    below = math.ceil(-low / step) + 1
    above = math.ceil(high / step - 1e-9) + 1
    law = spread(pieces, atoms, origin=-below * step, step=step, size=below + above + 1)
    weights = gamma * law.weights
    weights[below] += 1 - gamma
    mixed = LatticeLaw(law.origin, law.step, weights)
    return min(1.0, expected_positive_part(mixed, n, upper=True) / (gamma * n))


def dataset_delta(n: int, h: float, others: int, epsilon: float) -> float:
    """Bound delta below for user 1 at h or -h and all others at ``others * h`` (-1, 0 or 1).

    This is the exact divergence of one concrete neighbouring pair (gamma = 1, B = R of the
    others), rounded down: the law of the loss is contracted in the convex order.
    """
    if epsilon >= 2 * h:
        return 0.0
    e = math.exp
    if others == 0:
        pieces, atoms = _pair_about_zero(2 * h, epsilon)
    elif others == 1:
        pieces = [Piece(-h, h, 1.0, -e(epsilon), -2.0, e(-h) / 2, 1.0)]
        atoms = [(1 - e(epsilon + 2 * h), e(-2 * h) / 2), (1 - e(epsilon - 2 * h), 0.5)]
    else:
        pieces = [Piece(-h, h, -e(epsilon), 1.0, 2.0, e(-h) / 2, -1.0)]
        atoms = [(e(-2 * h) - e(epsilon), 0.5), (e(2 * h) - e(epsilon), e(-2 * h) / 2)]
    low, high = atoms[0][0], atoms[1][0]
    ends = [piece.peak_density() for piece in pieces]
    at_ends, peak = max(ends[0][0], ends[-1][1]), max(end[2] for end in ends)
    curvature = 1.000001 * max(at_ends / 2, peak / 8)
    smallest = min(atoms[0][1], atoms[1][1])
    points = max(_resolution(n), math.ceil(8 * (high - low) * curvature / smallest))
    step = (high - low) / points
    law = spread(pieces, atoms, origin=low, step=step, size=points + 1)
    law = contracted(law, curvature * step * step)
    return expected_positive_part(law, n, upper=False) / n


def _root(profile: Callable[[float], float], delta: float, top: float) -> tuple[float, float]:
    """Return (below, above) with profile(below) > delta >= profile(above), nearly equal.

    ``profile`` decreases from epsilon = 0 to 0 at ``top``; interpolation of ln delta, guarded by
    bisection.
    """
    below, above = 0.0, top
    at_below = profile(0.0)
    if at_below <= delta:
        return 0.0, 0.0
    target = math.log(delta)
    f_below, f_above = math.log(at_below) - target, math.nan
    for step in range(80):
        if above - below <= 1e-7 * top or above - below <= 2e-6 * above:
            break
        middle = 0.5 * (below + above)
        if not math.isnan(f_above) and step % 3:
            guess = below + (above - below) * f_below / (f_below - f_above)
            # Step a little beyond the guess on alternate sides, so that both ends close in.
            margin = 0.02 * (above - below)
            middle = min(max(guess, below + margin / 8), above - margin / 8)
        value = profile(middle)
        if value > delta:
            below, f_below = middle, math.log(value) - target
        else:
            above = middle
            f_above = math.log(value) - target if value > 0 else math.nan
    return below, above


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
        worst = max(worst, blanket_delta(n, right, math.exp(-2 * h + left / 2), epsilon))
    return worst


@functools.lru_cache(maxsize=4096)
def blanket_epsilon(n: int, epsilon0: float, delta: float) -> float:
    """Return an upper bound on epsilon of one shuffled coordinate, rounded up.

    Pairs of opposite sign: the worst is (h, -h), mass exp(-h) (delta increases in u >= 0 and
    decreases in v <= 0). Pairs of one sign are h-DP by themselves, so nothing is to be shown when
    the answer is at least h; below it they are bounded on cells at the answer found, and if they
    were ever worse the answer is raised.
    """
    h = epsilon0 / 2

    def opposite(epsilon: float) -> float:
        return blanket_delta(n, epsilon0, math.exp(-h), epsilon)

    _, above = _root(opposite, delta, epsilon0)
    if above >= h:
        return min(above, epsilon0)
    for cells in (6, 24):
        if _same_sign_delta(n, epsilon0, above, cells) <= delta:
            return above
    _, raised = _root(lambda e: _same_sign_delta(n, epsilon0, e, 24) if e < h else 0.0, delta, h)
    return max(above, raised)


@functools.lru_cache(maxsize=4096)
def dataset_epsilon(n: int, epsilon0: float, delta: float) -> tuple[float, int]:
    """Return a lower bound on epsilon, rounded down, and where the others stand (-1, 0, 1)."""
    found = [
        (_root(lambda e, c=c: dataset_delta(n, epsilon0 / 2, c, e), delta, epsilon0)[0], c)  # type: ignore[misc]
        for c in (1, -1, 0)
    ]
    return max(found, key=lambda pair: pair[0])
