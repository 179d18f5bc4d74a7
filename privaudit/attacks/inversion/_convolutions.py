"""The convolutions before the first fully connected layer, as linear algebra sees them.

A stage is a convolution, rectified units, and maximum pooling or none. Given which position of each
pooling window is the largest, everything in it is linear: its output in its input, and the gradient
of its weights in its input too. ``float64`` throughout; imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn

from privaudit.attacks.inversion._gradients import GradientEngine

__all__ = [
    "Stage",
    "inputs_of",
    "positions_of",
    "stages_before",
    "window_rows",
    "windows_of",
]

#: Relative distance up to which a stage computes what the network's modules do.
_SAME = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A convolution of stride 1, rectified units, and maximum pooling.

    Attributes
    ----------
    weight : Tensor, shape (outputs, inputs, rows, columns)
    bias : Tensor, shape (outputs,)
    padding : tuple of int
        Zeros above and below, left and right.
    window : int
        Rows and columns of a pooling window, which is also its stride; 1 is no pooling.
    offset : int
        Position of the weight in the vector of parameters.
    input_shape, output_shape : tuple of int
        (channels, height, width).
    """

    weight: Tensor
    bias: Tensor
    padding: tuple[int, int]
    window: int
    offset: int
    input_shape: tuple[int, int, int]
    output_shape: tuple[int, int, int]

    def convolved(self, inputs: Tensor) -> Tensor:
        """Return what the convolution gives (n, outputs, height, width), before pooling."""
        return nn.functional.conv2d(inputs, self.weight, self.bias, padding=self.padding)

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return what the stage gives (n, *output_shape)."""
        largest, _ = windows_of(self, self.convolved(inputs)).max(-1)
        return largest.clamp_min(0)

    def gradient(self, values: npt.NDArray[np.float32]) -> Tensor:
        """Return the weight's part of a gradient (parameters,)."""
        part = values[self.offset : self.offset + self.weight.numel()]
        return torch.from_numpy(part.astype(np.float64)).reshape(self.weight.shape)


def stages_before(layer: nn.Module, engine: GradientEngine) -> tuple[Stage, ...] | None:
    """Return the stages before a layer, or None if there is anything but stages.

    A network is eligible if the modules in their order are convolutions (stride 1, no dilation, one
    group, zeros as padding), rectified units, poolings with windows that do not overlap, and a
    flattening, and if the stages compute what the layer sees.
    """
    found: list[Stage] = []
    offset = 0
    shape = engine.input_shape
    for module in _leaves_until(layer, engine.model):
        if isinstance(module, nn.Conv2d):
            stage = _stage(module, offset, shape)
            if stage is None:
                return None
            found.append(stage)
            shape = stage.output_shape
        elif isinstance(module, nn.MaxPool2d):
            if not found or found[-1].window != 1 or not _plain(module):
                return None
            found[-1] = _pooled(found[-1], _extent(module.kernel_size))
            shape = found[-1].output_shape
        elif not isinstance(module, nn.ReLU | nn.Flatten | nn.Identity):
            return None
        offset += sum(p.numel() for p in module.parameters())
    return tuple(found) if found and _agrees(found, layer, engine) else None


def inputs_of(module: nn.Module, engine: GradientEngine, images: Tensor) -> Tensor:
    """Return what a layer sees of images (n, features)."""
    return inputs_of_each([module], engine, images)[0]


def inputs_of_each(
    modules: Sequence[nn.Module], engine: GradientEngine, images: Tensor
) -> list[Tensor]:
    """Return what each layer sees of images (n, features), in one pass."""
    seen: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.setdefault(module, inputs[0])

    hooks = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        engine.model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return [seen[module] for module in modules]


def windows_of(stage: Stage, convolved: Tensor) -> Tensor:
    """Return values by pooling window: (n, channels, height, width, positions)."""
    count, channels = convolved.shape[:2]
    _, height, width = stage.output_shape
    size = stage.window
    used = convolved[:, :, : height * size, : width * size]
    split = used.reshape(count, channels, height, size, width, size)
    return split.permute(0, 1, 2, 4, 3, 5).reshape(count, channels, height, width, size * size)


