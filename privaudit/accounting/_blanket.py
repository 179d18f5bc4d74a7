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
    "cover_same_sign",
    "dataset_delta",
    "dataset_epsilon",
    "same_sign_covered",
]

#: Above it the blanket holds less than exp(-30) of a report, and the local bound is returned.
LARGEST_EPSILON0 = 60.0
#: Above it the lattice of the lower bound may be too coarse, and one threshold is tried as well.
_COARSE_EPSILON0 = 5.0
#: Least lattice points of the lower bound up to an epsilon0: its ends cost more than those of the
#: upper bound, and weigh more where epsilon0 is large.
_POINTS_DOWN = ((2.0, 240), (4.0, 480), (math.inf, 2000))
#: Cells in which pairs of one sign are covered; refined if the first ones do not suffice.
_CELLS = (1, 6)
_MOST_CELLS = 24


def _points(n: int) -> int:
    """Return the lattice points across the loss: errors are of second order in their inverse.

    Sums of few terms need fewer; of many, it falls slowly, so that the bound falls with n too.
    """
    return int(min(max(400, 20 * n), 700, 2000 * (20 / max(n, 20)) ** 0.35))


def _frame(loss: Loss, n: int) -> tuple[float, int]:
    """Return (tilt, lattice points): enough for a dozen steps within the loss's deviation."""
    values, masses = loss.points(64)
    theta, _, weights = tilt(values, masses, precision=5e-2)
    mean = float(weights @ values)
    deviation = math.sqrt(float(weights @ (values - mean) ** 2))
    across = (loss.top[0] - loss.bottom[0]) / max(deviation, 1e-300)
    return theta, max(_points(n), min(4000, math.ceil(12 * across)))


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


