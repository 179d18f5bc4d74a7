"""The search of DLG: all targets together, each with restarts that are chosen by loss."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._lbfgs import LBFGSSettings, minimise
from privaudit.attacks.inversion._memory import jobs_that_fit, ran_out_of_memory
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._whole import labels_for
from privaudit.datasets.base import LabelledImages
from privaudit.models.spec import ModelSpec

if TYPE_CHECKING:
    from privaudit.attacks.inversion.whole import DeepLeakage

__all__ = ["deep_leakage"]

Int64 = npt.NDArray[np.int64]

#: Updates evaluated together at most.
_AT_ONCE = 256


def deep_leakage(
    attack: DeepLeakage,
    spec: ModelSpec,
    parameters: npt.NDArray[np.float32],
    seen: PartialUpdates,
    counts: Int64,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Run :class:`~privaudit.attacks.inversion.DeepLeakage` on checked updates."""

    def run(positions: Int64, records: int) -> Guesses:
        engine = _search.engine_for(
            spec,
            parameters,
            batch_norm=attack.batch_norm,
            device=attack.device,
            records=records,
            dtype=torch.float64,
        )
        part = seen.take(positions)
        return _of_equal_size(attack, engine, part, spec, auxiliary, rng=rng)

    with _search.single_thread():
        return group_by_records(seen.users, counts, run)


def _of_equal_size(
    attack: DeepLeakage,
    engine: GradientEngine,
    seen: PartialUpdates,
    spec: ModelSpec,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    count, shape, records = len(seen.users), spec.input_shape, engine.records
    pixels = records * int(np.prod(shape))
    optimised = attack.labels == "optimised" and attack.known_labels is None
    attempts = (attack.restarts + 1, count)
    first = rng.random((*attempts, pixels), dtype=np.float32).astype(np.float64)
    if optimised:
        logits = rng.standard_normal((*attempts, records * spec.classes))
        first = np.concatenate([first, logits], axis=2)
    make = objectives.relative_squared(engine.targets(_search.tensor(seen.values, engine)))
    labels, assumed = labels_for(
        seen,
        spec,
        engine,
        rule=attack.labels,
        known=attack.known_labels,
        auxiliary=auxiliary,
        rng=rng,
    )
    known = one_hot(labels.ravel(), engine).reshape(count, records, -1)

    at_once = jobs_that_fit(engine, min(count, _AT_ONCE))

    def part(targets: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        variable = points.detach().requires_grad_(True)
        images = variable[:, :pixels].reshape(-1, *shape)
        chosen = known[targets].flatten(0, 1)
        if optimised:
            chosen = torch.softmax(variable[:, pixels:].reshape(-1, spec.classes), dim=1)
        value = make(targets)(engine.gradients(images, chosen))
        (slope,) = torch.autograd.grad(value.sum(), variable)
        return value.detach(), slope

    def evaluate(targets: Tensor, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal at_once
        found, start = [], 0
        while start < len(points):
            some = slice(start, start + at_once)
            try:
                found.append(part(targets[which[some]], points[some]))
            except RuntimeError as error:
                if at_once == 1 or not ran_out_of_memory(error):
                    raise
                at_once //= 2
                continue
            start = some.stop
        values, slopes = zip(*found, strict=True)
        return torch.cat(values), torch.cat(slopes)

    starts = _search.tensor(first, engine)
    best = starts[0].clone()
    lowest = torch.full_like(best[:, 0], torch.inf)
    evaluations, diverged, restarted = 0, 0, 0
    for start in starts:
        rows = (lowest > attack.tolerance).nonzero(as_tuple=True)[0]
        if not len(rows):
            break
        restarted += int((~torch.isfinite(lowest[rows])).sum()) if evaluations else 0
        found = minimise(
            partial(evaluate, rows),
            start[rows],
            LBFGSSettings(iterations=attack.iterations),
        )
        diverged += int((~torch.isfinite(found.values)).sum())
        better = found.values < lowest[rows]
        best[rows[better]], lowest[rows[better]] = found.points[better], found.values[better]
        evaluations += found.evaluations
    images = best[:, :pixels].reshape(count, records, *shape)
    assumed["diverged searches"] = float(diverged)
    assumed["restarts after divergence"] = float(restarted)
    return _search.as_guesses(
        seen.users,
        _search.Found(images, lowest, evaluations, at_once),
        way=engine.way,
        extra=assumed,
    )
