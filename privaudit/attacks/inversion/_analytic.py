"""From separated inputs of a fully connected layer to images; imports torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._alternation import Head
from privaudit.attacks.inversion._convolutions import inputs_of
from privaudit.attacks.inversion._features import features_to_images
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._observations import PartialUpdates
from privaudit.attacks.inversion._priors import class_means
from privaudit.attacks.inversion._records import group_by_records
from privaudit.attacks.inversion._separation import Separation, separate
from privaudit.attacks.inversion._whole import labels_for
from privaudit.datasets.base import LabelledImages
from privaudit.models import ModelSpec, classifier_rows

if TYPE_CHECKING:
    from privaudit.attacks.inversion.analytic import AnalyticInversion

__all__ = ["invert"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Images whose probabilities stand for those of the records.
_PROBES = 1000


@dataclass(frozen=True, slots=True)
class _Layer:
    """The first fully connected layer, where it lies, and whether it sees the image itself."""

    module: nn.Linear
    weight: int
    bias: int
    sees_image: bool


def invert(
    options: AnalyticInversion,
    spec: ModelSpec,
    parameters: Float32,
    seen: PartialUpdates,
    counts: Int64,
    auxiliary: LabelledImages | None,
    *,
    rng: np.random.Generator,
) -> Guesses:
    """Run :class:`~privaudit.attacks.inversion.AnalyticInversion` on checked updates."""

    def attack(positions: Int64, records: int) -> Guesses:
        engine = _search.engine_for(
            spec,
            parameters,
            batch_norm=options.batch_norm,
            device=options.device,
            records=records,
        )
        part = seen.take(positions)
        return _of_equal_size(options, engine, part, spec, auxiliary, rng)

    with _search.single_thread():
        return group_by_records(seen.users, counts, attack)


def _of_equal_size(
    options: AnalyticInversion,
    engine: GradientEngine,
    seen: PartialUpdates,
    spec: ModelSpec,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> Guesses:
    layer = _first_linear(engine)
    records = engine.records
    head = None if records == 1 else _head(layer, engine, spec, auxiliary, rng)
    found = [_separated(values, layer, options, records, head, rng) for values in seen.values]
    labels, assumed = labels_for(
        seen,
        spec,
        engine,
        rule="restored",
        known=options.known_labels,
        auxiliary=auxiliary,
        rng=rng,
    )
    assumed["records separated"] = float(np.mean([len(s.inputs) / records for s in found]))
    assumed["largest residual"] = max(s.residual for s in found)
    if options.known_labels is None:
        labels = np.stack(
            [
                _labels(one, values, layer, engine, spec, multiset)
                for one, values, multiset in zip(found, seen.values, labels, strict=True)
            ]
        )
    start = _starts(labels, engine, auxiliary, rng)
    exact = np.array([layer.sees_image and one.explains(records) for one in found])
    if layer.sees_image:
        for row, one in zip(start, found, strict=True):
            row[: len(one.inputs)] = one.inputs.reshape(-1, *engine.input_shape)
    else:
        exact = features_to_images(start, found, seen.values, layer.module, engine, options, rng)
    assumed["updates solved exactly"] = float(exact.mean())

    def refined(positions: Int64, chosen: AnalyticInversion) -> _search.Found:
        some = seen.take(positions)
        return _search.search(
            engine,
            objectives.cosine(engine.targets(_search.tensor(some.values, engine))),
            labels[positions],
            options=chosen,
            auxiliary=auxiliary,
            rng=rng,
            start=start[positions],
            statistics=some.statistics,
        )

    parts: list[tuple[Int64, _search.Found]] = []
    if exact.any():
        # One step that moves nothing: only the loss is wanted where linear algebra gave the images.
        solved = np.flatnonzero(exact)
        judged = refined(solved, replace(options, iterations=1, learning_rate=1e-9))
        parts.append((solved, replace(judged, images=_search.tensor(start[solved], engine))))
    if not exact.all():
        rest = np.flatnonzero(~exact)
        parts.append((rest, refined(rest, options)))
    result = _search.joined(parts)
    return _search.as_guesses(seen.users, result, way=engine.way, extra=assumed)


def _first_linear(engine: GradientEngine) -> _Layer:
    offsets, position = {}, 0
    for parameter in engine.model.parameters():
        offsets[id(parameter)] = position
        position += parameter.numel()
    module = next(m for m in engine.model.modules() if isinstance(m, nn.Linear))
    probe = torch.rand(
        (engine.records, *engine.input_shape),
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    ).to(engine.device, engine.dtype)
    with torch.no_grad():
        inputs = inputs_of(module, engine, probe)
    flat = probe.flatten(1)
    sees_image = inputs.shape == flat.shape and torch.equal(inputs, flat)
    return _Layer(module, offsets[id(module.weight)], offsets[id(module.bias)], sees_image)


def _separated(
    values: Float32,
    layer: _Layer,
    options: AnalyticInversion,
    records: int,
    head: Head | None,
    rng: np.random.Generator,
) -> Separation:
    rows, columns = layer.module.weight.shape
    weight = values[layer.weight : layer.weight + rows * columns].reshape(rows, columns)
    bias = values[layer.bias : layer.bias + rows]
    return separate(
        weight.astype(np.float64),
        bias.astype(np.float64),
        records=records,
        tries=options.tries,
        rng=rng,
        head=head,
        starts=options.starts,
    )


def _head(
    layer: _Layer,
    engine: GradientEngine,
    spec: ModelSpec,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> Head | None:
    """Return the last layer if only rectified units lie between it and this one."""
    last = [m for m in engine.model.modules() if isinstance(m, nn.Linear)][-1]
    if last is layer.module:
        return None
    columns = layer.module.weight.shape[1]
    probe = rng.standard_normal((8, columns))
    weight, bias = (
        p.detach().cpu().double().numpy() for p in (layer.module.weight, layer.module.bias)
    )
    rectified = np.maximum(probe @ weight.T + bias, 0)
    hidden = _hidden(probe, layer, last, engine)
    if hidden.shape != rectified.shape or not np.allclose(hidden, rectified, rtol=1e-3, atol=1e-4):
        return None
    weights = last.weight.detach().cpu().double().numpy()
    return Head(weights, _slopes(engine, spec.classes, auxiliary, rng))


def _slopes(
    engine: GradientEngine,
    classes: int,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> Float64:
    """Return guesses of probabilities less label (n, classes).

    Three in four are those of auxiliary records (or noise), with their labels or others; one in
    four is the difference of two classes, as for records that a trained model is nearly sure of.
    """
    if auxiliary is None:
        images = rng.random((_PROBES, *engine.input_shape), dtype=np.float32)
        labels = rng.integers(classes, size=_PROBES)
    else:
        some = auxiliary.take(rng.permutation(len(auxiliary))[:_PROBES])
        images, labels = some.images, some.labels.copy()
        other = np.arange(len(labels)) % 4 == 0
        labels[other] = rng.integers(classes, size=int(other.sum()))
    with torch.no_grad():
        logits = engine.model(_search.tensor(images, engine))
        shares = torch.softmax(logits.double(), 1).cpu().numpy()
    slopes: Float64 = shares - np.eye(classes)[labels]
    pairs = np.eye(classes)[rng.integers(classes, size=(len(slopes) // 3, 2))]
    between = pairs[:, 0] - pairs[:, 1] + 1e-3 * rng.standard_normal((len(pairs), classes))
    return np.concatenate([slopes, between])


def _labels(
    found: Separation,
    values: Float32,
    layer: _Layer,
    engine: GradientEngine,
    spec: ModelSpec,
    multiset: Int64,
) -> Int64:
    """Return the label of each separated record, then what is left of the multiset.

    With the layer's inputs the last layer's inputs h are known, and its gradient
    ``sum_r (p_r - y_r) h_r^T / B`` gives ``p_r - y_r``, negative at the label alone.
    """
    count = len(found.inputs)
    if count == 0 or engine.records == 1:
        return multiset
    place = classifier_rows(spec)
    if place.weight_offset == layer.weight:
        own = found.derivatives.T.argmin(1)
    else:
        last = [m for m in engine.model.modules() if isinstance(m, nn.Linear)][-1]
        hidden = _hidden(found.inputs, layer, last, engine)
        rows = values[place.weight_offset : place.bias_offset]
        gradient = rows.reshape(spec.classes, place.features).astype(np.float64)
        own = np.linalg.lstsq(hidden.T, gradient.T, rcond=None)[0].argmin(1)
    left = multiset.tolist()
    for label in own.tolist():
        if label in left:
            left.remove(label)
    rest = (left + multiset.tolist())[: engine.records - count]
    return np.concatenate([own, np.array(rest, np.int64)])


def _hidden(inputs: Float64, layer: _Layer, last: nn.Module, engine: GradientEngine) -> Float64:
    """Return what the last layer sees if the first linear one sees ``inputs``."""
    given = _search.tensor(inputs, engine)

    def replaced(module: nn.Module, seen: tuple[Any, ...]) -> tuple[Tensor]:
        return (given,)

    hook = layer.module.register_forward_pre_hook(replaced)
    try:
        with torch.no_grad():
            blank = given.new_zeros((len(given), *engine.input_shape))
            return inputs_of(last, engine, blank).double().cpu().numpy()
    finally:
        hook.remove()


def _starts(
    labels: Int64,
    engine: GradientEngine,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
) -> Float32:
    noise = rng.random((*labels.shape, *engine.input_shape), dtype=np.float32)
    if auxiliary is None:
        return noise
    mixed: Float32 = 0.7 * class_means(auxiliary, engine.classes)[labels] + np.float32(0.3) * noise
    return mixed.astype(np.float32)
