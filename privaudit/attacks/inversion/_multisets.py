"""Labels of the several records behind one gradient: a multiset, never an order.

The gradient of the mean cross entropy of B records with respect to the bias of class c is
``mean_b p_b[c] - n_c / B`` with ``n_c`` records of the class. With the class-conditional
probabilities ``Q[y, c] = E[p[c] | y]`` of the known network, the shares ``n / B`` solve the linear
system ``(Q^T - I) n / B = g``: this is the idea of iLRG (Ma et al. 2023) with ``Q`` from auxiliary
data instead of recovered embeddings. At initial parameters Q hardly depends on the class and the
rule is ``n_c = B (p_c - g_c)``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import rows_of
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError

__all__ = [
    "class_probabilities",
    "declared_labels",
    "largest_remainder",
    "multiset_of_bias",
    "multiset_of_values",
    "negative_rows",
]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_NOISE_PROBES = 64

_AT_ONCE = 256

#: Weight of the equation that shares sum to one, against one equation a class.
_SUM_WEIGHT = 10.0


def class_probabilities(
    engine: GradientEngine, auxiliary: LabelledImages | None, rng: np.random.Generator
) -> Float64:
    """Return the network's mean probabilities given the class (classes, classes).

    Row y is over auxiliary records of class y; over all of them if there are none; over uniform
    noise without auxiliary records. Rows sum to one.
    """
    if auxiliary is None:
        images = rng.random((_NOISE_PROBES, *engine.input_shape), dtype=np.float32)
        labels = np.full(len(images), -1)
    else:
        images, labels = auxiliary.images, auxiliary.labels
    parts = []
    with torch.no_grad():
        for start in range(0, len(images), _AT_ONCE):
            batch = torch.as_tensor(
                images[start : start + _AT_ONCE], dtype=engine.dtype, device=engine.device
            )
            parts.append(torch.softmax(engine.model(batch), 1).double().cpu().numpy())
    probabilities: Float64 = np.concatenate(parts)
    everyone = probabilities.mean(0)
    return np.stack(
        [
            probabilities[labels == y].mean(0) if (labels == y).any() else everyone
            for y in range(engine.classes)
        ]
    )


def largest_remainder(shares: Float64, records: int) -> Int64:
    """Round shares that are not negative to ``records`` labels; ascending, (records,).

    Every class gets the whole part of its share times ``records``; the classes of largest
    remainder get one more each.
    """
    total = shares.sum()
    wanted = records * (shares / total if total > 0 else np.full(len(shares), 1 / len(shares)))
    counts = np.floor(wanted + 1e-9).astype(np.int64)
    left = records - int(counts.sum())
    counts[np.argsort(-(wanted - counts), kind="stable")[:left]] += 1
    return np.repeat(np.arange(len(shares)), counts)


def multiset_of_bias(bias: Float32, probabilities: Float64, *, records: int) -> tuple[Int64, float]:
    """Return the labels behind the gradient of the last layer's bias, and the misfit.

    Parameters
    ----------
    bias : ndarray of float32, shape (classes,)
        Gradient of the mean loss.
    probabilities : ndarray, shape (classes, classes)
        See :func:`class_probabilities`.

    Returns
    -------
    labels : ndarray of int64, shape (records,)
        Ascending.
    misfit : float
        Largest distance of a class's share from a multiple of ``1 / records``, in records; a
        multiset is sure if it is well below a half.
    """
    from scipy.optimize import nnls

    classes = len(bias)
    system = np.vstack([probabilities.T - np.eye(classes), np.full((1, classes), _SUM_WEIGHT)])
    shares, _ = nnls(system, np.append(bias.astype(np.float64), _SUM_WEIGHT))
    labels = largest_remainder(shares, records)
    counts = np.bincount(labels, minlength=classes)
    return labels, float(np.abs(records * shares - counts).max())


def negative_rows(rows: Float32, *, records: int) -> Int64:
    """Return labels by iDLG's sign rule, extended to several records of distinct classes.

    Classes in ascending order of the summed gradient of their row of the last layer (classes,
    features): exact for one record and features that are not negative (Zhao et al. 2020), the rule
    of Yin et al. (2021) for more, which is wrong as soon as a class occurs twice.
    """
    order = np.argsort(rows.sum(1, dtype=np.float64), kind="stable")
    return np.sort(np.resize(order[: min(records, len(order))], records)).astype(np.int64)


def multiset_of_values(
    indices: Int64,
    values: Float32,
    layout: tuple[int, int | None, int],
    classes: int,
    *,
    records: int,
) -> Int64:
    """Allot labels by the negative parts of the classifier's rows, as far as they were seen.

    The mean of a row's seen entries is about ``(p_c - n_c / B) h``; shares are proportional to
    its negative part. Without a negative row, labels are spread over the rows that were not seen.
    A heuristic: it does not know ``h``.
    """
    row = rows_of(indices, layout, classes)
    known = row >= 0
    sums = np.bincount(row[known], weights=values[known].astype(np.float64), minlength=classes)
    counts = np.bincount(row[known], minlength=classes)
    weight = np.maximum(-sums / np.maximum(counts, 1), 0)
    if not weight.any():
        weight = (counts == 0).astype(np.float64)
    return largest_remainder(weight, records)


def declared_labels(
    known: Mapping[str, tuple[int, ...]], users: tuple[str, ...], *, records: int, classes: int
) -> Int64:
    """Return the declared labels of users (users, records), or raise ConfigurationError."""
    rows = []
    for user in users:
        labels = known.get(user)
        if labels is None or len(labels) != records:
            found = "none are" if labels is None else f"{len(labels)} are"
            raise ConfigurationError(
                f"known_labels must name the {records} label(s) of '{user}', {found} named"
            )
        wrong = [label for label in labels if not 0 <= label < classes]
        if wrong:
            raise ConfigurationError(
                f"known_labels of '{user}' must be classes from 0 to {classes - 1}, got {wrong[0]}"
            )
        rows.append(sorted(labels))
    return np.array(rows, np.int64).reshape(len(users), records)
