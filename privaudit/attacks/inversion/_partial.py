"""The searches behind the attacks on a few entries or on ranks; imports torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import (
    candidates_from_values,
    decide,
    labels_from_ranks,
    one_hot,
    rows_of,
)
from privaudit.attacks.inversion._observations import PartialUpdates, declared_model
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.datasets.base import LabelledImages
from privaudit.models import classifier_rows

__all__ = ["magnitude_profile", "match", "match_ranks", "match_sorted"]

_PROFILE_CHUNK = 16


def _engine(options: MatchingOptions, knowledge: Knowledge) -> GradientEngine:
    spec, parameters = declared_model(knowledge, attack="inversion")
    return _search.engine_for(
        spec, parameters, batch_norm=options.batch_norm, device=options.device
    )


def match(
    options: MatchingOptions,
    knowledge: Knowledge,
    seen: PartialUpdates,
    auxiliary: LabelledImages | None,
    *,
    zero_fill: bool,
    rng: np.random.Generator,
) -> Guesses:
    """Match values at coordinates, leaving the other entries free or taking them to be zero."""
    assert knowledge.model is not None
    assert seen.indices is not None
    with _search.single_thread():
        engine = _engine(options, knowledge)
        values = _search.tensor(seen.values, engine)
        indices = _search.tensor(seen.indices, engine)
        known = objectives.zero_filled_cosine if zero_fill else objectives.masked_cosine
        make = known(indices, values)
        layout = classifier_rows(knowledge.model)
        allowed = candidates_from_values(seen.indices, seen.values, layout, engine.classes)
        probes = _search.probe_images(engine, auxiliary, rng)
        labels = decide(allowed, make, engine, probes=probes)
        found = _search.search(engine, make, labels, options=options, auxiliary=auxiliary, rng=rng)
        return _search.as_guesses(seen.users, *found)


def match_sorted(
    options: MatchingOptions,
    knowledge: Knowledge,
    seen: PartialUpdates,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Match sorted values; the label is that of the best probe."""
    with _search.single_thread():
        engine = _engine(options, knowledge)
        make = objectives.sorted_values(_search.tensor(seen.values, engine))
        allowed = np.ones((len(seen.users), engine.classes), np.bool_)
        probes = _search.probe_images(engine, auxiliary, rng)
        labels = decide(allowed, make, engine, probes=probes)
        found = _search.search(engine, make, labels, options=options, auxiliary=auxiliary, rng=rng)
        return _search.as_guesses(seen.users, *found)


def match_ranks(
    options: MatchingOptions,
    knowledge: Knowledge,
    users: tuple[str, ...],
    indices: npt.NDArray[np.int64],
    auxiliary: LabelledImages,
    *,
    profile_records: int,
    rng: np.random.Generator,
) -> Guesses:
    """Match the magnitudes that ranks suggest, with the signs that the label suggests."""
    assert knowledge.model is not None
    with _search.single_thread():
        engine = _engine(options, knowledge)
        layout = classifier_rows(knowledge.model)
        profile = magnitude_profile(
            engine, auxiliary, count=indices.shape[1], records=profile_records, rng=rng
        )
        where = _search.tensor(indices, engine)
        labels, seen_any = labels_from_ranks(indices, layout, engine.classes)
        if not seen_any.all():
            unsigned = objectives.profile_cosine(where, torch.zeros_like(where), profile)
            allowed = np.eye(engine.classes, dtype=np.bool_)[labels] | ~seen_any[:, None]
            probes = _search.probe_images(engine, auxiliary, rng)
            labels = decide(allowed, unsigned, engine, probes=probes)
        row = rows_of(indices, layout, engine.classes)
        signs = np.where(row < 0, 0, np.where(row == labels[:, None], -1, 1))
        make = objectives.profile_cosine(where, _search.tensor(signs, engine), profile)
        found = _search.search(engine, make, labels, options=options, auxiliary=auxiliary, rng=rng)
        return _search.as_guesses(users, *found)


def magnitude_profile(
    engine: GradientEngine,
    auxiliary: LabelledImages,
    *,
    count: int,
    records: int,
    rng: np.random.Generator,
) -> torch.Tensor:
    """Return the median magnitude at each rank over auxiliary records' gradients.

    Each gradient's ``count`` largest magnitudes are divided by their norm first.

    Returns
    -------
    Tensor, shape (count,)
    """
    chosen = rng.choice(len(auxiliary), min(records, len(auxiliary)), replace=False)
    sample = auxiliary.take(np.sort(chosen))
    rows = []
    for start in range(0, len(sample), _PROFILE_CHUNK):
        part = slice(start, start + _PROFILE_CHUNK)
        gradients = engine.gradients(
            _search.tensor(sample.images[part], engine), one_hot(sample.labels[part], engine)
        )
        top = gradients.flat().detach().abs().topk(count, dim=1).values
        rows.append(top / top.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return torch.cat(rows).median(0).values
