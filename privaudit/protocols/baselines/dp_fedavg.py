"""DP-FedAvg: federated averaging of updates that users make differentially private themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from privaudit.datasets.base import FederatedData
from privaudit.ledger import GaussianMechanism, PrivacyEvent, SubsampledGaussian
from privaudit.protocols.base import Progress, RunOutcome
from privaudit.protocols.baselines import kinds
from privaudit.protocols.baselines._averaging import average_rounds
from privaudit.protocols.baselines.private_training import noised_update, private_local_update
from privaudit.protocols.federation import Federation, TrainingConfig
from privaudit.transcript import Party, Recorder, Transcript

__all__ = ["DPFedAvg", "DPFedAvgConfig"]


class DPFedAvgConfig(TrainingConfig):
    """Parameters of DP-FedAvg.

    Attributes
    ----------
    privacy_level : {"record", "user"}
        ``"record"``: users train by DP-SGD, which protects each record. ``"user"``: users clip and
        noise the whole update, which protects all of a user's records together.
    clip_norm : float
        L2 norm to which a record's gradient (``"record"``) or a user's update (``"user"``, in the
        units of gradients) is clipped.
    noise_multiplier : float
        Standard deviation of the Gaussian noise over ``clip_norm``.
    """

    privacy_level: Literal["record", "user"] = "record"
    clip_norm: float = Field(1.0, gt=0, allow_inf_nan=False)
    noise_multiplier: float = Field(1.0, gt=0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class DPFedAvg:
    """Federated averaging with local differential privacy: a defended reference.

    At record level users train by DP-SGD (Abadi et al., CCS 2016) through Opacus; at user level
    they clip and noise the update (McMahan et al., ICLR 2018, with the noise added by the user).
    The server sees each noised update, so nothing is gained by averaging over users.
    """

    name: ClassVar[str] = "dp-fedavg"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[DPFedAvgConfig]] = DPFedAvgConfig
    config: DPFedAvgConfig = field(default_factory=DPFedAvgConfig)

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
        server = Party(kinds.SERVER, "server", "averages the users' noised updates")
        train = private_local_update if config.privacy_level == "record" else noised_update
        federation = Federation(
            config,
            data,
            rng=rng,
            recorder=recorder,
            servers=(server,),
            train=partial(
                train, clip_norm=config.clip_norm, noise_multiplier=config.noise_multiplier
            ),
        )
        return average_rounds(federation, recorder=recorder, progress=progress)

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Return the Gaussian mechanism of each user and round, as the run applied it.

        Numbers of records are those that users sent. Neighbours at record level differ in one
        record, added or removed; at user level all of a user's records are replaced.
        """
        published: Any = transcript.public["configuration"]
        config = DPFedAvgConfig.model_validate(published)
        return tuple(
            _event(message.round, message.sender, int(message.arrays["records"]), config)
            for message in transcript.messages
            if message.kind == kinds.UPDATE and message.round is not None
        )


def _event(round: int, user: str, records: int, config: DPFedAvgConfig) -> PrivacyEvent:
    subjects, observers = (user,), (kinds.SERVER,)
    if config.privacy_level == "user":
        # Two updates of norm at most clip_norm differ by twice as much.
        return PrivacyEvent(
            round=round,
            mechanism=GaussianMechanism(
                noise_multiplier=config.noise_multiplier / 2, sensitivity=2 * config.clip_norm
            ),
            subjects=subjects,
            observers=observers,
            unit="all records of one user in one round",
        )
    whole = config.update == "gradient" or config.batch_size >= records
    return PrivacyEvent(
        round=round,
        mechanism=SubsampledGaussian(
            noise_multiplier=config.noise_multiplier,
            sampling_probability=1.0 if whole else config.batch_size / records,
            steps=1
            if config.update == "gradient"
            else config.local_epochs * -(-records // config.batch_size),
        ),
        subjects=subjects,
        observers=observers,
        unit="one record of one user",
        relation="add-remove",
    )
