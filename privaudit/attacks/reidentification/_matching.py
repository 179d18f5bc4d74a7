r"""Matching the nodes of two weighted graphs, of which only one has names.

``probe`` (n, n) and ``gallery`` (m, m) are symmetric matrices of standardised similarities with a
zero diagonal; ``known`` (m, m) says which entries of the gallery were observed. A matching
:math:`\pi` gives each node of the probe another node of the gallery, or none (-1). Its cost is

.. math:: \sum_{i \ne j} c(i, j; \pi_i, \pi_j), \quad
          c(i, j; a, b) = (B_{ij} - A_{ab})^2 \text{ where known, else } B_{ij}^2 + 1,

the expected squared difference to an entry of which mean 0 and variance 1 are all that is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = [
    "by_anchors",
    "by_assignment",
    "by_sorted_rows",
    "complete",
    "cost",
    "expected_costs",
    "refine",
    "standardise",
]

Matrix = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Matching = npt.NDArray[np.int64]

#: Points at which rows of different lengths are compared: their quantiles.
_QUANTILES = np.linspace(0.0, 1.0, 21)
_IMPROVEMENT = 1e-9
#: So often the best matching must be reached for the search to end before its last start.
_ENOUGH = 10


def standardise(matrix: Matrix) -> tuple[Matrix, Mask]:
    """Shift and scale the observed off-diagonal entries to mean 0 and variance 1.

    Entries that are ``nan`` were not observed; they and the diagonal become 0.

    Returns
    -------
    values : ndarray of float64
    known : ndarray of bool
        Which entries were observed.
    """
    known = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
    if not known.any():
        return np.zeros_like(matrix), known
    observed = matrix[known]
    deviation = float(observed.std())
    # All similarities alike: nothing to tell clients by, and no scale to divide by.
    scale = deviation if deviation > 1e-12 * max(1.0, float(np.abs(observed).max())) else np.inf
    return np.where(known, (np.where(known, matrix, 0.0) - observed.mean()) / scale, 0.0), known


def by_sorted_rows(probe: Matrix, gallery: Matrix, known: Mask) -> Matching:
    """Match rows by their sorted entries, at least total squared distance (Hungarian method).

    Rows of different lengths are compared by their quantiles.
    """
    n, m = len(probe), len(gallery)
    off = ~np.eye(n, dtype=bool)
    if n == m and bool((known | np.eye(m, dtype=bool)).all()):
        rows = np.sort(probe[off].reshape(n, -1), axis=1)
        columns = np.sort(gallery[off].reshape(m, -1), axis=1)
    else:
        rows = np.stack([_quantiles(row[mask]) for row, mask in zip(probe, off, strict=True)])
        columns = np.stack(
            [_quantiles(row[mask]) for row, mask in zip(gallery, known, strict=True)]
        )
    return by_assignment(((rows[:, None] - columns[None]) ** 2).sum(axis=2))


def _quantiles(values: Matrix) -> Matrix:
    return np.quantile(values, _QUANTILES) if values.size else np.zeros(len(_QUANTILES))


def by_assignment(costs: Matrix) -> Matching:
    """Match rows to columns at least total cost; rows beyond the columns get -1."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    matching = np.full(len(costs), -1, dtype=np.int64)
    matching[rows] = columns
    return matching


def by_anchors(
    probe: Matrix, gallery: Matrix, known: Mask, *, anchors: Sequence[tuple[int, int]]
) -> Matching:
    """Match by the similarities to nodes whose match is known, and keep those matches."""
    costs = np.zeros((len(probe), len(gallery)))
    for i, a in anchors:
        costs += _pair_costs(probe[:, i], gallery[:, a], known[:, a])
    forbidden = float(costs.sum()) + 1.0
    for i, a in anchors:
        costs[i, :] = costs[:, a] = forbidden
        costs[i, a] = 0.0
    return by_assignment(costs)


def _pair_costs(row: Matrix, column: Matrix, known: Mask) -> Matrix:
    return row[:, None] ** 2 - 2 * row[:, None] * column + np.where(known, column**2, 1.0)


def expected_costs(probe: Matrix, gallery: Matrix, known: Mask, matching: Matching) -> Matrix:
    """Return what it costs to put probe i on node a while all others stay, (n, m).

    The pair of i with the probe that sits on a is counted as that of i with a node not known.
    """
    placed = np.flatnonzero(matching >= 0)
    at = matching[placed]
    similar = probe[:, placed]
    squares = np.where(known, gallery**2, 1.0)[:, at]
    off = (np.arange(len(probe))[:, None] != placed[None]).astype(np.float64)
    total: Matrix = (
        (similar**2).sum(axis=1)[:, None] - 2 * similar @ gallery[:, at].T + off @ squares.T
    )
    return total


