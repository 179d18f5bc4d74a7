"""The label of a single record from what is seen of its gradient.

For cross entropy and features that are not negative, the gradient's row of the last layer for
class c is ``(p_c - [c = y]) h``: negative for the true label and for no other class (Zhao et al.
2020, iDLG). With few coordinates known the rule still holds for the rows that are seen; classes
that it cannot tell apart are told apart by the loss of probe images.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.models import ModelSpec, classifier_rows

__all__ = [
    "candidates_from_values",
    "decide",
    "label_of_whole",
    "labels_from_ranks",
    "one_hot",
    "rows_of",
]

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_PROBES_AT_ONCE = 32


def rows_of(indices: Int64, layout: tuple[int, int | None, int], classes: int) -> Int64:
    """Return the class whose classifier row each coordinate lies in, or -1; shape of indices.

    Parameters
    ----------
    layout : tuple
        Offset of the classifier's weights, offset of its biases (None without), features a class.
    """
    weight, bias, features = layout
    row = np.full(indices.shape, -1, np.int64)
    inside = (indices >= weight) & (indices < weight + classes * features)
    row[inside] = (indices[inside] - weight) // features
    if bias is not None:
        inside = (indices >= bias) & (indices < bias + classes)
        row[inside] = indices[inside] - bias
    return row


def label_of_whole(values: npt.NDArray[np.float32], spec: ModelSpec) -> Int64:
    """Return the label of each whole gradient (targets, d): its only negative bias entry."""
    bias = classifier_rows(spec).bias_offset
    label: Int64 = values[:, bias : bias + spec.classes].argmin(1).astype(np.int64)
    return label


def candidates_from_values(
    indices: Int64,
    values: npt.NDArray[np.float32],
    layout: tuple[int, int | None, int],
    classes: int,
) -> Bool:
    """Return which labels the seen values allow; shape (targets, classes).

    The class with the most negative sum of seen entries, if one is negative; else every class of
    which nothing was seen; else all classes.
    """
    allowed = np.zeros((len(values), classes), np.bool_)
    for target, (where, seen) in enumerate(zip(indices, values, strict=True)):
        row = rows_of(where, layout, classes)
        known = row >= 0
        sums = np.bincount(row[known], weights=seen[known].astype(np.float64), minlength=classes)
        counts = np.bincount(row[known], minlength=classes)
        if sums.min() < 0:
            allowed[target, int(sums.argmin())] = True
        elif (counts == 0).any():
            allowed[target] = counts == 0
        else:
            allowed[target] = True
    return allowed


def labels_from_ranks(
    indices: Int64, layout: tuple[int, int | None, int], classes: int
) -> tuple[Int64, Bool]:
    """Return the label whose row has the largest sum of ``1 / (1 + rank)``, and whether any has.

    Parameters
    ----------
    indices : ndarray of int64, shape (targets, k)
        Coordinates by descending magnitude; ranks count from 0.
    """
    weights = 1 / (1 + np.arange(indices.shape[1], dtype=np.float64))
    row = rows_of(indices, layout, classes)
    sums = np.stack([((row == label) * weights).sum(1) for label in range(classes)], 1)
    label: Int64 = sums.argmax(1).astype(np.int64)
    return label, sums.max(1) > 0


def decide(
    allowed: Bool,
    make: ObjectiveMaker,
    engine: GradientEngine,
    *,
    probes: npt.NDArray[np.float32],
) -> Int64:
    """Choose one allowed label a target: that of the lowest loss over probe images.

    Parameters
    ----------
    allowed : ndarray of bool, shape (targets, classes)
    probes : ndarray of float32, shape (classes, images, channels, height, width)
        Images to try with each label.
    """
    chosen: Int64 = allowed.argmax(1).astype(np.int64)
    open_targets = np.flatnonzero(allowed.sum(1) > 1)
    if not len(open_targets):
        return chosen
    loss = np.full((*allowed.shape, probes.shape[1]), np.inf)
    tries = [
        (int(t), int(c), p)
        for t in open_targets
        for c in np.flatnonzero(allowed[t])
        for p in range(probes.shape[1])
    ]
    for start in range(0, len(tries), _PROBES_AT_ONCE):
        target, label, probe = (
            np.array(x) for x in zip(*tries[start : start + _PROBES_AT_ONCE], strict=True)
        )
        images = torch.as_tensor(probes[label, probe], dtype=engine.dtype, device=engine.device)
        gradients = engine.gradients(images, one_hot(label, engine))
        rows = torch.as_tensor(target, device=engine.device)
        loss[target, label, probe] = make(rows)(gradients).detach().cpu().numpy()
    best = np.where(np.isnan(loss), np.inf, loss).min(2)
    chosen[open_targets] = best[open_targets].argmin(1)
    return chosen


def one_hot(labels: Int64, engine: GradientEngine) -> Tensor:
    """Return labels as distributions of the engine's type; shape (n, classes)."""
    known = torch.as_tensor(labels, dtype=torch.int64, device=engine.device)
    return functional.one_hot(known, engine.classes).to(engine.dtype)
