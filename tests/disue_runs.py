"""Small runs of DisUE on the digits, for the tests of its messages and its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.protocols.base import RunOutcome
from privaudit.protocols.disue import DisUE, DisUEConfig, kinds
from privaudit.transcript import Coalition, MemoryRecorder, Message, Transcript, Truth, View

SERVER = kinds.SERVER
USERS, CLIENTS, ROUNDS = 7, 5, 2
#: Five of seven clients a round, and as little training and distillation as shows anything.
DEFAULTS: dict[str, Any] = {
    "model": "mlp",
    "rounds": ROUNDS,
    "participation": 0.7,
    "local_epochs": 1,
    "batch_size": 20,
    "generator_width": 2,
    "noise_dimension": 8,
    "distillation_iterations": 2,
    "distillation_batch_size": 10,
}


@dataclass(frozen=True)
class Run:
    transcript: Transcript
    truth: Truth
    outcome: RunOutcome
    config: DisUEConfig

    @property
    def users(self) -> tuple[str, ...]:
        return self.transcript.ids("user")

    @property
    def dimension(self) -> int:
        model: Any = self.transcript.public["model"]
        return int(model["dimension"])

    def of(self, kind: str, t: int) -> tuple[Message, ...]:
        return tuple(m for m in self.transcript.messages if m.kind == kind and m.round == t)

    def clients(self, t: int) -> tuple[str, ...]:
        """Return the clients of a round: those that counted their records for the server."""
        return tuple(m.sender for m in self.of(kinds.CLASS_COUNTS, t))

    def view(self, *members: str) -> View:
        return self.transcript.view(Coalition.of(*members))

    def server(self, name: str, t: int) -> np.ndarray:
        return self.transcript.secrets[SERVER][f"round-{t}/{name}"]

    def true(self, name: str, t: int) -> np.ndarray:
        return np.stack([self.truth.get(f"{c}/round-{t}", name) for c in self.clients(t)])

    def groups(self, t: int) -> list[list[str]]:
        assignment = self.server("assignment", t)
        return [
            [c for c, g in zip(self.clients(t), assignment, strict=True) if g == k]
            for k in range(int(assignment.max()) + 1)
        ]


@cache
def federation(alpha: float = 0.3, seed: int = 0) -> FederatedData:
    return partition(
        load_dataset("digits"),
        users=USERS,
        scheme="dirichlet",
        alpha=alpha,
        records_per_user=40,
        auxiliary_records=20,
        rng=np.random.default_rng(seed),
    )


def execute(data: FederatedData, *, seed: int = 0, **parameters: Any) -> Run:
    config = DisUEConfig(**{**DEFAULTS, **parameters})
    recorder = MemoryRecorder()
    outcome = DisUE(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    return Run(recorder.transcript(), recorder.truth(), outcome, config)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"similarity": "plain"},
    "pairwise": {"similarity": "pairwise"},
    "relay": {},
    "shared_key": {"similarity": "shared_key"},
    "secret_shares": {"similarity": "secret_shares"},
    "fresh": {"fresh_per_pair": True, "verify_modulus": True},
    "secagg": {"aggregation": "secagg"},
    "ifca": {"similarity": "plain", "clustering": "ifca", "clusters": 2},
    "cfl": {
        "similarity": "plain",
        "clustering": "cfl",
        "start": "cluster",
        "cfl_mean_norm": 100,
        "cfl_max_norm": 0.01,
    },
    "cfl-gp": {"similarity": "plain", "clustering": "cfl-gp", "clusters": 2},
    "pacfl": {"similarity": "plain", "clustering": "pacfl", "pacfl_threshold": 15},
}


@cache
def run_of(variant: str) -> Run:
    return execute(federation(), **VARIANTS[variant])
