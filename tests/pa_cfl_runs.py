"""Small runs of PA-CFL on the digits, for the tests of its messages and its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.protocols.base import RunOutcome
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig, kinds
from privaudit.transcript import (
    MemoryRecorder,
    Message,
    Transcript,
    Truth,
)

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER
USERS, ROUNDS = 6, 2
DEFAULTS: dict[str, Any] = {"model": "lenet", "rounds": ROUNDS, "learning_rate": 0.05}


@dataclass(frozen=True)
class Run:
    transcript: Transcript
    truth: Truth
    outcome: RunOutcome
    config: PACFLConfig

    @property
    def users(self) -> tuple[str, ...]:
        return self.transcript.ids("user")

    @property
    def dimension(self) -> int:
        model: Any = self.transcript.public["model"]
        return int(model["dimension"])

    @property
    def k(self) -> int:
        return int(str(self.transcript.public["k"]))

    def of(self, kind: str, t: int) -> tuple[Message, ...]:
        return tuple(m for m in self.transcript.messages if m.kind == kind and m.round == t)

    def sent(self, kind: str, t: int, name: str = "values") -> dict[str, np.ndarray]:
        return {m.sender: m.arrays[name] for m in self.of(kind, t)}

    def received(self, kind: str, t: int, name: str = "values") -> dict[str, np.ndarray]:
        return {m.receiver: m.arrays[name] for m in self.of(kind, t)}

    def permutation(self, t: int) -> np.ndarray:
        return self.of(kinds.GLOBAL_PERMUTATION, t)[0].arrays["indices"]

    def rest(self, t: int) -> np.ndarray:
        return np.setdiff1d(np.arange(self.dimension), self.permutation(t))

    def update(self, user: str, t: int) -> np.ndarray:
        return self.truth.get(f"{user}/round-{t}", "update")

    def clusters(self, t: int) -> dict[int, list[str]]:
        (message,) = self.of(kinds.PRE_CLUSTERING, t)
        found: dict[int, list[str]] = {}
        users: Any = message.meta["users"]
        for user, label in zip(users, message.arrays["assignment"], strict=True):
            found.setdefault(int(label), []).append(user)
        return found


@cache
def federation(users: int = USERS, seed: int = 0) -> FederatedData:
    return partition(
        load_dataset("digits"),
        users=users,
        scheme="clustered",
        groups=3,
        records_per_user=40,
        auxiliary_records=20,
        rng=np.random.default_rng(seed),
    )


def execute(data: FederatedData, *, seed: int = 0, **parameters: Any) -> Run:
    config = PACFLConfig(**{**DEFAULTS, **parameters})
    recorder = MemoryRecorder()
    outcome = PACFL(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    return Run(recorder.transcript(), recorder.truth(), outcome, config)


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "fixed clipping": {"clipping": "fixed", "clip_norm": 1.0},
    "PA-CFL*": {"protection": False},
    "cosine": {"similarity": "cosine"},
    "random pre-clusters": {"pre_clustering": False},
    "no fine clusters": {"fine_clustering": False},
    "global aggregate": {"global_period": 2},
}


@cache
def run_of(variant: str) -> Run:
    return execute(federation(), **VARIANTS[variant])


#: Steps that are far too large for a network without saturation; the first round is finite.
DIVERGING: dict[str, Any] = {
    "rounds": 5,
    "learning_rate": 1e9,
    "model": "mlp",
    "update": "gradient",
}
