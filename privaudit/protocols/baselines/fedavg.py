"""FedAvg: plain updates to one server, the undefended neighbour of every figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaudit.datasets.base import FederatedData
from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.baselines import kinds
from privaudit.protocols.federation import Federation, TrainingConfig
from privaudit.transcript import Party, Recorder, Transcript

__all__ = ["FedAvg"]


@dataclass(frozen=True, slots=True)
class FedAvg:
    """Federated averaging (McMahan et al., AISTATS 2017), weighted by the sizes of the data."""

    name: ClassVar[str] = "fedavg"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[TrainingConfig]] = TrainingConfig
    config: TrainingConfig = field(default_factory=TrainingConfig)

    def run(
        self,
        data: FederatedData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run all rounds; see :class:`privaudit.protocols.FederatedProtocol`."""
        config = self.config
        server = Party(kinds.SERVER, "server", "averages the users' updates")
        federation = Federation(config, data, rng=rng, recorder=recorder, servers=(server,))
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

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Return one unprotected release a round: the updates, as they are."""
        by_round: dict[int, list[str]] = {}
        dimension = 0
        for message in transcript.messages:
            if message.kind == kinds.UPDATE and message.round is not None:
                by_round.setdefault(message.round, []).append(message.sender)
                (dimension,) = message.specs["values"].shape
        return tuple(
            PrivacyEvent(
                round=t,
                mechanism=UnprotectedRelease("the whole update", dimension),
                subjects=tuple(senders),
                observers=(kinds.SERVER,),
                unit="all records of one user in one round",
            )
            for t, senders in sorted(by_round.items())
        )