def cost(probe: Matrix, gallery: Matrix, known: Mask, matching: Matching) -> float:
    """Return the cost of a matching, over the probes that have a match; each pair once."""
    placed = np.flatnonzero(matching >= 0)
    at = matching[placed]
    b, a = probe[np.ix_(placed, placed)], gallery[np.ix_(at, at)]
    seen = known[np.ix_(at, at)]
    costs = np.where(seen, (b - a) ** 2, b**2 + 1)
    np.fill_diagonal(costs, 0.0)
    return float(costs.sum() / 2)


def refine(
    probe: Matrix, gallery: Matrix, known: Mask, matching: Matching, *, fixed: Sequence[int] = ()
) -> Matching:
    """Improve a matching until no exchange of two matches and no move to a free node lowers it."""
    current = matching.copy()
    movable = np.setdiff1d(np.flatnonzero(current >= 0), np.array(fixed, dtype=np.int64))
    squares = np.where(known, gallery**2, 1.0)
    while True:
        table = expected_costs(probe, gallery, known, current)
        own = table[np.arange(len(probe)), current]
        at = current[movable]
        crossed = table[movable][:, at]
        # Either end of an exchange counts the pair of the two as if with an unknown node, the
        # cost before it as what it is; the exchange leaves the pair's own cost as it was.
        b, a, s = probe[np.ix_(movable, movable)], gallery[np.ix_(at, at)], squares[np.ix_(at, at)]
        before = b**2 - 2 * b * a + s
        swap = crossed + crossed.T - own[movable][:, None] - own[movable][None]
        swap += 2 * before - 2 * (b**2 + 1)
        np.fill_diagonal(swap, np.inf)
        free = np.setdiff1d(np.arange(len(gallery)), current)
        move = table[np.ix_(movable, free)] - own[movable][:, None]
        best_swap = float(swap.min(initial=np.inf))
        best_move = float(move.min(initial=np.inf))
        if min(best_swap, best_move) > -_IMPROVEMENT:
            return current
        if best_swap <= best_move:
            i, k = (movable[x] for x in np.unravel_index(int(swap.argmin()), swap.shape))
            current[i], current[k] = current[k], current[i]
        else:
            x, y = np.unravel_index(int(move.argmin()), move.shape)
            current[movable[x]] = free[y]


def complete(
    probe: Matrix,
    gallery: Matrix,
    known: Mask,
    *,
    starts: int,
    rng: np.random.Generator,
) -> tuple[Matching, float]:
    """Match by quadratic assignment: FAQ from many starts, each refined; the best by cost.

    FAQ (Vogelstein et al., PLOS ONE 10(4), 2015) maximises the sum of the products of matched
    entries; the first start is half the matching by sorted rows, up to ``starts`` more are half a
    random one, and the other half is the barycentre; it ends early when the best matching was
    reached ten times. The smaller matrix is padded with zeros, the mean of
    the standardised entries.

    Returns
    -------
    matching : ndarray of int64, shape (n,)
    spread : float
        Share of the searches that ended in the best matching.
    """
    from scipy.optimize import quadratic_assignment

    n, m = len(probe), len(gallery)
    size = max(n, m)
    a, b = np.zeros((size, size)), np.zeros((size, size))
    a[:n, :n], b[:m, :m] = probe, gallery
    by_rows = by_sorted_rows(probe, gallery, known)
    # Without a generator SciPy looks at the global one, though it draws nothing here.
    options = {"maximize": True, "rng": rng}
    best = refine(probe, gallery, known, by_rows)
    least, hits, tried = cost(probe, gallery, known, best), 1, 1
    for start in range(starts + 1):
        order = _whole(by_rows, size) if start == 0 else rng.permutation(size)
        begin = np.full((size, size), 0.5 / size)
        begin[np.arange(size), order] += 0.5
        found = quadratic_assignment(a, b, method="faq", options=options | {"P0": begin})
        matching = np.asarray(found.col_ind[:n], dtype=np.int64)
        # FAQ knows nothing of which entries were observed, and may end far from where it began:
        # the start itself is refined too.
        for candidate in (matching, order[:n]):
            improved = refine(probe, gallery, known, np.where(candidate < m, candidate, -1))
            reached = cost(probe, gallery, known, improved)
            tried += 1
            if reached < least - _IMPROVEMENT * (1 + abs(least)):
                best, least, hits = improved, reached, 1
            elif reached <= least + _IMPROVEMENT * (1 + abs(least)):
                hits += 1
        if hits >= _ENOUGH:
            break
    return best, hits / tried


def _whole(matching: Matching, size: int) -> Matching:
    """Extend an injective matching to a permutation."""
    order = np.full(size, -1, dtype=np.int64)
    order[: len(matching)] = matching
    order[order < 0] = np.setdiff1d(np.arange(size), matching)
    return order
