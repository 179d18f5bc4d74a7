"""Inner products and norms of gradients in factored form, once differentiable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["bilinear", "dot_and_norm"]


class _Bilinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor, matrices: Tensor, inputs: Tensor) -> Tensor:
        # One matrix at a time: the batched product of a transposed matrix and a thin one, which
        # automatic differentiation would use, is ten times slower on CPUs. Both products while
        # the matrix is in the cache: reading it is all that they cost.
        right = torch.empty_like(outputs)
        left = torch.empty_like(inputs)
        for row, matrix in enumerate(matrices):
            torch.mm(matrix, inputs[row], out=right[row])
            torch.mm(matrix.T, outputs[row], out=left[row])
        ctx.save_for_backward(left, right)
        return (outputs * right).sum((1, 2))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, Tensor]:
        left, right = ctx.saved_tensors
        return slope[:, None, None] * right, None, slope[:, None, None] * left


class _DotAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, outputs: Tensor, inputs: Tensor, matrices: Tensor
    ) -> tuple[Tensor, Tensor]:
        product = torch.bmm(outputs, inputs.transpose(1, 2))
        ctx.save_for_backward(outputs, inputs, matrices, product)
        flat = product.flatten(1)
        dot = torch.linalg.vecdot(flat, matrices.flatten(1))
        return dot, torch.linalg.vecdot(flat, flat)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dot: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, None]:
        outputs, inputs, matrices, product = ctx.saved_tensors
        slope = torch.addcmul(product * (2 * squared)[:, None, None], matrices, dot[:, None, None])
        return torch.bmm(slope, inputs), torch.bmm(slope.transpose(1, 2), outputs), None


def bilinear(outputs: Tensor, matrices: Tensor, inputs: Tensor) -> Tensor:
    """Return ``sum(outputs * (matrices @ inputs))`` for each of R matrices; shape (R,).

    Parameters
    ----------
    outputs : Tensor, shape (R, rows, p)
    matrices : Tensor, shape (R, rows, columns)
        Constant; no gradient flows to it.
    inputs : Tensor, shape (R, columns, p)
    """
    result: Tensor = _Bilinear.apply(outputs.contiguous(), matrices, inputs.contiguous())
    return result


def dot_and_norm(outputs: Tensor, inputs: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``<G, matrices>`` and ``<G, G>`` with ``G = outputs @ inputs^T``; shapes (R,).

    The product is formed once for both, and once for their derivatives. Parameters as
    :func:`bilinear`.
    """
    result: tuple[Tensor, Tensor] = _DotAndNorm.apply(outputs, inputs, matrices)
    return result
