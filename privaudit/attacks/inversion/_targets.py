"""Whole gradients to be matched, prepared for many inner products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["LayerTarget", "Selected", "TargetLayer", "Targets", "prepare"]

#: Rank up to which two factors of a gradient are kept instead of it.
_LARGEST_RANK = 8

#: Relative Euclidean error up to which a product of two factors stands for a gradient.
_EXACT = 1e-6


class TargetLayer(Protocol):
    """Where a layer's parameters lie in the flat vector, see :class:`._factors.Layer`."""

    @property
    def weight(self) -> int: ...

    @property
    def bias(self) -> int | None: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    def ordered(self, blocks: Tensor) -> Tensor:
        """Return blocks of the flat vector with the factors' columns."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LayerTarget:
    """A layer's part of gradients: the weights whole (N, rows, columns) or as two factors.

    The gradient of a fully connected layer over B records has rank B, so that its product with
    another one needs ``B (rows + columns)`` numbers instead of ``rows * columns``.

    Attributes
    ----------
    block : Tensor or None
    factors : tuple of Tensor or None
        Shapes (N, rows, r) and (N, columns, r).
    bias : Tensor or None
        Shape (N, rows).
    """

    block: Tensor | None
    factors: tuple[Tensor, Tensor] | None
    bias: Tensor | None

    def take(self, rows: Tensor) -> LayerTarget:
        """Return some of the gradients."""
        return LayerTarget(
            None if self.block is None else self.block[rows],
            None if self.factors is None else (self.factors[0][rows], self.factors[1][rows]),
            None if self.bias is None else self.bias[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Gradients to compare with, whole (R, d) or by offset of the layer."""

    matrix: Tensor | None
    layers: Mapping[int, LayerTarget]


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Gradients (N, d), and their parts by offset of the layer, if they are compared by layer."""

    matrix: Tensor
    layers: Mapping[int, LayerTarget]

    def take(self, rows: Tensor) -> Selected:
        """Return some of the gradients."""
        if not self.layers:
            return Selected(self.matrix[rows], {})
        return Selected(None, {at: layer.take(rows) for at, layer in self.layers.items()})


def prepare(matrix: Tensor, layers: Mapping[TargetLayer, int]) -> Targets:
    """Split gradients (N, d) by layer; factor where a product of low rank is exact.

    Noised or quantised gradients have full rank, and are left whole.

    Parameters
    ----------
    layers : mapping of TargetLayer to int
        The rank that a gradient of each layer has at most.
    """
    found = {}
    for layer, rank in layers.items():
        part = matrix[:, layer.weight : layer.weight + layer.rows * layer.columns]
        block = layer.ordered(part).contiguous()
        factors = None
        if rank <= _LARGEST_RANK and 4 * rank <= min(layer.rows, layer.columns):
            factors = _factored(block, rank)
        bias = None if layer.bias is None else matrix[:, layer.bias : layer.bias + layer.rows]
        found[layer.weight] = LayerTarget(None if factors else block, factors, bias)
    return Targets(matrix, found)


def _factored(blocks: Tensor, rank: int) -> tuple[Tensor, Tensor] | None:
    """Project on the range of the blocks times random vectors; None if that loses anything."""
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(blocks.shape[2], 2 * rank, generator=generator, dtype=torch.float64)
    left, right = [], []
    for block in blocks:
        exact = block.double()
        basis, _ = torch.linalg.qr(exact @ probe.to(block.device))
        coefficients = basis.T @ exact
        inner, values, outer = torch.linalg.svd(coefficients, full_matrices=False)
        kept = (basis @ inner[:, :rank]) * values[:rank]
        error = (exact - kept @ outer[:rank]).norm()
        if not error <= _EXACT * exact.norm():
            return None
        left.append(kept.to(block.dtype))
        right.append(outer[:rank].T.to(block.dtype))
    return torch.stack(left), torch.stack(right)
