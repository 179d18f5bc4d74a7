r"""Maps from indices to records, fitted on pairs that the adversary holds.

Every hyper-parameter is chosen on those pairs: by generalised cross-validation, leave-one-out or
five folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from privaudit.attacks.indices._codes import Columns, group_mean, relabelled

__all__ = [
    "LinearMap",
    "Method",
    "Pairs",
    "Predictor",
    "assign_layout",
    "choose_by_folds",
    "fit",
    "ridge",
]

Table: TypeAlias = npt.NDArray[np.float64]
Predictor: TypeAlias = Callable[[Table], Table]
Method = Literal["mean", "ridge", "procrustes", "gp", "table"]

#: Rows predicted in one go: bounds the memory of kernels and tables.
BLOCK = 8192
#: Most pairs of a kernel regression: its cost grows with their cube.
LARGEST_KERNEL = 1000
#: Components of the records on which a kernel's width and penalty are chosen.
_COMPONENTS = 32
_PENALTIES = np.logspace(-6, 3, 19)
_WIDTHS = (0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows whose indices and records are known.

    Attributes
    ----------
    indices : ndarray of float64, shape (pairs, index columns)
    records : ndarray of float64, shape (pairs, columns)
    subspaces : tuple of ndarray of int64
        Index columns of each subspace.
    layout : tuple of ndarray of int64
        Columns of the records in each subspace.
    fallback : {"nearest", "mean"}
        What ``table`` guesses for a code that no pair has: what the code of the nearest index
        stands for, or the mean record.
    """

    indices: Table
    records: Table
    subspaces: tuple[Columns, ...]
    layout: tuple[Columns, ...]
    fallback: Literal["nearest", "mean"] = "nearest"

    def __len__(self) -> int:
        return len(self.records)

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Pairs:
        """Return the pairs at some positions."""
        return Pairs(
            self.indices[index], self.records[index], self.subspaces, self.layout, self.fallback
        )


def fit(method: Method, pairs: Pairs) -> Predictor:
    """Fit one method; predictions have the records' columns."""
    return _METHODS[method](pairs)


def choose_by_folds(
    pairs: Pairs,
    methods: Sequence[Method],
    *,
    rng: np.random.Generator,
    folds: int = 5,
    columns: Columns | None = None,
) -> tuple[Method, dict[Method, float]]:
    """Choose the method of least squared error, in some or all columns, over folds of the pairs.

    Returns
    -------
    method : str
    errors : dict of str to float
        Squared error of each, a record.
    """
    folds = min(folds, len(pairs))
    fold = rng.permutation(len(pairs)) % folds
    errors: dict[Method, float] = {}
    for method in methods:
        total = 0.0
        for held in range(folds):
            predict = fit(method, pairs.take(fold != held))
            out = pairs.take(fold == held)
            error = (predict(out.indices) - out.records) ** 2
            total += float((error if columns is None else error[:, columns]).sum())
        errors[method] = total / len(pairs)
    return min(errors, key=errors.__getitem__), errors


@dataclass(frozen=True, slots=True, eq=False)
class LinearMap:
    """Affine map of rows: ``mean + (x - centre) @ weights``.

    ``error`` (outputs,) is the generalised cross-validation estimate of the squared error.
    """

    centre: Table
    weights: Table
    mean: Table
    error: Table

    def __call__(self, inputs: Table) -> Table:
        """Return the images of rows."""
        return self.mean + (inputs - self.centre) @ self.weights


