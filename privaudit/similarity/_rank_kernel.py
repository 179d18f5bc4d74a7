"""Shared elements of two rankings and the weight of the depth at which both hold them."""

from __future__ import annotations

import numpy as np

from privaudit.similarity._compile import compiled

__all__ = ["BLOCK", "overlap_pairs"]

BLOCK = 2**16  # items a look-up table spans: 256 KiB, so that look-ups stay in the core's cache


@compiled
def overlap_pairs(
    items: np.ndarray,
    ranks: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    common: np.ndarray,
    weighted: np.ndarray,
) -> None:
    """Count the items that both rankings of each pair hold, and add up their weights.

    Parameters
    ----------
    items
        (N, k) int32 from 0, each row ascending, without repetition.
    ranks
        (N, k) int32, rank (from 0) of each item in its ranking.
    starts
        (N, B + 1) int64: items of block b, b * BLOCK to (b + 1) * BLOCK - 1, are at positions
        ``starts[row, b]`` to ``starts[row, b + 1] - 1`` of the row.
    weights
        (k + 1,) int64: weight of an item whose worse rank is r; ``weights[k]`` is 0.
    first, second
        (P,) int64 row numbers; the pairs of a run of equal ``first`` share the look-up tables.
    common, weighted
        (P,) int64, zero on entry: number and total weight of the shared items.

    Notes
    -----
    Weights are integers so that the sum does not depend on the order of its terms.
    """
    k = items.shape[1]
    rank_of = np.full(BLOCK, k, np.int32)
    run = 0
    while run < len(first):
        row = first[run]
        following = run + 1
        while following < len(first) and first[following] == row:
            following += 1
        for block in range(starts.shape[1] - 1):
            base = block * BLOCK
            for t in range(starts[row, block], starts[row, block + 1]):
                rank_of[items[row, t] - base] = ranks[row, t]
            for pair in range(run, following):
                other = second[pair]
                begin = starts[other, block]
                end = starts[other, block + 1]
                other_items = items[other, begin:end]
                other_ranks = ranks[other, begin:end]
                count = 0
                total = 0
                for t in range(end - begin):
                    rank = rank_of[other_items[t] - base]
                    count += rank < k
                    total += weights[max(rank, other_ranks[t])]
                common[pair] += count
                weighted[pair] += total
            for t in range(starts[row, block], starts[row, block + 1]):
                rank_of[items[row, t] - base] = k
        run = following
