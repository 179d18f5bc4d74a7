"""The searches behind the attacks on a few entries; imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion import _multisets as multisets
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._calibration import calibrated
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import candidates_from_values, decide
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._observations import LocalSteps, PartialUpdates, declared_model
from privaudit.attacks.inversion._options import MatchingOptions, Refinement
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._refine import (
    Read,
    gains_of_refinement,
    read_entries,
    refined,
)
from privaudit.attacks.inversion._regressed_labels import regressed_labels
from privaudit.attacks.inversion._unrolled import StepOptions, UnrolledUpdates, unrolled
from privaudit.datasets.base import LabelledImages
from privaudit.models import classifier_rows

__all__ = [
    "LocalTraining",
    "Refine",
    "declared",
    "engine_of",
    "largest",
    "match",
    "match_sorted",
    "searched",
]

Int64 = npt.NDArray[np.int64]

#: From what a search found, refined images and diagnostics.
Refine: TypeAlias = Callable[[_search.Found], tuple[_search.Found, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """How users trained, and how it is simulated."""

    options: StepOptions
    steps: LocalSteps

    def of(self, engine: GradientEngine, rng: np.random.Generator) -> UnrolledUpdates:
        """Return what simulates users with as many records as the engine's updates."""
        return unrolled(self.options, engine, self.steps, rng)


def engine_of(options: MatchingOptions, knowledge: Knowledge, records: int) -> GradientEngine:
    """Return what computes gradients of the declared model, of so many records each."""
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
    largest_known: bool = False,
) -> Guesses:
    """Match values at coordinates, leaving the other entries free or taking them to be zero.

    ``local`` simulates several local steps; without, updates are one gradient, and images of
    single records are refined as ``refinement`` says, unless that harms auxiliary records.
    ``largest_known`` says that values are each update's largest.
    """
    assert knowledge.model is not None
    layout = classifier_rows(knowledge.model)

    def attack(positions: Int64, records: int) -> Guesses:
        engine = engine_of(options, knowledge, records)
        part = seen.take(positions)
        assert part.indices is not None
        known = objectives.zero_filled_cosine if zero_fill else objectives.masked_cosine
        make = known(_search.tensor(part.indices, engine), _search.tensor(part.values, engine))
        labels = declared(options, part.users, engine)
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
        refine: Refine | None = None
        if steps is None:
            shared = len(part.users) > 1 and bool((part.indices == part.indices[0]).all())
            same = part.indices[0] if shared else None

            def message(gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                where = largest(gradients, part.values.shape[1], same)
                return where, gradients.gather(1, where)

            def observe(gradients: torch.Tensor, _: Int64) -> ObjectiveMaker:
                return known(*message(gradients))

            chosen, told = calibrated(options, engine, auxiliary, observe, rng=rng)

            def read(where: torch.Tensor, values: torch.Tensor) -> Read:
                return read_entries(engine, where, values, largest=largest_known)

            def rehearsed(gradients: torch.Tensor, _: Int64) -> tuple[ObjectiveMaker, Read]:
                entries = message(gradients)
                return known(*entries), read(*entries)

            worth = refinement
            if (
                worth is not None
                and records == 1
                and auxiliary is not None
                and _search.fits_prior(chosen, auxiliary, engine.classes)
            ):
                gain = gains_of_refinement(
                    chosen,
                    engine,
                    auxiliary,
                    rehearsed,
                    refinement=worth,
                    kept=("nearest",),
                    rng=rng,
                ).get("nearest", 0.0)
                told["gain of refinement on auxiliary records"] = gain
                worth = worth if gain > 0 else None
            if worth is not None:
                assert labels is not None
                entries = (
                    _search.tensor(part.indices, engine),
                    _search.tensor(part.values, engine),
                )
                refine = partial(
                    refined,
                    engine=engine,
                    labels=labels,
                    read=read(*entries),
                    refinement=worth,
                    kept="nearest",
                    options=chosen,
                    rng=rng,
                )
        return searched(chosen, engine, make, labels, part, auxiliary, rng, steps, told, refine)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


def largest(gradients: torch.Tensor, count: int, same: Int64 | None) -> torch.Tensor:
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
        engine = engine_of(options, knowledge, records)
        part = seen.take(positions)
        make = objectives.sorted_values(_search.tensor(part.values, engine))
        labels = declared(options, part.users, engine)
        if labels is None and records == 1:
            allowed = np.ones((len(part.users), engine.classes), np.bool_)
            probes = _search.probe_images(engine, auxiliary, rng)
            labels = decide(allowed, make, engine, probes=probes)[:, None]
        if labels is None:
            even = multisets.largest_remainder(np.ones(engine.classes), records)
            labels = np.tile(even, (len(part.users), 1))
        return searched(options, engine, make, labels, part, auxiliary, rng)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


def declared(
    options: MatchingOptions, users: tuple[str, ...], engine: GradientEngine
) -> Int64 | None:
    """Return the labels (users, records) that the options declare, or None."""
    if options.known_labels is None:
        return None
    return multisets.declared_labels(
        options.known_labels, users, records=engine.records, classes=engine.classes
    )


def searched(
    options: MatchingOptions,
    engine: GradientEngine,
    make: ObjectiveMaker,
    labels: Int64,
    seen: PartialUpdates,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
    steps: UnrolledUpdates | None = None,
    told: Mapping[str, float] = MappingProxyType({}),
    refine: Refine | None = None,
) -> Guesses:
    """Search, refine what is found where ``refine`` is given, and return the guesses."""
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
    if refine is not None:
        found, more = refine(found)
        extra |= more
    if steps is not None:
        extra["local steps"] = float(len(steps.batches))
    way = engine.way if steps is None else "dense"
    return _search.as_guesses(seen.users, found, way=way, extra=extra)
