"""What a convolution saw, from the gradient of its weights, its outputs and their derivatives.

With the largest position of each pooling window known, the gradient of a convolution's weights is
linear in its inputs, one system for all input channels:
``G[o, i, u, v] = sum_r sum_(p, q) D_r[o, p, q] a_r[i, p + u, q + v]``, where ``D_r`` holds the
derivatives at the positions that were largest. The positions are not known, but there are far more
equations than unknowns: inputs and positions are found in turns, each output channel weighted by
how well it fits, so that channels with wrong positions do not mislead the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._convolutions import Stage, positions_of, windows_of

__all__ = ["Solved", "design_of", "equations_per_unknown", "solve_inputs", "used_derivatives"]

#: Rounds of positions and inputs at most, and rounds without progress after which it ends.
_ROUNDS = 40
_PATIENCE = 10

#: Rounds in which positions are only those of the largest values.
_FIRST = 3

#: Passes over the positions of a round.
_PASSES = 3

#: Relative residual at which it ends once the positions stand: the gradient is of single precision.
_EXACT = 1e-5

#: Outputs below this share of the largest count as off. Those of one record are exactly zero, and
#: one of thousands that are on may be small: without its derivative nothing fits.
_OFF = 1e-7

#: Outputs below this many times the most negative one count as off too: that one is rounding.
_NOISE = 3

#: Weight of the inputs of before, relative to the mean weight of the equations.
_RIDGE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Inputs and derivatives at them (records, channels, height, width), and the relative residual.

    A small residual is no proof where there are fewer equations than unknowns.
    """

    inputs: Tensor
    derivatives: Tensor
    residual: float


def equations_per_unknown(stage: Stage, records: int) -> float:
    """Return the number of equations that the gradient gives for each unknown input."""
    outputs, _, rows, columns = stage.weight.shape
    _, height, width = stage.input_shape
    return outputs * rows * columns / (records * height * width)