def blanket_delta(
    n: int,
    t: float,
    gamma: float,
    epsilon: float,
    *,
    coarse: int = 1,
    frame: tuple[float, int] | None = None,
) -> float:
    """Bound delta above for the pair (t/2, -t/2) when each other user has blanket mass gamma.

    The blanket is Laplace(0, 1). The bound increases in t and decreases in gamma. ``coarse``
    divides the lattice points; the bound stays one. ``frame`` is (about the tilt, lattice points),
    found here if it is not given; whatever it is, the bound is one.
    """
    if epsilon >= t:
        return 0.0
    loss = _pair(t, 0, epsilon, gamma)
    theta, points = frame or _frame(loss, n)
    law = round_up(loss, n, theta, points // coarse)
    return min(1.0, expected_positive_part(law, n, upper=True, start=theta) / (gamma * n))


def dataset_delta(n: int, t: float, others: int, epsilon: float, *, coarse: int = 1) -> float:
    """Bound delta below for user 1 at t/2 or -t/2 and all others at ``others * t/2`` (-1, 0, 1).

    This is the divergence of one concrete neighbouring pair (gamma = 1, B = R of the others),
    rounded down; 0, which is true but idle, if the lattice would have to be very fine.
    """
    if epsilon >= t:
        return 0.0
    loss = _pair(t, others, epsilon)
    theta, points = _frame(loss, n)
    least = next(points for most, points in _POINTS_DOWN if t <= most)
    law = round_down(loss, n, theta, max(points, least) // coarse)
    return 0.0 if law is None else expected_positive_part(law, n, upper=False, start=theta) / n


def _start(n: int, t: float, others: int, gamma: float, delta: float) -> float:
    """Return about where the answer lies if the sum of the losses were Gaussian.

    Its variance is that of the loss at epsilon = 0, of which a share of gamma is not zero.
    """
    h, e = t / 2, math.exp
    if others == 0:
        square = 4 / 3 * e(h) + 8 / 3 * e(-2 * h) - 4 * e(-h)
    else:
        square = 2 / 3 * e(t) + 1 / 3 * e(-2 * t) - 1
    mu = math.sqrt(square / (n * gamma))
    return min(mu * mu / 2 + 0.85 * mu * math.sqrt(2 * math.log(1 / delta)), 0.95 * t)


def _solve(
    profile: Callable[[float, int], float], delta: float, top: float, start: float, *, upper: bool
) -> float:
    """Return epsilon with profile <= delta, or > delta unless ``upper``, shown on the fine lattice.

    ``profile(epsilon, coarse)`` decreases in epsilon and is 0 at ``top``.
    """
    guess, slope = _place(profile, delta, top, start)
    return _refine(profile, delta, top, guess, slope, upper=upper)


def _refine(
    profile: Callable[[float, int], float],
    delta: float,
    top: float,
    guess: float,
    slope: float,
    *,
    upper: bool,
) -> float:
    """Return the answer of :func:`_solve` by a few fine evaluations, within 1e-6 of it."""
    if guess == 0.0 and (not upper or profile(0.0, 1) <= delta):
        return 0.0
    low, high = 0.0, top
    before: tuple[float, float] | None = None
    for step in range(40):
        found = _gap(profile(guess, 1), delta)
        low, high = (guess, high) if found > 0 else (low, guess)
        if before is not None and math.isfinite(found) and guess != before[0]:
            secant = (before[1] - found) / (guess - before[0])
            slope = secant if secant > 0 else slope
        right = found <= 0 if upper else found > 0
        if (right and abs(found) <= 1e-6 * guess * slope) or high - low <= 1e-6 * high:
            break
        before = (guess, found) if math.isfinite(found) else None
        # Aim a little beyond, on the side that is asked for.
        beyond = min(2.0**step, 1e3) * 4e-7 * guess
        guess += found / slope + (beyond if upper else -beyond)
        if not low < guess < high:
            guess = 0.5 * (low + high)
    return high if upper else low


def _gap(value: float, delta: float) -> float:
    return math.log(value) - math.log(delta) if value > 0 else -math.inf


def _place(
    profile: Callable[[float, int], float], delta: float, top: float, start: float
) -> tuple[float, float]:
    """Return (about where the coarse profile is delta, minus the slope of its logarithm there).

    Searched from ``start``. The place is 0 if the profile is not above delta there, which is asked
    only when the search comes near. The root of -ln of the profile is nearly straight in epsilon;
    near ``top``, its logarithm is in ln(top - epsilon).
    """
    goal = math.log(delta)

    def gap(epsilon: float) -> float:
        return _gap(profile(epsilon, 4), delta)

    low, high, guess = 0.0, top, start
    known: list[tuple[float, float]] = []
    slope = 1 / max(top - start, 1e-9 * top)
    asked = False
    for _ in range(60):
        if not asked and low == 0.0 and guess < 0.1 * start:
            asked = True
            if gap(0.0) <= 0:
                return 0.0, 1.0
        found = gap(guess)
        low, high = (guess, high) if found > 0 else (low, guess)
        if math.isfinite(found):
            known.append((guess, found))
        if len(known) > 1 and known[-1][0] != known[-2][0]:
            slope = (known[-2][1] - known[-1][1]) / (known[-1][0] - known[-2][0])
        following = _follow(known, goal, top)
        if not low < following < high:
            following = 0.5 * (low + high) if high < top or low > 0.5 * top else 0.5 * (low + top)
            following = 0.25 * high if low == 0.0 else following
        if abs(following - guess) <= 1e-2 * min(following, 10 * (top - following)) * (
            1.0 if len(known) > 2 else 0.1
        ):
            return following, abs(slope) or 1.0
        guess = following
    return guess, abs(slope) or 1.0


def _follow(known: list[tuple[float, float]], goal: float, top: float) -> float:
    """Return the place that the last points aim at: nan if they do not tell."""
    if not known:
        return math.nan
    if len(known) == 1:
        guess, found = known[0]
        if guess > 0.8 * top and found > 0:
            return top - (top - guess) * math.exp(-found)
        return guess * math.sqrt(goal / min(found + goal, -1e-3))
    last = known[-3:]
    near = min(place for place, _ in last) > 0.8 * top
    if near:
        points = [(math.log(top - place), found) for place, found in last]
    else:
        points = [(place, -math.sqrt(max(-(found + goal), 0.0))) for place, found in last]
    aim = 0.0 if near else -math.sqrt(-goal)
    # Lagrange's interpolation of the place, as a function of the value, at the aim.
    at = 0.0
    for i, (place, value) in enumerate(points):
        weight = 1.0
        for j, (_, other) in enumerate(points):
            if j != i:
                if value == other:
                    return math.nan
                weight *= (aim - other) / (value - other)
        at += weight * place
    return top - math.exp(min(at, 700.0)) if near else at


def same_sign_covered(n: int, epsilon0: float, delta: float, epsilon: float) -> bool:
    """Return whether delta is shown at epsilon for all pairs u, v of one sign; see `_cells`."""
    return any(
        all(
            blanket_delta(n, right, gamma, epsilon, coarse=4) <= delta
            for right, gamma in _cells(epsilon0, epsilon, cells)
        )
        for cells in _CELLS
    )


def _cells(epsilon0: float, epsilon: float, cells: int) -> list[tuple[float, float]]:
    """Return (distance, mass of the blanket) of cells that cover the pairs u, v of one sign.

    For those |u - v| = t <= h, and the blanket Laplace(c, 1) at their centre, |c| <= h - t/2, has
    mass at least exp(-h - |c|). Cells of t: right end in the pair, left end in the mass. Pairs with
    t <= epsilon need nothing.
    """
    h = epsilon0 / 2
    width = (h - epsilon) / cells
    return [
        (h - i * width, math.exp(-2 * h + (h - (i + 1) * width) / 2 - 1e-12)) for i in range(cells)
    ]


def cover_same_sign(n: int, epsilon0: float, delta: float, epsilon: float) -> float:
    """Return a bound for all pairs, given one for those of opposite signs: it may be greater.

    Pairs of one sign are h-DP by themselves, so nothing is to be shown from h on; below it they are
    bounded on cells at the answer found, and if they were ever worse the answer is raised.
    """
    if epsilon >= epsilon0 / 2:
        return min(epsilon, epsilon0)
    if same_sign_covered(n, epsilon0, delta, epsilon):
        return epsilon
    answer = epsilon
    values = []
    for right, gamma in _cells(epsilon0, epsilon, _MOST_CELLS):
        values.append((blanket_delta(n, right, gamma, epsilon, coarse=4), right, gamma))
    for value, right, gamma in sorted(values, reverse=True):
        if value <= delta:
            break
        if blanket_delta(n, right, gamma, answer, coarse=4) > delta:

            def profile(e: float, coarse: int, t: float = right, mass: float = gamma) -> float:
                return blanket_delta(n, t, mass, e, coarse=4)

            answer = max(answer, _solve(profile, delta, right, answer, upper=True))
    return answer


@functools.lru_cache(maxsize=4096)
def blanket_epsilon(n: int, epsilon0: float, delta: float, *, coarse: int = 1) -> float:
    """Return an upper bound on epsilon of one shuffled coordinate, rounded up.

    Pairs of opposite sign: the worst is (h, -h), mass exp(-h) (delta increases in u >= 0 and
    decreases in v <= 0). Pairs of one sign: see :func:`cover_same_sign`. ``coarse`` divides the
    lattice points; the bound stays one.
    """
    if epsilon0 > LARGEST_EPSILON0:
        return epsilon0
    gamma = math.exp(-epsilon0 / 2)

    start = _start(n, epsilon0, 0, gamma, delta)
    # One frame serves every evaluation: the answer is near the start, or they are few.
    frame = _frame(_pair(epsilon0, 0, start, gamma), n)

    def opposite(epsilon: float, coarser: int) -> float:
        return blanket_delta(n, epsilon0, gamma, epsilon, coarse=coarse * coarser, frame=frame)

    return cover_same_sign(n, epsilon0, delta, _solve(opposite, delta, epsilon0, start, upper=True))


@functools.lru_cache(maxsize=4096)
def dataset_epsilon(n: int, epsilon0: float, delta: float) -> tuple[float, int]:
    """Return a lower bound on epsilon, rounded down, and where the others stand (-1, 0, 1)."""
    threshold = threshold_epsilon(n, epsilon0, delta) if epsilon0 > _COARSE_EPSILON0 else 0.0
    if epsilon0 > LARGEST_EPSILON0:
        return threshold, -1

    def profile(others: int, epsilon: float, coarse: int) -> float:
        return dataset_delta(n, epsilon0, others, epsilon, coarse=coarse)

    placed = {
        others: _place(
            functools.partial(profile, others),
            delta,
            epsilon0,
            _start(n, epsilon0, others, 1.0, delta),
        )
        for others in (1, -1, 0)
    }
    best = max(guess for guess, _ in placed.values())
    answers = [
        (_refine(functools.partial(profile, others), delta, epsilon0, *at, upper=False), others)
        for others, at in placed.items()
        if at[0] >= 0.99 * best
    ]
    return max((threshold, 1), *answers)
