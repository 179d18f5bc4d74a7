"""Layers as stages of a chain: values forward, slopes back, and the derivatives of both.

Values of convolutions lie with channels last: (n, height, width, channels). A stage f has

- ``forward``: f(x), and a note of what the other methods need of x;
- ``pull``: f'(x)^T d of a slope d at the output;
- ``push``: f'(x) e of a change e at the input;
- ``bend``: f''(x) of d and e, as a slope at the input; None where f is piecewise linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_input

__all__ = ["Affine", "Convolution", "Stage", "stages_of"]

Shape: TypeAlias = tuple[int, ...]


class _Plain(Protocol):
    """A stage without parameters."""

    def forward(self, x: Tensor) -> tuple[Tensor, Any]: ...

    def pull(self, d: Tensor, note: Any) -> Tensor: ...

    def push(self, e: Tensor, note: Any) -> Tensor: ...

    def bend(self, d: Tensor, e: Tensor, note: Any) -> Tensor | None: ...


class Affine:
    """A fully connected layer: one position a record."""

    #: Positions of a kernel that columns of patches count before channels; 1: the weight's order.
    taps = 1

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        assert isinstance(module.weight, Tensor)
        self.weight = module.weight.detach().flatten(1)
        bias = module.bias
        self.bias = bias.detach() if isinstance(bias, Tensor) else None

    def patches(self, x: Tensor) -> Tensor:
        """Return inputs as (n, positions, columns)."""
        return x.unsqueeze(1)

    def apply(self, patches: Tensor, shape: Shape) -> Tensor:
        """Return the output from the patches of an input of ``shape``."""
        return functional.linear(patches[:, 0], self.weight, self.bias)

    def positions(self, d: Tensor) -> Tensor:
        """Return slopes or changes at the output as (n, positions, rows)."""
        return d.unsqueeze(1)

    def grid(self, d: Tensor, shape: Shape) -> Tensor:
        """Undo :meth:`positions`, for an input of ``shape``."""
        return d[:, 0]

    def pull(self, d: Tensor, shape: Shape) -> Tensor:
        """Return slopes at an input of ``shape``."""
        return d @ self.weight

    def push(self, e: Tensor) -> Tensor:
        """Return changes at the output."""
        return e @ self.weight.T

    def pull_with(self, d: Tensor | None, patches: Tensor | None, shape: Shape) -> Tensor | None:
        """Return slopes at the input from slopes at the output and at the patches."""
        if d is None:
            return None if patches is None else patches[:, 0]
        return self.pull(d, shape) if patches is None else patches[:, 0] + self.pull(d, shape)


class Convolution(Affine):
    """A convolution without groups, on zero-padded input.

    The first one of a network takes images with channels first, and keeps its patches with the
    positions last: images have few channels, and runs would be short the other way.
    """

    def __init__(self, module: nn.Conv2d, *, first: bool) -> None:
        super().__init__(module)
        self.channels_last = not first
        kernel = module.weight.detach()
        self.kernel = kernel.contiguous(memory_format=torch.channels_last)
        if not first:
            self.weight = kernel.permute(0, 2, 3, 1).flatten(1).contiguous()
            self.taps = kernel.shape[2] * kernel.shape[3]
        self.size: tuple[int, int] = tuple(kernel.shape[2:])  # type: ignore[assignment]
        self.stride, self.dilation = _pair(module.stride), _pair(module.dilation)
        assert not isinstance(module.padding, str)
        self.padding = _pair(module.padding)

    def _output(self, rows: int, columns: int) -> tuple[int, int]:
        extents = zip(
            (rows, columns), self.padding, self.dilation, self.size, self.stride, strict=True
        )
        high, wide = ((n + 2 * p - w * (k - 1) - 1) // s + 1 for n, p, w, k, s in extents)
        return high, wide

    def patches(self, x: Tensor) -> Tensor:
        (down, across), (s, t), (v, w) = self.padding, self.stride, self.dilation
        if self.channels_last:
            n, rows, columns, channels = x.shape
            high, wide = self._output(rows, columns)
            x = functional.pad(x, (0, 0, across, across, down, down)).contiguous()
            a, b, c, d = x.stride()
            view = x.as_strided(
                (n, high, wide, *self.size, channels), (a, s * b, t * c, v * b, w * c, d)
            )
            return view.reshape(n, high * wide, -1)
        n, channels, rows, columns = x.shape
        high, wide = self._output(rows, columns)
        x = functional.pad(x, (across, across, down, down)).contiguous()
        a, b, c, d = x.stride()
        view = x.as_strided(
            (n, channels, *self.size, high, wide), (a, b, v * c, w * d, s * c, t * d)
        )
        return view.reshape(n, -1, high * wide).transpose(1, 2)

    def apply(self, patches: Tensor, shape: Shape) -> Tensor:
        if self.channels_last:
            flat = functional.linear(patches.flatten(0, 1), self.weight, self.bias)
        else:
            flat = torch.bmm(patches, self.weight.T.expand(len(patches), -1, -1))
            if self.bias is not None:
                flat += self.bias
        return flat.view(len(patches), *self._output(*self._extent(shape)), -1)

    def positions(self, d: Tensor) -> Tensor:
        return d.flatten(1, 2)

    def grid(self, d: Tensor, shape: Shape) -> Tensor:
        return d.reshape(len(d), *self._output(*self._extent(shape)), -1)

    def pull(self, d: Tensor, shape: Shape) -> Tensor:
        size = shape if not self.channels_last else (shape[0], shape[3], shape[1], shape[2])
        images: Tensor = conv2d_input(
            size,
            self.kernel,
            d.permute(0, 3, 1, 2),
            self.stride,
            self.padding,
            self.dilation,
        )
        return images.permute(0, 2, 3, 1) if self.channels_last else images

    def push(self, e: Tensor) -> Tensor:
        seen = e.permute(0, 3, 1, 2) if self.channels_last else e
        out = functional.conv2d(seen, self.kernel, None, self.stride, self.padding, self.dilation)
        return out.permute(0, 2, 3, 1)

    def pull_with(self, d: Tensor | None, patches: Tensor | None, shape: Shape) -> Tensor | None:
        if patches is None:
            return None if d is None else self.pull(d, shape)
        if d is None:
            return self._folded(patches, shape)
        if self.taps > 1:
            return self._folded(patches, shape).add_(self.pull(d, shape))
        slopes, weight = self.positions(d), self.weight.expand(len(d), -1, -1)
        columns = torch.baddbmm(
            patches.transpose(1, 2), weight.transpose(1, 2), slopes.transpose(1, 2)
        )
        return self._folded(columns.transpose(1, 2), shape)

    def _folded(self, patches: Tensor, shape: Shape) -> Tensor:
        """Add patches up where they overlap."""
        if not self.channels_last:
            return functional.fold(
                patches.transpose(1, 2),
                shape[2:],
                self.size,
                self.dilation,
                self.padding,
                self.stride,
            )
        n, rows, columns, channels = shape
        high, wide = self._output(rows, columns)
        (down, across), (s, t), (v, w) = self.padding, self.stride, self.dilation
        view = patches.reshape(n, high, wide, *self.size, channels)
        # First along rows, then along columns: kh + kw additions instead of kh * kw.
        lines = view.new_zeros(n, high, self.size[0], columns + 2 * across, channels)
        for j in range(self.size[1]):
            end = j * w + t * (wide - 1) + 1
            lines[:, :, :, j * w : end : t] += view[:, :, :, :, j].transpose(2, 3)
        total = view.new_zeros(n, rows + 2 * down, columns + 2 * across, channels)
        for i in range(self.size[0]):
            end = i * v + s * (high - 1) + 1
            total[:, i * v : end : s] += lines[:, :, i]
        return total[:, down : down + rows, across : across + columns]

    def _extent(self, shape: Shape) -> tuple[int, int]:
        return (shape[1], shape[2]) if self.channels_last else (shape[2], shape[3])


class _Flatten:
    """Joins channels, rows and columns in torch's order."""

    def __init__(self, *, channels_last: bool) -> None:
        self.channels_last = channels_last

    def forward(self, x: Tensor) -> tuple[Tensor, Shape]:
        return self.push(x, x.shape), tuple(x.shape)

    def push(self, e: Tensor, note: Shape) -> Tensor:
        ordered = e.permute(0, 3, 1, 2) if self.channels_last else e
        return ordered.flatten(1)

    def pull(self, d: Tensor, note: Shape) -> Tensor:
        if not self.channels_last:
            return d.reshape(note)
        n, rows, columns, channels = note
        return d.reshape(n, channels, rows, columns).permute(0, 2, 3, 1).contiguous()

    def bend(self, d: Tensor, e: Tensor, note: Shape) -> None:
        return None


