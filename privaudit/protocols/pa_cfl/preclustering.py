"""Pre-clustering by the MS: spanning tree, edge removal, Davies-Bouldin index (section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

__all__ = ["Partition", "davies_bouldin", "partition_by_spanning_tree", "spanning_tree"]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The pre-clusters and how they came about.

    Attributes
    ----------
    assignment : ndarray of int64, shape (users,)
        Clusters are numbered in the order of their first user.
    davies_bouldin : float
        Index of the accepted partition; infinite for a single cluster.
    coincident_medoids : bool
        Whether two medoids lay at distance zero and the smallest positive double stood in for it.
    """

    assignment: npt.NDArray[np.int64]
    davies_bouldin: float
    coincident_medoids: bool


def spanning_tree(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the edges of the minimum spanning tree, heaviest first.

    Ties in weight are ordered by the users' positions, so that the tree is unique.

    Parameters
    ----------
    distances : ndarray of float64, shape (users, users)
        Symmetric, zero diagonal.

    Returns
    -------
    ndarray of int64, shape (users - 1, 2)
    """
    users = len(distances)
    first, second = np.triu_indices(users, 1)
    order = np.lexsort((second, first, distances[first, second]))
    # The tree depends on the order of the weights only. Ranks stand in for them because SciPy
    # takes a weight of zero (two identical sequences) for a missing edge.
    ranks = np.empty(len(order), dtype=np.float64)
    ranks[order] = np.arange(1, len(order) + 1)
    tree = minimum_spanning_tree(coo_array((ranks, (first, second)), shape=(users, users)))
    edges = tree.tocoo()
    heaviest_first = np.argsort(-edges.data, kind="stable")
    return np.stack([edges.row, edges.col], axis=1)[heaviest_first].astype(np.int64)


def davies_bouldin(
    distances: npt.NDArray[np.float64], assignment: npt.NDArray[np.int64]
) -> tuple[float, bool]:
    """Return the Davies-Bouldin index with medoids as centres, and whether medoids coincide.

    Paper, section 3.4. Infinite for one cluster. Two medoids at distance zero are taken to be
    apart by the smallest positive double, so that the index stays defined (and huge).
    """
    labels = np.unique(assignment)
    if len(labels) < 2:
        return float("inf"), False
    medoids, dispersion = [], []
    for label in labels:
        members = np.flatnonzero(assignment == label)
        means = distances[np.ix_(members, members)].mean(axis=1)
        best = int(np.argmin(means))
        medoids.append(members[best])
        dispersion.append(means[best])
    separation = distances[np.ix_(medoids, medoids)].astype(np.float64)
    off_diagonal = ~np.eye(len(labels), dtype=bool)
    coincident = bool((separation[off_diagonal] == 0).any())
    separation[off_diagonal] = np.maximum(separation[off_diagonal], np.finfo(np.float64).tiny)
    spread = np.add.outer(dispersion, dispersion)
    ratio = np.full(spread.shape, -np.inf)
    with np.errstate(over="ignore"):
        ratio[off_diagonal] = spread[off_diagonal] / separation[off_diagonal]
    return float(ratio.max(axis=1).mean()), coincident


def partition_by_spanning_tree(
    distances: npt.NDArray[np.float64], *, edge_rule: Literal["skip", "stop"] = "skip"
) -> Partition:
    """Cut the spanning tree at its heaviest edges as long as the Davies-Bouldin index allows.

    A removal is valid if every component keeps at least two users and the index does not exceed
    the best so far (paper, section 5.4). ``"skip"``: a rejected edge stays and the next heaviest
    is tried, and after each removal all edges are tried again, until no removal is valid.
    ``"stop"``: the first rejection ends the partition.

    Parameters
    ----------
    distances : ndarray of float64, shape (users, users)
    edge_rule : {"skip", "stop"}

    Returns
    -------
    Partition
    """
    users = len(distances)
    edges = [tuple(edge) for edge in spanning_tree(distances)]
    assignment = np.zeros(users, dtype=np.int64)
    best, coincident = float("inf"), False
    accepted = True
    while accepted:
        accepted = False
        for position in range(len(edges)):
            kept = edges[:position] + edges[position + 1 :]
            candidate = _components(kept, users)
            if np.bincount(candidate).min() >= 2:
                index, zero = davies_bouldin(distances, candidate)
                if index <= best:
                    edges, assignment, best, coincident = kept, candidate, index, zero
                    accepted = True
                    break
            if edge_rule == "stop":
                break
    return Partition(assignment, best, coincident)


def _components(edges: list[tuple[int, ...]], users: int) -> npt.NDArray[np.int64]:
    rows = [edge[0] for edge in edges]
    columns = [edge[1] for edge in edges]
    graph = coo_array((np.ones(len(edges)), (rows, columns)), shape=(users, users))
    labels = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)
