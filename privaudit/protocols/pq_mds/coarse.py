"""How few codewords make every tuple of codes common: anonymity sets, no differential privacy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["rare_rows"]


def rare_rows(
    codes: Sequence[npt.NDArray[np.integer]], *, k_anonymity: int
) -> npt.NDArray[np.bool_]:
    """Tell which rows have a tuple of codes, over all parties, that fewer than k rows have.

    Examples
    --------
    >>> rare_rows([np.array([[0], [0], [1]])], k_anonymity=2).tolist()
    [False, False, True]
    """
    joint = np.concatenate(codes, axis=1)
    _, tuples, counts = np.unique(joint, axis=0, return_inverse=True, return_counts=True)
    rare: npt.NDArray[np.bool_] = counts[tuples.ravel()] < k_anonymity
    return rare
