"""Runs of PQ-MDS that several tests share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from privaudit.datasets.columns import split_vertically
from privaudit.datasets.tables import load_table, table_of_columns
from privaudit.datasets.vertical import VerticalData
from privaudit.ledger import PrivacyEvent
from privaudit.protocols.base import RunOutcome
from privaudit.protocols.pq_mds import PQMDS, PQMDSConfig
from privaudit.transcript import MemoryRecorder, Transcript, Truth

SEEDS = range(5)


@dataclass(frozen=True)
class Run:
    transcript: Transcript
    truth: Truth
    outcome: RunOutcome
    events: tuple[PrivacyEvent, ...]

    @property
    def values(self) -> dict[str, float]:
        return dict(self.outcome.metrics[-1].values)


def execute(data: VerticalData, *, seed: int = 0, **parameters: Any) -> Run:
    protocol = PQMDS(PQMDSConfig(**parameters))
    recorder = MemoryRecorder()
    outcome = protocol.run(data, rng=np.random.default_rng(seed), recorder=recorder)
    transcript = recorder.transcript()
    return Run(transcript, recorder.truth(), outcome, protocol.events(transcript))


@cache
def digits(*, parties: int = 2, rows: int | None = None, auxiliary: int = 0) -> VerticalData:
    """The embedded digits, in horizontal bands of pixels."""
    return split_vertically(
        load_table("digits"),
        parties=parties,
        rows=rows,
        auxiliary_rows=auxiliary,
        rng=np.random.default_rng(0),
    )


def numbers(
    features: np.ndarray[Any, Any], *, widths: tuple[int, ...] | None = None, auxiliary: int = 0
) -> VerticalData:
    """A table of the given numbers, in one party or in parties of the given widths."""
    table = table_of_columns("numbers", features, [f"x{i}" for i in range(features.shape[1])])
    widths = widths or (features.shape[1],)
    return split_vertically(
        table,
        parties=len(widths),
        widths=widths,
        auxiliary_rows=auxiliary,
        rng=np.random.default_rng(0),
    )


def mean_of(name: str, data: VerticalData, **parameters: Any) -> float:
    """A metric, averaged over the seeds."""
    runs = (execute(data, seed=seed, **parameters) for seed in SEEDS)
    return float(np.mean([run.values[name] for run in runs]))
