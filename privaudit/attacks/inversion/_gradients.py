"""Gradients of many dummy updates at once, at fixed parameters.

One batched forward and one backward pass give the factors (:mod:`._factors`) of all updates'
gradients. How they are differentiated in turn depends on the network:

- ``chain``: a plain sequence of known layers, by hand (:mod:`._chain`);
- ``factored``: other networks of Linear and Conv2d layers, by automatic differentiation;
- ``dense``: networks with any other parametrised layer, as batch normalisation, by automatic
  differentiation one update at a time.

Which way is taken is decided when the engine is made, by comparing results and derivatives with
plain automatic differentiation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._chain import Chain, chain_of
from privaudit.attacks.inversion._factors import (
    DenseGradients,
    Factor,
    FactoredGradients,
    Layer,
    UpdateGradients,
)
from privaudit.attacks.inversion._stages import Affine
from privaudit.attacks.inversion._targets import TargetLayer, Targets, prepare
from privaudit.errors import ConfigurationError

__all__ = ["GradientEngine", "Way"]

Way: TypeAlias = Literal["chain", "factored", "dense"]

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
        self._chain: Chain | None = None
        self.way: Way = "dense"
        if self._layers is not None:
            ways: tuple[Way, ...] = ("chain", "factored")
            self.way = next((way for way in ways if self._agrees(way)), "dense")
        if self.way == "chain":
            self._take_chain()

    @property
    def factored(self) -> bool:
        """Whether gradients are held as factors."""
        return self.way != "dense"

    def gradients(self, images: Tensor, labels: Tensor) -> UpdateGradients:
        """Return the gradients of all updates, differentiable in images and labels.

        Parameters
        ----------
        images : Tensor, shape (R * records, channels, height, width)
        labels : Tensor, shape (R * records, classes)
            Label distributions; one-hot for known labels.
        """
        if self.way == "chain":
            return self._chained(images, labels)
        if self.way == "factored":
            return self._factored(images, labels)
        return self._dense(images, labels)

    def targets(self, matrix: Tensor) -> Targets:
        """Prepare gradients (N, d) to be matched."""
        if not self.factored or self._layers is None:
            return Targets(matrix, {})
        full = self.dimension
        ranks: dict[TargetLayer, int] = {
            layer: self.records if isinstance(layer.module, nn.Linear) else full
            for layer in self._layers
        }
        return prepare(matrix, ranks)

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
            # A layer that is never used has no gradient: zero, as users send it.
            gradients = torch.autograd.grad(
                loss, parameters, create_graph=True, materialize_grads=True
            )
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

    def _take_chain(self) -> bool:
        """Find the network's chain, if it has one; its layers are then ordered as its factors."""
        chain = chain_of(self.model, records=self.records)
        if chain is None or self._layers is None:
            return False
        stages = [stage for stage in chain.stages if isinstance(stage, Affine)]
        if [s.module for s in stages] != [layer.module for layer in self._layers]:
            return False
        self._chain = chain
        self._layers = tuple(
            replace(layer, taps=stage.taps)
            for layer, stage in zip(self._layers, stages, strict=True)
        )
        return True

    def _chained(self, images: Tensor, labels: Tensor) -> FactoredGradients:
        assert self._chain is not None
        assert self._layers is not None
        factors = tuple(
            Factor(layer, _joined(outputs, self.records), _joined(inputs, self.records))
            for layer, (outputs, inputs) in zip(
                self._layers, self._chain.factors(images, labels), strict=True
            )
        )
        return FactoredGradients(factors, self.dimension)

    def _agrees(self, way: Way) -> bool:
        """Compare with automatic differentiation, in double precision so that only form counts.

        Compared are the gradients, and the derivatives in images and labels of a function of them.
        """
        generator = torch.Generator().manual_seed(0)
        shape = (2 * self.records, *self.input_shape)
        images = torch.rand(shape, generator=generator, dtype=torch.float64)
        classes = torch.arange(2 * self.records) % self.classes
        labels = functional.one_hot(classes, self.classes).double()
        images = images.to(self.device).requires_grad_(True)
        labels = labels.to(self.device).requires_grad_(True)
        probe = copy.copy(self)
        probe.model = copy.deepcopy(self.model).double()
        probe._layers, probe.way = _eligible_layers(probe.model), way
        if way == "chain" and not probe._take_chain():
            return False
        wanted = torch.rand(self.dimension, generator=generator, dtype=torch.float64)
        wanted = wanted.to(self.device) - 0.5

        def results(gradients: UpdateGradients) -> tuple[Tensor, ...]:
            flat = gradients.flat()
            value = ((flat + wanted) ** 2).sum()
            return flat.detach(), *torch.autograd.grad(value, (images, labels))

        try:
            ours = results(probe.gradients(images, labels))
        except (RuntimeError, KeyError, ValueError):
            # A layer that is used twice, changed in place, or on input of another rank.
            return False
        reference = results(probe._dense(images, labels))
        return all(_same(found, expected) for found, expected in zip(ours, reference, strict=True))


def _same(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    return bool((found - expected).abs().max() <= _TOLERANCE * expected.abs().max())


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
    return Factor(
        layer, _joined(outputs.transpose(1, 2), records), _joined(unfolded.transpose(1, 2), records)
    )


def _joined(tensor: Tensor, records: int) -> Tensor:
    """Join the positions of an update's records: (R * records, p, m) to (R, records * p, m)."""
    return (
        tensor if records == 1 else tensor.reshape(-1, records * tensor.shape[1], tensor.shape[2])
    )
