"""Federations whose similarity matrices the linking benchmark attacks.

Federated averaging with DisUE's training parameters (5 local epochs, batches of 50, rate 0.1), on
scikit-learn's digits with a small network. Cosine similarities are exact; quantisation to 16 bits
changes them by less than 1e-6. DisUE's distillation at the server is left out: it changes the
global model, from which all clients of a round start alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.disue import kinds
from privaudit.protocols.training import local_update
from privaudit.transcript import MemoryRecorder, Party, PartyId, Transcript

__all__ = ["Federation", "Round", "Setting", "cosines", "record", "train"]

RATE, EPOCHS, BATCH = 0.1, 5, 50
Vectors = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """A federation: ``alpha`` is the Dirichlet concentration, None for IID."""

    alpha: float | None
    users: int = 20
    sampled: int | None = None
    rounds: int = 10
    records_per_user: int = 64


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The sampled clients, ascending, the model sent to them, and what each made of it."""

    clients: npt.NDArray[np.int64]
    start: Vectors
    parameters: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Federation:
    data: FederatedData
    rounds: tuple[Round, ...]


def train(setting: Setting, *, seed: int) -> Federation:
    """Run federated averaging and keep what every client sent in every round."""
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
    model = build(ModelSpec("mlp", data.image_shape, data.classes), seed=seed)
    shared = flatten_parameters(model)
    rounds = []
    for _ in range(setting.rounds):
        number = setting.sampled or setting.users
        clients = np.sort(rng.choice(setting.users, number, replace=False))
        sent = []
        for i in clients:
            own = data.clients[i].train
            update = local_update(
                model,
                own.images,
                own.labels,
                parameters=shared,
                learning_rate=RATE,
                batch_size=BATCH,
                epochs=EPOCHS,
                mode="fedavg",
                rng=rng,
            )
            sent.append(shared - np.float32(RATE) * update)
        rounds.append(Round(clients, shared, np.stack(sent)))
        shared = rounds[-1].parameters.mean(axis=0, dtype=np.float64).astype(np.float32)
    return Federation(data, tuple(rounds))


def cosines(done: Round, sim_on: str) -> Matrix:
    """Return the cosine similarities of parameters (``"params"``) or of updates (``"delta"``)."""
    vectors = done.parameters.astype(np.float64)
    if sim_on == "delta":
        vectors = vectors - done.start
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def record(
    matrices: Sequence[Matrix], clients: Sequence[npt.NDArray[np.int64]], users: Sequence[PartyId]
) -> Transcript:
    """Record similarity matrices as the server of DisUE receives them, rounds from 1."""
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
