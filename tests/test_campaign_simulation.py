"""A run is recorded whole or, if it is refused, not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaudit.campaigns.auditing import claim_folder
from privaudit.campaigns.pa_cfl.audit import check_inputs
from privaudit.campaigns.pa_cfl.config import AuditConfig
from privaudit.campaigns.runs import open_run, recorded
from privaudit.campaigns.simulation import (
    FederationConfig,
    SimulationConfig,
    federate,
    record_run,
)
from privaudit.errors import (
    ConfigurationError,
    InvalidDataError,
    OutputExistsError,
    PluginError,
    PrivauditError,
)
from privaudit.recording import verify

SMALL: dict[str, Any] = {"model": "lenet", "rounds": 2, "similarity": "jaccard"}
FEDERATION = FederationConfig(users=4, groups=2, auxiliary_records=10)


def run_of(seed: int = 0, **parameters: Any) -> SimulationConfig:
    return SimulationConfig(parameters=SMALL | parameters, federation=FEDERATION, seed=seed)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_configuration_gives_the_same_files_and_another_seed_others(
    tmp_path: Path,
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        record_run(run_of(seed), tmp_path / name)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert (
        contents(tmp_path / "a")["run/events.jsonl"]
        != (contents(tmp_path / "c")["run/events.jsonl"])
    )
    assert verify(tmp_path / "a" / "run") == ()
    assert verify(tmp_path / "a" / "truth") == ()


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        (run_of(top_k=10**6), ConfigurationError, r"k = 1000000 of d"),
        (run_of(top_k_fraction=1e-9), ConfigurationError, r"k = 0 of d"),
        (run_of(learning_rate=1e38), InvalidDataError, r"user-1 in round 1 is not finite"),
        (run_of(model="lenett"), ConfigurationError, "Did you mean 'lenet'"),
        (run_of(epsilon=1), ConfigurationError, "Did you mean 'epsilon0'"),
        (SimulationConfig(protocol="fedagv"), PluginError, "Did you mean 'fedavg'"),
        (
            SimulationConfig(federation=FederationConfig(dataset="mnist")),
            PrivauditError,
            "needs a data root",
        ),
    ],
    ids=["k too large", "k zero", "not finite", "model", "parameter", "protocol", "data root"],
)
def test_a_run_that_is_refused_writes_nothing(
    config: SimulationConfig,
    error: type[PrivauditError],
    says: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=says):
        record_run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_kept_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputExistsError, match=r"holds thesis\.tex"):
        record_run(run_of(), out)
    assert contents(out) == {"thesis.tex": b"years of work"}


def test_a_file_in_place_of_the_folder_is_kept_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("a file")
    with pytest.raises(OutputExistsError, match="is a file"):
        record_run(run_of(), out)
    assert out.read_text() == "a file"


def test_a_recording_is_replaced_by_force_alone(tmp_path: Path) -> None:
    record_run(run_of(rounds=1), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(OutputExistsError, match="--force"):
        record_run(run_of(seed=1, rounds=1), tmp_path)
    assert contents(tmp_path) == before
    record_run(run_of(seed=1, rounds=1), tmp_path, force=True)
    assert contents(tmp_path) != before
    assert verify(tmp_path / "run") == ()


def test_a_complete_run_is_read_back_instead_of_being_made_again(tmp_path: Path) -> None:
    first = recorded(run_of(rounds=1), tmp_path)
    times = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    again = recorded(run_of(rounds=1), tmp_path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == times
    assert again.digest == first.digest
    other = recorded(run_of(rounds=1, seed=3), tmp_path)
    assert other.digest != first.digest


def test_a_damaged_run_of_a_campaign_is_made_again(tmp_path: Path) -> None:
    first = recorded(run_of(rounds=1), tmp_path / "pa-cfl")
    events = tmp_path / "pa-cfl" / "run" / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"important", b"imp0rtant", 1))
    again = recorded(run_of(rounds=1), tmp_path / "pa-cfl")
    assert again.digest == first.digest
    assert verify(tmp_path / "pa-cfl" / "run") == ()


def test_a_run_that_is_read_back_has_the_auxiliary_records_of_its_partition(
    tmp_path: Path,
) -> None:
    record_run(run_of(rounds=1), tmp_path)
    run = open_run(tmp_path)
    assert run.complete
    assert run.auxiliary is not None
    assert len(run.auxiliary) == FEDERATION.auxiliary_records
    assert run.truth is not None
    held = {
        image.tobytes()
        for user in run.transcript.ids("user")
        for image in run.truth.get(user, "images")
    }
    assert not held & {np.ascontiguousarray(i).tobytes() for i in run.auxiliary.images}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"federation": {"users": 4, "groups": 5}}, "groups must be from 1 to 4"),
        ({"parameters": {"top_k_fraction": 1.0}}, "k = 13706 of d"),
        ({"parameters": {"top_k": 0}}, "top_k = 0"),
        ({"parameters": {"top_k": 20}}, "give top_k_fraction instead"),
        ({"parameters": {"protection": False}}, "leave protection on"),
        ({"parameters": {"epsilon0": 1000}}, "epsilon0 = 1000: an audit proves budgets"),
        ({"sweep_epsilon0": [1, 101]}, "sweep_epsilon0 = 101: an audit proves budgets"),
        ({"probe_fractions": [1e-9]}, "k = 0 of d"),
        ({"probe_users": 5000}, "5000"),
    ],
    ids=[
        "groups",
        "k too large",
        "k zero",
        "top_k",
        "PA-CFL*",
        "epsilon0",
        "sweep",
        "probe",
        "too many probe users",
    ],
)
def test_an_audit_that_cannot_run_is_refused_before_its_folder_is_made(
    changes: dict[str, Any], says: str
) -> None:
    config = AuditConfig.model_validate(changes)
    with pytest.raises(PrivauditError, match=says):
        check_inputs(config)


def test_the_default_audit_passes_its_own_checks() -> None:
    check_inputs(AuditConfig())


def test_few_users_are_spread_over_fewer_groups_unless_the_number_is_given() -> None:
    groups = federate(FederationConfig(users=4, auxiliary_records=10), seed=0).groups
    assert groups is not None
    assert len(set(groups.tolist())) == 2


def test_single_record_runs_have_the_audited_parameters() -> None:
    parameters = {"epsilon0": 2.5, "similarity": "rbo", "learning_rate": 0.5}
    probe = AuditConfig(parameters=parameters).probe(fraction=0.01)
    assert probe.parameters["epsilon0"] == 2.5
    assert probe.parameters["similarity"] == "rbo"
    assert probe.parameters["top_k_fraction"] == 0.01
    assert "learning_rate" not in probe.parameters


def test_an_audits_folder_is_taken_again_by_the_same_configuration_only(tmp_path: Path) -> None:
    out = tmp_path / "audit"
    claim_folder("pa-cfl", AuditConfig(), out, force=False)
    (out / "cells").mkdir()
    claim_folder("pa-cfl", AuditConfig(), out, force=False)
    with pytest.raises(OutputExistsError, match="another configuration"):
        claim_folder("pa-cfl", AuditConfig(seed=1), out, force=False)
    claim_folder("pa-cfl", AuditConfig(seed=1), out, force=True)
    claim_folder("pa-cfl", AuditConfig(seed=1), out, force=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputExistsError, match="is a file"):
        claim_folder("pa-cfl", AuditConfig(), tmp_path / "file", force=True)
    (out / "audit.json").unlink()
    with pytest.raises(OutputExistsError, match="holds no audit"):
        claim_folder("pa-cfl", AuditConfig(), out, force=False)
