"""How alike users are, judged by what the management server of PA-CFL sees.

The server receives each user's permutation sequence: the coordinates of the k largest gradient
elements, in descending order of magnitude (PA-CFL, sections 5.2 and 5.4). This package turns N
such sequences into an (N, N) distance matrix, by the paper's metric (`dtw`), the approximation its
experiments use (`fastdtw`), and two alternatives that use the same message (`jaccard`, `rbo`).
`cosine_distances` is a reference that is not private.

Importing the package loads numpy only; the kernels are compiled on first use.
"""

from privaudit.similarity._gradients import cosine_distances
from privaudit.similarity._pairs import dtw, fastdtw, jaccard, rank_biased_overlap
from privaudit.similarity._pairwise import METRICS, SUMMARIES, pairwise_distances

__all__ = [
    "METRICS",
    "SUMMARIES",
    "cosine_distances",
    "dtw",
    "fastdtw",
    "jaccard",
    "pairwise_distances",
    "rank_biased_overlap",
]
