"""The searches behind the attacks on ranks; imports torch."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._calibration import calibrated
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import decide, labels_from_ranks, one_hot, rows_of
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._options import MatchingOptions, Refinement
from privaudit.attacks.inversion._partial import (
    LocalTraining,
    Refine,
    declared,
    engine_of,
    largest,
    searched,
)
from privaudit.attacks.inversion._rank_values import read_ranks
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._refine import Read, gains_of_refinement, refined
from privaudit.attacks.inversion._regressed_labels import regressed_labels
from privaudit.attacks.inversion._unrolled import UnrolledUpdates
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.models import ClassifierRows, classifier_rows

__all__ = ["magnitude_profile", "match_ranks"]

Int64 = npt.NDArray[np.int64]

_PROFILE_CHUNK = 16


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
    refinement: Refinement | None = None,
) -> Guesses:
    """Match the magnitudes that ranks suggest, with the signs that the labels suggest.

    ``local`` as for :func:`._partial.match`. Images of single records are refined as ``refinement``
    says, unless that harms auxiliary records.
    """
    assert knowledge.model is not None
    layout = classifier_rows(knowledge.model)

    def attack(positions: Int64, records: int) -> Guesses:
        engine = engine_of(options, knowledge, records)
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
        labels = declared(options, names, engine)
        if labels is None and records == 1:
            labels = _label_of_ranks(own, where, profile, engine, layout, auxiliary, rng)
        if labels is None:
            labels = regressed_labels(
                own, None, engine, auxiliary, layout, source=steps or engine, rng=rng
            )

        def signs_of(coordinates: Int64, labels: Int64) -> torch.Tensor:
            row = rows_of(coordinates, layout, engine.classes)
            present = (row[:, :, None] == labels[:, None, :]).any(2)
            return _search.tensor(np.where(row < 0, 0, np.where(present, -1, 1)), engine)

        def profiled(coordinates: Int64, labels: Int64) -> ObjectiveMaker:
            at = _search.tensor(coordinates, engine)
            return objectives.profile_cosine(at, signs_of(coordinates, labels), profile)

        def ranked(gradients: torch.Tensor) -> Int64:
            return largest(gradients, own.shape[1], None).cpu().numpy()

        def observe(gradients: torch.Tensor, labels: Int64) -> ObjectiveMaker:
            return profiled(ranked(gradients), labels[:, None])

        def read_of(coordinates: Int64, labels: Int64) -> Read | None:
            signs = signs_of(coordinates, labels[:, None])
            return read_ranks(engine, coordinates, labels, signs, profile)

        chosen, told = options, dict[str, float]()
        refine: Refine | None = None
        if steps is None:
            chosen, told = calibrated(options, engine, auxiliary, observe, rng=rng)
            read = read_of(own, labels[:, 0]) if refinement is not None and records == 1 else None
            if refinement is not None and read is not None:

                def rehearsed(
                    gradients: torch.Tensor, labels: Int64
                ) -> tuple[ObjectiveMaker, Read]:
                    coordinates = ranked(gradients)
                    reading = read_of(coordinates, labels)
                    assert reading is not None
                    return profiled(coordinates, labels[:, None]), reading

                gains = gains_of_refinement(
                    chosen,
                    engine,
                    auxiliary,
                    rehearsed,
                    refinement=refinement,
                    kept=("nearest", "last"),
                    rng=rng,
                )
                told |= {
                    f"gain of refinement on auxiliary records, {rule} kept": gain
                    for rule, gain in gains.items()
                }
                best = max(gains, key=lambda rule: gains[rule], default=None)
                if best is not None and gains[best] > 0:
                    refine = partial(
                        refined,
                        engine=engine,
                        labels=labels,
                        read=read,
                        refinement=refinement,
                        kept=best,
                        options=chosen,
                        rng=rng,
                    )
        make = profiled(own, labels)
        ranks = PartialUpdates(names, np.zeros(own.shape, np.float32), own)
        return searched(chosen, engine, make, labels, ranks, auxiliary, rng, steps, told, refine)

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
