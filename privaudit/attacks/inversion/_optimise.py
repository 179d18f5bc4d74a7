"""Minimisers of an objective over dummy images; they see no truth and choose by loss alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import Objective, ObjectiveMaker, total_variation
from privaudit.attacks.inversion._priors import Prior

__all__ = ["AdamSettings", "Outcome", "adam"]

#: Fewest and most jobs that are optimised at once, and how many gradient entries they may have in
#: all: small networks are quicker in large chunks, large ones fall out of the cache.
_JOBS = (16, 256)
_NUMBERS = 2**23


@dataclass(frozen=True, slots=True)
class AdamSettings:
    """Adam with a cosine decay of the learning rate to zero.

    ``total_variation`` weighs the mean total variation; ``signed`` uses the sign of the gradient.
    """

    iterations: int
    learning_rate: float
    total_variation: float
    signed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Best images (jobs, ...), their losses (jobs,), and gradient evaluations made."""

    images: Tensor
    losses: Tensor
    evaluations: int


def adam(
    make: ObjectiveMaker,
    engine: GradientEngine,
    prior: Prior,
    *,
    rows: Tensor,
    first: Tensor,
    labels: Tensor,
    settings: AdamSettings,
) -> Outcome:
    """Minimise objective + total variation + prior penalty, all jobs of a chunk together.

    Parameters
    ----------
    rows : Tensor of int64, shape (jobs,)
        The target of each job.
    first : Tensor, shape (jobs, channels, height, width)
    labels : Tensor, shape (jobs, classes)

    Returns
    -------
    Outcome
        The iterate of lowest loss of each job, not the last one.
    """
    images, losses = [], []
    chunk = max(_JOBS[0], min(_JOBS[1], _NUMBERS // engine.dimension))
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        found, loss = _adam_chunk(
            make(rows[part]), engine, prior.of(part), first[part], labels[part], settings
        )
        images.append(found)
        losses.append(loss)
    return Outcome(torch.cat(images), torch.cat(losses), len(rows) * (settings.iterations + 1))


def _adam_chunk(
    objective: Objective,
    engine: GradientEngine,
    prior: Prior,
    first: Tensor,
    labels: Tensor,
    settings: AdamSettings,
) -> tuple[Tensor, Tensor]:
    variables = prior.variables(first).clone().requires_grad_(True)
    optimiser = torch.optim.Adam([variables], lr=settings.learning_rate)
    best = prior.images(variables.detach()).clone()
    lowest = torch.full((len(first),), math.inf, dtype=engine.dtype, device=engine.device)
    for step in range(settings.iterations + 1):
        images = prior.images(variables)
        matching = objective(engine.gradients(images, labels))
        total = matching + prior.penalty(variables)
        if settings.total_variation:
            total = total + settings.total_variation * total_variation(images)
        with torch.no_grad():
            better = total < lowest
            lowest = torch.where(better, total, lowest)
            best[better] = images[better]
        if step == settings.iterations:
            break
        (gradient,) = torch.autograd.grad(total.sum(), variables)
        gradient = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        variables.grad = gradient.sign() if settings.signed else gradient
        decay = 0.5 * (1 + math.cos(math.pi * step / settings.iterations))
        optimiser.param_groups[0]["lr"] = settings.learning_rate * decay
        optimiser.step()
        with torch.no_grad():
            prior.project(variables)
    return best, lowest
