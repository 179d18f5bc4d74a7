"""An audit end to end: its report, its resumption, and that results do not depend on processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import SCRIPT, Ended, contents, interrupted, privaudit

from privaudit.campaigns.runs import open_run
from privaudit.recording import verify
from privaudit.reports import read_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"),
]

#: As small as an audit gets: one probe fraction, one budget, three users a probe, and a data set
#: of its own, because scikit-learn's digits bring the paper's network of 582,026 parameters along.
#: Users send eight values, from which those attacks of the AS alone that start from the biases of
#: ten classes cannot start; at the probe fraction they can.
TINY_AUDIT = """
sweep_epsilon0 = [1.0]
reference_rounds = 2
probe_users = 3
probe_fractions = [0.01]

[parameters]
rounds = 1
local_epochs = 1
model = "lenet"
similarity = "jaccard"
top_k_fraction = 0.001

[federation]
dataset = "digits.npz"
users = 4
groups = 2
auxiliary_records = 20
"""

ARGUMENTS = ("audit", "pa-cfl", "-o", "out", "--config", "tiny.toml")


def make_inputs(folder: Path) -> Path:
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(
        folder / "digits.npz",
        images=(digits.images[:240] * 15.9).astype(np.uint8),
        labels=digits.target[:240],
    )
    (folder / "tiny.toml").write_text(TINY_AUDIT)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The folder in which an audit ran to its end in one process, and how it ended."""
    folder = make_inputs(tmp_path_factory.mktemp("audit"))
    return folder, privaudit(*ARGUMENTS, "--jobs", "1", cwd=folder, timeout=900)


def report_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "out" / "report.json").read_text())
    return value


def figures_of(folder: Path) -> dict[str, Any]:
    """Every figure of a report by its id, without what may differ between runs: seconds."""
    found = {}
    for finding in report_of(folder)["findings"]:
        found[finding["id"]] = {k: v for k, v in finding.items() if k != "seconds"}
    return found


def same_results(first: Path, second: Path) -> None:
    a, b = report_of(first), report_of(second)
    assert figures_of(first) == figures_of(second)
    for key in ("verdicts", "exposure", "budgets", "not_run", "claims", "digests", "utilities"):
        assert a[key] == b[key], key


def test_an_audit_writes_a_complete_report_and_ends_with_0(finished: tuple[Path, Ended]) -> None:
    folder, ended = finished
    assert ended.code == 0, ended.err
    assert {"report.html", "report.json", "report.md", "audit.json"} <= {
        p.name for p in (folder / "out").iterdir()
    }
    report = read_report(folder / "out")
    assert report.complete
    assert len(report.verdicts) == 6
    assert len(report.findings) > 10
    assert f"{len(report.findings)} figures" in ended.out
    for verdict in report.verdicts:
        assert verdict.risk in ended.out
    # Four users never show that a risk is absent.
    assert "not shown" not in {f.verdict for f in report.findings}


def test_every_figure_of_a_report_has_a_baseline_an_interval_and_n(
    finished: tuple[Path, Ended],
) -> None:
    for finding in read_report(finished[0] / "out").findings:
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high
        assert finding.baseline.low <= finding.baseline.value <= finding.baseline.high
        assert finding.control is not None
        assert finding.n == len(finding.per_target) >= 2


def test_an_attack_that_does_not_apply_is_a_row_with_its_reason(
    finished: tuple[Path, Ended],
) -> None:
    rows = read_report(finished[0] / "out").not_run
    assert {row.status for row in rows} == {"not-applicable"}
    blind = {row.attack: row.reason for row in rows if "values for 10 classes" in row.reason}
    assert set(blind) == {
        "inference/labels-from-values",
        "inference/zero-sum-labels",
        "inversion/blind-coordinates",
        "inversion/blind-top-k",
    }


def test_reconstructions_of_data_that_are_not_public_are_left_out(
    finished: tuple[Path, Ended],
) -> None:
    report = read_report(finished[0] / "out")
    assert not report.system.data_is_public
    assert not report.galleries


def test_recordings_of_an_audit_are_intact_and_their_digests_are_in_the_report(
    finished: tuple[Path, Ended],
) -> None:
    out = finished[0] / "out"
    digests = read_report(out).digests
    assert set(digests) == {p.name for p in (out / "runs").iterdir()}
    for name, digest in digests.items():
        assert verify(out / "runs" / name / "run") == ()
        assert open_run(out / "runs" / name).digest == digest


def test_the_same_command_computes_nothing_again(finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    kept = [p for d in ("cells", "runs", "outcomes") for p in (folder / "out" / d).rglob("*")]
    assert kept
    times = {p: p.stat().st_mtime_ns for p in kept}
    figures = figures_of(folder)
    ended = privaudit(*ARGUMENTS, "--jobs", "1", cwd=folder, timeout=600)
    assert ended.code == 0
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert figures_of(folder) == figures


def test_another_configuration_is_refused_and_nothing_is_changed(
    finished: tuple[Path, Ended], call: Callable[..., Ended]
) -> None:
    folder, _ = finished
    before = contents(folder)
    ended = call(*ARGUMENTS, "--seed", "5", cwd=folder)
    assert ended.code == 2
    assert "holds an audit with another configuration" in ended.err
    assert contents(folder) == before


def test_a_report_is_rendered_again_in_the_formats_wanted(
    finished: tuple[Path, Ended], tmp_path: Path
) -> None:
    folder, _ = finished
    arguments = ("report", folder / "out", "-o", tmp_path / "again", "--format", "md,json")
    ended = privaudit(*arguments, cwd=tmp_path)
    assert ended.code == 0
    again = contents(tmp_path / "again")
    assert set(again) == {"report.md", "report.json"}
    assert all(again[name] == (folder / "out" / name).read_bytes() for name in again)


def test_an_audit_killed_with_one_process_and_with_two_goes_on_to_the_same_figures(
    finished: tuple[Path, Ended], tmp_path: Path
) -> None:
    make_inputs(tmp_path)
    cells = tmp_path / "out" / "cells"
    kept: dict[Path, int] = {}
    for jobs in ("1", "2"):
        wanted = len(kept) + 3
        interrupted(
            *ARGUMENTS,
            *("--jobs", jobs),
            cwd=tmp_path,
            when=lambda least=wanted: len(list(cells.glob("*.json"))) >= least,
            by=signal.SIGKILL,
        )
        assert not (tmp_path / "out" / "report.json").exists()
        now = {p: p.stat().st_mtime_ns for p in cells.glob("*.json")}
        assert len(now) >= wanted
        assert kept.items() <= now.items(), "a finished cell was computed again"
        kept = now
    ended = privaudit(*ARGUMENTS, "--jobs", "2", cwd=tmp_path, timeout=900)
    assert ended.code == 0, ended.err
    assert {p: p.stat().st_mtime_ns for p in kept} == kept, "a finished cell was computed again"
    same_results(finished[0], tmp_path)
