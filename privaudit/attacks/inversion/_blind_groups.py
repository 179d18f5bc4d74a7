"""The biases of the last layer among columns of unknown coordinates: they sum to zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

__all__ = ["ZeroSumGroup", "zero_sum_group"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Sums of float32 columns that vanish do so to this share of the columns' norm.
_EXACT = 1e-5

#: Halves of a group that are listed; 31 columns for ten classes.
_HALVES = 200_000

#: Cosines above which a column belongs to the group of a longer one.
_COLLINEAR = (0.95, 0.98, 0.99, 0.998)


@dataclass(frozen=True, slots=True, eq=False)
class ZeroSumGroup:
    """As many columns as there are classes, with a sum of zero.

    Attributes
    ----------
    columns : ndarray of int64, shape (classes,)
        Their order says nothing of the classes.
    residual : float
        Norm of their sum over the norm of all their entries.
    """

    columns: Int64
    residual: float


def zero_sum_group(values: Float64, classes: int) -> ZeroSumGroup | None:
    r"""Find ``classes`` columns whose sum is zero, the longest such group if there are several.

    The gradient of cross entropy at the logits is :math:`p - y`, and its entries sum to zero for
    every record. So do, for every user, the entries of the last layer's biases, and, for each
    input of that layer, those of the weights that leave it. The biases are the longest of these
    groups where every input of the layer is below one.

    The sum of one half of a group is minus that of the other half; both are looked up by a random
    projection (meet in the middle) among the longest columns, and then among the longest columns
    of the largest sets of collinear ones.

    Parameters
    ----------
    values : ndarray of float64, shape (users, columns)
    classes : int

    Returns
    -------
    ZeroSumGroup or None
        None if no group sums to zero to the precision of float32, or there are too many classes
        for the search.
    """
    half = classes - classes // 2
    size = classes
    if values.shape[1] < classes or comb(size, half) > _HALVES:
        return None
    while size < values.shape[1] and comb(size + 1, half) <= _HALVES:
        size += 1
    for pool in _pools(values, size):
        group = _search(values[:, pool], classes)
        if group is not None:
            return ZeroSumGroup(np.sort(pool[group.columns]), group.residual)
    return None


def _pools(values: Float64, size: int) -> Iterator[Int64]:
    length = np.linalg.norm(values, axis=0)
    order = np.argsort(-length, kind="stable")
    order = order[length[order] > 0]
    yield order[:size]
    directions = values[:, order] / length[order]
    for cosine in _COLLINEAR:
        yield order[_leaders(directions, cosine, size)]


def _leaders(directions: Float64, cosine: float, size: int) -> Int64:
    """Return the longest column of each of the largest collinear sets; columns by length."""
    left = np.ones(directions.shape[1], np.bool_)
    found: list[tuple[int, int]] = []
    while left.any():
        leader = int(left.argmax())
        member = left & (np.abs(directions[:, leader] @ directions) >= cosine)
        member[leader] = True
        found.append((-int(member.sum()), leader))
        left &= ~member
    return np.array([leader for _, leader in sorted(found)[:size]], np.int64)


def _search(values: Float64, classes: int) -> ZeroSumGroup | None:
    count = values.shape[1]
    if count < classes:
        return None
    low = np.array(list(combinations(range(count), classes // 2)), np.int64)
    high = np.array(list(combinations(range(count), classes - classes // 2)), np.int64)
    # Sums of halves are compared along one direction, what agrees there along another, and what
    # agrees there too in all entries.
    lines = np.random.default_rng(0).normal(size=(2, len(values))) @ values
    wanted, sums = lines[:, low].sum(2), -lines[:, high].sum(2)
    slack = _EXACT * np.abs(lines).max(1)
    order = np.argsort(sums[0], kind="stable")
    first = np.searchsorted(sums[0, order], wanted[0] - slack[0])
    last = np.searchsorted(sums[0, order], wanted[0] + slack[0])
    best: tuple[float, ZeroSumGroup] | None = None
    for one in np.flatnonzero(last > first):
        near = order[first[one] : last[one]]
        for other in near[np.abs(sums[1, near] - wanted[1, one]) <= slack[1]]:
            columns = np.union1d(low[one], high[other])
            if len(columns) < classes:
                continue
            length = float(np.linalg.norm(values[:, columns]))
            residual = float(np.linalg.norm(values[:, columns].sum(1))) / length
            if residual <= _EXACT and (best is None or length > best[0]):
                best = length, ZeroSumGroup(columns, residual)
    return None if best is None else best[1]
