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

#: Decrease, as a share, below which a step is none.
_DECREASE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class ImageEquations:
    """The first stage's equations, made once for all images."""

    rows: sparse.csr_array
    bias: Float64
    positions: int

    @staticmethod
    def of(stage: Stage) -> ImageEquations:
        """Return the equations of a stage."""
        _, height, width = stage.output_shape
        bias = np.repeat(stage.bias.numpy(), height * width)
        return ImageEquations(window_rows(stage), bias, stage.window**2)

    def solve(self, outputs: Float64, start: Float64) -> tuple[Float64, float]:
        """Return the image in [0, 1] with these outputs, and the relative residual.

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
        size = norm / np.sqrt(wanted.size)
        image = start
        for share in _SOFT:
            image = self._descend(wanted, on, image, share * size)
            residual = float(np.linalg.norm(self._deviations(wanted, on, image)[0])) / norm
            if residual < _EXACT:
                break
        return image, residual

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
            normal = np.asarray((rows.T @ weighted).todense())
            slope = weighted.T @ deviations[active]
            mean = float(normal.diagonal().mean())
            for _ in range(7):
                normal.flat[:: len(normal) + 1] += damping * mean
                step = linalg.solve(normal, -slope, assume_a="pos", check_finite=False)
                tried = np.clip(image + step, 0, 1)
                new, at = self._deviations(wanted, on, tried)
                total = _total(new, soft)
                if total < lowest * (1 - _DECREASE):
                    break
                normal.flat[:: len(normal) + 1] -= damping * mean
                damping *= 10
            else:
                break
            image, deviations, chosen, lowest = tried, new, at, total
            damping = max(damping / 10, 1e-12)
        return image


def _total(deviations: Float64, soft: float) -> float:
    return float(np.sqrt(np.square(deviations) + soft**2).sum())