def ridge(inputs: Table, outputs: Table, *, noise: float = 0.0) -> LinearMap:
    r"""Ridge regression :math:`\hat y=\mu+W(x-\bar x)`, each output's penalty by GCV.

    Inputs are not scaled: a column that hardly varies among the pairs would get a large weight,
    and with it whatever it does elsewhere. If the map is to be applied to inputs with Gaussian
    noise of standard deviation ``noise``, that many times the pairs' number is added to the
    penalty, which is the best linear map for such inputs.
    """
    centre, mean = inputs.mean(axis=0), outputs.mean(axis=0)
    u, s, vt = np.linalg.svd(inputs - centre, full_matrices=False)
    kept = s > 1e-10 * s.max(initial=0.0)
    u, s, vt = u[:, kept], s[kept], vt[kept]
    largest = float((s**2).max(initial=0.0))
    if largest == 0:
        weights = np.zeros((inputs.shape[1], mean.size))
        return LinearMap(centre, weights, mean, outputs.var(axis=0))
    centred = outputs - mean
    projected = (u.T @ centred) ** 2
    # What lies outside the span of the inputs is left over under every penalty.
    beyond = np.maximum((centred**2).sum(axis=0) - projected.sum(axis=0), 0.0)
    # Few rows say too little of each output by itself: then one penalty serves all.
    few = len(inputs) < 2 * inputs.shape[1]
    best, errors = np.zeros(mean.size), np.zeros(mean.size)
    least = np.full(mean.size, np.inf)
    for penalty in _PENALTIES * largest:
        shrink = s**2 / (s**2 + penalty)
        residual = ((1 - shrink) ** 2) @ projected + beyond
        # With fewer rows than columns this goes to zero with the penalty, as the residual does.
        freedom = max(1.0 - (1.0 + float(shrink.sum())) / len(inputs), 1e-9)
        error = residual / (len(inputs) * freedom**2)
        judged = np.full(mean.size, error.mean()) if few else error
        better = judged < least
        best, errors = np.where(better, penalty, best), np.where(better, error, errors)
        least = np.minimum(judged, least)
    best += len(inputs) * noise**2
    weights = vt.T @ ((s[:, None] / (s[:, None] ** 2 + best)) * (u.T @ centred))
    return LinearMap(centre, weights, mean, errors)


def _mean(pairs: Pairs) -> Predictor:
    mean = pairs.records.mean(axis=0)
    return lambda indices: np.broadcast_to(mean, (len(indices), mean.size)).copy()


def _ridge(pairs: Pairs) -> Predictor:
    return ridge(pairs.indices, pairs.records)


def _procrustes(pairs: Pairs) -> Predictor:
    r"""Scaled orthogonal map :math:`\hat x=\mu+s\,zR`, one a subspace.

    :math:`Z^\top X=U\Sigma V^\top`, :math:`R=UV^\top`, :math:`s=\mathrm{tr}\Sigma/\|Z\|^2` (Liu,
    Giannella and Kargupta, PKDD 2006). A distance-preserving map is one of these.
    """
    parts = []
    for columns, own in zip(pairs.subspaces, pairs.layout, strict=True):
        z, x = pairs.indices[:, columns], pairs.records[:, own]
        centre, mean = z.mean(axis=0), x.mean(axis=0)
        u, s, vt = np.linalg.svd((z - centre).T @ (x - mean), full_matrices=False)
        norm = float(((z - centre) ** 2).sum())
        parts.append((columns, own, centre, mean, (s.sum() / norm if norm else 0.0) * (u @ vt)))
    overall = pairs.records.mean(axis=0)

    def predict(indices: Table) -> Table:
        result = np.broadcast_to(overall, (len(indices), overall.size)).copy()
        for columns, own, centre, mean, rotation in parts:
            result[:, own] = mean + (indices[:, columns] - centre) @ rotation
        return result

    return predict


def _table(pairs: Pairs) -> Predictor:
    """Mean of the known sub-records that share the index; the nearest index's if none does."""
    overall = pairs.records.mean(axis=0)
    parts = []
    for columns, own in zip(pairs.subspaces, pairs.layout, strict=True):
        codes, levels = relabelled(pairs.indices[:, columns])
        means, _ = group_mean(codes, pairs.records[:, own], len(levels))
        parts.append((columns, own, levels, means))

    def predict(indices: Table) -> Table:
        result = np.broadcast_to(overall, (len(indices), overall.size)).copy()
        for columns, own, levels, means in parts:
            # Codes are few: distances are computed once a code, not once a row.
            codes, seen = relabelled(indices[:, columns])
            distance = ((seen[:, None] - levels[None]) ** 2).sum(axis=2)
            nearest = distance.argmin(axis=1)
            guess = means[nearest]
            if pairs.fallback == "mean":
                unseen = distance.min(axis=1) > 1e-12
                guess[unseen] = overall[own]
            result[:, own] = guess[codes]
        return result

    return predict


