"""Whole gradients to be matched, prepared for many inner products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["LayerSize", "Targets", "prepare"]

#: Rank up to which two factors of a gradient are kept beside it.
_LARGEST_RANK = 8

#: Relative Euclidean error up to which a product of two factors stands for a gradient.
_EXACT = 1e-6


@dataclass(frozen=True, slots=True)
class LayerSize:
    """Where a layer's weights lie in the flat vector, and the rank that a gradient has at most."""

    weight: int
    rows: int
    columns: int
    rank: int


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Gradients (N, d), and for some layers, by offset, factors (N, rows, r), (N, columns, r).

    The gradient of a fully connected layer over B records has rank B, so that its product with
    another one needs ``B (rows + columns)`` numbers instead of ``rows * columns``.
    """

    matrix: Tensor
    factors: Mapping[int, tuple[Tensor, Tensor]]

    def take(self, rows: Tensor) -> Targets:
        """Return some of the gradients."""
        factors = {at: (left[rows], right[rows]) for at, (left, right) in self.factors.items()}
        return Targets(self.matrix[rows], factors)


def prepare(matrix: Tensor, layers: tuple[LayerSize, ...]) -> Targets:
    """Factor the layers' blocks of gradients (N, d) where a product of low rank is exact.

    Noised or quantised gradients have full rank, and are left whole.
    """
    factors = {}
    for layer in layers:
        if layer.rank > _LARGEST_RANK or 4 * layer.rank > min(layer.rows, layer.columns):
            continue
        block = matrix[:, layer.weight : layer.weight + layer.rows * layer.columns]
        found = _factored(block.reshape(-1, layer.rows, layer.columns), layer.rank)
        if found is not None:
            factors[layer.weight] = found
    return Targets(matrix, factors)


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
