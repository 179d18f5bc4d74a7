"""How well each similarity finds the known groups from what the MS received."""

from __future__ import annotations

import numpy as np

from privaudit.campaigns.runs import RecordedRun
from privaudit.errors import PrivauditError
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.preclustering import partition_by_spanning_tree
from privaudit.similarity import METRICS, cosine_distances, pairwise_distances

__all__ = ["partition_scores"]


def partition_scores(run: RecordedRun) -> dict[str, float]:
    """Return the adjusted Rand index of the first round's partition, by similarity.

    The sequences are those that the MS received; the partition is the protocol's own, with its
    default edge rule. ``dtw by index`` reads the same sequences in the order of coordinates.
    ``cosine of full updates`` is a reference from the truth, which no party of the protocol sees.
    Empty if the groups are not known.
    """
    from sklearn.metrics import adjusted_rand_score

    transcript, truth = run.transcript, run.truth
    users = transcript.ids("user")
    if truth is None or any("group" not in truth.targets.get(u, {}) for u in users):
        return {}
    groups = [int(truth.get(user, "group")) for user in users]
    sent = {
        m.sender: m.arrays["indices"]
        for m in transcript.messages
        if m.kind == kinds.PERMUTATION_SEQUENCE and m.round == 1
    }
    if set(sent) != set(users):
        return {}
    sequences = np.stack([sent[user] for user in users])

    def score(distances: np.ndarray) -> float:
        return float(adjusted_rand_score(groups, partition_by_spanning_tree(distances).assignment))

    scores: dict[str, float] = {
        metric: score(pairwise_distances(sequences, metric=metric)) for metric in METRICS
    }
    scores["dtw by index"] = score(
        pairwise_distances(sequences, metric="dtw", sequence_order="index")
    )
    try:
        updates = np.stack([truth.get(f"{user}/round-1", "update") for user in users])
        scores["cosine of full updates"] = score(cosine_distances(updates))
    except (KeyError, PrivauditError):
        # Without the updates there is no reference, and the table is shorter by a row.
        return scores
    return scores
