"""The search behind cosine matching of whole updates, and their labels; imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _multisets as multisets
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import label_of_whole
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._options import LabelRule
from privaudit.attacks.inversion._records import group_by_records
from privaudit.datasets.base import LabelledImages
from privaudit.models import ModelSpec, classifier_rows

if TYPE_CHECKING:
    from privaudit.attacks.inversion.whole import CosineInversion

__all__ = ["labels_for", "match_whole"]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def labels_for(
    seen: PartialUpdates,
    spec: ModelSpec,
    engine: GradientEngine,
    *,
    rule: LabelRule,
    known: Mapping[str, tuple[int, ...]] | None,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> tuple[Int64, dict[str, float]]:
    """Return labels of whole gradients (targets, records), and what was assumed.

    Optimised labels start at the restored ones.
    """
    records = engine.records
    zero = int((~seen.values.any(1)).sum())
    if known is not None:
        labels = multisets.declared_labels(known, seen.users, records=records, classes=spec.classes)
        return labels, {"labels declared": 1.0, "zero updates": float(zero)}
    assumed = {"labels optimised": float(rule == "optimised"), "zero updates": float(zero)}
    layout = classifier_rows(spec)
    if rule == "idlg":
        rows = seen.values[:, layout.weight_offset : layout.bias_offset]
        rows = rows.reshape(len(rows), spec.classes, layout.features)
        return np.stack([multisets.negative_rows(r, records=records) for r in rows]), assumed
    if records == 1:
        return label_of_whole(seen.values, spec)[:, None], assumed
    probabilities = multisets.class_probabilities(engine, auxiliary, rng)
    found = [
        multisets.multiset_of_bias(bias, probabilities, records=records)
        for bias in seen.values[:, layout.bias_offset : layout.bias_offset + spec.classes]
    ]
    assumed["largest label misfit"] = max(misfit for _, misfit in found)
    return np.stack([labels for labels, _ in found]), assumed


def match_whole(
    options: CosineInversion,
    spec: ModelSpec,
    parameters: Float32,
    seen: PartialUpdates,
    counts: Int64,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Run :class:`~privaudit.attacks.inversion.CosineInversion` on checked updates."""

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _search.engine_for(
            spec,
            parameters,
            batch_norm=options.batch_norm,
            device=options.device,
            records=records,
        )
        part = seen.take(positions)
        labels, assumed = labels_for(
            part,
            spec,
            engine,
            rule=options.labels,
            known=options.known_labels,
            auxiliary=auxiliary,
            rng=rng,
        )
        found = _search.search(
            engine,
            objectives.cosine(engine.targets(_search.tensor(part.values, engine))),
            labels,
            options=options,
            auxiliary=auxiliary,
            rng=rng,
            signed=options.signed,
            optimise_labels=options.labels == "optimised" and options.known_labels is None,
            statistics=part.statistics,
        )
        return _search.as_guesses(part.users, found, way=engine.way, extra=assumed)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)
