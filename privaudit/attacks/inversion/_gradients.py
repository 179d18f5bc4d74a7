"""Per-update gradients of many dummy records at once, in factored form.

The gradient of a Linear or Conv2d layer is a product ``G = D @ A^T`` of the derivative ``D`` of
the loss at the layer's output and of the layer's (unfolded) input ``A``. Inner products, norms and
single entries of ``G`` follow from the factors, so that the large outer product of a fully
connected layer is never formed. One batched forward and one backward pass give the factors of all
updates; a second backward pass differentiates through them.

Networks with any other parametrised layer are handled by plain automatic differentiation, one
update at a time. Which way is taken is decided when the engine is made, by comparing the two.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._bilinear import bilinear
from privaudit.errors import ConfigurationError

__all__ = ["DenseGradients", "FactoredGradients", "GradientEngine", "UpdateGradients"]

#: Below this dimension, and whenever more than one in 20 coordinates is asked for, forming the
#: gradients and gathering from them is quicker than computing single entries.
_DENSE_DIMENSION = 65_536

_TOLERANCE = 1e-6


class UpdateGradients(Protocol):
    """Gradients of R updates with respect to all d parameters."""

    def dot(self, target: Tensor) -> Tensor:
        """Inner product of each gradient with its row of ``target`` (R, d); shape (R,)."""
        ...

    def squared_norm(self) -> Tensor:
        """Squared Euclidean norm of each gradient; shape (R,)."""
        ...

    def gather(self, indices: Tensor) -> Tensor:
        """Entries of each gradient at its row of ``indices`` (R, k); shape (R, k)."""
        ...

    def flat(self) -> Tensor:
        """Return all entries; shape (R, d)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DenseGradients:
    """Gradients held as one matrix of shape (R, d)."""

    matrix: Tensor

    def dot(self, target: Tensor) -> Tensor:
        """See :class:`UpdateGradients`."""
        return (self.matrix * target).sum(1)

    def squared_norm(self) -> Tensor:
        """See :class:`UpdateGradients`."""
        return self.matrix.square().sum(1)

    def gather(self, indices: Tensor) -> Tensor:
        """See :class:`UpdateGradients`."""
        return self.matrix.gather(1, indices)

    def flat(self) -> Tensor:
        """See :class:`UpdateGradients`."""
        return self.matrix


@dataclass(frozen=True, slots=True)
class _Layer:
    """Where a layer's parameters lie in the flat vector."""

    module: nn.Module
    weight: int
    bias: int | None
    rows: int
    columns: int


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """``outputs`` D (R, rows, p) and ``inputs`` A (R, columns, p) of one layer's gradients."""

    layer: _Layer
    outputs: Tensor
    inputs: Tensor

    @property
    def thin(self) -> bool:
        """Whether the factors hold fewer numbers than their product."""
        rows, columns = self.layer.rows, self.layer.columns
        return self.outputs.shape[2] * (rows + columns) < rows * columns

    def weight(self) -> Tensor:
        return torch.bmm(self.outputs, self.inputs.transpose(1, 2))

    def bias(self) -> Tensor:
        return self.outputs.sum(2)


