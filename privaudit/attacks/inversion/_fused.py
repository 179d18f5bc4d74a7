"""Inner products and norms of gradients in factored form, once differentiable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["bilinear", "dot_and_norm"]

#: Entries of a matrix from which a Python loop costs less than leaving the cache does.
_LARGE = 16_384


class _Bilinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor, matrices: Tensor, inputs: Tensor) -> Tensor:
        # One matrix at a time: the batched product of a transposed matrix and a thin one, which
        # automatic differentiation would use, is ten times slower on CPUs. Both products while
        # the matrix is in the cache: reading it is all that they cost.
        right = torch.empty_like(outputs)
        left = torch.empty_like(inputs)
        for row, matrix in enumerate(matrices):
            torch.mm(inputs[row], matrix.T, out=right[row])
            torch.mm(outputs[row], matrix, out=left[row])
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
        ctx.save_for_backward(outputs, inputs, matrices)
        if not _one_by_one(matrices):
            product = torch.bmm(outputs.transpose(1, 2), inputs)
            flat = product.flatten(1)
            dot = torch.linalg.vecdot(flat, matrices.flatten(1))
            squared = torch.linalg.vecdot(flat, flat)
        else:
            product = torch.empty_like(matrices)
            dot, squared = outputs.new_empty(2, len(outputs))
            columns = outputs.transpose(1, 2)
            for row, one in enumerate(product):
                torch.mm(columns[row], inputs[row], out=one)
                flat = one.view(-1)
                torch.dot(flat, matrices[row].view(-1), out=dot[row])
                torch.dot(flat, flat, out=squared[row])
        ctx.product = product
        return dot, squared

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dot: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, None]:
        outputs, inputs, matrices = ctx.saved_tensors
        # In place: nothing else reads the product, and it is the largest tensor of all.
        slope, ctx.product = ctx.product, None
        slope.mul_((2 * squared)[:, None, None]).addcmul_(matrices, dot[:, None, None])
        if inputs.stride(1) == 1:  # positions last: so are the inputs' slopes then
            left = torch.bmm(slope.transpose(1, 2), outputs.transpose(1, 2)).transpose(1, 2)
        else:
            left = torch.bmm(outputs, slope)
        return torch.bmm(inputs, slope.transpose(1, 2)), left, None


def _one_by_one(matrices: Tensor) -> bool:
    """Whether products are large enough to be taken one at a time, each while in the cache."""
    return not matrices.is_cuda and matrices[0].numel() >= _LARGE


def bilinear(outputs: Tensor, matrices: Tensor, inputs: Tensor) -> Tensor:
    """Return ``sum(outputs * (inputs @ matrices^T))`` for each of R matrices; shape (R,).

    Parameters
    ----------
    outputs : Tensor, shape (R, p, rows)
    matrices : Tensor, shape (R, rows, columns)
        Constant; no gradient flows to it.
    inputs : Tensor, shape (R, p, columns)
    """
    result: Tensor = _Bilinear.apply(outputs.contiguous(), matrices, inputs.contiguous())
    return result


def dot_and_norm(outputs: Tensor, inputs: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``<G, matrices>`` and ``<G, G>`` with ``G = outputs^T @ inputs``; shapes (R,).

    The product is formed once for both, and once for their derivatives, which can be asked for
    once. Parameters as :func:`bilinear`.
    """
    result: tuple[Tensor, Tensor] = _DotAndNorm.apply(outputs, inputs, matrices)
    return result
