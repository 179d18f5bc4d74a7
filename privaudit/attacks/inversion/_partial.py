"""The searches behind the attacks on a few entries or on ranks; imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import torch

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion import _multisets as multisets
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._calibration import calibrated
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import (
    candidates_from_values,
    decide,
    labels_from_ranks,
    one_hot,
    rows_of,
)
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._observations import LocalSteps, PartialUpdates, declared_model
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._refine import Refinement, gain_of_refinement, refined
from privaudit.attacks.inversion._regressed_labels import regressed_labels
from privaudit.attacks.inversion._unrolled import StepOptions, UnrolledUpdates, unrolled
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.models import ClassifierRows, classifier_rows

__all__ = ["LocalTraining", "magnitude_profile", "match", "match_ranks", "match_sorted"]

Int64 = npt.NDArray[np.int64]

_PROFILE_CHUNK = 16


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """How users trained, and how it is simulated."""

    options: StepOptions
    steps: LocalSteps

    def of(self, engine: GradientEngine, rng: np.random.Generator) -> UnrolledUpdates:
        """Return what simulates users with as many records as the engine's updates."""
        return unrolled(self.options, engine, self.steps, rng)


def _engine(options: MatchingOptions, knowledge: Knowledge, records: int) -> GradientEngine:
    spec, parameters = declared_model(knowledge, attack="inversion")
    return _search.engine_for(
        spec, parameters, batch_norm=options.batch_norm, device=options.device, records=records
    )