def _gp(pairs: Pairs) -> Predictor:
    """Kernel ridge regression (the mean of a Gaussian process), chosen by leave-one-out.

    The Gaussian kernel's width is a multiple of the median distance of the pairs; more than
    ``LARGEST_KERNEL`` pairs are thinned evenly. Pairs of the same indices count as one, of so much
    weight: the map is the same, but all of them are left out together. Left out one by one, few
    codes would be fitted as closely as may be, and the map go astray between them.
    """
    thin, weight = _merged(pairs)
    if len(thin) > LARGEST_KERNEL:
        kept = np.linspace(0, len(thin) - 1, LARGEST_KERNEL).astype(np.int64)
        thin, weight = thin.take(kept), weight[kept]
    x, root = thin.indices, np.sqrt(weight)[:, None]
    mean = np.average(thin.records, axis=0, weights=weight)
    y = root * (thin.records - mean)
    square = _squared_distances(x, x)
    median = float(np.median(square[~np.eye(len(x), dtype=bool)])) if len(x) > 1 else 0.0
    if median == 0:
        return _mean(pairs)
    # Width and penalty are chosen on the leading components of the records, which are cheaper.
    components, strength, _ = np.linalg.svd(y, full_matrices=False)
    leading = components[:, :_COMPONENTS] * strength[:_COMPONENTS]
    best: tuple[float, float, Table, Table] | None = None
    for width in _WIDTHS:
        gamma = 1.0 / (2 * width**2 * median)
        values, vectors = np.linalg.eigh(root * np.exp(-gamma * square) * root.T)
        rotated = vectors.T @ leading
        for penalty in _PENALTIES[_PENALTIES <= 10.0]:
            inverse = 1.0 / (np.maximum(values, 0.0) + penalty)
            diagonal = (vectors**2) @ inverse
            left_out = (vectors @ (inverse[:, None] * rotated)) / diagonal[:, None]
            error = float((left_out**2).sum())
            if best is None or error < best[0]:
                best = error, gamma, vectors, inverse
    assert best is not None
    _, gamma, vectors, inverse = best
    weights = root * (vectors @ (inverse[:, None] * (vectors.T @ y)))

    def predict(indices: Table) -> Table:
        result = np.empty((len(indices), mean.size))
        for start in range(0, len(indices), BLOCK):
            part = indices[start : start + BLOCK]
            result[start : start + BLOCK] = (
                mean + np.exp(-gamma * _squared_distances(part, x)) @ weights
            )
        return result

    return predict


def _merged(pairs: Pairs) -> tuple[Pairs, Table]:
    """Return one pair, the mean, for all that share their indices, and how many those were."""
    codes, _ = relabelled(pairs.indices)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    if len(first) == len(pairs):
        return pairs, np.ones(len(pairs))
    place = np.argsort(np.argsort(first))
    means, count = group_mean(place[inverse], pairs.records, len(first))
    one = pairs.take(np.sort(first))
    merged = Pairs(one.indices, means, pairs.subspaces, pairs.layout, pairs.fallback)
    return merged, np.asarray(count, dtype=np.float64)


def _squared_distances(a: Table, b: Table) -> Table:
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    return np.asarray(np.maximum(square, 0.0), dtype=np.float64)


def assign_layout(
    indices: Table, records: Table, subspaces: Sequence[Columns]
) -> tuple[Columns, ...]:
    """Guess which columns of the records each subspace was computed from.

    A column goes to the subspace whose codes predict it best: least squared error of the mean of
    the other known rows with the same code (of all other rows, where there is none). Constant
    columns go to the first subspace; nothing is to be known of them.
    """
    rows = len(records)
    total = records.sum(axis=0)
    others = (total - records) / max(rows - 1, 1)
    errors = np.empty((len(subspaces), records.shape[1]))
    for m, columns in enumerate(subspaces):
        codes, levels = relabelled(indices[:, columns])
        means, count = group_mean(codes, records, len(levels))
        own = count[codes][:, None]
        left_out = (means[codes] * own - records) / np.maximum(own - 1, 1)
        errors[m] = ((records - np.where(own > 1, left_out, others)) ** 2).sum(axis=0)
    best = errors.argmin(axis=0)
    return tuple(np.flatnonzero(best == m) for m in range(len(subspaces)))


_METHODS: dict[Method, Callable[[Pairs], Predictor]] = {
    "mean": _mean,
    "ridge": _ridge,
    "procrustes": _procrustes,
    "gp": _gp,
    "table": _table,
}
assert set(_METHODS) == set(get_args(Method))
