"""Lloyd's algorithm for many small codebooks: matrix products, sparse sums, k-means++.

Faster than a general k-means because it keeps float32, works in blocks that stay in the cache,
and trains on a sample; scikit-learn's is used where a clustering itself is the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = ["assign", "lloyd"]

Points = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

#: Rows of one block of the product with the centres: 2,048 x 256 float32 is 2 MB.
BLOCK = 2048
#: Rows from which k-means++ draws its first centres; more cost time and gain nothing measurable.
SEEDING_ROWS = 4096


def assign(points: Points, centres: Points) -> Codes:
    """Return the nearest centre of each point, the first one where two are equally near.

    Parameters
    ----------
    points : ndarray of float32, shape (n, d)
    centres : ndarray of float32, shape (k, d)

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> assign(np.array([[0.0], [2.0]], np.float32), np.array([[3.0], [1.0], [-1.0]], np.float32))
    array([1, 0])
    """
    return _nearest(_with_ones(points), centres)


def _with_ones(points: Points) -> Points:
    """Append a column of ones, by which a product with the centres adds their offsets."""
    result = np.empty((len(points), points.shape[1] + 1), dtype=np.float32)
    result[:, :-1] = points
    result[:, -1] = 1
    return result


def _nearest(augmented: Points, centres: Points) -> Codes:
    # The nearest centre maximises x.c - |c|^2 / 2; x itself does not matter.
    offsets = -0.5 * np.einsum("ij,ij->i", centres, centres)
    products = np.ascontiguousarray(np.column_stack([centres, offsets]).T, dtype=np.float32)
    codes = np.empty(len(augmented), dtype=np.int64)
    scores = np.empty((min(BLOCK, len(augmented)), len(centres)), dtype=np.float32)
    for start in range(0, len(augmented), BLOCK):
        block = augmented[start : start + BLOCK]
        part = scores[: len(block)]
        np.matmul(block, products, out=part)
        np.argmax(part, axis=1, out=codes[start : start + BLOCK])
    return codes


def lloyd(
    points: npt.NDArray[np.floating],
    k: int,
    *,
    iterations: int,
    rng: np.random.Generator,
) -> Points:
    """Return k centres of points by Lloyd's algorithm from a k-means++ start.

    A cell that becomes empty restarts at a random point. It stops early when no point moves.

    Parameters
    ----------
    points : ndarray of float, shape (n, d)
        Finite, with at least ``k`` distinct rows.
    k, iterations : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float32, shape (k, d)

    Raises
    ------
    ConfigurationError
        If there are fewer points than centres.
    """
    if not 1 <= k <= len(points):
        raise ConfigurationError(
            f"k must be from 1 to the number of points, {len(points)}; got {k}"
        )
    # Distances between centred points lose less to float32 than those far from the origin, and
    # columns that do not vary (the margins of images) do not tell centres apart.
    origin = points.mean(axis=0, dtype=np.float64).astype(np.float32)
    varying = np.flatnonzero(points.min(axis=0) < points.max(axis=0))
    centred = np.ascontiguousarray((points - origin)[:, varying], dtype=np.float32)
    augmented = _with_ones(centred)
    centres = _plus_plus(centred, k, rng=rng)
    codes = np.full(len(points), -1, dtype=np.int64)
    for _ in range(iterations):
        before, codes = codes, _nearest(augmented, centres)
        if np.array_equal(before, codes):
            break
        centres = _means(centred, codes, k, rng=rng)
    result = np.tile(np.asarray(points[0], dtype=np.float32), (k, 1))
    result[:, varying] = centres + origin[varying]
    return result


def _means(points: Points, codes: Codes, k: int, *, rng: np.random.Generator) -> Points:
    from scipy.sparse import csr_matrix

    counts = np.bincount(codes, minlength=k)
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)])
    members: Any = csr_matrix((np.ones(len(points), np.float32), order, starts), (k, len(points)))
    sums: Points = members @ points
    centres: Points = np.divide(sums, np.maximum(counts, 1)[:, None], dtype=np.float32)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        centres[empty] = points[rng.choice(len(points), size=len(empty), replace=False)]
    return centres


def _plus_plus(points: Points, k: int, *, rng: np.random.Generator) -> Points:
    """Draw k centres, each with probability proportional to its squared distance so far."""
    sample = points
    if len(points) > max(SEEDING_ROWS, 4 * k):
        chosen = rng.choice(len(points), size=max(SEEDING_ROWS, 4 * k), replace=False)
        sample = points[np.sort(chosen)]
    squares = np.einsum("ij,ij->i", sample, sample)
    picked = np.empty(k, dtype=np.int64)
    picked[0] = rng.integers(len(sample))
    nearest = np.full(len(sample), np.inf, dtype=np.float32)
    for i in range(1, k):
        last = sample[picked[i - 1]]
        np.minimum(nearest, squares + squares[picked[i - 1]] - 2 * (sample @ last), out=nearest)
        np.maximum(nearest, 0, out=nearest)
        # Rounding leaves a chosen point at a tiny distance from itself.
        nearest[picked[:i]] = 0
        total = np.cumsum(nearest, dtype=np.float64)
        if total[-1] <= 0:
            # Every row of the sample is a centre already.
            picked[i:] = rng.choice(len(sample), size=k - i, replace=k - i > len(sample))
            break
        picked[i] = min(
            int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(sample) - 1
        )
    return sample[picked].copy()
