"""Federated averaging of signs: users send one bit a coordinate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaudit.datasets.base import FederatedData
from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.federation import Federation, TrainingConfig
from privaudit.transcript import Party, Recorder, Transcript

__all__ = ["SignAveraging"]

SERVER = "server"
#: User to server: ``signs`` (d,) int8.
SIGNS = "signs"


@dataclass(frozen=True, slots=True)
class SignAveraging:
    """Average the signs of the users' updates (after Bernstein et al., ICML 2018: signSGD)."""

    name: ClassVar[str] = "example-signs"
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
        """Run all rounds, giving every message to the recorder as it is sent."""
        server = Party(SERVER, "server", "averages signs")
        # Declares the parties, publishes the model, notes the users' records as truth.
        federation = Federation(self.config, data, rng=rng, recorder=recorder, servers=(server,))
        parameters, metrics = federation.initial, []
        for t in range(1, self.config.rounds + 1):
            total = np.zeros(len(parameters))
            for position, user in enumerate(federation.users):
                update = federation.update(position, round=t, parameters=parameters)
                signs = np.sign(update).astype(np.int8)
                recorder.send(
                    round=t, kind=SIGNS, sender=user, receiver=SERVER, arrays={"signs": signs}
                )
                total += signs
            step = self.config.learning_rate * total / len(federation.users)
            parameters = (parameters - step).astype(np.float32)
            everyone = np.broadcast_to(parameters, (len(federation.users), len(parameters)))
            metrics.append(RoundMetrics(t, federation.accuracies(everyone)))
            if progress is not None:
                progress(t, self.config.rounds, metrics[-1])
        return RunOutcome("completed", self.config.rounds, "", (), tuple(metrics))

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Return what was released to whom: the signs, without noise."""
        return tuple(
            PrivacyEvent(
                round=message.round,
                mechanism=UnprotectedRelease("signs", message.specs["signs"].shape[0]),
                subjects=(message.sender,),
                observers=(SERVER,),
                unit="all records of one user in one round",
            )
            for message in transcript.messages
            if message.round is not None
        )
