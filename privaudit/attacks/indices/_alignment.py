r"""Aligning the columns of two runs of one protocol on samples of one population.

Multidimensional scaling leaves the sign of each axis open. Two samples of the same population have
about the same correlations between columns, so that the signs :math:`s\in\{\pm1\}^q` maximise
:math:`s^\top(S\circ S')s`, with S and S' the correlations in either run. What is left, one sign
for all, is told by the shape of the marginals: the least sum of Wasserstein distances.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["align_signs", "correlations", "normalised"]

Table = npt.NDArray[np.float64]

#: Quantiles by which marginals are compared.
_QUANTILES = np.linspace(0.005, 0.995, 199)


def align_signs(
    observed: Table, simulated: Table, *, rng: np.random.Generator, restarts: int = 30
) -> Table:
    """Return the signs, shape (columns,), that make ``observed`` like ``simulated``."""
    agreement = correlations(observed) * correlations(simulated)
    np.fill_diagonal(agreement, 0.0)
    _, vectors = np.linalg.eigh(agreement)
    starts = [vectors[:, -1], *rng.normal(size=(restarts, len(agreement)))]
    best, most = np.ones(len(agreement)), -np.inf
    for start in starts:
        signs = _climb(agreement, np.where(start >= 0, 1.0, -1.0))
        value = float(signs @ agreement @ signs)
        if value > most:
            best, most = signs, value
    return (
        best if _apart(observed * best, simulated) <= _apart(-observed * best, simulated) else -best
    )


def _climb(agreement: Table, signs: Table) -> Table:
    """Flip the sign that gains most, until none does; the value rises, so that this ends."""
    signs = signs.copy()
    while True:
        gain = -4 * signs * (agreement @ signs)
        flip = int(gain.argmax())
        if gain[flip] <= 1e-12:
            return signs
        signs[flip] = -signs[flip]


def normalised(table: Table) -> Table:
    """Centre columns and scale them to length one; columns that do not vary become zero."""
    centred = table - table.mean(axis=0)
    norm = np.sqrt((centred**2).sum(axis=0))
    result: Table = centred / np.where(norm > 0, norm, 1.0)
    return result


def correlations(table: Table) -> Table:
    """Return the correlations between columns, zero for those that do not vary."""
    scaled = normalised(table)
    result: Table = scaled.T @ scaled
    return result


def _apart(a: Table, b: Table) -> float:
    """Sum over columns of the Wasserstein distance, from quantiles."""
    one, two = np.quantile(a, _QUANTILES, axis=0), np.quantile(b, _QUANTILES, axis=0)
    return float(np.abs(one - two).mean(axis=0).sum())
