"""Gradients of many updates, whole or as factors: inner products, norms and single entries.

The gradient of a Linear or Conv2d layer is a product ``G = D^T @ A`` of the derivative ``D`` of
the loss at the layer's output and of the layer's (unfolded) input ``A``, both with one row a
position. Inner products, norms and
single entries of ``G`` follow from the factors, so that the large outer product of a fully
connected layer is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._fused import bilinear, dot_and_norm, outer_dot_and_norm
from privaudit.attacks.inversion._targets import LayerTarget, Selected

__all__ = ["DenseGradients", "Factor", "FactoredGradients", "Layer", "UpdateGradients"]

#: Below this dimension, and whenever more than one in 20 coordinates is asked for, forming the
#: gradients and gathering from them is quicker than computing single entries.
_DENSE_DIMENSION = 65_536


class UpdateGradients(Protocol):
    """Gradients of R updates with respect to all d parameters."""

    def dot_and_norm(self, target: Selected) -> tuple[Tensor, Tensor]:
        """Inner product of each gradient with its target, and its squared norm; shapes (R,)."""
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

    def dot_and_norm(self, target: Selected) -> tuple[Tensor, Tensor]:
        """See :class:`UpdateGradients`."""
        assert target.matrix is not None
        return (self.matrix * target.matrix).sum(1), self.squared_norm()

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
class Layer:
    """Where a layer's parameters lie in the flat vector.

    ``taps`` is the number of positions of a kernel that factors count before channels; 1 if their
    columns come in the order of the flat vector.
    """

    module: nn.Module
    weight: int
    bias: int | None
    rows: int
    columns: int
    taps: int = 1

    def ordered(self, blocks: Tensor) -> Tensor:
        """Return blocks of the flat vector (N, rows * columns) with the factors' columns."""
        if self.taps == 1:
            return blocks.reshape(-1, self.rows, self.columns)
        split = blocks.reshape(-1, self.rows, self.columns // self.taps, self.taps)
        return split.transpose(2, 3).flatten(2)

    def flat(self, product: Tensor) -> Tensor:
        """Undo :meth:`ordered`."""
        if self.taps > 1:
            split = product.reshape(-1, self.rows, self.taps, self.columns // self.taps)
            product = split.transpose(2, 3)
        return product.flatten(1)

    def entries(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return row and factors' column of positions in the layer's part of the flat vector."""
        row, column = positions // self.columns, positions % self.columns
        if self.taps > 1:
            column = column % self.taps * (self.columns // self.taps) + column // self.taps
        return row, column


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """``outputs`` D (R, p, rows) and ``inputs`` A (R, p, columns) of one layer's gradients."""

    layer: Layer
    outputs: Tensor
    inputs: Tensor

    @property
    def thin(self) -> bool:
        """Whether the factors hold fewer numbers than their product."""
        rows, columns = self.layer.rows, self.layer.columns
        return self.outputs.shape[1] * (rows + columns) < rows * columns

    def dot_and_norm(self, target: LayerTarget) -> tuple[Tensor, Tensor]:
        """Return inner product with the target and squared norm, of weights and bias; (R,)."""
        if target.factors is None and not self.thin:
            assert target.block is not None
            return dot_and_norm(self.outputs, self.inputs, target.block, target.bias)
        if target.factors is None:
            assert target.block is not None
            dot = bilinear(self.outputs, target.block, self.inputs)
        else:
            left, right = target.factors
            if self.outputs.shape[1] == left.shape[2] == 1:
                return outer_dot_and_norm(
                    self.outputs, self.inputs, left[..., 0], right[..., 0], target.bias
                )
            outputs, inputs = torch.bmm(self.outputs, left), torch.bmm(self.inputs, right)
            dot = (outputs * inputs).sum((1, 2))
        squared = self.squared_norm()
        if target.bias is not None:
            bias = self.bias()
            dot, squared = dot + (bias * target.bias).sum(1), squared + bias.square().sum(1)
        return dot, squared

    def squared_norm(self) -> Tensor:
        if not self.thin:
            return self._product().square().sum((1, 2))
        if self.outputs.shape[1] == 1:
            return self.inputs.square().sum((1, 2)) * self.outputs.square().sum((1, 2))
        inputs = torch.bmm(self.inputs, self.inputs.transpose(1, 2))
        outputs = torch.bmm(self.outputs, self.outputs.transpose(1, 2))
        return (inputs * outputs).sum((1, 2))

    def weight(self) -> Tensor:
        """Return the gradients of the weights, in the order of the flat vector."""
        return self.layer.flat(self._product())

    def at(self, update: Tensor, positions: Tensor) -> Tensor:
        """Return single entries of the gradients of the weights."""
        row, column = self.layer.entries(positions)
        if self.thin:
            return (self.outputs[update, :, row] * self.inputs[update, :, column]).sum(1)
        return self._product()[update, row, column]

    def bias(self) -> Tensor:
        return self.outputs.sum(1)

    def _product(self) -> Tensor:
        return torch.bmm(self.outputs.transpose(1, 2), self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class FactoredGradients:
    """Gradients held as one pair of factors a layer."""

    factors: tuple[Factor, ...]
    dimension: int

    def dot_and_norm(self, target: Selected) -> tuple[Tensor, Tensor]:
        """See :class:`UpdateGradients`."""
        dots, norms = [], []
        for factor in self.factors:
            dot, norm = factor.dot_and_norm(target.layers[factor.layer.weight])
            dots.append(dot)
            norms.append(norm)
        return torch.stack(dots).sum(0), torch.stack(norms).sum(0)

    def squared_norm(self) -> Tensor:
        """See :class:`UpdateGradients`."""
        parts = []
        for factor in self.factors:
            parts.append(factor.squared_norm())
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
                entries = factor.at(update, indices[update, position] - layer.weight)
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
            blocks.append((factor.layer.weight, factor.weight()))
            if factor.layer.bias is not None:
                blocks.append((factor.layer.bias, factor.bias()))
        return torch.cat([block for _, block in sorted(blocks, key=lambda pair: pair[0])], 1)
