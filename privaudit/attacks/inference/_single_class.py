"""Updates of single classes, trained by the adversary on its auxiliary records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from privaudit.attacks._messages import array_of
from privaudit.attacks.base import Knowledge
from privaudit.attacks.inference._histograms import known_labels
from privaudit.attacks.inference._simulation import TrainingParameters
from privaudit.errors import ConfigurationError
from privaudit.models import build
from privaudit.protocols.disue import kinds
from privaudit.protocols.training import local_update
from privaudit.transcript import PartyId, View

__all__ = ["single_class_updates", "start_of"]

Vector = npt.NDArray[np.float32]


def start_of(view: View, round: int, *, receiver: PartyId | None) -> Vector:
    """Return the parameters that a client (None: any) was sent at the start of a round.

    Raises
    ------
    ConfigurationError
        If the view does not hold them.
    """
    for kind in (kinds.CLUSTER_MODEL, kinds.GLOBAL_MODEL):
        for message in view.select(kind, round=round, receiver=receiver):
            return array_of(message, "parameters").astype(np.float32)
    raise ConfigurationError(
        f"the view of {view.coalition} does not hold the '{kinds.GLOBAL_MODEL}' of "
        f"{receiver or 'a client'} in round {round}; rounds with some: "
        f"{list(view.rounds(kinds.GLOBAL_MODEL))}"
    )


def single_class_updates(
    view: View, start: Vector, *, knowledge: Knowledge, rng: np.random.Generator
) -> Mapping[int, npt.NDArray[np.float64]]:
    """Train from ``start`` on the auxiliary records of each class, as the run's clients train.

    Returns
    -------
    mapping of int to ndarray of float64, shape (d,)
        After minus before, by class; classes without auxiliary records and those whose training
        diverged are left out.

    Raises
    ------
    UnmetRequirementsError
        If model or auxiliary records are not declared.
    ConfigurationError
        If how clients train is not public, or no class is left.
    """
    labels, classes = known_labels(knowledge, attack="single-class updates")
    assert knowledge.model is not None
    assert knowledge.auxiliary is not None
    training = TrainingParameters.of(view)
    configuration = view.public["configuration"]
    decay = configuration.get("weight_decay") if isinstance(configuration, Mapping) else None
    clip = configuration.get("clip_norm") if isinstance(configuration, Mapping) else None
    model = build(knowledge.model, seed=0)
    updates: dict[int, npt.NDArray[np.float64]] = {}
    for c in range(classes):
        records = knowledge.auxiliary.take(np.flatnonzero(labels == c))
        if not len(records):
            continue
        update = local_update(
            model,
            records.images,
            records.labels,
            parameters=start,
            learning_rate=training.learning_rate,
            batch_size=training.batch_size,
            epochs=training.epochs,
            mode=training.mode,
            rng=rng,
            weight_decay=float(decay) if isinstance(decay, int | float) else 0.0,
            clip_norm=float(clip) if isinstance(clip, int | float) else None,
        )
        change = -training.learning_rate * update.astype(np.float64)
        if np.isfinite(change).all() and change.any():
            updates[c] = change
    if not updates:
        raise ConfigurationError("training on the auxiliary records of every class diverged")
    return updates
