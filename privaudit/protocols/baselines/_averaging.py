"""Rounds of federated averaging, which FedAvg and its differentially private kin share."""

from __future__ import annotations

import numpy as np

from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.baselines import kinds
from privaudit.protocols.federation import Federation
from privaudit.transcript import Recorder

__all__ = ["average_rounds"]


def average_rounds(
    federation: Federation, *, recorder: Recorder, progress: Progress | None
) -> RunOutcome:
    """Let the server send its model, every user train, and the server average, round by round.

    Updates are weighted by the users' records.

    Returns
    -------
    RunOutcome
        Diverged if an update or the averaged model leaves the finite numbers.
    """
    config = federation.config
    users, sizes, parameters = federation.users, federation.sizes, federation.initial
    metrics: list[RoundMetrics] = []
    for t in range(1, config.rounds + 1):
        for user in users:
            recorder.send(
                round=t,
                kind=kinds.GLOBAL_MODEL,
                sender=kinds.SERVER,
                receiver=user,
                arrays={"parameters": parameters},
            )
        total = np.zeros(len(parameters), dtype=np.float64)
        for i, user in enumerate(users):
            update = federation.update(i, round=t, parameters=parameters)
            if not np.isfinite(update).all():
                reason = f"diverged in round {t}: the update of {user} is not finite"
                return RunOutcome("diverged", t - 1, reason, (), tuple(metrics))
            recorder.send(
                round=t,
                kind=kinds.UPDATE,
                sender=user,
                receiver=kinds.SERVER,
                arrays={"values": update, "records": np.asarray(sizes[i])},
            )
            total += sizes[i] * update.astype(np.float64)
        step = config.learning_rate * total / sizes.sum()
        with np.errstate(over="ignore"):
            parameters = (parameters - step).astype(np.float32)
        if not np.isfinite(parameters).all():
            reason = f"diverged in round {t}: the averaged model is not finite"
            return RunOutcome("diverged", t - 1, reason, (), tuple(metrics))
        everyone = np.broadcast_to(parameters, (len(users), len(parameters)))
        metrics.append(RoundMetrics(t, federation.accuracies(everyone)))
        if progress is not None:
            progress(t, config.rounds, metrics[-1])
    return RunOutcome("completed", config.rounds, "", (), tuple(metrics))
