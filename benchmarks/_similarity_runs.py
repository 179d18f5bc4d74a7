"""Federations whose similarities the benchmarks attack.

DisUE itself with the paper's training parameters (5 local epochs, batches of 50, rate 0.1) on
scikit-learn's digits with a network of one hidden layer. The variant ``plain`` is run: the others
give the server the same cosines up to quantisation (16 bits: within 1e-6), and more besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.config import DisUEConfig
from privaudit.protocols.disue.protocol import DisUE
from privaudit.transcript import MemoryRecorder, Party, PartyId, Transcript, Truth

__all__ = ["Federation", "Matrix", "Round", "Setting", "cosines", "record", "train"]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """A federation.

    ``alpha`` is the Dirichlet concentration, None for IID; ``sampled`` of ``users`` take part in a
    round; ``similarity_on`` is what the run itself compares, for its clusters.
    """

    alpha: float | None
    users: int = 20
    sampled: int = 20
    rounds: int = 10
    records_per_user: int = 64
    distillation: Literal["none", "paper"] = "none"
    similarity_on: Literal["params", "delta"] = "params"


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Who took part (positions, ascending), the model sent to them, and what each made of it."""

    clients: npt.NDArray[np.int64]
    start: npt.NDArray[np.float32]
    parameters: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Federation:
    """The data, the run as recorded, and what clients sent in each round."""

    data: FederatedData
    transcript: Transcript
    truth: Truth
    rounds: tuple[Round, ...]


def train(setting: Setting, *, seed: int) -> Federation:
    """Run DisUE and keep what every client sent in every round."""
    rng = np.random.default_rng(seed)
    data = partition(
        load_dataset("digits"),
        users=setting.users,
        scheme="iid" if setting.alpha is None else "dirichlet",
        alpha=setting.alpha or 1.0,
        records_per_user=setting.records_per_user,
        auxiliary_records=100,
        rng=rng,
    )
    recorder = MemoryRecorder()
    config = DisUEConfig(
        model="mlp",
        rounds=setting.rounds,
        participation=setting.sampled / setting.users,
        similarity="plain",
        similarity_on=setting.similarity_on,
        distillation=setting.distillation,
    )
    outcome = DisUE(config).run(data, rng=rng, recorder=recorder)
    if outcome.status != "completed":
        raise RuntimeError(f"seed {seed}: {outcome.reason}")
    position = {client.party: i for i, client in enumerate(data.clients)}
    transcript = recorder.transcript()
    rounds = []
    for t in range(1, setting.rounds + 1):
        sent = {
            position[m.sender]: m.arrays["parameters"]
            for m in transcript.messages
            if m.kind == kinds.PARAMETERS and m.round == t
        }
        start = next(
            m.arrays["parameters"]
            for m in transcript.messages
            if m.kind == kinds.GLOBAL_MODEL and m.round == t
        )
        clients = sorted(sent)
        rounds.append(Round(np.array(clients), start, np.stack([sent[i] for i in clients])))
    return Federation(data, transcript, recorder.truth(), tuple(rounds))


def cosines(done: Round, similarity_on: str) -> Matrix:
    """Return the cosine similarities of parameters (``"params"``) or of updates (``"delta"``)."""
    vectors = done.parameters.astype(np.float64)
    if similarity_on == "delta":
        vectors = vectors - done.start
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities: Matrix = vectors @ vectors.T
    return similarities


def record(
    matrices: Sequence[Matrix], clients: Sequence[npt.NDArray[np.int64]], users: Sequence[PartyId]
) -> Transcript:
    """Record similarity matrices as the server receives them, and nothing else, rounds from 1."""
    recorder = MemoryRecorder()
    recorder.declare([*(Party(u, "user") for u in users), Party(kinds.SERVER, "server")])
    for number, (matrix, present) in enumerate(zip(matrices, clients, strict=True), start=1):
        names = [users[i] for i in present]
        for row, name in enumerate(names[:-1]):
            recorder.send(
                kind=kinds.SIMILARITY_VALUES,
                sender=name,
                receiver=kinds.SERVER,
                round=number,
                arrays={"cosines": matrix[row, row + 1 :]},
                meta={"pairs": [[name, other] for other in names[row + 1 :]]},
            )
    return recorder.transcript()
