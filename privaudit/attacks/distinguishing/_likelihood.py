r"""Log-likelihood ratios of shuffled Laplace reports.

Lengths are in units of the Laplace scale. One user reports a canary, at :math:`u` (alternative)
or :math:`v` (null), the others sit at :math:`c`. With
:math:`g_x(y) = |y - c| - |y - x|` the report y is :math:`e^{g_x(y)}` times as likely from x as
from c, so that the likelihood of the unordered reports of one coordinate is proportional to
:math:`\sum_i e^{g_x(y_i)}`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["DECIMALS", "AssumedShuffle", "column_ratios", "report_ratio"]

Array: TypeAlias = npt.NDArray[np.float64]

#: The shuffle under which the likelihood ratio is exact, named as in the ledger.
AssumedShuffle = Literal["per-coordinate", "whole-report", "none"]

#: Ratios of Laplace densities have atoms. Floating-point error splits the ties within an atom,
#: and differently under the two hypotheses, so a threshold that falls inside it fakes a loss.
DECIMALS = 9


def _gains(reports: Array, position: Array, others: Array) -> Array:
    return np.asarray(np.abs(reports - others) - np.abs(reports - position), dtype=np.float64)


def column_ratios(
    reports: Array, *, canary: Array, others: Array, shuffle: AssumedShuffle
) -> Array:
    """Return ln P(column | canary) - ln P(column | -canary) of each column, not rounded.

    Parameters
    ----------
    reports : ndarray of float64, shape (users, columns)
        In units of the noise scale.
    canary, others : ndarray of float64, shape (columns,)
        Where the canary is under the alternative, and where all others are.
    shuffle : str
        A single column is permuted alike by ``"per-coordinate"`` and ``"whole-report"``; under
        ``"none"`` the first report is the canary's.

    Returns
    -------
    ndarray of float64, shape (columns,)
    """
    if shuffle == "none":
        first = reports[:1]
        ratios: Array = _gains(first, canary, others)[0] - _gains(first, -canary, others)[0]
        return ratios
    high = np.exp(_gains(reports, canary, others)).sum(axis=0)
    low = np.exp(_gains(reports, -canary, others)).sum(axis=0)
    return np.asarray(np.log(high / low), dtype=np.float64)


def report_ratio(reports: Array, *, canary: Array, others: Array, shuffle: AssumedShuffle) -> float:
    """Return ln P(reports | canary) - ln P(reports | -canary), not rounded.

    Parameters are those of :func:`column_ratios`; the columns are the coordinates of one round.
    """
    if shuffle == "whole-report":
        high = np.logaddexp.reduce(_gains(reports, canary, others).sum(axis=1))
        low = np.logaddexp.reduce(_gains(reports, -canary, others).sum(axis=1))
        return float(high - low)
    return float(column_ratios(reports, canary=canary, others=others, shuffle=shuffle).sum())
