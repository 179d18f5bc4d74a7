"""Gradients of many dummy updates at once, at fixed parameters.

One batched forward and one backward pass give the factors (:mod:`._factors`) of all updates'
gradients; a second backward pass differentiates through them. Networks with any other parametrised
layer are handled by plain automatic differentiation, one update at a time. Which way is taken is
decided when the engine is made, by comparing the two.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._factors import (
    DenseGradients,
    Factor,
    FactoredGradients,
    Layer,
    UpdateGradients,
)
from privaudit.attacks.inversion._targets import LayerSize, Targets, prepare
from privaudit.errors import ConfigurationError

__all__ = ["GradientEngine"]

_TOLERANCE = 1e-6


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

    def targets(self, matrix: Tensor) -> Targets:
        """Prepare gradients (N, d) to be matched."""
        if not self.factored or self._layers is None:
            return Targets(matrix, {})
        return prepare(
            matrix,
            tuple(
                LayerSize(layer.weight, layer.rows, layer.columns, self.records)
                for layer in self._layers
                if isinstance(layer.module, nn.Linear)
            ),
        )

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


def _eligible_layers(model: nn.Module) -> tuple[Layer, ...] | None:
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
            Layer(
                module,
                offsets[id(weight)],
                None if bias is None else offsets[id(bias)],
                rows,
                columns,
            )
        )
        covered += sum(p.numel() for p in own)
    return tuple(layers) if covered == position else None


def _factor(layer: Layer, inputs: Tensor, derivative: Tensor, records: int) -> Factor:
    """Bring input and derivative of a layer into the form of :class:`Factor`."""
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
    return Factor(layer, outputs, unfolded)


def _pool(tensor: Tensor, records: int) -> Tensor:
    """Join the positions of an update's records: (R * records, m, p) to (R, m, records * p)."""
    joined = tensor.reshape(-1, records, *tensor.shape[1:]).transpose(1, 2)
    return joined.flatten(2)
