"""Derivatives of chains of layers by hand, for the gradients of many updates at once.

A network that is a plain sequence of layers maps images to logits; a backward pass maps the
derivative at the logits to one at every layer. Both passes together are one function of images and
labels: its results are the factors (:mod:`._factors`) of all layers. The derivative of that
function is what a gradient-matching attack needs, and is a sweep up the chain (the derivatives'
derivative) and one down.

Written out, each sweep is a few products of matrices, patches are cut once for all of them, and
activations lie with channels last, where cutting patches copies long runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._stages import Affine, Stage, stages_of

__all__ = ["Chain", "chain_of"]


class Chain:
    """A sequence of stages; :meth:`factors` is differentiable once.

    Parameters
    ----------
    stages : tuple of Stage
        From images to logits; the last is affine.
    records : int
        Records an update; the loss is the mean over them.
    """

    def __init__(self, stages: tuple[Stage, ...], *, records: int) -> None:
        self.stages = stages
        self.records = records

    def factors(self, images: Tensor, labels: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return derivative at the output, and input, of each affine stage, first to last.

        Parameters
        ----------
        images : Tensor, shape (n, channels, height, width)
        labels : Tensor, shape (n, classes)

        Returns
        -------
        tuple of pairs of Tensor
            Shapes (n, positions, rows) and (n, positions, columns).
        """
        flat = _Passes.apply(images, labels, self)
        return tuple(zip(flat[::2], flat[1::2], strict=True))


def chain_of(model: nn.Module, *, records: int) -> Chain | None:
    """Return the chain of a network, or None if it is no sequence of layers that stages know."""
    stages = stages_of(model)
    return None if stages is None else Chain(stages, records=records)


class _Passes(torch.autograd.Function):
    """Forward and backward pass, and the derivative of both."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, labels: Tensor, chain: Chain) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        value, notes, inputs = images, [], []
        for stage in chain.stages:
            if isinstance(stage, Affine):
                patches = stage.patches(value)
                inputs.append(patches)
                value, note = stage.apply(patches, value.shape), tuple(value.shape)
            else:
                value, note = stage.forward(value)
            notes.append(note)
        shares = torch.softmax(value, 1)
        total = labels.sum(1, keepdim=True)
        slope = (shares * total - labels) / chain.records
        outputs, slopes = [], []
        first = next(s for s in chain.stages if isinstance(s, Affine))
        for stage, note in zip(reversed(chain.stages), reversed(notes), strict=True):
            slopes.append(slope)
            if isinstance(stage, Affine):
                outputs.append(stage.positions(slope))
                if stage is first:
                    break
            slope = stage.pull(slope, note)
        outputs.reverse()
        slopes = [*reversed(slopes)]
        ctx.chain, ctx.notes, ctx.slopes = chain, notes, slopes
        ctx.shares, ctx.total = shares, total
        return tuple(part for pair in zip(outputs, inputs, strict=True) for part in pair)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *wanted: Tensor | None) -> tuple[Tensor, Tensor | None, None]:
        chain: Chain = ctx.chain
        skipped = len(chain.stages) - len(ctx.slopes)
        # Up: what a change of each slope does to all that was made of it.
        change: Tensor | None = None
        bends: list[Tensor | None] = [None] * len(chain.stages)
        affine = 0
        for place, stage in enumerate(chain.stages[skipped:], start=skipped):
            note = ctx.notes[place]
            if isinstance(stage, Affine):
                own = wanted[2 * affine]
                affine += 1
                pushed = None if change is None else stage.push(change)
                added = None if own is None else stage.grid(own, note)
                if pushed is None or added is None:
                    change = added if pushed is None else pushed
                else:
                    change = pushed.add_(added)
            elif change is not None:
                bends[place] = stage.bend(ctx.slopes[place - skipped], change, note)
                change = stage.push(change, note)
        shares, total = ctx.shares, ctx.total
        labels: Tensor | None = None
        down: Tensor | None = None
        if change is not None:
            mean = (shares * change).sum(1, keepdim=True)
            down = total * shares * (change - mean) / chain.records
            if ctx.needs_input_grad[1]:
                labels = (mean - change) / chain.records
        # Down: what a change of each value does.
        for place in range(len(chain.stages) - 1, -1, -1):
            stage, note = chain.stages[place], ctx.notes[place]
            if isinstance(stage, Affine):
                affine -= 1
                down = stage.pull_with(down, wanted[2 * affine + 1], note)
            elif down is not None:
                down = stage.pull(down, note)
                if (bend := bends[place]) is not None:
                    down = down + bend
        assert down is not None
        return down, labels, None
