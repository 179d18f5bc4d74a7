"""Runs of updates of one or several records for the tests of gradient inversion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits

from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.datasets.base import LabelledImages
from privaudit.models import ModelSpec, build, flatten_parameters, load_parameters
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.protocols.pa_cfl.kinds import (
    AGGREGATION_SERVER,
    DATASET_SIZE,
    GLOBAL_PERMUTATION,
    IMPORTANT_VALUES,
    MANAGEMENT_SERVER,
    PERMUTATION_SEQUENCE,
)
from privaudit.scoring.reconstruction import psnr
from privaudit.transcript import (
    Capability,
    Coalition,
    MemoryRecorder,
    Party,
    Transcript,
    Truth,
    View,
)

FACTS = (
    Capability.MODEL_ARCHITECTURE,
    Capability.MODEL_PARAMETERS,
    Capability.SINGLE_LOCAL_STEP,
    Capability.SINGLE_RECORD_UPDATES,
)
ALL = (*FACTS, Capability.AUXILIARY_DATA)
SMALL = ModelSpec("small-cnn", (1, 8, 8), 10)
PAPER = ModelSpec("cnn", (1, 28, 28), 10)
LENET = ModelSpec("lenet", (1, 8, 8), 10)


@dataclass(frozen=True)
class World:
    """Records, parameters and gradients of users, from which transcripts are made."""

    spec: ModelSpec
    parameters: np.ndarray
    records: LabelledImages
    auxiliary: LabelledImages
    gradients: np.ndarray
    per_user: int = 1

    @property
    def users(self) -> list[str]:
        return [f"user-{i}" for i in range(len(self.gradients))]

    def of(self, position: int) -> slice:
        return slice(position * self.per_user, (position + 1) * self.per_user)

    @property
    def knowledge(self) -> Knowledge:
        return Knowledge(self.spec, self.parameters, self.auxiliary)

    def truth(self) -> Truth:
        return Truth(
            {
                u: {
                    "images": self.records.images[self.of(i)],
                    "labels": self.records.labels[self.of(i)],
                }
                for i, u in enumerate(self.users)
            }
        )

    def transcript(self, share: float = 0.01) -> Transcript:
        """A round of FedAvg and one of PA-CFL, with pi^g by summed reverse ranks."""
        k = int(share * self.gradients.shape[1])
        order = np.argsort(-np.abs(self.gradients), axis=1, kind="stable")[:, :k]
        importance = np.zeros(self.gradients.shape[1])
        for sequence in order:
            importance[sequence] += k - np.arange(k)
        shared = np.argsort(-importance, kind="stable")[:k]
        recorder = recorder_of(self.users, facts=FACTS if self.per_user == 1 else FACTS[:-1])
        for user, gradient, sequence in zip(self.users, self.gradients, order, strict=True):
            send = {"round": 1, "sender": user}
            told = {"records": np.asarray(self.per_user)} if self.per_user > 1 else {}
            arrays = {"values": gradient, **told}
            recorder.send(kind=UPDATE, receiver=SERVER, arrays=arrays, **send)
            if told:
                recorder.send(kind=DATASET_SIZE, receiver=AGGREGATION_SERVER, arrays=told, **send)
            recorder.send(
                kind=PERMUTATION_SEQUENCE,
                receiver=MANAGEMENT_SERVER,
                arrays={"indices": sequence},
                **send,
            )
            recorder.send(
                kind=IMPORTANT_VALUES,
                receiver=AGGREGATION_SERVER,
                arrays={"values": gradient[shared]},
                **send,
            )
        recorder.send(
            kind=GLOBAL_PERMUTATION,
            round=1,
            sender=MANAGEMENT_SERVER,
            receiver="colluder",
            arrays={"indices": shared},
        )
        return recorder.transcript()


def recorder_of(users: Iterable[str], *, facts: Iterable[Capability] = FACTS) -> MemoryRecorder:
    recorder = MemoryRecorder()
    servers = (SERVER, MANAGEMENT_SERVER, AGGREGATION_SERVER)
    parties = [Party(s, "server") for s in servers]
    parties += [Party(u, "user") for u in ("colluder", *users)]
    recorder.declare(parties, facts=facts)
    return recorder


@cache
def world(
    seed: int,
    users: int = 8,
    spec: ModelSpec = SMALL,
    spread: float = 0.0,
    per_user: int = 1,
) -> World:
    """Digits of a seed, enlarged to the model's input shape.

    ``spread`` replaces the initial parameters by U(-spread, spread).
    """
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    every = LabelledImages(
        (digits.images[order, None] / 16).astype(np.float32),
        digits.target[order].astype(np.int64),
    )
    pixels = torch.from_numpy(every.images)
    pixels = torch.nn.functional.interpolate(pixels, spec.input_shape[1:], mode="bilinear")
    every = LabelledImages(pixels.numpy(), every.labels)
    count = users * per_user
    records, auxiliary = every.take(np.arange(count)), every.take(np.arange(count, count + 800))
    module = build(spec, seed=seed).eval()
    if spread:
        size = len(flatten_parameters(module))
        values = np.random.default_rng(seed).uniform(-spread, spread, size)
        load_parameters(module, values.astype(np.float32))
    gradients = []
    for start in range(0, count, per_user):
        own = records.take(np.arange(start, start + per_user))
        logits = module(torch.from_numpy(own.images))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(own.labels))
        parts = torch.autograd.grad(loss, list(module.parameters()))
        gradients.append(torch.cat([p.flatten() for p in parts]).numpy())
    parameters = flatten_parameters(module)
    return World(spec, parameters, records, auxiliary, np.stack(gradients), per_user)


def view_of(
    transcript: Transcript, *parties: str, capabilities: Iterable[Capability] = ALL
) -> View:
    return transcript.view(Coalition.of(*parties, capabilities=capabilities))


def attacked(
    attack: Attack, view: View, knowledge: Knowledge, *, seed: int = 0
) -> tuple[Guesses, Guesses]:
    return (
        attack.run(view, knowledge=knowledge, rng=np.random.default_rng(seed)),
        attack.baseline(view, knowledge=knowledge, rng=np.random.default_rng(seed)),
    )


def median(guesses: Guesses, truth: Truth) -> float:
    """Median PSNR over records."""
    return float(np.median(list(psnr(guesses, truth, per_record=True).per_target.values())))
