r"""Brackets of one shuffled coordinate for many cluster sizes at once.

A bound for a few sizes is solved; between them the answer is guessed by interpolation, and then
*shown*: one evaluation of the divergence at the guess proves it on its side, and the known slope
tells how far it is from the place where it would equal delta. A guess that does not hold is moved
and tried again. So every bound is valid by itself; upper bounds are within 1e-4 of what a single
query answers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._blanket import (
    LARGEST_EPSILON0,
    blanket_delta,
    blanket_epsilon,
    dataset_delta,
    dataset_epsilon,
    same_sign_covered,
)
from privaudit.accounting.bracket import agreeing_lower

__all__ = ["Swept", "sweep", "upper_epsilon"]

#: Cluster sizes between two that are solved are at most so far apart, as a ratio.
_RATIO = 2.0
#: So few users are solved one by one: the best pair of data sets changes from one to the next.
_FEW = 16
#: How far from the solution a bound may stay, relative to it.
_SLACK = 5e-5
#: Up to this epsilon0 a third of the lattice's points costs less than the slack; beyond, more.
_COARSE = 2.0
#: Below so small a relative difference shuffling counts as useless.
_VOID = 1e-5


@dataclass(frozen=True, slots=True)
class Swept:
    """A bracket, and where the other users stand in its lower bound."""

    lower: float
    upper: float
    others: int


def sweep(sizes: Sequence[int], epsilon0: float, delta: float) -> dict[int, Swept]:
    """Return brackets of one coordinate by cluster size.

    Parameters
    ----------
    sizes : sequence of int
    epsilon0, delta : float
    """
    wanted = sorted(set(sizes))
    nodes = _nodes(wanted)
    solved = {n: _solved(n, epsilon0, delta) for n in nodes}
    found = dict(solved)
    between = [n for n in wanted if n not in solved]
    if between and epsilon0 <= LARGEST_EPSILON0:
        covered = _Covered(epsilon0, delta, nodes, solved)

        def part(sizes: Sequence[int]) -> dict[int, Swept]:
            above = _Side(nodes, [solved[n].upper for n in nodes], epsilon0, side=1)
            below = _Side(nodes, [solved[n].lower for n in nodes], epsilon0, side=-1)
            return {n: _between(n, epsilon0, delta, above, below, covered, solved) for n in sizes}

        # Always the same two parts, whatever the machine: the same answers everywhere.
        with ThreadPoolExecutor(2) as pool:
            for answers in pool.map(part, (between[::2], between[1::2])):
                found.update(answers)
    for n in between:
        if n not in found:
            found[n] = _solved(n, epsilon0, delta)
    return _monotone(wanted, found)


def _agreeing(n: int, lower: float, upper: float) -> float:
    return agreeing_lower(lower, upper, f"one coordinate of {n} users")


def _monotone(sizes: Sequence[int], found: dict[int, Swept]) -> dict[int, Swept]:
    """More users never hurt: a bound above for fewer holds for more, one below the other way."""
    uppers = np.minimum.accumulate([found[n].upper for n in sizes]).tolist()
    lowers = np.maximum.accumulate([found[n].lower for n in reversed(sizes)])[::-1].tolist()
    return {
        n: Swept(_agreeing(n, lower, upper), upper, found[n].others)
        for n, lower, upper in zip(sizes, lowers, uppers, strict=True)
    }


@functools.lru_cache(maxsize=4096)
def upper_epsilon(n: int, epsilon0: float, delta: float) -> float:
    r"""Return the exact-blanket bound on half the lattice, which costs less than 1e-4 of it.

    It is epsilon0 at once where that is the same to 1e-5.

    With probability :math:`(1-\gamma)^{n-1}` nobody else is in the blanket, and the divergence is
    that of the Laplace mechanism itself: the blanket's delta is at least
    :math:`(1-\gamma)^{n-1}(1-e^{(\varepsilon-\varepsilon_0)/2})`.
    """
    nobody = math.exp((n - 1) * math.log1p(-math.exp(-epsilon0 / 2)))
    if nobody > delta and -2 * math.log1p(-delta / nobody) <= _VOID * epsilon0:
        return epsilon0
    return blanket_epsilon(n, epsilon0, delta, coarse=2)


def _solved(n: int, epsilon0: float, delta: float) -> Swept:
    upper = upper_epsilon(n, epsilon0, delta)
    lower, others = dataset_epsilon(n, epsilon0, delta)
    return Swept(_agreeing(n, lower, upper), upper, others)


def _nodes(sizes: Sequence[int]) -> list[int]:
    """Return sizes to solve for: the ends, and in between at most a ratio apart."""
    nodes = [sizes[0]]
    for n, following in zip(sizes, [*sizes[1:], math.inf], strict=True):
        far = n <= _FEW or following > nodes[-1] * _RATIO or n == sizes[-1]
        if n > nodes[-1] and far:
            nodes.append(n)
    return nodes


class _Side:
    """One side of the bracket: guesses from the solved sizes, and from what was shown last."""

    def __init__(
        self, nodes: Sequence[int], values: Sequence[float], epsilon0: float, *, side: int
    ) -> None:
        from scipy.interpolate import PchipInterpolator

        # ln(eps0 / eps - 1) is nearly straight where shuffling starts to help, and beyond.
        self._epsilon0, self._side = epsilon0, side
        self._of = PchipInterpolator(np.log(nodes), self._scaled(np.array(values)))
        self._miss, self._slope = 0.0, math.nan

    def _scaled(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        share = np.clip(epsilon / self._epsilon0, 1e-12, 1 - 1e-12)
        return np.asarray(np.log(1 / share - 1), dtype=np.float64)

    def shown(
        self, n: int, profile: Callable[[float], float], delta: float, low: float, high: float
    ) -> float | None:
        """Return an epsilon near the solution with the divergence on this side of delta, or None.

        Parameters
        ----------
        low, high : float
            Between which the solution lies: those of the nodes around.
        """
        goal, side = math.log(delta), self._side
        of = float(self._of(math.log(n)))
        guess = self._epsilon0 / (1 + math.exp(of + self._miss))
        tried: tuple[float, float] | None = None
        for _ in range(5):
            guess = min(max(guess, low * (1 - _SLACK)), high * (1 + _SLACK))
            value = profile(guess) if guess > 0 else 0.0
            if not value > 0:
                return None
            gap = math.log(value) - goal
            if tried is not None and guess != tried[0]:
                self._slope = (tried[1] - gap) / (guess - tried[0])
            elif math.isnan(self._slope):
                nearby = profile(guess * (1 - 1e-4))
                if not nearby > 0:
                    return None
                self._slope = (math.log(nearby) - goal - gap) / (1e-4 * guess)
            if not self._slope > 0:
                self._slope = math.nan
                return None
            miss = gap / self._slope
            if side * gap <= 0 and abs(miss) <= _SLACK * guess:
                aimed = np.array(guess + miss + side * 0.4 * _SLACK * guess)
                self._miss = float(self._scaled(aimed)) - of
                return guess
            tried = guess, gap
            guess += miss + side * 0.4 * _SLACK * guess
        self._slope = math.nan
        return None


class _Covered:
    """Whether pairs of one sign are covered, once for all sizes between two nodes.

    Their divergence decreases in the number of users and in epsilon, so the fewest users at the
    least epsilon decide.
    """

    def __init__(
        self, epsilon0: float, delta: float, nodes: Sequence[int], solved: dict[int, Swept]
    ) -> None:
        self._epsilon0, self._delta = epsilon0, delta
        self._nodes, self._solved = nodes, solved
        self._known: dict[int, bool] = {}

    def at(self, n: int) -> bool:
        place = int(np.searchsorted(self._nodes, n))
        left, right = self._nodes[place - 1], self._nodes[place]
        if place not in self._known:
            least = self._solved[right].upper
            self._known[place] = least >= self._epsilon0 / 2 or same_sign_covered(
                left, self._epsilon0, self._delta, least
            )
        return self._known[place]


def _between(
    n: int,
    epsilon0: float,
    delta: float,
    above: _Side,
    below: _Side,
    covered: _Covered,
    solved: dict[int, Swept],
) -> Swept:
    gamma = math.exp(-epsilon0 / 2)
    place = int(np.searchsorted(list(solved), n))
    left, right = list(solved.values())[place - 1], list(solved.values())[place]

    def blanket(epsilon: float) -> float:
        return blanket_delta(n, epsilon0, gamma, epsilon, coarse=3 if epsilon0 <= _COARSE else 2)

    upper = None
    if left.upper == right.upper:
        upper = left.upper
    elif covered.at(n):
        upper = above.shown(n, blanket, delta, right.upper, left.upper)
    if upper is None:
        upper = upper_epsilon(n, epsilon0, delta)
    others = left.others

    def pair(epsilon: float) -> float:
        coarse = 3 if epsilon0 <= _COARSE else 1
        return dataset_delta(n, epsilon0, others, epsilon, coarse=coarse)

    lower: float | None = right.lower
    if left.others != right.others:
        lower = None
    elif left.lower != right.lower:
        lower = below.shown(n, pair, delta, right.lower, left.lower)
    if lower is None:
        lower, others = dataset_epsilon(n, epsilon0, delta)
    return Swept(_agreeing(n, lower, upper), upper, others)
