"""Images of single records that meet what is known of the layers' inputs; imports torch.

Matching gradients by first-order steps ends early: the equations are badly conditioned, and the
derivatives of a network of rectified units jump. What a layer sees of an image does not jump, and
for single records there are few pixels: damped Gauss-Newton steps are solved for all of them at
once. What the equations leave open follows the total variation. The entries that do not tell a
layer's inputs are matched by first-order steps again, in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._calibration import held_out, mean_decibels
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._known_inputs import KnownInputs, Tail, known_inputs, tail_of
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.datasets.base import LabelledImages

__all__ = ["Refinement", "gain_of_refinement", "refined"]

Int64 = npt.NDArray[np.int64]

#: Weights of the total variation in the relative squared residual, first and last, by turn.
_VARIATION = ((1e-1, 1e-4), (1e-2, 1e-4), (1e-2, 1e-5))

#: Of the first-order steps between: how many, their learning rate, and the weight of the total
#: variation, by turn.
_ITERATIONS = 100
_LEARNING_RATE = 0.03
_WEIGHTS = (0.03, 0.01, 0.003)

#: Differences of pixels below which total variation counts squared.
_SOFT = 0.02

#: Dampings of a step that are tried, each five times the last.
_DAMPINGS = 6

#: Times that pixels at the end of their range are held there, in one step.
_HELD = 3

#: Pixels up to which steps are solved at once: the equations are a dense square matrix.
_PIXELS = 4096

#: Auxiliary records on which it is tried, and how many times as many there must be.
_TRIED = 6
_LEFT = 5

#: Derivatives taken at once: beyond that they fall out of the cache.
_ROWS_AT_ONCE = 32
_IMAGES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Refinement:
    """How often images are refined, and whether the known entries are each gradient's largest.

    Attributes
    ----------
    turns : int
    steps : int
        Gauss-Newton steps of a turn, at most.
    largest : bool
    """

    turns: int
    steps: int
    largest: bool


def refined(
    found: _search.Found,
    engine: GradientEngine,
    seen: PartialUpdates,
    labels: Int64,
    *,
    refinement: Refinement,
    options: MatchingOptions,
    rng: np.random.Generator,
) -> tuple[_search.Found, dict[str, float]]:
    """Return images moved to what known entries tell of the layers' inputs, and diagnostics.

    Of each target the image is kept whose gradient is nearest to the known entries, of all that
    came up on the way, the first one too.

    Parameters
    ----------
    found : Found
        Where the first turn begins.
    seen : PartialUpdates
        Values at coordinates, exact.
    labels : ndarray of int64, shape (targets, 1)

    Returns
    -------
    Found
        Its losses are one minus the cosine over the known entries. What was found, where the
        network does not end in a layer with biases, an image has too many pixels, updates are of
        several records, or no entries tell what a layer saw.
    """
    assert seen.indices is not None
    pixels = math.prod(engine.input_shape)
    tail = tail_of(engine) if engine.records == 1 and pixels <= _PIXELS else None
    if tail is None:
        return found, {"refined": 0.0}
    where = _search.tensor(seen.indices, engine)
    values = _search.tensor(seen.values, engine)
    known = [
        known_inputs(tail, at, entries, largest=refinement.largest)
        for at, entries in zip(where.cpu(), values.cpu(), strict=True)
    ]
    if not any(known):
        return found, {"refined": 0.0}
    make = objectives.masked_cosine(where, values)
    soft = one_hot(labels.ravel(), engine)

    def distances(images: Tensor) -> Tensor:
        parts = []
        for rows in torch.arange(len(images), device=images.device).split(_IMAGES_AT_ONCE):
            with torch.no_grad():
                parts.append(make(rows)(engine.gradients(images[rows, 0], soft[rows])))
        return torch.cat(parts).nan_to_num(nan=math.inf)

    images = found.images.clamp(0, 1)
    best, lowest = images.clone(), distances(images)
    first, evaluations = lowest.clone(), found.evaluations

    def keep(images: Tensor) -> None:
        nonlocal lowest
        reached = distances(images)
        better = reached < lowest
        best[better] = images[better]
        lowest = torch.where(better, reached, lowest)

    for turn in range(refinement.turns):
        at = min(turn, len(_VARIATION) - 1)
        moved = images.clone()
        for target, told in enumerate(known):
            if told:
                equations = _Equations(engine, tail, told)
                moved[target] = equations.solve(images[target], refinement.steps, _VARIATION[at])
        keep(moved)
        again = replace(
            options,
            prior="none",
            restarts=1,
            group_consistency=0.0,
            iterations=min(_ITERATIONS, options.iterations),
            learning_rate=_LEARNING_RATE,
            total_variation=_WEIGHTS[at],
        )
        matched = _search.search(
            engine, make, labels, options=again, auxiliary=None, rng=rng, start=moved.cpu().numpy()
        )
        images = matched.images.clamp(0, 1)
        evaluations += matched.evaluations
        keep(images)
    return replace(found, images=best, losses=lowest, evaluations=evaluations), {
        "refined": float((lowest < first).double().mean()),
        "layers known": float(np.mean([len(told) for told in known])),
    }


def gain_of_refinement(
    options: MatchingOptions,
    engine: GradientEngine,
    auxiliary: LabelledImages,
    message: Callable[[Tensor], tuple[Tensor, Tensor]],
    *,
    refinement: Refinement,
    rng: np.random.Generator,
) -> float | None:
    """Return by how many decibels refinement brings auxiliary records nearer, on average.

    A fitted prior knows what few entries leave open, and refinement leaves it. Where so few are
    seen that this costs more than it gains, the adversary learns it from records of its own, which
    are kept out of what the prior is fitted to.

    Parameters
    ----------
    message : callable
        From gradients (n, d), coordinates (n, k) and values (n, k) of a message about each.

    Returns
    -------
    float or None
        None where there is nothing to lose, as no prior is fitted; 0 where there are too few
        auxiliary records to tell.
    """
    if not _search.fits_prior(options, auxiliary, engine.classes):
        return None
    if len(auxiliary) < _LEFT * _TRIED:
        return 0.0
    seed = int(rng.integers(2**31))
    own, rest, images, gradients = held_out(engine, auxiliary, _TRIED, seed=seed)
    where, values = message(gradients)
    labels = own.labels[:, None]
    found = _search.search(
        engine,
        objectives.masked_cosine(where, values),
        labels,
        options=options,
        auxiliary=rest,
        rng=rng,
    )
    seen = PartialUpdates(("",) * _TRIED, values.cpu().numpy(), where.cpu().numpy())
    after, _ = refined(found, engine, seen, labels, refinement=refinement, options=options, rng=rng)

    return mean_decibels(after.images, images) - mean_decibels(found.images, images)


class _Equations:
    """What is known of the inputs of one record's layers."""

    def __init__(self, engine: GradientEngine, tail: Tail, found: Sequence[KnownInputs]) -> None:
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
        seen: list[Tensor] = []
        hooks = [
            layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
            for layer in reversed(self._layers)
        ]
        try:
            self._engine.model(images)
        finally:
            for hook in hooks:
                hook.remove()
        return [one.flatten(1) for one in reversed(seen)]

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
            parts.append((inputs - wanted)[:, known])
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
