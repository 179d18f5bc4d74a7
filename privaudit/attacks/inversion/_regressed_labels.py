"""Labels of several records from parts of an update, by regression on simulated users.

Where an update of B records is seen in part, no rule reads its labels off exactly. The adversary
knows the network and has auxiliary records: it makes updates of B of them, keeps of each what it
sees of a user's, and learns to predict the share of each class by ridge regression.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.inversion._factors import UpdateGradients
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._multisets import largest_remainder
from privaudit.datasets.base import LabelledImages
from privaudit.models import ClassifierRows

__all__ = ["Updates", "regressed_labels"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_USERS = 300

_AT_ONCE = 16

#: Penalties among which leave-one-out errors choose.
_PENALTIES = tuple(10.0**exponent for exponent in range(-3, 4))


class Updates(Protocol):
    """Computes updates of records, as :class:`GradientEngine` does."""

    def gradients(self, images: Tensor, labels: Tensor) -> UpdateGradients:
        """See :meth:`GradientEngine.gradients`."""
        ...


def regressed_labels(
    indices: Int64,
    values: npt.NDArray[np.float32] | None,
    engine: GradientEngine,
    auxiliary: LabelledImages,
    layout: ClassifierRows,
    *,
    source: Updates,
    rng: np.random.Generator,
) -> Int64:
    """Return the labels of each user's records (users, records), ascending.

    Parameters
    ----------
    indices : ndarray of int64, shape (users, k)
        Coordinates that are seen; by descending magnitude if there are no values.
    values : ndarray of float32, shape (users, k), or None
        The entries there; None where ranks alone are seen.
    source : Updates
        What makes updates of the simulated users.
    """
    from sklearn.linear_model import RidgeCV

    classes, records = engine.classes, engine.records
    count = indices.shape[1]
    shared = values is not None and bool((indices == indices[0]).all())
    features, shares = [], []
    for start in range(0, _USERS, _AT_ONCE):
        users = min(_AT_ONCE, _USERS - start)
        chosen = np.concatenate([_drawn(auxiliary, records, rng) for _ in range(users)])
        flat = source.gradients(
            torch.as_tensor(auxiliary.images[chosen], dtype=engine.dtype, device=engine.device),
            one_hot(auxiliary.labels[chosen], engine),
        ).flat()
        flat = flat.detach()
        if shared:
            where = torch.as_tensor(indices[:1], device=flat.device).expand(users, -1)
        else:
            where = flat.abs().topk(count, dim=1).indices
        seen = flat.gather(1, where).double().cpu().numpy() if values is not None else None
        features.append(_features(where.cpu().numpy(), seen, layout, classes))
        for own in auxiliary.labels[chosen].reshape(users, records):
            shares.append(np.bincount(own, minlength=classes) / records)
    model = RidgeCV(alphas=_PENALTIES).fit(np.concatenate(features), np.stack(shares))
    seen = None if values is None else values.astype(np.float64)
    predicted = model.predict(_features(indices, seen, layout, classes))
    return np.stack([largest_remainder(np.maximum(row, 0), records) for row in predicted])


def _drawn(auxiliary: LabelledImages, records: int, rng: np.random.Generator) -> Int64:
    """Draw a user's records: as they come, or mostly of a few classes, with equal probability."""
    if rng.random() < 0.5:
        return rng.integers(len(auxiliary), size=records)
    present = np.unique(auxiliary.labels)
    share = rng.dirichlet(np.full(len(present), 0.5))
    wanted = rng.choice(present, size=records, p=share)
    return np.array([rng.choice(np.flatnonzero(auxiliary.labels == label)) for label in wanted])


def _features(
    indices: Int64, values: Float64 | None, layout: ClassifierRows, classes: int
) -> Float64:
    """Return what is seen of the last layer, entry by entry and row by row; (users, features)."""
    width = layout.features
    rows = []
    for number, where in enumerate(indices):
        if values is None:
            amount = 1 - np.arange(len(where)) / len(where)
            weight = 1 / (1 + np.arange(len(where), dtype=np.float64))
        else:
            length = max(float(np.linalg.norm(values[number])), 1e-300)
            amount = weight = values[number] / length * np.sqrt(len(where))
        inside = np.flatnonzero(
            (where >= layout.weight_offset) & (where < layout.bias_offset + classes)
        )
        place, bias = where[inside], where[inside] >= layout.bias_offset
        row = np.where(bias, place - layout.bias_offset, (place - layout.weight_offset) // width)
        column = np.where(bias, width, (place - layout.weight_offset) % width)
        entries = np.zeros((classes, width + 1))
        entries[row, column] = amount[inside]
        sums = np.bincount(row, weights=weight[inside], minlength=classes)
        rows.append(np.concatenate([entries.ravel(), np.bincount(row, minlength=classes), sums]))
    return np.stack(rows)
