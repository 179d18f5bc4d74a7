"""Images of one update with the features and the gradients of convolutions that were seen.

Given the largest position of every pooling window, the features and the gradients of the
convolutions' weights are piecewise linear in all images at once. They are met by Gauss-Newton steps
on the sum of absolute deviations, so that windows whose position is still wrong do not mislead the
others: there are far more equations than pixels. The steps are solved by conjugate gradients, which
never form the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse import linalg

from privaudit.attacks.inversion._convolutions import Stage, window_rows
from privaudit.attacks.inversion._layer_inputs import design_of, used_derivatives

__all__ = ["LayerSearch"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Shares of the equations' size below which deviations count squared, one after the other.
_SOFT = (1e-1, 3e-2, 1e-2, 1e-3, 1e-4)

#: Decrease, as a share, below which a step is none.
_DECREASE = 1e-3

#: Relative residual to which a step is solved.
_WITHIN = 1e-8

#: Curvature below which a change counts as unseen, relative to the mean, and steps to tell.
_UNSEEN = 1e-9
_PROBES = 1000

#: Dampings of a step that are tried, each ten times the last.
_DAMPINGS = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """A stage of all records: rows by record, window and position."""

    stage: Stage
    rows: sparse.csr_array
    bias: Float64

    @staticmethod
    def of(stage: Stage, records: int) -> _Layer:
        rows = window_rows(stage)
        _, height, width = stage.output_shape
        return _Layer(
            stage,
            sparse.block_diag([rows] * records, format="csr"),
            np.tile(np.repeat(stage.bias.numpy(), height * width), records),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """What images give: the network at them, and how far they are from what was seen.

    Attributes
    ----------
    chosen : sequence of ndarray
        Row of the largest position of each window, by stage.
    on : sequence of ndarray
        Which of them are positive.
    active : ndarray of bool, shape (records x features,)
        Features that are on, or that these images turn on.
    deviations : ndarray, shape (records x features,)
    design, left : ndarray
        Equations of the last stage's gradient, and their residual.
    """

    images: Float64
    chosen: Sequence[Int64]
    on: Sequence[npt.NDArray[np.bool_]]
    active: npt.NDArray[np.bool_]
    deviations: Float64
    design: Float64
    left: Float64


@dataclass(frozen=True, slots=True, eq=False)
class _Normal:
    """Symmetric equations for a step: their operator, right-hand side and diagonal."""

    curved: Callable[[Float64], Float64]
    slope: Float64
    diagonal: Float64

    def solved(self, right: Float64, damping: float, *, limit: int, within: float) -> Float64:
        """Solve by conjugate gradients, damped in units of the mean of the diagonal."""
        mean = max(float(self.diagonal.mean()), 1e-300)
        scale = self.diagonal + (damping + 1e-3) * mean
        shape = (len(right),) * 2
        found, _ = linalg.cg(
            linalg.LinearOperator(shape, matvec=lambda v: self.curved(v) + damping * mean * v),
            right,
            rtol=within,
            maxiter=limit,
            M=linalg.LinearOperator(shape, matvec=lambda v: v / scale),
        )
        result: Float64 = found
        return result


class LayerSearch:
    """The equations of one update.

    Parameters
    ----------
    stages : sequence of Stage
    outputs, derivatives : Tensor, shape (records, *stages[-1].output_shape)
        The last stage's outputs and the derivatives of the loss at them.
    gradient : Tensor, shape of the last stage's weight
    steps : int
        Gauss-Newton steps at each of the softenings, at most.
    solves : int
        Steps of conjugate gradients for each.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        outputs: torch.Tensor,
        derivatives: torch.Tensor,
        gradient: torch.Tensor,
        *,
        steps: int,
        solves: int,
    ) -> None:
        self._layers = [_Layer.of(stage, len(outputs)) for stage in stages]
        self._used, on = used_derivatives(outputs, derivatives)
        self._on = on.numpy().ravel()
        self._wanted = outputs.numpy().ravel()
        self._records = len(outputs)
        channels = len(gradient)
        rows = gradient.permute(0, 2, 3, 1).reshape(-1, gradient.shape[1]).numpy()
        self._rows = rows
        self._channels = channels
        self._gradient_size = max(float(np.linalg.norm(rows)) / np.sqrt(channels), 1e-300)
        self._output_size = max(float(np.sqrt(np.square(self._wanted).mean())), 1e-300)
        self._steps = steps
        self._solves = solves

    def run(self, start: Float64, *, done: Callable[[Float64], bool]) -> tuple[Float64, float]:
        """Return images (records, pixels) in [0, 1], and their deviation.

        Parameters
        ----------
        start : ndarray, shape (records, pixels)
        done : callable
            Told the images after each softening; ends the search by returning true.
        """
        state = self._state(start.ravel())
        for soft in _SOFT:
            state = self._descend(state, soft)
            if done(state.images.reshape(start.shape)):
                break
        return state.images.reshape(start.shape), self._total(state, 0)

    def deviation(self, images: Float64) -> float:
        """Return the mean absolute deviation of images (records, pixels), in units of its size."""
        return self._total(self._state(images.ravel()), 0)

    def undetermined(self, images: Float64) -> float:
        """Return the share of the images (records, pixels) that the equations leave open.

        At these positions, of the mean square of a random change: 0 if the equations see every
        change, 1 if they see none. Bounds of pixels are no equations.
        """
        normal = self._normal(self._state(images.ravel()), 1)
        probe = np.random.default_rng(0).standard_normal(images.size)
        seen = normal.solved(normal.curved(probe), _UNSEEN, limit=_PROBES, within=_UNSEEN)
        return float(np.square(seen - probe).mean() / np.square(probe).mean())

    def _state(self, images: Float64) -> _State:
        values, chosen, positive = images, [], []
        for layer in self._layers:
            inputs = values
            positions = layer.stage.window**2
            windows = (layer.rows @ inputs).reshape(-1, positions)
            largest = windows.argmax(1)
            top = windows[np.arange(len(windows)), largest] + layer.bias
            chosen.append(np.arange(len(windows)) * positions + largest)
            positive.append(top > 0)
            values = np.maximum(top, 0)
        last = self._layers[-1].stage
        design = design_of(
            last,
            self._used,
            torch.from_numpy(largest.reshape(self._records, *last.output_shape)),
        ).numpy()
        return _State(
            images,
            chosen,
            positive,
            self._on | (top > 0),
            np.where(self._on, top - self._wanted, np.maximum(top, 0)),
            design,
            design @ self._columns(inputs) - self._rows,
        )

    def _columns(self, inputs: Float64) -> Float64:
        """Return inputs of the last stage as (records x places, channels)."""
        channels, height, width = self._layers[-1].stage.input_shape
        shaped = inputs.reshape(self._records, channels, height * width)
        return shaped.transpose(0, 2, 1).reshape(-1, channels)

    def _inputs(self, columns: Float64) -> Float64:
        channels, height, width = self._layers[-1].stage.input_shape
        shaped = columns.reshape(self._records, height * width, channels)
        return shaped.transpose(0, 2, 1).ravel()

    def _by_channel(self, left: Float64) -> Float64:
        size: Float64 = np.linalg.norm(left.reshape(self._channels, -1), axis=1)
        size /= self._gradient_size
        return size

    def _total(self, state: _State, soft: float) -> float:
        gradient = np.hypot(self._by_channel(state.left), soft).mean()
        return float(gradient + np.hypot(state.deviations / self._output_size, soft).mean())

    def _descend(self, state: _State, soft: float) -> _State:
        lowest, damping = self._total(state, soft), 1e-3
        for _ in range(self._steps):
            normal = self._normal(state, soft)
            for _ in range(_DAMPINGS):
                step = normal.solved(normal.slope, damping, limit=self._solves, within=_WITHIN)
                tried = self._state(np.clip(state.images + step, 0, 1))
                total = self._total(tried, soft)
                if total < lowest * (1 - _DECREASE):
                    break
                damping *= 10
            else:
                return state
            state, lowest = tried, total
            damping = max(damping / 10, 1e-10)
        return state

    def _normal(self, state: _State, soft: float) -> _Normal:
        """Return the normal equations of a step of reweighted least squares."""
        *before, last = self._layers
        slopes = [
            _zeroed(layer.rows[chosen], on)
            for layer, chosen, on in zip(before, state.chosen, state.on, strict=False)
        ]
        features = last.rows[state.chosen[-1][state.active]]
        for one in reversed(slopes):
            # In pixels a feature has fewer entries than in the last stage's inputs.
            features = features @ one
        across = features.T.tocsr()
        off = state.deviations[state.active]
        each = 1 / np.hypot(off / self._output_size, soft)
        each /= self._output_size**2 * len(state.deviations)
        size = np.hypot(self._by_channel(state.left), soft) * self._gradient_size**2
        channel = np.repeat(1 / (size * self._channels), len(state.design) // self._channels)
        weighted = state.design * channel[:, None]
        normal = None
        if state.design.shape[1] <= 2 * len(state.design):
            normal = state.design.T @ weighted

        transposed = [slope.T.tocsr() for slope in reversed(slopes)]

        def forward(images: Float64) -> Float64:
            for slope in slopes:
                images = slope @ images
            return images

        def backward(inputs: Float64) -> Float64:
            for slope in transposed:
                inputs = slope @ inputs
            return inputs

        def curved(images: Float64) -> Float64:
            inputs = forward(images)
            columns = self._columns(inputs)
            seen = normal @ columns if normal is not None else weighted.T @ (state.design @ columns)
            total: Float64 = backward(self._inputs(seen)) + across @ (each * (features @ images))
            return total

        slope = -backward(self._inputs(weighted.T @ state.left)) - across @ (each * off)
        squares = np.einsum("ij,ij->j", state.design, weighted)
        inner = self._inputs(np.tile(squares[:, None], (1, last.stage.input_shape[0])))
        for one in reversed(slopes):
            inner = one.multiply(one).T @ inner
        inner = inner + features.multiply(features).T @ each
        return _Normal(curved, slope, inner)


def _zeroed(rows: sparse.csr_array, kept: npt.NDArray[np.bool_]) -> sparse.csr_array:
    """Return the matrix with all other rows empty."""
    zeroed = sparse.diags_array(kept.astype(np.float64)).tocsr() @ rows
    zeroed.eliminate_zeros()
    return zeroed