@dataclass(frozen=True, slots=True, eq=False)
class FactoredGradients:
    """Gradients held as one pair of factors a layer."""

    factors: tuple[_Factor, ...]
    dimension: int

    def dot(self, target: Tensor) -> Tensor:
        """See :class:`UpdateGradients`."""
        total = target.new_zeros(len(target))
        for factor in self.factors:
            layer = factor.layer
            block = target[:, layer.weight : layer.weight + layer.rows * layer.columns]
            block = block.reshape(-1, layer.rows, layer.columns)
            if factor.thin:
                total = total + bilinear(factor.outputs, block, factor.inputs)
            else:
                total = total + (factor.weight() * block).sum((1, 2))
            if layer.bias is not None:
                total = total + (
                    factor.bias() * target[:, layer.bias : layer.bias + layer.rows]
                ).sum(1)
        return total

    def squared_norm(self) -> Tensor:
        """See :class:`UpdateGradients`."""
        parts = []
        for factor in self.factors:
            if factor.thin:
                inputs = torch.bmm(factor.inputs.transpose(1, 2), factor.inputs)
                outputs = torch.bmm(factor.outputs.transpose(1, 2), factor.outputs)
                parts.append((inputs * outputs).sum((1, 2)))
            else:
                parts.append(factor.weight().square().sum((1, 2)))
            if factor.layer.bias is not None:
                parts.append(factor.bias().square().sum(1))
        return torch.stack(parts).sum(0)

    def gather(self, indices: Tensor) -> Tensor:
        """See :class:`UpdateGradients`."""
        if self.dimension <= _DENSE_DIMENSION or 20 * indices.shape[1] >= self.dimension:
            return self.flat().gather(1, indices)
        result = self.factors[0].outputs.new_zeros(indices.shape)
        for factor in self.factors:
            layer = factor.layer
            size = layer.rows * layer.columns
            inside = (indices >= layer.weight) & (indices < layer.weight + size)
            update, position = inside.nonzero(as_tuple=True)
            if len(update):
                local = indices[update, position] - layer.weight
                if factor.thin:
                    row, column = local // layer.columns, local % layer.columns
                    entries = factor.outputs[update, row] * factor.inputs[update, column]
                    entries = entries.sum(1)
                else:
                    entries = factor.weight().flatten(1)[update, local]
                result = result.index_put((update, position), entries)
            if layer.bias is not None:
                inside = (indices >= layer.bias) & (indices < layer.bias + layer.rows)
                update, position = inside.nonzero(as_tuple=True)
                if len(update):
                    entries = factor.bias()[update, indices[update, position] - layer.bias]
                    result = result.index_put((update, position), entries)
        return result

    def flat(self) -> Tensor:
        """See :class:`UpdateGradients`."""
        blocks: list[tuple[int, Tensor]] = []
        for factor in self.factors:
            blocks.append((factor.layer.weight, factor.weight().flatten(1)))
            if factor.layer.bias is not None:
                blocks.append((factor.layer.bias, factor.bias()))
        return torch.cat([block for _, block in sorted(blocks, key=lambda pair: pair[0])], 1)


