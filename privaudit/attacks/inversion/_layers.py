"""From features to images, stage by stage, as far as linear algebra reaches; imports torch.

The inputs of the first fully connected layer and the derivatives at them are known. A search over
all images finds which position of each pooling window is the largest (:mod:`._layer_search`); once
these stand, each stage's inputs follow from the gradient of its weights (:mod:`._layer_inputs`),
and the images from what the first stage gave (:mod:`._layer_images`), up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.inversion._convolutions import Stage
from privaudit.attacks.inversion._layer_images import ImageEquations
from privaudit.attacks.inversion._layer_inputs import equations_per_unknown, solve_inputs
from privaudit.attacks.inversion._layer_search import LayerSearch

__all__ = ["Behind", "images_behind"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

#: Equations for each unknown from which a stage's inputs are solved for without the images.
_ENOUGH = 1.2

#: Relative residual up to which inputs and images are exact: gradients are of single precision.
_EXACT = 1e-4

#: Equations for each unknown from which that is tried before any search.
_PLENTY = 5

#: Deviation from which positions may stand, and that of exact images: rounding leaves less.
_NEAR = 0.1
_NONE = 2e-6

#: Share of the images that equations may leave open: rounding leaves less, one unseen change of
#: thousands of pixels more.
_OPEN = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """Images of an update, and what is known of them.

    Attributes
    ----------
    images : ndarray, shape (records, *input_shape)
    exact : bool
        Whether they meet the equations, and nothing else does.
    settled : bool
        Whether they meet the equations, so that another search finds nothing better.
    deviation : float
    """

    images: Float64
    exact: bool
    settled: bool
    deviation: float


def images_behind(
    stages: Sequence[Stage],
    features: Float64,
    derivatives: Float64,
    values: Float32,
    start: Float64,
    *,
    steps: int,
    solves: int,
) -> Behind:
    """Return the images behind the features of one update's records.

    Parameters
    ----------
    features, derivatives : ndarray, shape (records, features)
        What the first fully connected layer saw, and the derivative of the loss at it, which sums
        to the update over the records.
    values : ndarray of float32, shape (parameters,)
        The update.
    start : ndarray, shape (records, *input_shape)
    steps, solves : int
        Of :class:`~privaudit.attacks.inversion._layer_search.LayerSearch`.
    """
    last = stages[-1]
    shape = (len(features), *last.output_shape)
    outputs, slopes = (torch.from_numpy(a).reshape(shape) for a in (features, derivatives))
    equations = ImageEquations.of(stages[0])
    search = LayerSearch(stages, outputs, slopes, last.gradient(values), steps=steps, solves=solves)
    settled: list[Behind] = []

    def judged(images: Float64, limit: float) -> Behind:
        # Equations that are met are no proof where other images meet them too.
        deviation = search.deviation(images)
        met = deviation < limit
        proven = met and search.undetermined(images) < _OPEN
        return Behind(images.reshape(start.shape), proven, met, deviation)

    def solved(images: Float64) -> bool:
        found = _solved(stages, equations, outputs, slopes, values, images.reshape(start.shape))
        if found is not None:
            behind = judged(found, _EXACT)
            if behind.settled:
                settled.append(behind)
        return bool(settled)

    flat = start.reshape(len(start), -1)
    plenty = all(equations_per_unknown(stage, len(start)) >= _PLENTY for stage in stages[1:])
    if plenty and solved(flat):
        return settled[0]
    images, _ = search.run(flat, done=lambda some: search.deviation(some) < _NEAR and solved(some))
    return settled[0] if settled else judged(images, _NONE)


def _solved(
    stages: Sequence[Stage],
    equations: ImageEquations,
    outputs: Tensor,
    derivatives: Tensor,
    values: Float32,
    images: Float64,
) -> Float64 | None:
    """Return images (records, pixels) if every stage's inputs follow up to rounding, else None."""
    records = len(images)
    if any(equations_per_unknown(stage, records) < _ENOUGH for stage in stages[1:]):
        return None
    for depth in range(len(stages) - 1, 0, -1):
        inputs = torch.from_numpy(images)
        for stage in stages[:depth]:
            inputs = stage.outputs(inputs)
        stage = stages[depth]
        found = solve_inputs(stage, outputs, derivatives, stage.gradient(values), inputs)
        if found.residual > _EXACT:
            return None
        outputs, derivatives = found.inputs, found.derivatives
    result = []
    for seen, image in zip(outputs, images, strict=True):
        solution, residual = equations.solve(seen.numpy(), image.ravel())
        if residual > _EXACT:
            return None
        result.append(solution)
    return np.stack(result)
