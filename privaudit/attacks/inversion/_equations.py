"""Gauss-Newton steps on an image towards what is known of the inputs of layers; imports torch.

What a layer sees of an image does not jump, as derivatives of rectified units do, and for single
records there are few pixels: damped steps are solved for all of them at once. What the equations
leave open follows the total variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._convolutions import inputs_of_each
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._known_inputs import KnownInputs

__all__ = ["PIXELS", "Equations"]

#: Pixels up to which steps are solved at once: the equations are a dense square matrix.
PIXELS = 4096

#: Differences of pixels below which total variation counts squared.
_SOFT = 0.02

#: Dampings of a step that are tried, each five times the last.
_DAMPINGS = 6

#: Times that pixels at the end of their range are held there, in one step.
_HELD = 3

#: Derivatives taken at once: beyond that they fall out of the cache.
_ROWS_AT_ONCE = 32


class Equations:
    """What is known of the inputs of one record's layers."""

    def __init__(self, engine: GradientEngine, found: Sequence[KnownInputs]) -> None:
        self._engine = engine
        self._found = found
        self._layers = [one.layer for one in found]
        self._size = max(float(found[0].values.nan_to_num(0).norm()), 1e-12)
        self._first, self._second = _neighbours(engine.input_shape)

    def solve(self, image: Tensor, steps: int, variation: tuple[float, float]) -> Tensor:
        """Return the image (1, channels, height, width) after so many steps at most."""
        high, low = variation
        x = image.detach().cpu().double().clamp(0, 1).flatten()
        damping = 1e-3
        for step in range(steps):
            share = step / max(1, steps - 1)
            weight = high * (low / high) ** share
            residual, slopes = self._linear(x)
            curved, slope = slopes.T @ slopes, slopes.T @ residual
            self._add_variation(curved, slope, x, weight)
            before = float(residual.square().sum()) + self._variation(x, weight)
            for _ in range(_DAMPINGS):
                tried = (x + _step(curved, slope, x, damping)).clamp(0, 1)
                total = float(self._residual(tried).square().sum())
                total += self._variation(tried, weight)
                if total < before:
                    x, damping = tried, max(damping / 5, 1e-10)
                    break
                damping *= 5
            else:
                break
        return x.to(image.device, image.dtype).reshape(image.shape)

    def _seen(self, images: Tensor) -> list[Tensor]:
        """Return what the layers see of images (n, channels, height, width): (n, features) each."""
        return [seen.flatten(1) for seen in inputs_of_each(self._layers, self._engine, images)]

    def _image(self, x: Tensor) -> Tensor:
        return _search.tensor(x.numpy(), self._engine).reshape(1, *self._engine.input_shape)

    def _places(self, seen: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Return which inputs of one image are known, and which others are beyond the bound."""
        places = []
        for one, inputs in zip(self._found, seen, strict=True):
            known = ~one.values.isnan().to(inputs.device)
            places.append((known, ~known & (inputs[0].abs() > one.bound)))
        return places

    def _parts(self, seen: Sequence[Tensor], places: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return deviations (n, parts) from known inputs, and from the bound of those beyond it."""
        parts = []
        for one, inputs, (known, beyond) in zip(self._found, seen, places, strict=True):
            wanted = one.values.to(inputs.device, inputs.dtype)
            trusted = one.weights.to(inputs.device, inputs.dtype)
            parts.append(((inputs - wanted) * trusted)[:, known])
            parts.append(inputs.abs()[:, beyond] - one.bound)
        return torch.cat(parts, 1) / self._size

    def _residual(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            seen = self._seen(self._image(x))
            return self._parts(seen, self._places(seen))[0].cpu().double()

    def _linear(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the residual (n,) and its derivatives (n, pixels)."""
        image = self._image(x)
        with torch.no_grad():
            seen = self._seen(image)
            places = self._places(seen)
            residual = self._parts(seen, places)[0]
        # Each copy of the image is differentiated for a row of its own: twice as fast as rows that
        # torch maps over. Batch statistics, which tie copies together, leave but one of them.
        rows = max(1, min(_ROWS_AT_ONCE, len(residual)))
        copies = image.repeat(rows if self._engine.factored else 1, 1, 1, 1).requires_grad_(True)
        parts = self._parts(self._seen(copies), places)
        slopes = []
        for start in range(0, len(residual), rows):
            at = torch.arange(min(rows, len(residual) - start), device=parts.device)
            if self._engine.factored:
                chosen = torch.zeros_like(parts)
                chosen[at, start + at] = 1
                (found,) = torch.autograd.grad(parts, copies, chosen, retain_graph=True)
            else:
                chosen = parts.new_zeros(len(at), *parts.shape)
                chosen[at, 0, start + at] = 1
                (found,) = torch.autograd.grad(
                    parts, copies, chosen, is_grads_batched=True, retain_graph=True
                )
            slopes.append(found[: len(at)].reshape(len(at), -1))
        return residual.cpu().double(), torch.cat(slopes).cpu().double()

    def _variation(self, x: Tensor, weight: float) -> float:
        apart = x[self._first] - x[self._second]
        return 2 * weight * float(torch.hypot(apart, torch.tensor(_SOFT)).mean())

    def _add_variation(self, curved: Tensor, slope: Tensor, x: Tensor, weight: float) -> None:
        """Add the reweighted squares of total variation to normal equations, in place."""
        one, other = self._first, self._second
        apart = x[one] - x[other]
        pull = weight / len(apart) / torch.hypot(apart, torch.tensor(_SOFT))
        for a, b in ((one, other), (other, one)):
            curved.index_put_((a, a), pull, accumulate=True)
            curved.index_put_((a, b), -pull, accumulate=True)
        slope.index_add_(0, one, pull * apart)
        slope.index_add_(0, other, -pull * apart)


def _step(curved: Tensor, slope: Tensor, x: Tensor, damping: float) -> Tensor:
    """Solve for a step, holding pixels that would leave their range from its end."""
    damped = curved + torch.diag(damping * (curved.diagonal() + 1e-9))
    free = torch.arange(len(x))
    for _ in range(_HELD):
        step = torch.zeros_like(x)
        whole = len(free) == len(x)
        factor, failed = torch.linalg.cholesky_ex(damped if whole else damped[free][:, free])
        if bool(failed):
            return torch.zeros_like(x)
        step[free] = -torch.cholesky_solve(slope[free, None], factor)[:, 0]
        to = x + step
        out = ((to < 0) & (x <= 0)) | ((to > 1) & (x >= 1))
        if not bool(out[free].any()):
            break
        free = free[~out[free]]
    return step


def _neighbours(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Return positions of all pairs of neighbouring pixels."""
    at = np.arange(math.prod(shape)).reshape(shape)
    pairs = [(at[:, 1:], at[:, :-1]), (at[:, :, 1:], at[:, :, :-1])]
    first, second = (np.concatenate([p[i].ravel() for p in pairs]) for i in (0, 1))
    return torch.from_numpy(first), torch.from_numpy(second)
