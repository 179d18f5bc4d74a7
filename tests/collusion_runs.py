"""A run of PA-CFL's messages made by hand, independent of the package's own protocol."""

from __future__ import annotations

import numpy as np

from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import MemoryRecorder, Party

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER


def make_run(
    pre,
    final=None,
    *,
    d=60,
    k=7,
    seed=0,
    noise=1.0,
    global_aggregate=False,
    round=1,
    decimals=None,
):
    """Record one round; ``pre`` and ``final`` are the clusters of the users.

    ``decimals`` rounds the noised reports, so that values coincide. Returns the recorder, the
    updates (N, d), pi^g, and the softmax weights' aggregates by final cluster.
    """
    pre = np.asarray(pre)
    final = pre if final is None else np.asarray(final)
    n = len(pre)
    rng = np.random.default_rng(seed)
    users = [f"user-{i}" for i in range(n)]
    updates = rng.normal(size=(n, d)).astype(np.float32)
    permutation = rng.permutation(d)[:k]
    rest = np.array([j for j in range(d) if j not in set(permutation.tolist())])
    noised = (updates[:, rest] + noise * rng.laplace(size=(n, d - k))).astype(np.float32)
    if decimals is not None:
        noised = np.round(noised, decimals).astype(np.float32)
    shuffled = noised.copy()
    for j in range(d - k):
        for c in np.unique(pre):
            members = np.flatnonzero(pre == c)
            shuffled[members, j] = noised[rng.permutation(members), j]
    held = np.concatenate([updates[:, permutation], shuffled], axis=1).astype(np.float64)
    aggregates = {}
    for c in np.unique(final):
        members = np.flatnonzero(final == c)
        centroid = held[members].mean(axis=0)
        cosine = (held[members] @ centroid) / (
            np.linalg.norm(held[members], axis=1) * np.linalg.norm(centroid)
        )
        weights = np.exp(cosine) / np.exp(cosine).sum()
        aggregates[c] = weights @ held[members]
    if global_aggregate:
        total = sum((final == c).mean() * a / np.linalg.norm(a) for c, a in aggregates.items())
        aggregates = dict.fromkeys(aggregates, total)

    recorder = MemoryRecorder()
    recorder.declare([*(Party(u, "user") for u in users), Party(MS, "server"), Party(AS, "server")])

    def send(kind, sender, receiver, meta=None, **arrays):
        recorder.send(
            kind=kind, sender=sender, receiver=receiver, round=round, arrays=arrays, meta=meta
        )

    for i, user in enumerate(users):
        order = np.argsort(-np.abs(updates[i]), kind="stable")[:k]
        send(kinds.PERMUTATION_SEQUENCE, user, MS, indices=order)
    for user in users:
        send(kinds.GLOBAL_PERMUTATION, MS, user, indices=permutation)
    send(kinds.PRE_CLUSTERING, MS, AS, assignment=pre, meta={"users": users})
    for i, user in enumerate(users):
        send(kinds.IMPORTANT_VALUES, user, AS, values=updates[i, permutation])
        send(kinds.NOISED_REMAINDER, user, MS, values=noised[i])
        recorder.note_truth(f"{user}/round-{round}", update=updates[i], noised=noised[i])
    for i, user in enumerate(users):
        send(kinds.SHUFFLED_REMAINDER, MS, AS, meta={"user": user}, values=shuffled[i])
    kind = kinds.GLOBAL_AGGREGATE if global_aggregate else kinds.CLUSTER_AGGREGATE
    for i, user in enumerate(users):
        send(kind, AS, user, values=aggregates[final[i]].astype(np.float32))
    return recorder, updates, permutation, rest
