"""What the benchmark of the attacks attacks: records, parameters, and transcripts of one round.

Everything is drawn from the seed; nothing of it was used while the attacks were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.datasets import load_dataset
from privaudit.datasets.base import Dataset, LabelledImages
from privaudit.models import build, flatten_parameters, load_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.sequences import global_permutation, permutation_sequence
from privaudit.protocols.training import UpdateKind, accuracy, local_update
from privaudit.transcript import (
    Array,
    Capability,
    Coalition,
    MemoryRecorder,
    Party,
    Transcript,
    Truth,
    View,
)

Float32 = npt.NDArray[np.float32]
MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER
COLLUDER = "colluder"

#: Training of the parameters that are attacked later: SGD on records that nobody is attacked for.
RATE, BATCH = 0.1, 64


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes
    ----------
    dataset : str
    model : str
    share : float
        k as a share of the parameters.
    users : int
        Targets of each attack on single records.
    auxiliary : int
        Records of the adversary, which are also the pool of the identification.
    late_steps : int
        Steps of SGD after which attacks are made again.
    iterations : int or None
        Steps of every search; None for the attacks' own.
    batches : mapping of int to int
        Updates attacked for each number of records.
    label_users, simulated_users : int
        Users whose labels are inferred, and users that the adversary simulates.
    averaging : tuple of int
        Users, records and simulated users where labels are inferred from local training.
    deep_leakage : int
        Targets of DLG.
    federations : tuple of float
        Label skew of each untrained federation whose coordinates are looked for.
    late_federations : int
        Federations of each later age.
    blind : mapping
        Options of that attack.
    noise_rounds : tuple of int
    noise_model : str
        Network of the reports under noise, small so that many rounds fit into memory.
    """

    dataset: str
    model: str = "cnn"
    share: float = 0.0025
    users: int = 20
    auxiliary: int = 2000
    late_steps: int = 300
    iterations: int | None = None
    batches: tuple[tuple[int, int], ...] = ((4, 5), (8, 3), (16, 2))
    label_users: int = 100
    simulated_users: int = 300
    averaging: tuple[int, int, int] = (40, 256, 120)
    deep_leakage: int = 12
    federations: tuple[float, ...] = (0.1, 0.1, 0.1, 0.5, 0.5, 1.0, 1.0)
    late_federations: int = 3
    federation: tuple[int, int] = (20, 64)
    blind: tuple[tuple[str, int], ...] = (("generations", 4),)
    noise_rounds: tuple[int, ...] = (1, 50, 200)
    noise_model: str = "mlp"

    def options(self, **wanted: Any) -> dict[str, Any]:
        """Return options of a search, shortened where the size says so."""
        if self.iterations is not None:
            wanted["iterations"] = self.iterations
        return wanted

    def refined(self, **wanted: Any) -> dict[str, Any]:
        """Return options of a search whose images are refined, likewise."""
        if self.iterations is not None:
            wanted |= {"refinements": 1, "refinement_steps": 1}
        return self.options(**wanted)


def quick(dataset: str = "digits") -> Size:
    """Return a size at which nothing is learned, but everything is run."""
    return Size(
        dataset,
        model="small-cnn",
        share=0.02,
        users=3,
        auxiliary=60,
        late_steps=2,
        iterations=2,
        batches=((4, 1),),
        label_users=4,
        simulated_users=6,
        averaging=(3, 6, 6),
        deep_leakage=1,
        federations=(0.1,),
        late_federations=1,
        federation=(6, 12),
        blind=(("simulated_users", 20), ("starts", 1), ("evaluations", 20), ("generations", 0)),
        noise_rounds=(1, 2),
        noise_model="mlp",
    )


