"""Inputs of a fully connected layer, exactly, from its gradient alone; numpy, no search.

The gradient of a layer ``z = W a + b`` over B records is ``dW = sum_r d_r a_r^T`` and
``db = sum_r d_r`` with ``d_r`` the derivative of the loss at ``z``. For B = 1 every row gives
``a = dW_i / db_i`` (Phong et al. 2018). For more records ``dW`` has rank B, and the ``d_r`` lie in
its column space; if rectified units follow the layer, each ``d_r`` is zero wherever the units of
its record are off. A direction of the column space that is zero on B - 1 rows chosen at random is
found by linear algebra; if it is zero on many more rows, it is one of the ``d_r`` (SPEAR: Dimitrov
et al. 2024). That takes about ``2 ** (B - 1)`` choices; where the last layer follows, whose weights
are known, directions are met in far fewer steps (:mod:`._alternation`). ``db`` gives the scales,
least squares the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.inversion._alternation import Head, masked_directions

__all__ = ["Separation", "separate"]

Float64 = npt.NDArray[np.float64]

#: Singular values below this share of the largest are rounding: float32 leaves about 1e-7.
_RANK = 2e-6

#: Entries of a direction below this share of its largest count as zero.
_ZERO = 1e-4

#: Rows more than B that a direction must be zero on to be taken for that of a record.
_SURPLUS = 4

#: Share of the largest derivative below which one is no record's.
_USED = 1e-5

#: Least share of the largest number of zeros at which the search ends: sums of two records'
#: directions have zeros where both are off, on fewer rows.
_EVEN = 0.6

#: How many times as many choices are made as were needed for the first complete set.
_AGAIN = 4

#: Residual below which a gradient is explained: single precision leaves some 1e-7, half a few 1e-4.
_EXPLAINED = 1e-4

_AT_ONCE = 4096

#: Starts of alternating projections at a time.
_STARTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class Separation:
    """Inputs (found, columns), derivatives (rows, found), and how well they explain the gradient.

    ``residual`` is the relative Euclidean distance of their product from the weights' gradient.
    """

    inputs: Float64
    derivatives: Float64
    residual: float

    def explains(self, records: int) -> bool:
        """Whether inputs of all records were found and give the gradient up to rounding.

        Noise leaves a residual: what is found then is an estimate, and nothing exact follows.
        """
        return len(self.inputs) == records and self.residual < _EXPLAINED


def separate(
    weight: Float64,
    bias: Float64,
    *,
    records: int,
    tries: int,
    rng: np.random.Generator,
    head: Head | None = None,
    starts: int = 0,
) -> Separation:
    """Return the layer's inputs for each of the records, in no particular order.

    Fewer are returned where records coincide, send no gradient through the layer, or no direction
    is sparse enough: then none is for more than one record.

    Parameters
    ----------
    weight : ndarray, shape (rows, columns)
    bias : ndarray, shape (rows,)
    tries : int
        Random choices of rows at most; about ``2 ** (records - 1)`` are needed for each record.
    head : Head or None
        The last layer, if it is the next one.
    starts : int
        Random masks at most that projections start from, if there is a head.
    """
    norm = float(np.linalg.norm(weight))
    if not norm > 0 or not np.any(bias):
        return _nothing(weight)
    if records == 1:
        inputs = (bias @ weight / (bias @ bias))[None]
        return Separation(inputs, bias[:, None], _residual(weight, bias[:, None], inputs, norm))
    left, values, _ = np.linalg.svd(weight, full_matrices=False)
    rank = min(records, int((values > _RANK * values[0]).sum()))
    space = left[:, :rank]
    directions = (
        space
        if rank == 1
        else _sparse_directions(space, tries=tries, rng=rng, head=head, starts=starts)
    )
    if directions.shape[1] < rank:
        return _nothing(weight)
    scales, *_ = np.linalg.lstsq(directions, bias, rcond=None)
    used = np.abs(scales) > _USED * np.abs(scales).max()
    if not used.all():
        return _nothing(weight)
    derivatives = directions * scales
    inputs, *_ = np.linalg.lstsq(derivatives, weight, rcond=None)
    return Separation(inputs, derivatives, _residual(weight, derivatives, inputs, norm))


def _nothing(weight: Float64) -> Separation:
    return Separation(np.empty((0, weight.shape[1])), np.empty((len(weight), 0)), 1.0)


def _residual(weight: Float64, derivatives: Float64, inputs: Float64, norm: float) -> float:
    return float(np.linalg.norm(derivatives @ inputs - weight)) / norm


def _sparse_directions(
    space: Float64, *, tries: int, rng: np.random.Generator, head: Head | None, starts: int
) -> Float64:
    """Return independent directions in a column space (rows, rank) that are zero on many rows.

    Those of most zeros come first; as many as the rank if the search succeeds.
    """
    rank = space.shape[1]
    lengths = np.linalg.norm(space, axis=1)
    # A unit that is off for every record tells nothing.
    rows = np.flatnonzero(lengths > _ZERO * lengths.max())
    if len(rows) < rank + _SURPLUS:
        return np.empty((len(space), 0))
    scaled = space[rows] / lengths[rows, None]
    kept = np.empty((0, rank))
    counts = np.empty(0, np.int64)
    if head is not None:
        met = 0
        while met < starts and len(kept) < rank:
            chosen = rng.integers(len(head.slopes), size=min(_STARTS_AT_ONCE, starts - met))
            some = Head(head.weights, head.slopes[chosen])
            found = masked_directions(space, some, surplus=_SURPLUS, rng=rng)
            zeros = _zeros(scaled, lengths[rows], found)
            kept, counts = _independent(np.vstack([kept, found]), np.append(counts, zeros))
            met += len(chosen)
        if len(kept) == rank:
            return space @ kept.T
        if 2 ** (rank - 1) > tries:
            # Choices of rows would find none.
            return np.empty((len(space), 0))
    made, end = 0, tries
    while made < end:
        size = min(_AT_ONCE, tries - made)
        chosen = rng.random((size, len(rows))).argpartition(rank - 1, axis=1)[:, : rank - 1]
        _, values, right = np.linalg.svd(scaled[chosen], full_matrices=True)
        # Dependent rows leave a plane of directions, which mixes records.
        right = right[values[:, -1] > 1e-3, -1]
        zeros = _zeros(scaled, lengths[rows], right)
        right, zeros = right[zeros >= rank + _SURPLUS], zeros[zeros >= rank + _SURPLUS]
        kept, counts = _independent(np.vstack([kept, right]), np.append(counts, zeros))
        made += size
        if end == tries and len(kept) == rank and counts.min() >= _EVEN * counts.max():
            # A direction that is seldom met may still replace a mixture.
            end = min(tries, _AGAIN * made)
    polished = [_polish(scaled, lengths[rows], direction) for direction in kept]
    return space @ np.array(polished).reshape(-1, rank).T


def _zeros(scaled: Float64, lengths: Float64, directions: Float64) -> npt.NDArray[np.int64]:
    entries = np.abs(scaled @ directions.T) * lengths[:, None]
    largest = entries.max(0, initial=0)
    result: npt.NDArray[np.int64] = (entries < _ZERO * largest).sum(0)
    return result


def _independent(
    directions: Float64, counts: npt.NDArray[np.int64]
) -> tuple[Float64, npt.NDArray[np.int64]]:
    """Keep, from most zeros to fewest, each direction that the kept ones do not span."""
    basis = np.empty((0, directions.shape[1]))
    kept: list[int] = []
    for position in np.argsort(-counts, kind="stable"):
        rest = directions[position] - basis.T @ (basis @ directions[position])
        length = float(np.linalg.norm(rest))
        if length > 1e-2:
            basis = np.vstack([basis, rest / length])
            kept.append(int(position))
        if len(kept) == directions.shape[1]:
            break
    return directions[kept], counts[kept]


def _polish(scaled: Float64, lengths: Float64, direction: Float64) -> Float64:
    """Return the direction that is nearest to zero on all rows where this one is."""
    entries = np.abs(scaled @ direction) * lengths
    zero = entries < _ZERO * entries.max()
    polished: Float64 = np.linalg.svd(scaled[zero] * lengths[zero, None])[2][-1]
    return polished