class _Rectifier:
    """max(x, 0), with torch's slope of zero at zero."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clamp_min(0), (x > 0).to(x.dtype)

    def push(self, e: Tensor, note: Tensor) -> Tensor:
        return e * note

    def pull(self, d: Tensor, note: Tensor) -> Tensor:
        return d * note

    def bend(self, d: Tensor, e: Tensor, note: Tensor) -> None:
        return None


class _Smooth:
    """An elementwise function given by its value, slope and curvature."""

    def __init__(self, function: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]) -> None:
        self.function = function

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        value, slope, curvature = self.function(x)
        return value, (slope, curvature)

    def push(self, e: Tensor, note: tuple[Tensor, Tensor]) -> Tensor:
        return e * note[0]

    def pull(self, d: Tensor, note: tuple[Tensor, Tensor]) -> Tensor:
        return d * note[0]

    def bend(self, d: Tensor, e: Tensor, note: tuple[Tensor, Tensor]) -> Tensor:
        return note[1] * d * e


class _MaxPooling:
    """Maxima over windows; on ties the element that torch chooses."""

    def __init__(self, module: nn.MaxPool2d) -> None:
        self.module = module

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Shape, Tensor]]:
        m = self.module
        value, where = functional.max_pool2d(
            x.permute(0, 3, 1, 2),
            m.kernel_size,
            m.stride,
            m.padding,
            m.dilation,
            m.ceil_mode,
            return_indices=True,
        )
        n, rows, columns, channels = x.shape
        # Positions in the whole tensor, so that one flat selection takes them all.
        place = where.permute(0, 2, 3, 1) * channels + torch.arange(channels, device=x.device)
        place += (torch.arange(n, device=x.device) * (rows * columns * channels))[
            :, None, None, None
        ]
        return value.permute(0, 2, 3, 1).contiguous(), (tuple(x.shape), place)

    def push(self, e: Tensor, note: tuple[Shape, Tensor]) -> Tensor:
        return e.reshape(-1).index_select(0, note[1].reshape(-1)).view(note[1].shape)

    def pull(self, d: Tensor, note: tuple[Shape, Tensor]) -> Tensor:
        shape, place = note
        flat = d.new_zeros(int(torch.Size(shape).numel()))
        return flat.scatter_add_(0, place.reshape(-1), d.reshape(-1)).view(shape)

    def bend(self, d: Tensor, e: Tensor, note: tuple[Shape, Tensor]) -> None:
        return None


Stage: TypeAlias = Affine | _Plain


def _sigmoid(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    value = torch.sigmoid(x)
    slope = value * (1 - value)
    return value, slope, slope * (1 - 2 * value)


def _tanh(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    value = torch.tanh(x)
    slope = 1 - value.square()
    return value, slope, -2 * value * slope


def stages_of(model: nn.Module) -> tuple[Stage, ...] | None:
    """Return the stages of a sequential network, or None if a layer has none."""
    if not isinstance(model, nn.Sequential):
        return None
    stages: list[Stage] = []
    # Whether values have channels last; images have not.
    last, flat = False, False
    for module in _in_order(model):
        if isinstance(module, nn.Linear) and flat:
            stages.append(Affine(module))
        elif isinstance(module, nn.Conv2d) and not flat and _is_plain(module):
            if not last and any(isinstance(stage, Affine) for stage in stages):
                return None
            stages.append(Convolution(module, first=not last))
            last = True
        elif isinstance(module, nn.Flatten) and module.start_dim == 1 and module.end_dim == -1:
            stages.append(_Flatten(channels_last=last))
            flat = True
        elif isinstance(module, nn.ReLU):
            stages.append(_Rectifier())
        elif isinstance(module, nn.Sigmoid):
            stages.append(_Smooth(_sigmoid))
        elif isinstance(module, nn.Tanh):
            stages.append(_Smooth(_tanh))
        elif isinstance(module, nn.MaxPool2d) and last and not flat:
            stages.append(_MaxPooling(module))
        elif not isinstance(module, nn.Dropout | nn.Identity):
            return None
    if not stages or not isinstance(stages[-1], Affine) or not flat:
        return None
    return tuple(stages)


def _in_order(model: nn.Sequential) -> list[nn.Module]:
    """Return the layers, a pooling before the rectifier that it follows.

    Both are monotone, so that their order changes neither values nor slopes, and there is less to
    rectify after pooling. Where the maximum is not positive, the slope is zero either way.
    """
    modules = list(model)
    for place in range(len(modules) - 1):
        one, other = modules[place], modules[place + 1]
        if isinstance(one, nn.ReLU) and isinstance(other, nn.MaxPool2d):
            modules[place], modules[place + 1] = other, one
    return modules


def _is_plain(module: nn.Conv2d) -> bool:
    return (
        module.groups == 1
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
