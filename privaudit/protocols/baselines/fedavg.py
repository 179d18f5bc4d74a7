"""FedAvg: plain updates to one server, the undefended neighbour of every figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privaudit.datasets.base import FederatedData
from privaudit.errors import InvalidDataError
from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.models import build, default_model, flatten_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.baselines import kinds
from privaudit.protocols.training import accuracy, local_update
from privaudit.transcript import Capability, Party, Recorder, Transcript

__all__ = ["FedAvg", "FedAvgConfig"]


class FedAvgConfig(BaseModel):
    """Parameters of a run; ``update`` as in PA-CFL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(5, ge=1)
    model: str = "auto"
    local_epochs: int = Field(3, ge=1)
    learning_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    batch_size: int = Field(64, ge=1)
    update: Literal["fedavg", "gradient"] = "fedavg"


@dataclass(frozen=True, slots=True)
class FedAvg:
    """Federated averaging (McMahan et al., AISTATS 2017), weighted by the sizes of the data."""

    name: ClassVar[str] = "fedavg"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[FedAvgConfig]] = FedAvgConfig
    config: FedAvgConfig = field(default_factory=FedAvgConfig)

    def run(
        self,
        data: FederatedData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run all rounds; see :class:`privaudit.protocols.FederatedProtocol`."""
        config, users = self.config, [c.party for c in data.clients]
        spec = (
            default_model(data.image_shape, data.classes)
            if config.model == "auto"
            else ModelSpec(config.model, data.image_shape, data.classes)
        )
        seed = int(rng.integers(2**31))
        model = build(spec, seed=seed)
        parameters = flatten_parameters(model)
        sizes = np.array([len(c.train) for c in data.clients])
        facts = {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
        }
        if config.update == "gradient":
            facts.add(Capability.SINGLE_LOCAL_STEP)
            if (sizes == 1).all():
                facts.add(Capability.SINGLE_RECORD_UPDATES)
        parties = [Party(u, "user", "holds records, trains locally") for u in users]
        parties.append(Party(kinds.SERVER, "server", "averages the users' updates"))
        recorder.declare(parties, facts=facts)
        recorder.publish("configuration", config.model_dump(mode="json"))
        recorder.publish(
            "model",
            {
                "name": spec.name,
                "input_shape": list(spec.input_shape),
                "classes": spec.classes,
                "dimension": len(parameters),
                "initial_seed": seed,
            },
        )
        recorder.publish("initial-parameters", parameters.copy())
        for client in data.clients:
            recorder.note_truth(
                client.party, images=client.train.images, labels=client.train.labels
            )
        rngs = rng.spawn(len(users))
        metrics: list[RoundMetrics] = []
        for t in range(1, config.rounds + 1):
            total = np.zeros(len(parameters), dtype=np.float64)
            for i, client in enumerate(data.clients):
                recorder.send(
                    round=t,
                    kind=kinds.GLOBAL_MODEL,
                    sender=kinds.SERVER,
                    receiver=client.party,
                    arrays={"parameters": parameters},
                )
                update = local_update(
                    model,
                    client.train.images,
                    client.train.labels,
                    parameters=parameters,
                    learning_rate=config.learning_rate,
                    batch_size=config.batch_size,
                    epochs=config.local_epochs,
                    mode=config.update,
                    rng=rngs[i],
                )
                if not np.isfinite(update).all():
                    reason = f"the update of {client.party} in round {t} is not finite"
                    if t == 1:
                        raise InvalidDataError(
                            f"{reason}; check its images for NaN or infinite values, or lower "
                            f"learning_rate ({config.learning_rate})"
                        )
                    return RunOutcome("diverged", t - 1, reason, (), tuple(metrics))
                recorder.note_truth(f"{client.party}/round-{t}", update=update)
                recorder.send(
                    round=t,
                    kind=kinds.UPDATE,
                    sender=client.party,
                    receiver=kinds.SERVER,
                    arrays={"values": update, "records": np.asarray(sizes[i])},
                )
                total += sizes[i] * update.astype(np.float64)
            step = config.learning_rate * total / sizes.sum()
            parameters = (parameters - step).astype(np.float32)
            scores = [
                accuracy(
                    model,
                    c.test.images,
                    c.test.labels,
                    parameters=parameters,
                    calibration=c.train.images,
                )
                for c in data.clients
            ]
            values = {"accuracy": float(np.mean(scores)), "lowest_accuracy": float(np.min(scores))}
            metrics.append(RoundMetrics(t, values))
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
