"""What horizontal protocols share: training parameters, the published model, evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from privaudit.datasets.base import FederatedData
from privaudit.errors import InvalidDataError
from privaudit.models import build, default_model, flatten_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.training import LocalTraining, accuracy, local_update
from privaudit.transcript import Array, Capability, Party, Recorder

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Federation", "TrainingConfig"]


class TrainingConfig(BaseModel):
    """Parameters of federated training.

    Attributes
    ----------
    rounds : int
        Communication rounds T.
    model : str
        Name of a network, or ``"auto"`` for the default of the data's image shape.
    local_epochs, learning_rate, batch_size
        Local training of a user in one round.
    update : {"fedavg", "gradient"}
        What a user computes: see :func:`privaudit.protocols.training.local_update`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(5, ge=1)
    model: str = "auto"
    local_epochs: int = Field(3, ge=1)
    learning_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    batch_size: int = Field(64, ge=1)
    update: Literal["fedavg", "gradient"] = "fedavg"


class Federation:
    """The users' side of a run: one network, and each user's records and random stream.

    Declares the parties, publishes the configuration and the initial model (which every party
    knows), and notes the users' records as truth.

    Parameters
    ----------
    config : TrainingConfig
    data : FederatedData
    rng : numpy.random.Generator
        Drawn from once for the initial model, then one stream a user is spawned.
    recorder : Recorder
    servers : sequence of Party
        The parties besides the users.
    train : LocalTraining
        How a user computes its update.

    Attributes
    ----------
    initial : ndarray of float32, shape (d,)
        The public initial parameters.
    sizes : ndarray of int64, shape (users,)
        Training records of each user.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: FederatedData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        servers: tuple[Party, ...],
        train: LocalTraining = local_update,
    ) -> None:
        self.config, self.data, self.recorder = config, data, recorder
        self._train = train
        self.users = tuple(client.party for client in data.clients)
        self.sizes = np.array([len(client.train) for client in data.clients], dtype=np.int64)
        spec = (
            default_model(data.image_shape, data.classes)
            if config.model == "auto"
            else ModelSpec(config.model, data.image_shape, data.classes)
        )
        seed = int(rng.integers(2**31))
        self.model: nn.Module = build(spec, seed=seed)
        self.initial = flatten_parameters(self.model)
        self._rngs = rng.spawn(len(self.users))
        users = tuple(Party(u, "user", "holds records, trains locally") for u in self.users)
        recorder.declare(users + servers, facts=self._facts())
        recorder.publish("configuration", config.model_dump(mode="json"))
        recorder.publish(
            "model",
            {
                "name": spec.name,
                "input_shape": list(spec.input_shape),
                "classes": spec.classes,
                "dimension": len(self.initial),
                "initial_seed": seed,
            },
        )
        recorder.publish("initial-parameters", self.initial)
        for position, client in enumerate(data.clients):
            known: dict[str, Array] = {
                "images": client.train.images,
                "labels": client.train.labels,
            }
            if data.groups is not None:
                known["group"] = np.asarray(data.groups[position])
            recorder.note_truth(client.party, **known)

    def _facts(self) -> set[Capability]:
        facts = {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
        }
        if self.config.update == "gradient":
            facts.add(Capability.SINGLE_LOCAL_STEP)
            if (self.sizes == 1).all():
                facts.add(Capability.SINGLE_RECORD_UPDATES)
        return facts

    def update(
        self, position: int, *, round: int, parameters: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Let one user train from its parameters, and note the update as truth.

        Returns
        -------
        ndarray of float32, shape (d,)
            Perhaps not finite after the first round, which is how divergence shows.

        Raises
        ------
        InvalidDataError
            If the update is not finite in round 1, before anything was aggregated.
        """
        client = self.data.clients[position]
        values = self._train(
            self.model,
            client.train.images,
            client.train.labels,
            parameters=parameters,
            learning_rate=self.config.learning_rate,
            batch_size=self.config.batch_size,
            epochs=self.config.local_epochs,
            mode=self.config.update,
            rng=self._rngs[position],
        )
        if round == 1 and not np.isfinite(values).all():
            raise InvalidDataError(
                f"the update of {client.party} in round 1 is not finite; check its images for NaN "
                f"or infinite values, or lower learning_rate ({self.config.learning_rate})"
            )
        self.recorder.note_truth(f"{client.party}/round-{round}", update=values)
        return values

    def noise_stream(self, position: int) -> np.random.Generator:
        """Return the random stream of a user, which also draws its noise."""
        return self._rngs[position]

    def accuracies(self, parameters: npt.NDArray[np.float32]) -> dict[str, float]:
        """Return the mean and lowest accuracy of the users on their own test sets.

        Parameters
        ----------
        parameters : ndarray of float32, shape (users, d)
        """
        scores = [
            accuracy(
                self.model,
                client.test.images,
                client.test.labels,
                parameters=parameters[position],
                calibration=client.train.images,
            )
            for position, client in enumerate(self.data.clients)
        ]
        return {"accuracy": float(np.mean(scores)), "lowest_accuracy": float(np.min(scores))}