class GradientEngine:
    """Gradients of cross entropy at fixed parameters, for a batch of dummy updates.

    Parameters
    ----------
    model : Module
        The network at the parameters of the attacked round. It is changed: its parameters stop
        requiring gradients, and its mode is set.
    input_shape : tuple of int
        Channels, height and width of a record.
    classes : int
    batch_norm : {"train", "eval"}
        Whether batch normalisation uses the statistics of the update's own records (as a local
        training step does) or the running ones. Without such a layer it has no effect.
    records : int
        Records an update; the gradient of an update is that of the mean loss over its records.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        input_shape: tuple[int, int, int],
        classes: int,
        batch_norm: str = "train",
        records: int = 1,
    ) -> None:
        self.model = model.requires_grad_(False).train(batch_norm == "train")
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.eval()
        self.input_shape = input_shape
        self.classes = classes
        self.records = records
        first = next(model.parameters())
        self.dtype, self.device = first.dtype, first.device
        self.dimension = sum(p.numel() for p in model.parameters())
        self._require_forward()
        self._layers = _eligible_layers(model)
        self.factored = self._layers is not None and self._agrees()

    def gradients(self, images: Tensor, labels: Tensor) -> UpdateGradients:
        """Return the gradients of all updates, differentiable in images and labels.

        Parameters
        ----------
        images : Tensor, shape (R * records, channels, height, width)
        labels : Tensor, shape (R * records, classes)
            Label distributions; one-hot for known labels.
        """
        if self.factored:
            return self._factored(images, labels)
        return self._dense(images, labels)

    def _require_forward(self) -> None:
        """Raise ConfigurationError if the network takes no update of so few records."""
        blank = torch.zeros((self.records, *self.input_shape), dtype=self.dtype, device=self.device)
        try:
            with torch.no_grad():
                self.model(blank)
        except ValueError as error:
            # Batch statistics of a single value: torch refuses them, and so would the users'.
            raise ConfigurationError(
                f"batch_norm='train' is not possible with updates of {self.records} record(s) of "
                f"shape {self.input_shape} ({error}); set batch_norm='eval'"
            ) from error

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        logits = functional.log_softmax(self.model(images), dim=1)
        return -(labels * logits).sum() / self.records

    def _dense(self, images: Tensor, labels: Tensor) -> DenseGradients:
        parameters = [p.detach().requires_grad_(True) for p in self.model.parameters()]
        names = [name for name, _ in self.model.named_parameters()]
        rows = []
        for start in range(0, len(images), self.records):
            part = slice(start, start + self.records)
            output = torch.func.functional_call(
                self.model, dict(zip(names, parameters, strict=True)), (images[part],)
            )
            logits = functional.log_softmax(output, dim=1)
            loss = -(labels[part] * logits).sum() / self.records
            gradients = torch.autograd.grad(loss, parameters, create_graph=True)
            rows.append(torch.cat([g.flatten() for g in gradients]))
        return DenseGradients(torch.stack(rows))

    def _factored(self, images: Tensor, labels: Tensor) -> FactoredGradients:
        assert self._layers is not None
        seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        hooks = [layer.module.register_forward_hook(_capture(seen)) for layer in self._layers]
        try:
            loss = self._loss(
                images if images.requires_grad else images.detach().requires_grad_(True), labels
            )
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [seen[layer.module][1] for layer in self._layers]
        derivatives = torch.autograd.grad(loss, outputs, create_graph=True)
        factors = tuple(
            _factor(layer, seen[layer.module][0], derivative, self.records)
            for layer, derivative in zip(self._layers, derivatives, strict=True)
        )
        return FactoredGradients(factors, self.dimension)

    def _agrees(self) -> bool:
        """Compare with automatic differentiation, in double precision so that only form counts."""
        generator = torch.Generator().manual_seed(0)
        shape = (2 * self.records, *self.input_shape)
        images = torch.rand(shape, generator=generator, dtype=torch.float64)
        classes = torch.arange(2 * self.records) % self.classes
        labels = functional.one_hot(classes, self.classes).double()
        images, labels = images.to(self.device), labels.to(self.device)
        probe = copy.copy(self)
        probe.model = copy.deepcopy(self.model).double()
        probe._layers = _eligible_layers(probe.model)
        try:
            ours = probe._factored(images, labels).flat().detach()
        except (RuntimeError, KeyError, ValueError):
            # A layer that is used twice, changed in place, or on input of another rank.
            return False
        reference = probe._dense(images, labels).flat().detach()
        if ours.shape != reference.shape:
            return False
        error = (ours - reference).abs().max()
        return bool(error <= _TOLERANCE * reference.abs().max())


def _capture(
    seen: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if module in seen:
            raise ValueError("a layer that is used twice has no single pair of factors")
        seen[module] = (inputs[0], output)

    return hook


def _eligible_layers(model: nn.Module) -> tuple[_Layer, ...] | None:
    """Return the layers in parameter order, or None if a parameter lies in another layer."""
    offsets: dict[int, int] = {}
    position = 0
    for parameter in model.parameters():
        offsets[id(parameter)] = position
        position += parameter.numel()
    layers = []
    covered = 0
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if not own:
            continue
        plain_convolution = (
            isinstance(module, nn.Conv2d)
            and module.groups == 1
            and module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
        )
        if not (plain_convolution or isinstance(module, nn.Linear)):
            return None
        assert isinstance(module, nn.Conv2d | nn.Linear)
        weight, bias = module.weight, module.bias
        rows = weight.shape[0]
        columns = weight.numel() // rows
        layers.append(
            _Layer(
                module,
                offsets[id(weight)],
                None if bias is None else offsets[id(bias)],
                rows,
                columns,
            )
        )
        covered += sum(p.numel() for p in own)
    return tuple(layers) if covered == position else None


def _factor(layer: _Layer, inputs: Tensor, derivative: Tensor, records: int) -> _Factor:
    """Bring input and derivative of a layer into the form of :class:`_Factor`."""
    module = layer.module
    if isinstance(module, nn.Conv2d):
        unfolded = functional.unfold(
            inputs,
            kernel_size=module.kernel_size,
            dilation=module.dilation,
            padding=module.padding,  # type: ignore[arg-type]
            stride=module.stride,
        )
        outputs = derivative.flatten(2)
    else:
        if inputs.ndim != 2:
            raise ValueError("a fully connected layer must see one vector a record")
        unfolded, outputs = inputs.unsqueeze(2), derivative.unsqueeze(2)
    if records > 1:
        unfolded, outputs = _pool(unfolded, records), _pool(outputs, records)
    return _Factor(layer, outputs, unfolded)


def _pool(tensor: Tensor, records: int) -> Tensor:
    """Join the positions of an update's records: (R * records, m, p) to (R, m, records * p)."""
    joined = tensor.reshape(-1, records, *tensor.shape[1:]).transpose(1, 2)
    return joined.flatten(2)
