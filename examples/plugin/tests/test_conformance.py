"""The plug-in keeps the rules that privaudit's own parts keep.

Each kit raises an AssertionError that names the rule, and the data that broke it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privaudit_bias_label import BiasLabel
from privaudit_bias_label.engine import SerialEngine
from privaudit_bias_label.protocol import SignAveraging
from privaudit_bias_label.reader import UpdatesReader
from privaudit_bias_label.reporter import FiguresTable
from privaudit_bias_label.scorer import GuessedLabel

import privaudit
from privaudit.campaigns.runs import knowledge_of
from privaudit.campaigns.simulation import FederationConfig, federate
from privaudit.protocols.federation import TrainingConfig
from privaudit.testing import (
    check_attack,
    check_engine,
    check_protocol,
    check_reader,
    check_reporter,
    check_scorer,
)
from privaudit.transcript import Capability, Coalition


@pytest.fixture(scope="module")
def run() -> Any:
    return privaudit.simulate(
        "fedavg",
        parameters={"rounds": 1, "model": "mlp"},
        federation={"users": 8, "partition": "dirichlet", "alpha": 0.1, "records_per_user": 20},
    )


@pytest.fixture(scope="module")
def view(run: Any) -> Any:
    return run.transcript.view(Coalition.of("server", capabilities=frozenset(Capability)))


def test_the_attack_conforms(run: Any, view: Any) -> None:
    check_attack(BiasLabel(), view, knowledge_of(run), truth=run.truth)


def test_the_scorer_conforms(run: Any, view: Any) -> None:
    attack, rng = BiasLabel(), np.random.default_rng(0)
    guesses = attack.run(view, knowledge=knowledge_of(run), rng=rng)
    check_scorer(GuessedLabel(), attack, run, guesses)


def test_the_protocol_conforms() -> None:
    protocol = SignAveraging(TrainingConfig(rounds=1, model="mlp", local_epochs=1))
    check_protocol(protocol, federate(FederationConfig(users=3, records_per_user=10), seed=0))


def test_the_engine_conforms(tmp_path: Path) -> None:
    check_engine(SerialEngine(), tmp_path)


def test_the_reader_conforms(tmp_path: Path) -> None:
    file = tmp_path / "updates.csv"
    file.write_text("# updates of one round\nuser-1,0.5,-1.25\nuser-2,3.0,1e-3\n")
    check_reader(UpdatesReader(), file)


def test_the_reporter_conforms() -> None:
    check_reporter(FiguresTable())
