"""L-BFGS for many independent problems of one size at once.

Each problem has its own history and its own step length; only the evaluations are shared. Steps
satisfy the weak Wolfe conditions, found by bisection (Lewis and Overton, Nonsmooth optimization
via quasi-Newton methods, 2013), which also suits losses with kinks, as ReLU and pooling make them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["LBFGSSettings", "Minimum", "minimise"]

#: Values (n,) and gradients (n, p) at points (n, p) of the problems whose numbers are given (n,).
Evaluate: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9
_BISECTIONS = 25


@dataclass(frozen=True, slots=True)
class LBFGSSettings:
    """Steps at most, pairs of history kept, and the value at which a problem is solved."""

    iterations: int
    history: int = 50
    target: float = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Points (n, p) of lowest value (n,), and evaluations made over all problems."""

    points: Tensor
    values: Tensor
    evaluations: int


def minimise(evaluate: Evaluate, first: Tensor, settings: LBFGSSettings) -> Minimum:
    """Minimise n functions of p variables from ``first`` (n, p).

    A problem ends when it reaches the target, when no step from it decreases the value, or when
    its value is not finite; the others go on.
    """
    state = _State(evaluate, first, settings.history)
    for _ in range(settings.iterations):
        active = (state.open & (state.values > settings.target)).nonzero(as_tuple=True)[0]
        if not len(active):
            break
        state.step(active)
    return Minimum(state.points, state.values, state.evaluations)


class _State:
    """Points, values, gradients and histories of all problems.

    Slot ``h`` of the history holds differences of points and gradients, and their inverse product;
    the inverse product of an unused slot is zero, which takes it out of every sum.
    """

    def __init__(self, evaluate: Evaluate, first: Tensor, history: int) -> None:
        every = torch.arange(len(first), device=first.device)
        self.evaluate, self.evaluations = evaluate, len(first)
        self.points = first.clone()
        self.values, self.gradients = evaluate(first, every)
        self.open = torch.isfinite(self.values) & torch.isfinite(self.gradients).all(1)
        self.values = torch.where(self.open, self.values, torch.inf)
        self.moves = first.new_zeros(history, *first.shape)
        self.changes = first.new_zeros(history, *first.shape)
        self.inverse = first.new_zeros(history, len(first))
        self.scale = first.new_ones(len(first))
        self.fresh = torch.ones_like(self.open)
        self.slot = 0

    def step(self, active: Tensor) -> None:
        """Take one step in each active problem."""
        gradient = self.gradients[active]
        direction = self._direction(active)
        slope = (direction * gradient).sum(1)
        uphill = ~(slope < 0)
        if uphill.any():
            direction[uphill] = -gradient[uphill]
            slope = (direction * gradient).sum(1)
            self._forget(active[uphill])
        # Without a history the direction has no scale of its own.
        unit = 1 / gradient.abs().sum(1).clamp_min(1e-300)
        length = torch.where(self.fresh[active], unit.clamp_max(1.0), 1.0)
        found = self._search(active, direction, slope, length)
        points, values, gradients, moved = found
        stuck = active[~moved]
        # A problem that cannot move even along its gradient has ended.
        self.open[stuck[self.fresh[stuck]]] = False
        self._forget(stuck)
        done = active[moved]
        self._remember(done, points[moved] - self.points[done], gradients[moved])
        self.points[done] = points[moved]
        self.values[done] = values[moved]
        self.gradients[done] = gradients[moved]
        self.fresh[done] = False

    def _direction(self, active: Tensor) -> Tensor:
        """Two-loop recursion, newest pair first and then oldest first."""
        count = len(self.moves)
        order = [(self.slot - 1 - i) % count for i in range(count)]
        order = [h for h in order if bool(self.inverse[h, active].any())]
        rest = self.gradients[active].clone()
        weights = []
        for h in order:
            weight = self.inverse[h, active] * (self.moves[h, active] * rest).sum(1)
            rest -= weight[:, None] * self.changes[h, active]
            weights.append(weight)
        rest *= self.scale[active, None]
        for h, weight in zip(reversed(order), reversed(weights), strict=True):
            back = self.inverse[h, active] * (self.changes[h, active] * rest).sum(1)
            rest += (weight - back)[:, None] * self.moves[h, active]
        return -rest

    def _forget(self, problems: Tensor) -> None:
        self.inverse[:, problems] = 0
        self.scale[problems] = 1
        self.fresh[problems] = True

    def _remember(self, problems: Tensor, move: Tensor, gradient: Tensor) -> None:
        change = gradient - self.gradients[problems]
        product = (move * change).sum(1)
        squared = change.square().sum(1)
        useful = product > 1e-12 * squared
        self.inverse[self.slot] = 0
        self.moves[self.slot, problems] = move
        self.changes[self.slot, problems] = change
        self.inverse[self.slot, problems] = torch.where(useful, 1 / product, 0.0)
        self.scale[problems] = torch.where(useful, product / squared, self.scale[problems])
        self.slot = (self.slot + 1) % len(self.moves)

    def _search(
        self, active: Tensor, direction: Tensor, slope: Tensor, length: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Bisect to a weak Wolfe step; keep a step that merely decreases if none is found."""
        start, before = self.points[active], self.values[active]
        points, values = start.clone(), before.clone()
        gradients = self.gradients[active].clone()
        low = torch.zeros_like(length)
        high = torch.full_like(length, torch.inf)
        searching = torch.ones_like(self.open[active])
        for _ in range(_BISECTIONS):
            rows = searching.nonzero(as_tuple=True)[0]
            if not len(rows):
                break
            tried = start[rows] + length[rows, None] * direction[rows]
            value, gradient = self.evaluate(tried, active[rows])
            self.evaluations += len(rows)
            wanted = before[rows] + _SUFFICIENT_DECREASE * length[rows] * slope[rows]
            finite = torch.isfinite(gradient).all(1)
            decreases = finite & (value <= wanted)  # false for nan
            flat = (gradient * direction[rows]).sum(1) >= _CURVATURE * slope[rows]
            better = decreases & (value < values[rows])
            kept = rows[better]
            points[kept], values[kept] = tried[better], value[better]
            gradients[kept] = gradient[better]
            high[rows[~decreases]] = length[rows[~decreases]]
            steep = decreases & ~flat
            low[rows[steep]] = length[rows[steep]]
            middle = torch.where(high.isinf(), 2 * length, (low + high) / 2)
            length = torch.where(searching, middle, length)
            searching[rows[decreases & flat]] = False
        return points, values, gradients, values < before
