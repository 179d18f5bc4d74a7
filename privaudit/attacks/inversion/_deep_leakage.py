"""The search of DLG: one target at a time, with restarts that are chosen by loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._labels import label_of_whole, one_hot
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._optimise import LBFGSSettings, lbfgs
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
    shape = (len(seen.users), attack.restarts + 1)
    first = rng.random((*shape, *spec.input_shape), dtype=np.float32)
    logits = rng.standard_normal((*shape, spec.classes))
    settings = LBFGSSettings(iterations=attack.iterations)
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
        images, losses, evaluations = [], [], 0
        for target in range(len(seen.users)):
            objective = make(torch.tensor([target], device=engine.device))
            best, lowest, continued = None, float("inf"), False
            for attempt in range(attack.restarts + 1):
                start = _search.tensor(first[target, attempt][None], engine)
                outcome = lbfgs(
                    objective,
                    engine,
                    # A search that left the finite numbers is taken up where it was best.
                    first=best if continued and best is not None else start,
                    labels=known[target][None] if attack.labels == "restored" else None,
                    logits=_search.tensor(logits[target, attempt][None], engine),
                    settings=settings,
                )
                evaluations += outcome.evaluations
                continued = not outcome.finite
                if best is None or float(outcome.losses) < lowest:
                    best, lowest = outcome.images, float(outcome.losses)
                if lowest <= attack.tolerance:
                    break
            assert best is not None
            images.append(best)
            losses.append(lowest)
        return _search.as_guesses(
            seen.users, torch.cat(images), torch.tensor(losses, dtype=torch.float64), evaluations
        )
