"""What the server averages: models within a group, and the groups' models."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = ["average_of_groups", "weighted_mean"]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def weighted_mean(models: Float32, records: Int64) -> Float32:
    """Return the mean of models, weighted by records: FedAvg within a group (eq. 2).

    Parameters
    ----------
    models : ndarray of float32, shape (members, d)
    records : ndarray of int64, shape (members,)
    """
    shares = records / records.sum()
    mean: npt.NDArray[np.float64] = shares @ models.astype(np.float64)
    return mean.astype(np.float32)


def average_of_groups(
    models: Float32, records: Int64, *, weights: Literal["records", "equal"]
) -> Float32:
    """Return the average of the groups' models, from which distillation starts.

    Parameters
    ----------
    models : ndarray of float32, shape (groups, d)
    records : ndarray of int64, shape (groups,)
    weights : {"records", "equal"}
    """
    return weighted_mean(models, records if weights == "records" else np.ones_like(records))
