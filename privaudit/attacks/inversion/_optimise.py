"""Minimisers of an objective over dummy images; they see no truth and choose by loss alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from privaudit.attacks.inversion._factors import UpdateGradients
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._memory import jobs_that_fit, ran_out_of_memory
from privaudit.attacks.inversion._objectives import Objective, ObjectiveMaker, total_variation
from privaudit.attacks.inversion._priors import Prior
from privaudit.attacks.inversion._regularisers import Regulariser

__all__ = ["AdamSettings", "GradientSource", "Outcome", "Simulated", "adam"]

#: Fewest and most jobs that are optimised at once, and how many gradient entries they may have in
#: all: small networks are quicker in large chunks, large ones fall out of the cache.
_JOBS = (16, 256)
_NUMBERS = 2**23


class GradientSource(Protocol):
    """Computes updates of dummy records, as :class:`GradientEngine` does."""

    def gradients(self, images: Tensor, labels: Tensor) -> UpdateGradients:
        """See :meth:`GradientEngine.gradients`."""
        ...


class Simulated(GradientSource, Protocol):
    """Computes updates of several local steps."""

    @property
    def batches(self) -> tuple[object, ...]:
        """One entry a step."""
        ...


@dataclass(frozen=True, slots=True)
class AdamSettings:
    """Adam with a cosine decay of the learning rate to zero.

    ``total_variation`` weighs the mean total variation; ``signed`` uses the sign of the gradient;
    ``optimise_labels`` searches for the labels too.
    """

    iterations: int
    learning_rate: float
    total_variation: float
    signed: bool = False
    optimise_labels: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Best images (jobs, records, ...), their losses (jobs,), and gradient evaluations made.

    ``at_once`` is the number of jobs that were optimised together.
    """

    images: Tensor
    losses: Tensor
    evaluations: int
    at_once: int


def adam(
    make: ObjectiveMaker,
    engine: GradientEngine,
    prior: Prior,
    *,
    rows: Tensor,
    first: Tensor,
    labels: Tensor,
    settings: AdamSettings,
    simulated: Simulated | None = None,
    regularisers: tuple[Regulariser, ...] = (),
    group: int = 1,
) -> Outcome:
    """Minimise objective + total variation + prior penalty, all jobs of a chunk together.

    As many jobs are taken at once as are quick and fit into memory; if memory runs out all the
    same, half as many.

    Parameters
    ----------
    rows : Tensor of int64, shape (jobs,)
        The target of each job.
    first : Tensor, shape (jobs, records, channels, height, width)
    labels : Tensor, shape (jobs, records, classes)
        Distributions, or where they are optimised the logits at the start.
    simulated : Simulated, optional
        What computes the dummies' updates, instead of the engine.
    regularisers : tuple of Regulariser
        Further terms of the loss.
    group : int
        So many jobs, one after the other, must be optimised together.

    Returns
    -------
    Outcome
        The iterate of lowest loss of each job, not the last one.

    Raises
    ------
    RuntimeError
        If not even one group of jobs fits into memory.
    """
    images, losses = [], []
    quick = max(_JOBS[0], min(_JOBS[1], _NUMBERS // engine.dimension))
    chunk = jobs_that_fit(engine, max(1, quick // first.shape[1]))
    if simulated is not None:
        # Every step of an update keeps its activations and a set of parameters.
        chunk = max(1, chunk // len(simulated.batches))
    chunk = max(1, chunk // group) * group
    start = 0
    while start < len(rows):
        part = slice(start, start + chunk)
        records = slice(start * first.shape[1], (start + chunk) * first.shape[1])
        try:
            found, loss = _adam_chunk(
                make(rows[part]),
                engine if simulated is None else simulated,
                prior.of(records),
                first[part],
                labels[part],
                settings,
                tuple(term.of(rows[part]) for term in regularisers),
            )
        except RuntimeError as error:
            if chunk == group or not ran_out_of_memory(error):
                raise
            chunk = chunk // group // 2 * group
            continue
        images.append(found)
        losses.append(loss)
        start += chunk
    evaluations = len(rows) * (settings.iterations + 1)
    return Outcome(torch.cat(images), torch.cat(losses), evaluations, chunk)


def _adam_chunk(
    objective: Objective,
    engine: GradientSource,
    prior: Prior,
    first: Tensor,
    labels: Tensor,
    settings: AdamSettings,
    regularisers: tuple[Regulariser, ...],
) -> tuple[Tensor, Tensor]:
    jobs, records = first.shape[:2]
    variables = prior.variables(first.flatten(0, 1)).clone().requires_grad_(True)
    searched = [variables]
    flat = labels.flatten(0, 1).clone()
    if settings.optimise_labels:
        searched.append(flat.requires_grad_(True))
    optimiser = torch.optim.Adam(searched, lr=settings.learning_rate, fused=True)
    best = prior.images(variables.detach()).clone()
    best = best.reshape(jobs, records, *best.shape[1:])
    lowest = torch.full((jobs,), math.inf, dtype=first.dtype, device=first.device)
    for step in range(settings.iterations + 1):
        images = prior.images(variables)
        soft = torch.softmax(flat, 1) if settings.optimise_labels else flat
        matching = objective(engine.gradients(images, soft))
        penalty = prior.penalty(variables)
        if settings.total_variation:
            penalty = penalty + settings.total_variation * total_variation(images)
        total = matching + penalty.reshape(jobs, records).mean(1)
        for term in regularisers:
            total = total + term(images, jobs)
        with torch.no_grad():
            better = total < lowest
            lowest = torch.where(better, total, lowest)
            best = torch.where(better[:, None, None, None, None], images.reshape(best.shape), best)
        if step == settings.iterations:
            break
        for variable, gradient in zip(
            searched, torch.autograd.grad(total.sum(), searched), strict=True
        ):
            finite = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
            variable.grad = finite.sign() if settings.signed else finite
        decay = 0.5 * (1 + math.cos(math.pi * step / settings.iterations))
        optimiser.param_groups[0]["lr"] = settings.learning_rate * decay
        optimiser.step()
        with torch.no_grad():
            prior.project(variables)
    return best, lowest
