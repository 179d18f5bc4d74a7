"""The image behind what the first convolution gave: least absolute deviations, by linear algebra.

Each output is the largest of a window's positions, which are linear in the image. Given which ones
are the largest the image is overdetermined by far, so deviations are summed without squaring: then
windows whose position is still wrong do not bend the image, and their positions become right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from privaudit.attacks.inversion._convolutions import Stage, window_rows

__all__ = ["ImageEquations"]

Float64 = npt.NDArray[np.float64]

#: Deviations below these shares of the outputs' size count squared, one after the other.
_SOFT = (1e-1, 1e-2, 1e-3, 1e-5)

#: Steps at each of them at most.
_STEPS = 60

#: Outputs below this share of the largest count as off.
_OFF = 1e-5

#: Relative residual at which it ends.
_EXACT = 1e-6

#: Dampings of a step that are tried, each ten times the last.
_DAMPINGS = 7

#: Decrease, as a share, below which a step is none.
_DECREASE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class ImageEquations:
    """The first stage's equations, made once for all images.

    Pixels are in the order of ``order``, channels last: rows then reach over few pixels, and steps
    are solved within a band.
    """

    rows: sparse.csr_array
    bias: Float64
    positions: int
    order: npt.NDArray[np.int64]
    band: int

    @staticmethod
    def of(stage: Stage) -> ImageEquations:
        """Return the equations of a stage."""
        _, height, width = stage.output_shape
        bias = np.repeat(stage.bias.numpy(), height * width)
        pixels = np.arange(np.prod(stage.input_shape)).reshape(stage.input_shape)
        order = pixels.transpose(1, 2, 0).ravel()
        _, _, tall, wide = stage.weight.shape
        channels, _, columns = stage.input_shape
        band = channels * ((tall - 1) * columns + wide) - 1
        rows = window_rows(stage)[:, order].tocsr()
        return ImageEquations(rows, bias, stage.window**2, order, min(band, len(order) - 1))

    def solve(self, outputs: Float64, start: Float64) -> tuple[Float64, float]:
        """Return the image in [0, 1] with these outputs, and the relative residual.

        The start is returned, with a residual of 1, if fewer outputs are on than there are pixels:
        other images give the same ones.

        Parameters
        ----------
        outputs : ndarray, shape (outputs, height, width)
        start : ndarray, shape (pixels,)
        """
        norm = float(np.linalg.norm(outputs))
        if not norm > 0:
            return start, 1.0
        wanted = outputs.ravel()
        on = wanted > _OFF * wanted.max()
        if int(on.sum()) < len(start):
            return start, 1.0
        size = norm / np.sqrt(wanted.size)
        image = start[self.order]
        for share in _SOFT:
            image = self._descend(wanted, on, image, share * size)
            residual = float(np.linalg.norm(self._deviations(wanted, on, image)[0])) / norm
            if residual < _EXACT:
                break
        result = np.empty_like(image)
        result[self.order] = image
        return result, residual

    def _deviations(
        self, wanted: Float64, on: npt.NDArray[np.bool_], image: Float64
    ) -> tuple[Float64, npt.NDArray[np.intp]]:
        """Return deviations by output, and the row of each one's largest position."""
        values = (self.rows @ image).reshape(-1, self.positions)
        largest = values.argmax(1)
        top = values[np.arange(len(values)), largest] + self.bias
        deviations = np.where(on, top - wanted, np.maximum(top, 0))
        return deviations, np.arange(len(values)) * self.positions + largest

    def _descend(
        self, wanted: Float64, on: npt.NDArray[np.bool_], image: Float64, soft: float
    ) -> Float64:
        """Lower the sum of deviations by steps of reweighted least squares, damped."""
        deviations, chosen = self._deviations(wanted, on, image)
        lowest = _total(deviations, soft)
        damping = 1e-3
        for _ in range(_STEPS):
            active = on | (deviations > 0)
            rows = self.rows[chosen[active]]
            weights = 1 / np.sqrt(np.square(deviations[active]) + soft**2)
            weighted = sparse.diags_array(weights) @ rows
            normal = self._banded(rows.T @ weighted)
            slope = weighted.T @ deviations[active]
            diagonal = normal[0].copy()
            for _ in range(_DAMPINGS):
                normal[0] = diagonal + damping * diagonal.mean()
                tried = np.clip(image + _solved(normal, -slope), 0, 1)
                new, at = self._deviations(wanted, on, tried)
                total = _total(new, soft)
                if total < lowest * (1 - _DECREASE):
                    break
                damping *= 10
            else:
                break
            image, deviations, chosen, lowest = tried, new, at, total
            damping = max(damping / 10, 1e-12)
        return image

    def _banded(self, normal: sparse.sparray) -> Float64:
        """Return the diagonals of a symmetric matrix, from the main one down."""
        entries = sparse.coo_array(normal)
        down = entries.row - entries.col
        lower = down >= 0
        diagonals = np.zeros((self.band + 1, len(self.order)))
        diagonals[down[lower], entries.col[lower]] = entries.data[lower]
        return diagonals


def _solved(diagonals: Float64, right: Float64) -> Float64:
    """Return the solution, or no step at all where rounding leaves the matrix singular."""
    try:
        found: Float64 = linalg.solveh_banded(diagonals, right, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return np.zeros_like(right)
    return found


def _total(deviations: Float64, soft: float) -> float:
    return float(np.sqrt(np.square(deviations) + soft**2).sum())
