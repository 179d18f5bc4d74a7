"""From exact features to images: by linear algebra where it reaches, else by matching features.

Imports torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._convolutions import Stage, inputs_of, stages_before
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._layers import Behind, images_behind
from privaudit.attacks.inversion._separation import Separation

if TYPE_CHECKING:
    from privaudit.attacks.inversion.analytic import AnalyticInversion

__all__ = ["enough_outputs", "features_to_images"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_AT_ONCE = 256

#: Outputs of the first convolution for each pixel from which images are solved for: about half are
#: on, and with hardly more of them than pixels the search takes minutes and does not end well.
_OUTPUTS = 3

#: Steps of conjugate gradients for a step of the search over layers; most end much sooner.
_SOLVES = 200


def features_to_images(
    start: Float32,
    found: list[Separation],
    values: Float32,
    layer: nn.Linear,
    engine: GradientEngine,
    options: AnalyticInversion,
    rng: np.random.Generator,
) -> Bool:
    """Replace starts of separated records by images with their features, in place.

    Parameters
    ----------
    start : ndarray, shape (updates, records, *input_shape)
    found : list of Separation
        The inputs of ``layer`` for each update.
    values : ndarray of float32, shape (updates, parameters)

    Returns
    -------
    ndarray of bool, shape (updates,)
        Whose images are exact up to rounding.
    """
    exact = np.zeros(len(found), np.bool_)
    settled = exact.copy()
    stages = stages_before(layer, engine) if engine.records <= options.layer_records else None
    if stages is not None and not enough_outputs(stages[0]):
        stages = None
    whole = np.array([one.explains(engine.records) for one in found])
    best: dict[int, Behind] = {}

    def attempt(update: int, first: Float64) -> None:
        assert stages is not None
        behind = _behind(stages, found[update], values[update], first, layer, options)
        if update not in best or behind.deviation < best[update].deviation:
            best[update] = behind
        exact[update], settled[update] = behind.exact, behind.settled

    if stages is not None:
        for update in np.flatnonzero(whole).tolist():
            attempt(update, start[update].astype(np.float64))
    _match(start, found, np.flatnonzero(~settled), layer, engine, options)
    for number in range(1, options.layer_starts if stages is not None else 0):
        for update in np.flatnonzero(whole & ~settled).tolist():
            shape = start[update].shape
            attempt(update, start[update].astype(np.float64) if number == 1 else rng.random(shape))
    for update, behind in best.items():
        start[update] = behind.images
    return exact


def enough_outputs(first: Stage) -> bool:
    """Whether the first stage gives enough for images to be solved for."""
    return math.prod(first.output_shape) >= _OUTPUTS * math.prod(first.input_shape)


def _behind(
    stages: tuple[Stage, ...],
    found: Separation,
    values: Float32,
    first: Float64,
    layer: nn.Linear,
    options: AnalyticInversion,
) -> Behind:
    weight = layer.weight.detach().cpu().double().numpy()
    return images_behind(
        stages,
        found.inputs,
        found.derivatives.T @ weight,
        values,
        first,
        steps=options.layer_iterations,
        solves=_SOLVES,
    )


def _match(
    start: Float32,
    found: list[Separation],
    updates: npt.NDArray[np.int64],
    layer: nn.Linear,
    engine: GradientEngine,
    options: AnalyticInversion,
) -> None:
    where = [(u, r) for u in updates.tolist() for r in range(len(found[u].inputs))]
    for first in range(0, len(where), _AT_ONCE):
        rows, columns = (np.array(x) for x in zip(*where[first : first + _AT_ONCE], strict=True))
        wanted = np.stack([found[u].inputs[r] for u, r in where[first : first + _AT_ONCE]])
        images = _with_features(
            _search.tensor(start[rows, columns], engine),
            _search.tensor(wanted, engine),
            layer,
            engine,
            options,
        )
        start[rows, columns] = images.to("cpu", torch.float32).numpy()


def _with_features(
    first: Tensor,
    wanted: Tensor,
    layer: nn.Linear,
    engine: GradientEngine,
    options: AnalyticInversion,
) -> Tensor:
    images = first.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([images], lr=options.feature_learning_rate)
    with torch.no_grad():
        # Untrained layers give all images nearly the same features: what is left to match counts.
        scale = (inputs_of(layer, engine, first) - wanted).square().sum(1).clamp_min(1e-12)
    best, lowest = first.clone(), torch.full_like(scale, math.inf)
    for step in range(options.feature_iterations + 1):
        distance = (inputs_of(layer, engine, images) - wanted).square().sum(1) / scale
        with torch.no_grad():
            better = distance < lowest
            lowest = torch.where(better, distance, lowest)
            best[better] = images[better]
        if step == options.feature_iterations:
            break
        loss = distance + options.feature_total_variation * objectives.total_variation(images)
        (images.grad,) = torch.autograd.grad(loss.sum(), images)
        decay = 0.5 * (1 + math.cos(math.pi * step / options.feature_iterations))
        optimiser.param_groups[0]["lr"] = options.feature_learning_rate * decay
        optimiser.step()
        with torch.no_grad():
            images.clamp_(0, 1)
    return best.detach()
