"""Minimisers of an objective over dummy images; they see no truth and choose by loss alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import Objective, ObjectiveMaker, total_variation
from privaudit.attacks.inversion._priors import Prior

__all__ = ["AdamSettings", "LBFGSSettings", "Outcome", "adam", "lbfgs"]

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


@dataclass(frozen=True, slots=True)
class LBFGSSettings:
    """L-BFGS with strong Wolfe line search; stops at a relative loss of ``target``."""

    iterations: int
    history: int = 50
    target: float = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Best images (jobs, ...), their losses (jobs,), and gradient evaluations made.

    ``finite`` is false if the search left the finite numbers.
    """

    images: Tensor
    losses: Tensor
    evaluations: int
    finite: bool = True


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


def lbfgs(
    objective: Objective,
    engine: GradientEngine,
    *,
    first: Tensor,
    labels: Tensor | None,
    logits: Tensor | None,
    settings: LBFGSSettings,
) -> Outcome:
    """Minimise one job's objective over its image and, if labels are unknown, its label logits.

    Parameters
    ----------
    first : Tensor, shape (1, channels, height, width)
    labels : Tensor, shape (1, classes), or None
        The label if it is known; otherwise ``logits`` of the same shape start the search.

    Returns
    -------
    Outcome
        The evaluation of lowest loss. A step that is not finite ends the search there.
    """
    image = first.clone().requires_grad_(True)
    free = [image]
    if labels is None:
        assert logits is not None
        logits = logits.clone().requires_grad_(True)
        free.append(logits)
    best, lowest, evaluations = first.clone(), math.inf, 0

    optimiser: torch.optim.Optimizer = torch.optim.LBFGS(
        free,
        lr=1.0,
        max_iter=20,
        history_size=settings.history,
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        nonlocal best, lowest, evaluations
        known = labels if labels is not None else torch.softmax(free[1], dim=1)
        loss = objective(engine.gradients(image, known)).sum()
        for variable, gradient in zip(free, torch.autograd.grad(loss, free), strict=True):
            variable.grad = gradient
        evaluations += 1
        reached = float(loss.detach())
        if reached < lowest:
            best, lowest = image.detach().clone(), reached
        return reached

    finite = True
    for _ in range(max(1, settings.iterations // 20)):
        before = lowest
        optimiser.step(closure)
        finite = all(bool(torch.isfinite(variable).all()) for variable in free)
        if not finite or lowest <= settings.target or lowest >= before * (1 - 1e-6):
            break
    losses = torch.as_tensor([lowest], dtype=engine.dtype, device=engine.device)
    return Outcome(best, losses, evaluations, finite)
