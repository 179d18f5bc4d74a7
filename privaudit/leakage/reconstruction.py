"""How well records can be told from their codes at all, by whoever knew the population."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.leakage.codes import Codes, tuples

__all__ = ["ReconstructionGain", "held_out_cells", "quantisation_floor"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReconstructionGain:
    """Error of reconstructing records from codes, as a share of the variance.

    Attributes
    ----------
    error : float
        Normalised reconstruction error (NRE): 0 perfect, 1 the mean record.
    covered : float
        Fraction of the records to which the figure's own rule applied (others got a coarser
        one).
    """

    error: float
    covered: float

    @property
    def gain(self) -> float:
        """Explained variance: the additive g-leakage under the squared-error gain."""
        return 1.0 - self.error


def _error(records: Table, guesses: Table) -> float:
    spread = ((records - records.mean(axis=0)) ** 2).sum()
    if spread == 0:
        raise InvalidDataError("the records are all equal: there is nothing to reconstruct")
    return float(((records - guesses) ** 2).sum() / spread)


def quantisation_floor(records: Table, decoded: Table) -> ReconstructionGain:
    """Return the error of the true codewords: what a holder of the codebooks reconstructs.

    The error of the best guess from the codes is at most this.
    """
    if records.shape != decoded.shape:
        raise InvalidDataError(
            f"records {records.shape} and decoded records {decoded.shape} differ in shape"
        )
    return ReconstructionGain(_error(records, decoded), 1.0)


def held_out_cells(
    records: Table, codes: Codes, *, rng: np.random.Generator, folds: int = 5
) -> ReconstructionGain:
    r"""Estimate :math:`E\,\mathrm{Var}(x\mid\text{tuple of codes})` on held-out rows.

    A held-out row is guessed as the mean of the other folds' rows with its tuple. The mean over
    cells in sample would be exact for every tuple that occurs once, which says nothing. Rows whose
    tuple the other folds do not hold are guessed as their mean; ``covered`` is the share of the
    rest. Where few rows are covered the estimate is far above the true error, and the floor of
    :func:`quantisation_floor` is the better bound.

    Raises
    ------
    InvalidDataError
        If records and codes differ in number, or there are fewer rows than folds.
    """
    number = tuples(codes)
    if len(number) != len(records) or not 2 <= folds <= len(records):
        raise InvalidDataError(
            f"{len(records)} records, {len(number)} rows of codes and {folds} folds: the first two "
            "must agree, and there must be 2 folds or more and no more than rows"
        )
    cells = int(number.max()) + 1
    fold = rng.permutation(len(records)) % folds
    guesses = np.empty_like(records, dtype=np.float64)
    covered = 0
    for held in range(folds):
        out = fold == held
        count = np.bincount(number[~out], minlength=cells)
        sums = np.zeros((cells, records.shape[1]))
        np.add.at(sums, number[~out], records[~out])
        known = count[number[out]] > 0
        mean = records[~out].mean(axis=0)
        cell = sums[number[out]] / np.maximum(count[number[out]], 1)[:, None]
        guesses[out] = np.where(known[:, None], cell, mean)
        covered += int(known.sum())
    return ReconstructionGain(_error(records, guesses), covered / len(records))
