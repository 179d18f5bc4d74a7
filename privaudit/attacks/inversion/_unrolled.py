"""Updates of several local steps as functions of the dummy records; imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _multisets as multisets
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._factors import DenseGradients
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._observations import LocalSteps, PartialUpdates
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._targets import Targets
from privaudit.datasets.base import LabelledImages
from privaudit.errors import UnmetRequirementsError
from privaudit.models import ModelSpec, classifier_rows, load_parameters

if TYPE_CHECKING:
    from privaudit.attacks.inversion.local_steps import LocalStepsInversion

__all__ = ["StepOptions", "UnrolledUpdates", "check_steps", "invert", "unrolled"]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class UnrolledUpdates:
    """Stands where :class:`GradientEngine` does, for updates of several steps.

    Attributes
    ----------
    engine : GradientEngine
        Holds the network at the initial parameters.
    batches : tuple of ndarray of int64
        The dummy records of each step.
    learning_rate : float
    """

    engine: GradientEngine
    batches: tuple[Int64, ...]
    learning_rate: float

    def gradients(self, images: Tensor, labels: Tensor) -> DenseGradients:
        """Return ``(theta_0 - theta_T) / learning_rate`` of every update, differentiably.

        Shapes as :meth:`GradientEngine.gradients`.
        """
        records = self.engine.records
        rows = [
            self._update(images[start : start + records], labels[start : start + records])
            for start in range(0, len(images), records)
        ]
        return DenseGradients(torch.stack(rows))

    def _update(self, images: Tensor, labels: Tensor) -> Tensor:
        model = self.engine.model
        names = [name for name, _ in model.named_parameters()]
        first = [p.detach().requires_grad_(True) for p in model.parameters()]
        current, total = first, [torch.zeros_like(p) for p in first]
        for batch in self.batches:
            output = torch.func.functional_call(
                model, dict(zip(names, current, strict=True)), (images[batch],)
            )
            loss = -(labels[batch] * functional.log_softmax(output, dim=1)).sum() / len(batch)
            gradients = torch.autograd.grad(
                loss, current, create_graph=True, materialize_grads=True
            )
            current = [p - self.learning_rate * g for p, g in zip(current, gradients, strict=True)]
            # The sum of gradients is the update; a difference of parameters would round it.
            total = [t + g for t, g in zip(total, gradients, strict=True)]
        return torch.cat([t.flatten() for t in total])


def invert(
    options: LocalStepsInversion,
    spec: ModelSpec,
    parameters: Float32,
    seen: PartialUpdates,
    counts: Int64,
    training: LocalSteps,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Run :class:`~privaudit.attacks.inversion.LocalStepsInversion` on checked updates."""
    check_steps(options, seen.users, counts, training)

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _search.engine_for(
            spec,
            parameters,
            batch_norm=options.batch_norm,
            device=options.device,
            records=records,
        )
        part = seen.take(positions)
        if options.known_labels is not None:
            labels = multisets.declared_labels(
                options.known_labels, part.users, records=records, classes=spec.classes
            )
        else:
            labels = _labels(part, engine, spec, parameters, training, auxiliary, rng)
        simulated = unrolled(options, engine, training, rng)
        found = _search.search(
            engine,
            objectives.cosine(Targets(_search.tensor(part.values, engine), {})),
            labels,
            options=options,
            auxiliary=auxiliary,
            rng=rng,
            simulated=simulated,
            statistics=part.statistics,
        )
        extra = {
            "local steps": float(training.steps(records)),
            "batch order unknown": float(training.batch_size < records),
            "labels declared": float(options.known_labels is not None),
        }
        return _search.as_guesses(part.users, found, way="dense", extra=extra)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


class StepOptions(Protocol):
    """Options of attacks that unroll local steps, see :class:`.local_steps.LocalStepsInversion`."""

    name: ClassVar[str]

    @property
    def order(self) -> str:
        """How dummy records are spread over the steps."""
        ...

    @property
    def most_steps(self) -> int:
        """Steps that are unrolled at most."""
        ...


def check_steps(
    options: StepOptions, users: tuple[str, ...], counts: Int64, training: LocalSteps
) -> None:
    """Raise UnmetRequirementsError if a user made more local steps than are unrolled."""
    for user, count in zip(users, counts.tolist(), strict=True):
        if training.steps(count) > options.most_steps:
            raise UnmetRequirementsError(
                f"attack '{options.name}' unrolls at most {options.most_steps} local steps, and "
                f"'{user}' with {count} records made {training.steps(count)}; raise 'most_steps'"
            )


def unrolled(
    options: StepOptions, engine: GradientEngine, training: LocalSteps, rng: np.random.Generator
) -> UnrolledUpdates:
    """Return what simulates the training of users with as many records as the engine's updates."""
    records, steps = engine.records, training.steps(engine.records)
    everyone = np.arange(records)
    if training.batch_size >= records or options.order == "invariant":
        return UnrolledUpdates(engine, (everyone,) * steps, training.learning_rate)
    batches = tuple(
        order[start : start + training.batch_size]
        for order in (rng.permutation(records) for _ in range(training.epochs))
        for start in range(0, records, training.batch_size)
    )
    return UnrolledUpdates(engine, batches, training.learning_rate)


def _labels(
    seen: PartialUpdates,
    engine: GradientEngine,
    spec: ModelSpec,
    parameters: Float32,
    training: LocalSteps,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> Int64:
    """Restore each multiset at the mean of the initial and the trained network's probabilities."""
    records, bias = engine.records, classifier_rows(spec).bias_offset
    # Where nothing is known of the records, both networks must see the same noise.
    seed = int(rng.integers(2**31))
    before = multisets.class_probabilities(engine, auxiliary, np.random.default_rng(seed))
    rows = []
    for values in seen.values:
        trained = parameters - np.float32(training.learning_rate) * values
        load_parameters(engine.model, trained)
        after = multisets.class_probabilities(engine, auxiliary, np.random.default_rng(seed))
        mean = values[bias : bias + spec.classes] / training.steps(records)
        labels, _ = multisets.multiset_of_bias(mean, (before + after) / 2, records=records)
        rows.append(labels)
    load_parameters(engine.model, parameters)
    return np.stack(rows)
