"""What is added to the loss of dummy updates besides the prior of each image; imports torch.

Two ideas of Yin et al. (See through Gradients: Image Batch Recovery via GradInversion, CVPR 2021):
the statistics that batch normalisation takes of the records, and the agreement of several starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError, UnmetRequirementsError

__all__ = [
    "BatchStatistics",
    "GroupConsistency",
    "Regulariser",
    "batch_statistics",
    "statistics_of",
]

#: Batches of auxiliary records over which statistics are averaged, at most.
_BATCHES = 64

_TINY = 1e-12


class Regulariser(Protocol):
    """A term of the loss of each job."""

    def of(self, rows: Tensor) -> Regulariser:
        """Return the term of jobs whose targets are ``rows``."""
        ...

    def __call__(self, images: Tensor, jobs: int) -> Tensor:
        """Return the terms (jobs,) for images (jobs * records, channels, height, width)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics:
    """Squared distances of the dummies' statistics at each batch normalisation from known ones.

    ``(|mean - m|^2 / sum(v) + |var - v|^2 / |v|^2) / L`` summed over the L layers, with m and v
    the known mean and variance of each channel. Yin et al. add distances that are not relative, so
    that layers of large activations decide.

    Attributes
    ----------
    wanted : Tensor, shape (N or 1, statistics)
        As :func:`statistics_of` gives them.
    weight : float
    """

    engine: GradientEngine
    wanted: Tensor
    weight: float

    def of(self, rows: Tensor) -> BatchStatistics:
        """See :class:`Regulariser`."""
        return self if len(self.wanted) == 1 else replace(self, wanted=self.wanted[rows])

    def __call__(self, images: Tensor, jobs: int) -> Tensor:
        """See :class:`Regulariser`."""
        found = statistics_of(self.engine, images)
        total = images.new_zeros(jobs)
        norms, start = _norms(self.engine.model), 0
        for norm in norms:
            middle, end = start + norm.num_features, start + 2 * norm.num_features
            mean, variance = self.wanted[:, start:middle], self.wanted[:, middle:end]
            off = (found[:, start:middle] - mean).square().sum(1)
            total = total + off / variance.sum(1).clamp_min(_TINY)
            spread = (found[:, middle:end] - variance).square().sum(1)
            total = total + spread / variance.square().sum(1).clamp_min(_TINY)
            start = end
        return self.weight * total / len(norms)


@dataclass(frozen=True, slots=True, eq=False)
class GroupConsistency:
    """Mean squared distance of a target's starts from their mean image.

    Jobs of one target follow each other. Images are compared pixel by pixel; Yin et al. register
    them first.

    Attributes
    ----------
    size : int
        Starts a target.
    weight : float
    """

    size: int
    weight: float

    def of(self, rows: Tensor) -> GroupConsistency:
        """See :class:`Regulariser`."""
        return self

    def __call__(self, images: Tensor, jobs: int) -> Tensor:
        """See :class:`Regulariser`."""
        grouped = images.reshape(-1, self.size, images.numel() // jobs)
        consensus = grouped.detach().mean(1, keepdim=True)
        return self.weight * (grouped - consensus).square().mean(2).flatten()


def batch_statistics(
    engine: GradientEngine,
    recorded: npt.NDArray[np.float32] | None,
    auxiliary: LabelledImages | None,
    *,
    weight: float,
    attack: str,
    rng: np.random.Generator,
) -> BatchStatistics:
    """Return the term for statistics that the users told or, without, those of auxiliary records.

    The latter are means over batches of as many records as an update has, at the known parameters:
    running statistics are no parameters and do not travel.

    Parameters
    ----------
    recorded : ndarray of float32, shape (targets, statistics), or None

    Raises
    ------
    UnmetRequirementsError
        If the network has no batch normalisation, or there is nothing to take statistics from.
    InvalidDataError
        If the recorded ones are not as many as the network has.
    """
    count = 2 * sum(norm.num_features for norm in _norms(engine.model))
    if count == 0:
        raise UnmetRequirementsError(
            f"attack '{attack}' with batch_statistics={weight} needs a network with batch "
            "normalisation, and the declared one has none; set batch_statistics=0"
        )
    if recorded is not None:
        if recorded.shape[1] != count:
            raise InvalidDataError(
                f"updates tell {recorded.shape[1]} batch statistics and the declared model has "
                f"{count}: a mean and a variance for each channel that it normalises"
            )
        wanted = torch.as_tensor(recorded, dtype=engine.dtype, device=engine.device)
        return BatchStatistics(engine, wanted, weight)
    if auxiliary is None or len(auxiliary) < engine.records:
        raise UnmetRequirementsError(
            f"attack '{attack}' with batch_statistics={weight} needs statistics of batch "
            "normalisation: users told none with their updates, and there are no auxiliary data "
            "to estimate them from; declare auxiliary data or set batch_statistics=0"
        )
    batches = min(_BATCHES, len(auxiliary) // engine.records)
    chosen = rng.permutation(len(auxiliary))[: batches * engine.records]
    images = torch.as_tensor(auxiliary.images[chosen], dtype=engine.dtype, device=engine.device)
    with torch.no_grad():
        mean = statistics_of(engine, images).mean(0, keepdim=True)
    return BatchStatistics(engine, mean, weight)


def statistics_of(engine: GradientEngine, images: Tensor) -> Tensor:
    """Return mean and variance (biased) at each batch normalisation, of each update's records.

    Parameters
    ----------
    images : Tensor, shape (R * records, channels, height, width)

    Returns
    -------
    Tensor, shape (R, statistics)
        For each layer, in the order of modules, the means of its channels, then the variances.
    """
    norms = _norms(engine.model)
    seen: dict[nn.Module, Tensor] = {}

    def capture(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[module] = inputs[0]

    hooks = [norm.register_forward_pre_hook(capture) for norm in norms]
    rows = []
    try:
        # One update at a time: layers in training mode would mix the records of several.
        for start in range(0, len(images), engine.records):
            engine.model(images[start : start + engine.records])
            parts = []
            for norm in norms:
                axes = [axis for axis in range(seen[norm].ndim) if axis != 1]
                variance, mean = torch.var_mean(seen[norm], axes, correction=0)
                parts += [mean, variance]
            rows.append(torch.cat(parts))
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(rows)


def _norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]
