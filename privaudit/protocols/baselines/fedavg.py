"""FedAvg: plain updates to one server, the undefended neighbour of every figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaudit.datasets.base import FederatedData
from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.base import Progress, RunOutcome
from privaudit.protocols.baselines import kinds
from privaudit.protocols.baselines._averaging import average_rounds
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
        server = Party(kinds.SERVER, "server", "averages the users' updates")
        federation = Federation(self.config, data, rng=rng, recorder=recorder, servers=(server,))
        return average_rounds(federation, recorder=recorder, progress=progress)

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
