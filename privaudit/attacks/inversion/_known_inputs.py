"""What fully connected layers saw of a record, read off known entries of its gradient.

The gradient of a layer's weights is the derivatives at its outputs times its inputs, and that of
its biases is the derivatives. Entries of both tell inputs exactly; an entry that is not among the
k largest bounds one. Imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._convolutions import inputs_of_each
from privaudit.attacks.inversion._gradients import GradientEngine

__all__ = ["KnownInputs", "Tail", "inputs_from", "known_inputs", "tail_of"]

#: Relative distance up to which two layers follow each other by rectified units.
_SAME = 1e-5

#: Relative deviation from which entries contradict each other: they are of single precision.
_AGREE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The last fully connected layers of a network, and where their parameters lie.

    Attributes
    ----------
    classifier : Linear
        With biases; nothing comes after it.
    weight, bias : int
        Positions of its parameters in the flat vector.
    hidden : Linear or None
        The layer whose rectified outputs the classifier sees, if there is one with biases.
    hidden_weight, hidden_bias : int
    """

    classifier: nn.Linear
    weight: int
    bias: int
    hidden: nn.Linear | None
    hidden_weight: int
    hidden_bias: int

    def returned(self, derivatives: Tensor) -> Tensor:
        """Return what derivatives (classes,) of the outputs are at the classifier's inputs."""
        return derivatives @ self.classifier.weight.detach().cpu().double()


@dataclass(frozen=True, slots=True, eq=False)
class KnownInputs:
    """What is known of a layer's inputs at one record.

    Attributes
    ----------
    layer : Linear
    values : Tensor of float64, shape (features,)
        Nan where unknown.
    bound : float
        No unknown one is larger in magnitude; infinite where nothing is known of them.
    weights : Tensor of float64, shape (features,)
        How far each value is trusted, up to one.
    """

    layer: nn.Linear
    values: Tensor
    bound: float
    weights: Tensor


def tail_of(engine: GradientEngine) -> Tail | None:
    """Return the network's last layers, or None if it does not end in one with biases."""
    offsets, start = dict[int, int](), 0
    for parameter in engine.model.parameters():
        offsets[id(parameter)] = start
        start += parameter.numel()
    leaves = [m for m in engine.model.modules() if not list(m.children())]
    last = leaves[-1]
    if not isinstance(last, nn.Linear) or last.bias is None:
        return None
    hidden = None
    if len(leaves) > 2 and isinstance(leaves[-2], nn.ReLU):
        before = leaves[-3]
        if isinstance(before, nn.Linear) and before.bias is not None:
            hidden = before if _follow(before, last, engine) else None
    return Tail(
        last,
        offsets[id(last.weight)],
        offsets[id(last.bias)],
        hidden,
        0 if hidden is None else offsets[id(hidden.weight)],
        0 if hidden is None else offsets[id(hidden.bias)],
    )


def known_inputs(
    tail: Tail, indices: Tensor, values: Tensor, *, largest: bool
) -> list[KnownInputs]:
    """Return what entries of one record's gradient tell of the layers' inputs.

    Parameters
    ----------
    indices : Tensor of int64, shape (k,)
    values : Tensor, shape (k,)
        The entries there.
    largest : bool
        Whether no other entry is larger in magnitude than these.

    Returns
    -------
    list of KnownInputs
        Of the classifier, and of the layer before it where all derivatives are known. Empty where
        no derivative at the classifier's outputs is known, and where entries contradict each other
        as those of no single record do, because noise was added.
    """
    values = values.double()
    classes, features = tail.classifier.weight.shape
    derivatives = _block(indices, values, tail.bias, classes)
    if bool((derivatives.isnan().sum() == 1).item()):
        # Those of cross entropy sum to zero.
        derivatives = derivatives.where(~derivatives.isnan(), -derivatives.nansum())
    entries = _block(indices, values, tail.weight, classes * features).reshape(classes, features)
    least = float(values.abs().min()) if largest else float("inf")
    found = inputs_from(tail, indices, values, derivatives, least=least)
    if not found or _contradict(entries, derivatives, found[0].values):
        return []
    return found


