"""Kinds of messages of PA-CFL, with what each carries (paper, sections 5.2-5.7 and 6.1)."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AGGREGATION_SERVER",
    "CLIPPING_THRESHOLD",
    "CLUSTER_AGGREGATE",
    "DATASET_SIZE",
    "FULL_UPDATE",
    "GLOBAL_AGGREGATE",
    "GLOBAL_PERMUTATION",
    "IMPORTANT_VALUES",
    "MANAGEMENT_SERVER",
    "NOISED_REMAINDER",
    "PERMUTATION_SEQUENCE",
    "PLAIN_REMAINDER",
    "PRE_CLUSTERING",
    "REMAINDER_NORM",
    "SHUFFLED_REMAINDER",
]

MANAGEMENT_SERVER: Final = "management-server"
AGGREGATION_SERVER: Final = "aggregation-server"

#: User to MS: ``indices`` (k,) int64, coordinates of the k largest magnitudes, largest first.
PERMUTATION_SEQUENCE: Final = "permutation-sequence"
#: MS to each user: ``indices`` (k,) int64, the sequence pi^g.
GLOBAL_PERMUTATION: Final = "global-permutation-sequence"
#: MS to AS: ``assignment`` (users,) int64, the pre-cluster of each user; ``meta["users"]`` ids.
PRE_CLUSTERING: Final = "pre-clustering"
#: User to MS: ``norm`` () float64, the norm of the less important subvector (only when the
#: clipping threshold is the median of the users' norms).
REMAINDER_NORM: Final = "remainder-norm"
#: MS to each user: ``threshold`` () float64, the clipping threshold Phi of the round.
CLIPPING_THRESHOLD: Final = "clipping-threshold"
#: User to AS: ``values`` (k,) float32, the user's values at pi^g, in the order of pi^g.
IMPORTANT_VALUES: Final = "important-values"
#: User to AS: ``records`` () int64, the size of the user's training set.
DATASET_SIZE: Final = "dataset-size"
#: User to MS: ``values`` (d - k,) float32, clipped and noised, by ascending coordinate.
NOISED_REMAINDER: Final = "noised-remainder"
#: MS to AS: ``values`` (d - k,) float32 for ``meta["user"]``, shuffled per coordinate within the
#: user's pre-cluster.
SHUFFLED_REMAINDER: Final = "shuffled-remainder"
#: AS to each user of a cluster: ``values`` (d,) float32, [important in the order of pi^g | rest].
CLUSTER_AGGREGATE: Final = "cluster-aggregate"
#: AS to every user: ``values`` (d,) float32, in the same order, normalised.
GLOBAL_AGGREGATE: Final = "global-aggregate"
#: User to MS: ``values`` (d,) float32, only under the reference similarity ``cosine``.
FULL_UPDATE: Final = "full-update"
#: User to AS: ``values`` (d - k,) float32, only without protection (PA-CFL*).
PLAIN_REMAINDER: Final = "plain-remainder"
