"""The search of DLG: all targets together, each with restarts that are chosen by loss."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._labels import label_of_whole, one_hot
from privaudit.attacks.inversion._lbfgs import LBFGSSettings, minimise
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.models.spec import ModelSpec

if TYPE_CHECKING:
    from privaudit.attacks.inversion.whole import DeepLeakage

__all__ = ["deep_leakage"]


def deep_leakage(
    attack: DeepLeakage,
    spec: ModelSpec,
    parameters: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    seen: PartialUpdates,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Run :class:`~privaudit.attacks.inversion.DeepLeakage` on checked updates."""
    count, shape = len(seen.users), spec.input_shape
    pixels = int(np.prod(shape))
    attempts = (attack.restarts + 1, count)
    first = rng.random((*attempts, pixels), dtype=np.float32).astype(np.float64)
    if attack.labels == "optimised":
        first = np.concatenate([first, rng.standard_normal((*attempts, spec.classes))], axis=2)
    with _search.single_thread():
        engine = _search.engine_for(
            spec,
            parameters,
            batch_norm=attack.batch_norm,
            device=attack.device,
            dtype=torch.float64,
        )
        make = objectives.relative_squared(_search.tensor(seen.values, engine))
        known = one_hot(label_of_whole(seen.values, spec), engine)

        def evaluate(targets: Tensor, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            rows = targets[which]
            variable = points.detach().requires_grad_(True)
            images = variable[:, :pixels].reshape(-1, *shape)
            if attack.labels == "optimised":
                labels = torch.softmax(variable[:, pixels:], dim=1)
            else:
                labels = known[rows]
            values = make(rows)(engine.gradients(images, labels))
            (gradients,) = torch.autograd.grad(values.sum(), variable)
            return values.detach(), gradients

        starts = _search.tensor(first, engine)
        best = starts[0].clone()
        lowest = torch.full_like(best[:, 0], torch.inf)
        evaluations = 0
        for start in starts:
            rows = (lowest > attack.tolerance).nonzero(as_tuple=True)[0]
            if not len(rows):
                break
            found = minimise(
                partial(evaluate, rows),
                start[rows],
                LBFGSSettings(iterations=attack.iterations),
            )
            better = found.values < lowest[rows]
            best[rows[better]], lowest[rows[better]] = found.points[better], found.values[better]
            evaluations += found.evaluations
        images = best[:, :pixels].reshape(-1, *shape)
        return _search.as_guesses(seen.users, images, lowest, evaluations)