def inputs_from(
    tail: Tail,
    indices: Tensor,
    values: Tensor,
    derivatives: Tensor,
    *,
    least: float,
    weights: Tensor | None = None,
) -> list[KnownInputs]:
    """Return what entries tell of the layers' inputs, given the classifier's derivatives.

    Parameters
    ----------
    indices : Tensor of int64, shape (k,)
    values : Tensor of float64, shape (k,)
    derivatives : Tensor of float64, shape (classes,)
        Nan where unknown.
    least : float
        No entry that is not given is larger in magnitude.
    weights : Tensor of float64, shape (k,), optional
        How far each entry is trusted; all alike if not given.

    Returns
    -------
    list of KnownInputs
    """
    weights = torch.ones_like(values) if weights is None else weights

    def blocks(start: int, shape: torch.Size) -> tuple[Tensor, Tensor]:
        return (
            _block(indices, values, start, shape.numel()).reshape(shape),
            _block(indices, weights, start, shape.numel()).reshape(shape),
        )

    seen = _inputs(
        tail.classifier, *blocks(tail.weight, tail.classifier.weight.shape), derivatives, least
    )
    if seen.values.isnan().all():
        return []
    if tail.hidden is None or bool(derivatives.isnan().any()):
        return [seen]
    back = tail.returned(derivatives)
    told = ~_block(indices, values, tail.hidden_bias, len(back)).isnan()
    # Units that are off have no derivative at all; of the others it is what comes back.
    back[~(told | (seen.values > 0))] = float("nan")
    entries = blocks(tail.hidden_weight, tail.hidden.weight.shape)
    return [seen, _inputs(tail.hidden, *entries, back, least)]


def _inputs(
    layer: nn.Linear, entries: Tensor, weights: Tensor, derivatives: Tensor, least: float
) -> KnownInputs:
    """Return inputs from entries and their weights (outputs, features), and a bound on the others.

    Of several entries that tell an input, the most trusted ones are used, and of these that of the
    largest derivative, which is the most exact.
    """
    sizes = derivatives.abs()
    if not bool((sizes > 0).any()):
        nothing = torch.full_like(entries[0], float("nan"))
        return KnownInputs(layer, nothing, float("inf"), torch.ones_like(nothing))
    usable = ~entries.isnan() & (sizes > 0)[:, None]
    trusted = usable & (weights == weights.where(usable, -1.0).amax(0))
    best = torch.where(trusted, sizes[:, None], -1.0).argmax(0)
    at = torch.arange(entries.shape[1])
    known = usable[best, at]
    return KnownInputs(
        layer,
        torch.where(known, entries[best, at] / derivatives[best], float("nan")),
        least / float(sizes.nan_to_num(0).max()),
        torch.where(known, weights[best, at], 1.0),
    )


def _contradict(entries: Tensor, derivatives: Tensor, seen: Tensor) -> bool:
    """Whether entries are not the products that they are of one record, beyond rounding.

    Where several tell one input they must agree, and derivatives of cross entropy sum to zero.
    """
    products = derivatives[:, None] * seen
    told = ~(entries.isnan() | products.isnan())
    apart = (entries - products)[told].norm() / entries[told].norm().clamp_min(1e-300)
    total = derivatives.sum().abs() / derivatives.abs().sum().clamp_min(1e-300)
    return bool((apart > _AGREE) | (total > _AGREE))


def _block(indices: Tensor, values: Tensor, start: int, count: int) -> Tensor:
    """Return the entries from ``start`` on (count,), nan where unknown."""
    found = torch.full((count,), float("nan"), dtype=torch.float64)
    inside = (indices >= start) & (indices < start + count)
    found[indices[inside] - start] = values[inside]
    return found


def _follow(hidden: nn.Linear, last: nn.Linear, engine: GradientEngine) -> bool:
    """Whether the last layer sees the rectified outputs of the hidden one."""
    probe = torch.rand(
        (engine.records, *engine.input_shape), generator=torch.Generator().manual_seed(0)
    ).to(engine.device, engine.dtype)
    with torch.no_grad():
        before, wanted = inputs_of_each([hidden, last], engine, probe)
        made = hidden(before).clamp_min(0)
    return made.shape == wanted.shape and bool(
        (made - wanted).norm() <= _SAME * wanted.norm().clamp_min(1e-12)
    )