@lru_cache(maxsize=2)
def dataset(name: str, data_root: Path | None) -> Dataset:
    return load_dataset(name, data_root=data_root)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Users of ``per_user`` records each, and the update of each at the parameters."""

    spec: ModelSpec
    parameters: Float32
    records: LabelledImages
    auxiliary: LabelledImages
    per_user: int
    updates: Float32
    share: float
    training: Mapping[str, Any]
    prefix: str

    @property
    def users(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}user-{i + 1}" for i in range(len(self.updates)))

    @property
    def knowledge(self) -> Knowledge:
        return Knowledge(self.spec, self.parameters, self.auxiliary)

    def of(self, position: int) -> slice:
        return slice(position * self.per_user, (position + 1) * self.per_user)

    def truth(self) -> Truth:
        return Truth(
            {
                user: {
                    "images": self.records.images[self.of(i)],
                    "labels": self.records.labels[self.of(i)],
                }
                for i, user in enumerate(self.users)
            }
        )

    @property
    def k(self) -> int:
        return max(1, int(self.share * len(self.parameters)))

    def sequences(self) -> npt.NDArray[np.int64]:
        return np.stack([permutation_sequence(u, k=self.k) for u in self.updates])

    def transcript(
        self, *, sequences: npt.NDArray[np.int64] | None = None, updates: Float32 | None = None
    ) -> Transcript:
        """Return a round of FedAvg and one of PA-CFL; others than the real messages if given."""
        updates = self.updates if updates is None else updates
        sequences = self.sequences() if sequences is None else sequences
        recorder = recorder_of(self.users, single=self.per_user == 1, training=self.training)
        recorder.publish("initial-parameters", self.parameters)
        order = global_permutation(sequences, dimension=updates.shape[1], k=self.k)
        told = {"records": np.asarray(self.per_user, np.int64)}

        def send(kind: str, sender: str, receiver: str, arrays: dict[str, Array]) -> None:
            recorder.send(kind=kind, round=1, sender=sender, receiver=receiver, arrays=arrays)

        for user, update, sequence in zip(self.users, updates, sequences, strict=True):
            send(UPDATE, user, SERVER, {"values": update, **told})
            send(kinds.PERMUTATION_SEQUENCE, user, MS, {"indices": sequence})
            send(kinds.IMPORTANT_VALUES, user, AS, {"values": update[order]})
            send(kinds.DATASET_SIZE, user, AS, told)
        send(kinds.GLOBAL_PERMUTATION, MS, COLLUDER, {"indices": order})
        return recorder.transcript()


def recorder_of(
    users: Iterable[str], *, single: bool, training: Mapping[str, Any]
) -> MemoryRecorder:
    """Return a recorder of users and servers, with what a run makes public of its training."""
    recorder = MemoryRecorder()
    parties = [Party(server, "server") for server in (SERVER, MS, AS)]
    parties += [Party(user, "user") for user in (COLLUDER, *users)]
    withheld = set() if single else {Capability.SINGLE_RECORD_UPDATES}
    if training["update"] != "gradient":
        withheld.add(Capability.SINGLE_LOCAL_STEP)
    recorder.declare(parties, facts=set(Capability) - withheld)
    recorder.publish("configuration", dict(training))
    return recorder


def view(transcript: Transcript, *members: str) -> View:
    return transcript.view(Coalition.of(*members, capabilities=Capability))


def trained(spec: ModelSpec, records: LabelledImages, *, steps: int, seed: int) -> Float32:
    """Return the initial parameters of a seed, or those after some steps of SGD."""
    import torch

    model = build(spec, seed=seed)
    rng = np.random.default_rng([seed, 1])
    images, labels = torch.from_numpy(records.images), torch.from_numpy(records.labels)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(steps):
        batch = torch.from_numpy(rng.choice(len(labels), BATCH))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimiser.step()
    return flatten_parameters(model)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A seed's records and parameters, from which cases are made."""

    size: Size
    seed: int
    spec: ModelSpec
    auxiliary: LabelledImages
    targets: LabelledImages
    others: LabelledImages
    data_root: Path | None

    def parameters(self, steps: int) -> Float32:
        return trained(self.spec, self.others, steps=steps, seed=self.seed)

    def accuracy(self, parameters: Float32) -> float:
        return accuracy(
            build(self.spec, seed=0),
            self.auxiliary.images,
            self.auxiliary.labels,
            parameters=parameters,
            calibration=self.auxiliary.images,
        )

    def case(
        self,
        *,
        users: int,
        per_user: int = 1,
        steps: int = 0,
        parameters: Float32 | None = None,
        spec: ModelSpec | None = None,
        alpha: float | None = None,
        mode: UpdateKind = "gradient",
        draw: int = 0,
    ) -> Case:
        """Return users and their updates.

        Records are the seed's targets, in order; drawn with replacement where there are too few
        of them or labels are to be skewed (Dirichlet, ``alpha``). ``draw`` gives other ones.
        """
        spec = spec or self.spec
        parameters = self.parameters(steps) if parameters is None else parameters
        rng = np.random.default_rng([self.seed, 2, users, per_user, draw])
        count = users * per_user
        if alpha is not None:
            index = np.concatenate([self._skewed(per_user, alpha, rng) for _ in range(users)])
        elif count > len(self.targets):
            index = rng.choice(len(self.targets), count)
        else:
            index = np.arange(count) if draw == 0 else rng.permutation(len(self.targets))[:count]
        records = self.targets.take(index)
        rate, epochs = (0.01, 3) if mode == "fedavg" else (RATE, 1)
        model = build(spec, seed=0)
        load_parameters(model, parameters)
        updates = [
            local_update(
                model,
                records.images[start : start + per_user],
                records.labels[start : start + per_user],
                parameters=parameters,
                learning_rate=rate,
                batch_size=BATCH,
                epochs=epochs,
                mode=mode,
                rng=rng,
            )
            for start in range(0, count, per_user)
        ]
        return Case(
            spec=spec,
            parameters=parameters,
            records=records,
            auxiliary=self.auxiliary,
            per_user=per_user,
            updates=np.stack(updates),
            share=self.size.share,
            training={
                "learning_rate": rate,
                "batch_size": BATCH,
                "local_epochs": epochs,
                "update": mode,
            },
            prefix=f"seed-{self.seed}-",
        )

    def _skewed(
        self, records: int, alpha: float, rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        counts = rng.multinomial(records, rng.dirichlet(np.full(self.spec.classes, alpha)))
        chosen = [
            rng.choice(np.flatnonzero(self.targets.labels == c), n)
            for c, n in enumerate(counts)
            if n
        ]
        return np.concatenate(chosen)


def world(size: Size, *, seed: int, data_root: Path | None) -> World:
    """Divide a data set: a third of a small one, at least, trains the parameters."""
    data = dataset(size.dataset, data_root)
    order = np.random.default_rng([seed, 0]).permutation(len(data.train))
    auxiliary = min(size.auxiliary, len(order) * 2 // 5)
    targets = min(6000, len(order) // 4)
    everything = data.train.take(order[: auxiliary + targets + 10_000])
    at = np.arange(len(everything))
    spec = ModelSpec(size.model, everything.images.shape[1:], data.classes)
    return World(
        size=size,
        seed=seed,
        spec=spec,
        auxiliary=everything.take(at[:auxiliary]),
        targets=everything.take(at[auxiliary : auxiliary + targets]),
        others=everything.take(at[auxiliary + targets :]),
        data_root=data_root,
    )