def used_derivatives(outputs: Tensor, derivatives: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivatives where outputs are on, and where that is."""
    on = outputs > torch.maximum(_OFF * outputs.max(), -_NOISE * outputs.min())
    return derivatives * on, on


def design_of(stage: Stage, used: Tensor, chosen: Tensor) -> Tensor:
    """Return the equations of one input channel (outputs x rows x columns, records x places).

    Parameters
    ----------
    used, chosen : Tensor, shape (records, *stage.output_shape)
        Derivatives, and the position in each window that is the largest.
    """
    return _design(stage, _placed(stage, used, chosen))


def solve_inputs(
    stage: Stage, outputs: Tensor, derivatives: Tensor, gradient: Tensor, start: Tensor
) -> Solved:
    """Return the inputs of a stage, which are not negative.

    Parameters
    ----------
    outputs, derivatives : Tensor, shape (records, *stage.output_shape)
        What the stage gave, and the derivative of the loss at it.
    gradient : Tensor, shape of the stage's weight
    start : Tensor, shape (records, *stage.input_shape)
        Inputs to begin from.
    """
    used, _ = used_derivatives(outputs, derivatives)
    inputs, best = start, Solved(start, torch.zeros_like(start), float("inf"))
    before: Tensor | None = None
    stale = 0
    for number in range(_ROUNDS):
        chosen = windows_of(stage, stage.convolved(inputs)).argmax(-1)
        if number >= _FIRST:
            chosen = _better_positions(stage, inputs, used, gradient, chosen)
        placed = _placed(stage, used, chosen)
        design = _design(stage, placed)
        rows = gradient.permute(0, 2, 3, 1).reshape(len(design), -1)
        left = rows - design @ _columns(inputs)
        relative = float(left.norm() / rows.norm().clamp_min(1e-300))
        stale = stale + 1 if relative > 0.9 * best.residual else 0
        if relative < best.residual:
            best = Solved(inputs, _behind(stage, placed), relative)
        settled = before is not None and torch.equal(before, chosen)
        if (settled and relative < _EXACT) or stale >= _PATIENCE:
            break
        before = chosen
        weights = _channel_weights(left, used, robust=number >= _FIRST - 1)
        step = _solved(design, left, weights)
        inputs = (inputs + _uncolumns(step, inputs)).clamp_min(0)
    return best


def _channel_weights(left: Tensor, used: Tensor, *, robust: bool) -> Tensor:
    """Return a weight for each output channel: 1 over its residual, as for least absolute ones."""
    channels = used.shape[1]
    if not robust:
        return left.new_ones(channels)
    size = used.transpose(0, 1).flatten(1).norm(dim=1)
    residual = left.reshape(channels, -1).norm(dim=1) / size.clamp_min(1e-300)
    residual = torch.where(size > 0, residual, residual.new_zeros(()))
    least = max(0.3 * float(residual.median()), 1e-9 * float(residual.max()), 1e-300)
    weights = 1 / (residual + least)
    return weights / weights.max()


def _solved(design: Tensor, left: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted least-squares step, pulled to zero where equations say nothing."""
    each = weights.repeat_interleave(len(design) // len(weights))[:, None]
    normal = design.T @ (design * each)
    normal.diagonal().add_(_RIDGE * normal.diagonal().mean().clamp_min(1e-300))
    factor, info = torch.linalg.cholesky_ex(normal)
    if int(info):
        solution: Tensor = torch.linalg.lstsq(normal, design.T @ (left * each), driver="gelsd")[0]
        return solution
    return torch.cholesky_solve(design.T @ (left * each), factor)


def _columns(inputs: Tensor) -> Tensor:
    """Return inputs as (records x places, channels)."""
    return inputs.transpose(0, 1).flatten(1).T


def _uncolumns(columns: Tensor, like: Tensor) -> Tensor:
    records, channels, height, width = like.shape
    return columns.T.reshape(channels, records, height, width).transpose(0, 1)


def _placed(stage: Stage, derivatives: Tensor, chosen: Tensor) -> Tensor:
    """Return derivatives at the chosen positions, zero at the others."""
    windows = derivatives.new_zeros((*derivatives.shape, stage.window**2))
    windows.scatter_(-1, chosen[..., None], derivatives[..., None])
    return positions_of(stage, windows)


def _design(stage: Stage, placed: Tensor) -> Tensor:
    """Return the matrix (outputs x rows x columns, records x places) of one input channel."""
    records, outputs, height, width = placed.shape
    _, _, rows, columns = stage.weight.shape
    _, tall, wide = stage.input_shape
    above, aside = stage.padding
    matrix = placed.new_zeros((outputs, rows, columns, records, tall + 2 * above, wide + 2 * aside))
    for u in range(rows):
        for v in range(columns):
            matrix[:, u, v, :, u : u + height, v : v + width] = placed.transpose(0, 1)
    inner = matrix[..., above : above + tall, aside : aside + wide]
    return inner.reshape(outputs * rows * columns, records * tall * wide)


def _behind(stage: Stage, placed: Tensor) -> Tensor:
    """Return the derivatives at the inputs."""
    _, tall, wide = stage.input_shape
    above, aside = stage.padding
    full = nn.functional.conv_transpose2d(placed, stage.weight)
    found = full.new_zeros((len(placed), len(full[0]), tall + 2 * above, wide + 2 * aside))
    found[..., : full.shape[2], : full.shape[3]] = full
    return found[..., above : above + tall, aside : aside + wide].contiguous()


def _better_positions(
    stage: Stage, inputs: Tensor, derivatives: Tensor, gradient: Tensor, chosen: Tensor
) -> Tensor:
    """Return positions that explain the gradient better, given the inputs; window by window.

    All output channels are treated at once: each has a gradient, and so a residual, of its own.
    """
    patches = _patches(stage, inputs)
    outputs = len(stage.weight)
    weights = derivatives.transpose(0, 1).reshape(outputs, -1)
    positions = chosen.transpose(0, 1).reshape(outputs, -1).clone()
    residual = gradient.reshape(outputs, -1).clone()
    for window in range(len(patches)):
        residual -= weights[:, window, None] * patches[window][positions[:, window]]
    squared = torch.cdist(patches, patches).square()
    # A window that is off in every channel has nothing to choose.
    some = weights.any(0).nonzero(as_tuple=True)[0].tolist()
    for _ in range(_PASSES):
        moved = False
        for window in some:
            now, size, these = positions[:, window], weights[:, window, None], patches[window]
            along = residual @ these.T
            change = along.gather(1, now[:, None]) - along
            cost = 2 * size * change + size.square() * squared[window][now]
            new = torch.where(cost.min(1).values < 0, cost.argmin(1), now)
            if not torch.equal(new, now):
                residual += size * (these[now] - these[new])
                positions[:, window] = new
                moved = True
        if not moved:
            break
    shape = (outputs, len(inputs), *stage.output_shape[1:])
    return positions.reshape(shape).transpose(0, 1)


def _patches(stage: Stage, inputs: Tensor) -> Tensor:
    """Return what each position sees: (windows, positions, inputs x rows x columns)."""
    rows, columns = stage.weight.shape[2:]
    seen = nn.functional.unfold(inputs, (rows, columns), padding=stage.padding)
    count, length, _ = seen.shape
    _, tall, wide = stage.input_shape
    above, aside = stage.padding
    places = seen.reshape(
        count, length, tall + 2 * above - rows + 1, wide + 2 * aside - columns + 1
    )
    windows = windows_of(stage, places)
    return windows.permute(0, 2, 3, 4, 1).reshape(-1, stage.window**2, length)
