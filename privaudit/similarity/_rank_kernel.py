"""Shared elements of two rankings and the weight of the depth at which both hold them."""

from __future__ import annotations

import numpy as np

from privaudit.similarity._compile import compiled

__all__ = ["overlap_pairs"]


@compiled
def overlap_pairs(
    items: np.ndarray,
    ranks: np.ndarray,
    universe: int,
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
        (N, k) int32, each row ascending, without repetition, values below ``universe``.
    ranks
        (N, k) int32, rank (from 0) of each item in its ranking.
    weights
        (k + 1,) int64: weight of an item whose worse rank is r; ``weights[k]`` is 0.
    first, second
        (P,) int64 row numbers; runs of equal ``first`` share the table of positions.
    common, weighted
        (P,) int64, written: number and total weight of the shared items.

    Notes
    -----
    Weights are integers so that the sum does not depend on the order of its terms.
    """
    k = items.shape[1]
    rank_of = np.full(universe, k, np.int32)
    row = -1
    for pair in range(len(first)):
        if first[pair] != row:
            if row >= 0:
                for t in range(k):
                    rank_of[items[row, t]] = k
            row = first[pair]
            for t in range(k):
                rank_of[items[row, t]] = ranks[row, t]
        other_items = items[second[pair]]
        other_ranks = ranks[second[pair]]
        count = 0
        total = 0
        for t in range(k):
            rank = rank_of[other_items[t]]
            count += rank < k
            total += weights[max(rank, other_ranks[t])]
        common[pair] = count
        weighted[pair] = total
