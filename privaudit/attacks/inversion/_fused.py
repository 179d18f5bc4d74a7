"""Inner products and norms of gradients in factored form, once differentiable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["bilinear", "dot_and_norm", "outer_dot_and_norm"]

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
        ctx: Any, outputs: Tensor, inputs: Tensor, matrices: Tensor, biases: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        columns = outputs.transpose(1, 2)
        if not _one_by_one(matrices):
            product = torch.bmm(columns, inputs)
            flat = product.flatten(1)
            dot = torch.linalg.vecdot(flat, matrices.flatten(1))
            squared = torch.linalg.vecdot(flat, flat)
        else:
            product = torch.empty_like(matrices)
            dot, squared = outputs.new_empty(2, len(outputs))
            for row, one in enumerate(product):
                torch.mm(columns[row], inputs[row], out=one)
                flat = one.view(-1)
                torch.dot(flat, matrices[row].view(-1), out=dot[row])
                torch.dot(flat, flat, out=squared[row])
        summed = None
        if biases is not None:
            summed = outputs.sum(1)
            dot += torch.linalg.vecdot(summed, biases)
            squared += torch.linalg.vecdot(summed, summed)
        ctx.save_for_backward(outputs, inputs, matrices)
        ctx.product, ctx.summed, ctx.biases = product, summed, biases
        return dot, squared

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dot: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, None, None]:
        outputs, inputs, matrices = ctx.saved_tensors
        # In place: nothing else reads the product, and it is the largest tensor of all.
        slope, ctx.product = ctx.product, None
        slope.mul_((2 * squared)[:, None, None]).addcmul_(matrices, dot[:, None, None])
        if inputs.stride(1) == 1:  # positions last: so are the inputs' slopes then
            left = torch.bmm(slope.transpose(1, 2), outputs.transpose(1, 2)).transpose(1, 2)
        else:
            left = torch.bmm(outputs, slope)
        right = torch.bmm(inputs, slope.transpose(1, 2))
        if ctx.summed is not None:
            own = ctx.summed * (2 * squared)[:, None] + ctx.biases * dot[:, None]
            right += own[:, None]
        return right, left, None, None


class _SinglePosition(torch.autograd.Function):
    """For layers that see one vector an update: ``G`` is an outer product, and so is the target."""

    @staticmethod
    def forward(
        ctx: Any,
        outputs: Tensor,
        inputs: Tensor,
        left: Tensor,
        right: Tensor,
        biases: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        d, a = outputs[:, 0], inputs[:, 0]
        # (R, 1) each: inner products with the target's factors, and squared lengths.
        by_rows, by_columns = _inner(d, left), _inner(a, right)
        long, wide = _inner(d, d), _inner(a, a)
        dot, squared = by_rows * by_columns, long * wide
        if biases is not None:
            dot, squared = dot + _inner(d, biases), squared + long
        ctx.save_for_backward(d, a, left, right, by_rows, by_columns, long, wide)
        ctx.biases = biases
        return dot[:, 0], squared[:, 0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dot: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d, a, left, right, by_rows, by_columns, long, wide = ctx.saved_tensors
        one, two = dot[:, None], 2 * squared[:, None]
        of_inputs = torch.addcmul(a * (two * long), right, one * by_rows)
        if ctx.biases is not None:
            wide = wide + 1
        of_outputs = torch.addcmul(d * (two * wide), left, one * by_columns)
        if ctx.biases is not None:
            of_outputs.addcmul_(ctx.biases, one)
        return of_outputs[:, None], of_inputs[:, None], None, None, None


def _inner(first: Tensor, second: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(first, second)
    return product[:, None]


def _one_by_one(matrices: Tensor) -> bool:
    """Whether to take products one at a time, each while in the cache, on one thread."""
    if matrices.is_cuda or torch.get_num_threads() > 1:
        return False
    return matrices[0].numel() >= _LARGE


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


def dot_and_norm(
    outputs: Tensor, inputs: Tensor, matrices: Tensor, biases: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return ``<G, matrices>`` and ``<G, G>`` with ``G = outputs^T @ inputs``; shapes (R,).

    The product is formed once for both, and once for their derivatives, which can be asked for
    once. Where ``biases`` (R, rows) are given, the sum of ``outputs`` over positions counts as one
    more column of G, and they as one of the matrices. Other parameters as :func:`bilinear`.
    """
    result: tuple[Tensor, Tensor] = _DotAndNorm.apply(outputs, inputs, matrices, biases)
    return result


def outer_dot_and_norm(
    outputs: Tensor, inputs: Tensor, left: Tensor, right: Tensor, biases: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return :func:`dot_and_norm` of one position, with matrices that are ``left @ right^T``.

    Parameters
    ----------
    outputs, inputs : Tensor, shapes (R, 1, rows) and (R, 1, columns)
    left, right : Tensor, shapes (R, rows) and (R, columns)
    biases : Tensor or None, shape (R, rows)
    """
    result: tuple[Tensor, Tensor] = _SinglePosition.apply(outputs, inputs, left, right, biases)
    return result
