"""The package from Python does what the command line does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import SCRIPT, Ended, privaudit

import privaudit as pa
from privaudit.campaigns.recordings import small_coalitions
from privaudit.errors import (
    ConfigurationError,
    OutputExistsError,
    PluginError,
    UnmetRequirementsError,
)
from privaudit.reports import read_report
from privaudit.transcript import Party, Transcript

PARAMETERS = {
    "rounds": 2,
    "model": "mlp",
    "local_epochs": 1,
    "similarity": "plain",
    "distillation": "none",
    "participation": 1.0,
}
FEDERATION = {"users": 5, "records_per_user": 10, "auxiliary_records": 40, "partition": "iid"}


@pytest.fixture(scope="module")
def run():
    return pa.simulate("disue", parameters=PARAMETERS, federation=FEDERATION)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, privaudit; "
        "heavy = {'numpy', 'torch', 'pydantic'} & set(sys.modules); "
        "assert not heavy, heavy; assert callable(privaudit.simulate); print(dir(privaudit))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "simulate" in ended.stdout


def test_an_attack_has_figures_and_a_table_for_notebooks(run) -> None:
    result = pa.attack(run, "reconstruction/sent-models", coalition=["server"])
    assert result.figures[0].metric == "vectors recovered exactly"
    assert result.figures[0].value == 1.0
    assert result.figures[0].baseline is not None
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + len(result.figures)
    assert "reconstruction/sent-models by server" in page


def test_names_are_escaped_in_notebooks(run) -> None:
    from privaudit.api import AttackResult

    hostile = AttackResult("<script>", "<b>", (), (), {})
    assert "<script>" not in hostile._repr_html_()


def test_what_does_not_apply_is_an_error_that_says_why(run) -> None:
    with pytest.raises(UnmetRequirementsError, match="received none"):
        pa.attack(run, "reconstruction/sent-models", coalition=["user-1"])
    with pytest.raises(UnmetRequirementsError, match="saw none"):
        pa.attack(run, "cryptanalysis/pcsc-ratio", coalition=["server"])
    with pytest.raises(ConfigurationError, match="'servre' is not a party"):
        pa.attack(run, "reconstruction/sent-models", coalition=["servre"])
    with pytest.raises(PluginError, match="Did you mean 'disue'"):
        pa.simulate("disu")
    with pytest.raises(ConfigurationError, match="Did you mean 'rounds'"):
        pa.simulate("fedavg", parameters={"round": 1})


def test_a_run_of_any_protocol_is_audited_and_saved(run, tmp_path: Path) -> None:
    report = pa.audit(run, tmp_path / "work")
    files = report.save(tmp_path / "report", formats=("html", "json", "sarif"))
    assert [f.name for f in files] == ["report.html", "report.json", "report.sarif"]
    read = read_report(tmp_path / "report")
    measured = {f.attack for f in read.findings}
    assert {"reconstruction/sent-models", "inference/class-counts"} <= measured
    assert "reidentification/similarity-linking" in measured
    assert all(f.coalition_size <= 2 for f in read.findings)
    # What users send is in the ledger, although the audit knows nothing of this protocol.
    assert "the trained model" in {u.what for u in read.uncovered}
    assert read.system.data_is_public is False
    assert "srcdoc=" in report._repr_html_()
    assert repr(report).startswith("Report('Leakage report: a recorded run of disue', ")
    assert len(repr(report)) < 400
    again = pa.audit(run, tmp_path / "work")
    assert again.content.findings == report.content.findings


def test_a_coalition_is_a_text_or_a_sequence(run) -> None:
    name = "reconstruction/sent-models"
    as_list = pa.attack(run, name, coalition=["server", "user-1"])
    for text in ("server + user-1", "server,user-1", "server + 1 user"):
        as_text = pa.attack(run, name, coalition=text)
        assert (as_text.coalition, as_text.figures) == ("server + user-1", as_list.figures)
    with pytest.raises(ConfigurationError, match="Did you mean 'model-parameters'"):
        pa.attack(run, name, coalition="server", withhold="modelparams")


def test_a_run_is_not_audited_with_another_configuration(run, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"config = \{'x': 1\} is for .* by name"):
        pa.audit(run, tmp_path / "out", config={"x": 1})
    (tmp_path / "campaign.sqlite").touch()
    for subject in (run, "pa-cfl"):
        with pytest.raises(OutputExistsError, match="holds a campaign"):
            pa.audit(subject, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["campaign.sqlite"]


def test_of_a_run_without_its_truth_only_the_linking_of_rounds_is_scored(
    run, tmp_path: Path
) -> None:
    from dataclasses import replace

    report = pa.audit(replace(run, truth=None), tmp_path / "several").content
    assert {f.risk for f in report.findings} == {"linkability"}
    assert any("truth does not lie beside" in row.reason for row in report.not_run)
    tested = {v.risk for v in report.verdicts if v.verdict != "not tested"}
    assert tested == {"linkability"}
    first = tuple(m for m in run.transcript.messages if m.round in (None, 1))
    short = replace(run, truth=None, transcript=replace(run.transcript, messages=first))
    with pytest.raises(ConfigurationError, match="truth does not lie beside"):
        pa.audit(short, tmp_path / "one")


def test_small_coalitions_are_servers_a_user_and_pairs() -> None:
    users = tuple(Party(f"user-{i}", "user") for i in (1, 2, 3))
    servers = (Party("a", "server"), Party("b", "server"))
    assert small_coalitions(Transcript((*users, *servers), ())) == (
        ("a",), ("b",), ("user-3",), ("a", "user-3"), ("b", "user-3"), ("a", "b"),
    )  # fmt: skip
    assert small_coalitions(Transcript((users[0], servers[0]), ())) == (("a",),)


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}")
def test_the_command_audits_a_recorded_run(tmp_path: Path, call: Callable[..., Ended]) -> None:
    settings = [f"-p{k}={json.dumps(v)}" for k, v in PARAMETERS.items()]
    made = call("simulate", "disue", "-o", "run", "--users", "4", "-q", *settings, cwd=tmp_path)
    assert made.code == 0, made.err
    ended = privaudit("audit", "run", "-o", "out", "-q", "-j", "1", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert read_report(tmp_path / "out").system.protocol == "disue"
    refused = call("audit", "run", "-o", "out2", "--users", "4", cwd=tmp_path)
    assert refused.code == 2
    assert "is a recorded run" in refused.err
    other = call("audit", "run", "-o", "out", "--seed", "5", cwd=tmp_path)
    assert other.code == 2
    assert "another configuration" in other.err
