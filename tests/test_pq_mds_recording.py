"""PQ-MDS by configuration and on disk, and the rules that every protocol over columns keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pq_mds_runs import digits
from typer.testing import CliRunner

from privaudit.campaigns.runs import open_run
from privaudit.campaigns.simulation import (
    SimulationConfig,
    VerticalConfig,
    VerticalSimulationConfig,
    divide,
    federate,
    record_run,
    simulate,
    simulation_config,
)
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import ConfigurationError
from privaudit.protocols.pq_mds import PQMDS, PQMDSConfig, kinds
from privaudit.testing import check_protocol
from privaudit.transcript import NullRecorder, Transcript

FAST: dict[str, Any] = {"initialisations": 1, "reference": False}


def small(**options: Any) -> VerticalData:
    return digits(rows=options.pop("rows", 400), auxiliary=100, **options)


# Simulations and their recordings.


def test_the_protocol_decides_which_data_are_configured() -> None:
    vertical = simulation_config({"protocol": "pq-mds"}, where="options")
    assert isinstance(vertical, VerticalSimulationConfig)
    assert isinstance(simulation_config({}, where="options"), SimulationConfig)
    with pytest.raises(ConfigurationError, match=r"unknown key 'federation\.users'"):
        simulation_config({"protocol": "pq-mds", "federation": {"users": 3}}, where="options")


def test_a_protocol_over_columns_refuses_rows_and_the_reverse() -> None:
    rows = federate(SimulationConfig().federation, seed=0)
    with pytest.raises(ConfigurationError, match="does not run on FederatedData"):
        simulate(VerticalSimulationConfig(), rows, recorder=NullRecorder())
    with pytest.raises(ConfigurationError, match="does not run on VerticalData"):
        simulate(SimulationConfig(), divide(VerticalConfig(), seed=0), recorder=NullRecorder())


def test_a_recorded_run_gives_back_its_transcript_truth_and_auxiliary_rows(tmp_path: Path) -> None:
    config = VerticalSimulationConfig(parameters={"initialisations": 1}, seed=3)
    record_run(config, tmp_path / "one")
    record_run(config, tmp_path / "two")
    digests = [(tmp_path / n / "run" / "events.jsonl").read_bytes() for n in ("one", "two")]
    assert digests[0] == digests[1]
    run = open_run(tmp_path / "one")
    data = divide(config.federation, seed=3)
    assert run.truth is not None
    assert run.auxiliary is None
    assert run.auxiliary_rows is not None
    assert (run.auxiliary_rows.features == data.auxiliary.features).all()
    assert (run.truth.get("party-1", "features") == data.parties[0].features).all()
    members = {row.tobytes() for row in data.whole()}
    kept_apart = {row.tobytes() for row in run.auxiliary_rows.features}
    assert len(kept_apart & members) <= 1  # the digits hold one image twice


def test_a_run_of_a_protocol_that_is_not_installed_is_read_without_auxiliary_rows(
    tmp_path: Path,
) -> None:
    record_run(VerticalSimulationConfig(parameters={"initialisations": 1}), tmp_path / "run-1")
    manifest = tmp_path / "run-1" / "run" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["settings"]["protocol"], content["digest"] = "not-installed", None
    manifest.write_text(json.dumps(content))
    assert open_run(tmp_path / "run-1").auxiliary_rows is None


def test_the_command_line_records_a_run(tmp_path: Path) -> None:
    from privaudit.cli._main import app

    done = CliRunner().invoke(
        app,
        f"simulate pq-mds -o {tmp_path / 'r'} --split quarters --quiet "
        "-p subspaces=4 -p initialisations=1",
    )
    assert done.exit_code == 0, done.output
    assert "completed 1 round" in done.output
    run = open_run(tmp_path / "r")
    assert len(run.transcript.ids("user")) == 4


class Leaky:
    """Runs PQ-MDS and sends something more."""

    name, version, partitioning = "leaky", "1", "vertical"

    def __init__(self, what: str) -> None:
        self.what = what
        self.inner = PQMDS(PQMDSConfig(**FAST))

    def run(self, data: VerticalData, *, rng: Any, recorder: Any, progress: Any = None) -> Any:
        outcome = self.inner.run(data, rng=rng, recorder=recorder)
        party = data.parties[0]
        varied = next(i for i, row in enumerate(party.features) if row.min() != row.max())
        sent = {"row": party.features[varied], "labels": data.labels}
        recorder.send(
            round=1,
            kind="more",
            sender=party.party,
            receiver=kinds.SERVER,
            arrays={"values": np.asarray(sent[self.what])},
        )
        return outcome

    def events(self, transcript: Transcript) -> Any:
        return self.inner.events(transcript)


@pytest.mark.parametrize("what", ["row", "labels"])
def test_a_protocol_that_sends_a_row_or_the_labels_is_caught(what: str) -> None:
    with pytest.raises(AssertionError, match=r"\[no-raw-data\]"):
        check_protocol(Leaky(what), small(rows=60))  # type: ignore[arg-type]


def test_a_protocol_over_rows_is_no_protocol_over_columns() -> None:
    from privaudit.protocols.baselines.fedavg import FedAvg

    with pytest.raises(AssertionError, match=r"\[users\] 'fedavg' does not run over columns"):
        check_protocol(FedAvg(), small(rows=60))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"encoding": "table", "embedding_dimensions": 2, "alignment": "salted-hash", "rounds": 2},
        {"release": "reconstruction", "layout": "permuted"},
        {"subspaces": 1, "defence": "coarse", "most_suppressed": 0.1},
        {
            "defence": "randomized-response",
            "epsilon0": 1.0,
            "codebook": "noisy-lloyd",
            "noise_multiplier": 3.0,
        },
        {"codebook": "auxiliary", "standardize": True, "mds": "smacof", "scaling": "party"},
    ],
)
def test_every_variant_keeps_the_rules_of_protocols(parameters: dict[str, Any]) -> None:
    """Among them: the same seed gives the same bytes, and no raw row leaves a party."""
    check_protocol(PQMDS(PQMDSConfig(**FAST, **parameters)), small(rows=120))