def positions_of(stage: Stage, windows: Tensor) -> Tensor:
    """Return values by place (n, channels, rows, columns), the inverse of :func:`windows_of`."""
    count, channels, height, width, _ = windows.shape
    size = stage.window
    split = windows.reshape(count, channels, height, width, size, size).permute(0, 1, 2, 4, 3, 5)
    return split.reshape(count, channels, height * size, width * size)


# Made once for a network's stages, not for every update: the matrix has millions of entries.
@lru_cache(maxsize=4)
def window_rows(stage: Stage) -> sparse.csr_array:
    """Return the convolution, less its bias, as a matrix by place in pooling windows.

    Its shape is (outputs x height x width x positions, inputs): rows in the order of
    :func:`windows_of`, columns in that of the inputs (channels, height, width). It is shared, and
    not to be written to.
    """
    weight = stage.weight.numpy()
    outputs, channels, tall, wide = weight.shape
    _, height, width = stage.output_shape
    _, rows, columns = stage.input_shape
    size = stage.window
    shape = (outputs, height, width, size, size, channels, tall, wide)
    o, y, x, dy, dx, c, u, v = np.ogrid[tuple(slice(n) for n in shape)]
    row = (((o * height + y) * width + x) * size + dy) * size + dx
    down = y * size + dy + u - stage.padding[0]
    right = x * size + dx + v - stage.padding[1]
    column = (c * rows + down) * columns + right
    inside = (down >= 0) & (down < rows) & (right >= 0) & (right < columns)
    kept = np.broadcast_to(inside, shape)
    entries = np.broadcast_to(weight[:, None, None, None, None], shape)[kept]
    at = (np.broadcast_to(row, shape)[kept], np.broadcast_to(column, shape)[kept])
    return sparse.csr_array(
        (entries, at), shape=(int(np.prod(shape[:5])), channels * rows * columns)
    )


def _leaves_until(layer: nn.Module, model: nn.Module) -> list[nn.Module]:
    leaves = [m for m in model.modules() if not list(m.children())]
    return leaves[: next(i for i, m in enumerate(leaves) if m is layer)]


def _stage(module: nn.Conv2d, offset: int, shape: Sequence[int]) -> Stage | None:
    padding = module.padding
    if (
        module.stride != (1, 1)
        or module.dilation != (1, 1)
        or module.groups != 1
        or module.bias is None
        or module.padding_mode != "zeros"
        or isinstance(padding, str)
        or module.in_channels != shape[0]
    ):
        return None
    rows, columns = module.weight.shape[2:]
    outputs = (
        module.out_channels,
        shape[1] + 2 * padding[0] - rows + 1,
        shape[2] + 2 * padding[1] - columns + 1,
    )
    return Stage(
        module.weight.detach().double().cpu(),
        module.bias.detach().double().cpu(),
        (padding[0], padding[1]),
        1,
        offset,
        (shape[0], shape[1], shape[2]),
        outputs,
    )


def _pooled(stage: Stage, window: int) -> Stage:
    channels, height, width = stage.output_shape
    shape = (channels, height // window, width // window)
    return replace(stage, window=window, output_shape=shape)


def _extent(size: int | tuple[int, ...]) -> int:
    return size if isinstance(size, int) else size[0]


def _plain(module: nn.MaxPool2d) -> bool:
    extents = {
        *(np.atleast_1d(module.kernel_size).tolist()),
        *(np.atleast_1d(module.stride).tolist()),
    }
    return (
        len(extents) == 1
        and _extent(module.padding) == 0
        and _extent(module.dilation) == 1
        and not module.ceil_mode
    )


def _agrees(stages: Sequence[Stage], layer: nn.Module, engine: GradientEngine) -> bool:
    """Whether the stages give what the layer sees; rectified units may be missing in between."""
    probe = torch.rand(
        (engine.records, *engine.input_shape),
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    with torch.no_grad():
        seen = inputs_of(layer, engine, probe.to(engine.device, engine.dtype))
    values = probe
    for stage in stages:
        values = stage.outputs(values)
    features, wanted = values.flatten(1), seen.double().cpu()
    return features.shape == wanted.shape and bool(
        torch.linalg.vector_norm(features - wanted)
        <= _SAME * torch.linalg.vector_norm(wanted).clamp_min(1e-12)
    )