def match(
    options: MatchingOptions,
    knowledge: Knowledge,
    seen: PartialUpdates,
    counts: Int64,
    auxiliary: LabelledImages | None,
    *,
    zero_fill: bool,
    rng: np.random.Generator,
    local: LocalTraining | None = None,
    refinement: Refinement | None = None,
) -> Guesses:
    """Match values at coordinates, leaving the other entries free or taking them to be zero.

    ``local`` simulates several local steps; without, updates are one gradient, and images of
    single records are refined as ``refinement`` says, unless that harms auxiliary records.
    """
    assert knowledge.model is not None
    layout = classifier_rows(knowledge.model)

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _engine(options, knowledge, records)
        part = seen.take(positions)
        assert part.indices is not None
        known = objectives.zero_filled_cosine if zero_fill else objectives.masked_cosine
        make = known(_search.tensor(part.indices, engine), _search.tensor(part.values, engine))
        labels = _declared(options, part.users, engine)
        if labels is None and records == 1:
            allowed = candidates_from_values(part.indices, part.values, layout, engine.classes)
            probes = _search.probe_images(engine, auxiliary, rng)
            labels = decide(allowed, make, engine, probes=probes)[:, None]
        steps = None if local is None else local.of(engine, rng)
        if labels is None and auxiliary is not None:
            labels = regressed_labels(
                part.indices,
                part.values,
                engine,
                auxiliary,
                layout,
                source=steps or engine,
                rng=rng,
            )
        if labels is None:
            labels = np.stack(
                [
                    multisets.multiset_of_values(
                        where, values, layout, engine.classes, records=records
                    )
                    for where, values in zip(part.indices, part.values, strict=True)
                ]
            )
        chosen, told = options, dict[str, float]()
        if steps is None:
            shared = len(part.users) > 1 and bool((part.indices == part.indices[0]).all())
            same = part.indices[0] if shared else None

            def message(gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                where = _largest(gradients, part.values.shape[1], same)
                return where, gradients.gather(1, where)

            def observe(gradients: torch.Tensor, _: Int64) -> ObjectiveMaker:
                return known(*message(gradients))

            chosen, told = calibrated(options, engine, auxiliary, observe, rng=rng)
        worth = refinement if steps is None else None
        if worth is not None and auxiliary is not None and records == 1:
            gain = gain_of_refinement(chosen, engine, auxiliary, message, refinement=worth, rng=rng)
            if gain is not None:
                told["gain of refinement on auxiliary records"] = gain
                worth = worth if gain > 0 else None
        return _searched(chosen, engine, make, labels, part, auxiliary, rng, steps, told, worth)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


def _largest(gradients: torch.Tensor, count: int, same: Int64 | None) -> torch.Tensor:
    """Return coordinates (n, count): those given, or each gradient's largest, largest first."""
    if same is None:
        return gradients.abs().topk(count, dim=1).indices
    return torch.as_tensor(same, device=gradients.device).expand(len(gradients), -1)


def match_sorted(
    options: MatchingOptions,
    knowledge: Knowledge,
    seen: PartialUpdates,
    counts: Int64,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Match sorted values; one label is that of the best probe, several are spread evenly."""

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _engine(options, knowledge, records)
        part = seen.take(positions)
        make = objectives.sorted_values(_search.tensor(part.values, engine))
        labels = _declared(options, part.users, engine)
        if labels is None and records == 1:
            allowed = np.ones((len(part.users), engine.classes), np.bool_)
            probes = _search.probe_images(engine, auxiliary, rng)
            labels = decide(allowed, make, engine, probes=probes)[:, None]
        if labels is None:
            even = multisets.largest_remainder(np.ones(engine.classes), records)
            labels = np.tile(even, (len(part.users), 1))
        return _searched(options, engine, make, labels, part, auxiliary, rng)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


def match_ranks(
    options: MatchingOptions,
    knowledge: Knowledge,
    users: tuple[str, ...],
    indices: Int64,
    counts: Int64,
    auxiliary: LabelledImages,
    *,
    profile_records: int,
    rng: np.random.Generator,
    local: LocalTraining | None = None,
) -> Guesses:
    """Match the magnitudes that ranks suggest, with the signs that the labels suggest.

    ``local`` as for :func:`match`.
    """
    assert knowledge.model is not None
    layout = classifier_rows(knowledge.model)

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _engine(options, knowledge, records)
        own, names = indices[positions], tuple(users[p] for p in positions)
        steps = None if local is None else local.of(engine, rng)
        profile = magnitude_profile(
            engine,
            auxiliary,
            count=own.shape[1],
            records=profile_records,
            rng=rng,
            simulated=steps,
        )
        where = _search.tensor(own, engine)
        labels = _declared(options, names, engine)
        if labels is None and records == 1:
            labels = _label_of_ranks(own, where, profile, engine, layout, auxiliary, rng)
        if labels is None:
            labels = regressed_labels(
                own, None, engine, auxiliary, layout, source=steps or engine, rng=rng
            )

        def profiled(coordinates: Int64, labels: Int64) -> ObjectiveMaker:
            row = rows_of(coordinates, layout, engine.classes)
            present = (row[:, :, None] == labels[:, None, :]).any(2)
            signs = np.where(row < 0, 0, np.where(present, -1, 1))
            at = _search.tensor(coordinates, engine)
            return objectives.profile_cosine(at, _search.tensor(signs, engine), profile)

        chosen, told = options, dict[str, float]()
        if steps is None:

            def observe(gradients: torch.Tensor, labels: Int64) -> ObjectiveMaker:
                largest = _largest(gradients, own.shape[1], None).cpu().numpy()
                return profiled(largest, labels[:, None])

            chosen, told = calibrated(options, engine, auxiliary, observe, rng=rng)
        make = profiled(own, labels)
        ranks = PartialUpdates(names, np.zeros(own.shape, np.float32), own)
        return _searched(chosen, engine, make, labels, ranks, auxiliary, rng, steps, told)

    with _search.single_thread():
        return group_by_records(users, counts, attack)


def _label_of_ranks(
    indices: Int64,
    where: torch.Tensor,
    profile: torch.Tensor,
    engine: GradientEngine,
    layout: ClassifierRows,
    auxiliary: LabelledImages,
    rng: np.random.Generator,
) -> Int64:
    """Return the label of each single record (targets, 1); probes decide where no row is seen."""
    labels, seen_any = labels_from_ranks(indices, layout, engine.classes)
    if not seen_any.all():
        unsigned = objectives.profile_cosine(where, torch.zeros_like(where), profile)
        allowed = np.eye(engine.classes, dtype=np.bool_)[labels] | ~seen_any[:, None]
        probes = _search.probe_images(engine, auxiliary, rng)
        labels = decide(allowed, unsigned, engine, probes=probes)
    return labels[:, None]


def _declared(
    options: MatchingOptions, users: tuple[str, ...], engine: GradientEngine
) -> Int64 | None:
    if options.known_labels is None:
        return None
    return multisets.declared_labels(
        options.known_labels, users, records=engine.records, classes=engine.classes
    )


def _searched(
    options: MatchingOptions,
    engine: GradientEngine,
    make: ObjectiveMaker,
    labels: Int64,
    seen: PartialUpdates,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
    steps: UnrolledUpdates | None = None,
    told: Mapping[str, float] = MappingProxyType({}),
    refinement: Refinement | None = None,
) -> Guesses:
    found = _search.search(
        engine,
        make,
        labels,
        options=options,
        auxiliary=auxiliary,
        rng=rng,
        statistics=seen.statistics,
        simulated=steps,
    )
    extra = {"labels declared": float(options.known_labels is not None), **told}
    if refinement is not None:
        found, more = refined(
            found, engine, seen, labels, refinement=refinement, options=options, rng=rng
        )
        extra |= more
    if steps is not None:
        extra["local steps"] = float(len(steps.batches))
    way = engine.way if steps is None else "dense"
    return _search.as_guesses(seen.users, found, way=way, extra=extra)


def magnitude_profile(
    engine: GradientEngine,
    auxiliary: LabelledImages,
    *,
    count: int,
    records: int,
    rng: np.random.Generator,
    simulated: UnrolledUpdates | None = None,
) -> torch.Tensor:
    """Return the median magnitude at each rank over gradients of auxiliary records.

    Gradients are of as many records as the engine's updates have, or updates of several steps if
    ``simulated`` is given.

    Each gradient's ``count`` largest magnitudes are divided by their norm first.

    Returns
    -------
    Tensor, shape (count,)
    """
    size = engine.records
    if len(auxiliary) < size:
        raise ConfigurationError(
            f"a magnitude profile of updates of {size} records needs as many auxiliary records, "
            f"got {len(auxiliary)}"
        )
    count_records = max(size, min(records, len(auxiliary)) // size * size)
    chosen = rng.choice(len(auxiliary), count_records, replace=False)
    sample = auxiliary.take(np.sort(chosen) if size == 1 else chosen)
    rows = []
    for start in range(0, len(sample), _PROFILE_CHUNK * size):
        part = slice(start, start + _PROFILE_CHUNK * size)
        gradients = (simulated or engine).gradients(
            _search.tensor(sample.images[part], engine), one_hot(sample.labels[part], engine)
        )
        top = gradients.flat().detach().abs().topk(count, dim=1).values
        rows.append(top / top.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return torch.cat(rows).median(0).values
