"""A campaign over three protocols ends with the same bytes however often it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from campaign_runs import HUNDRED, finished, stored
from cli_runs import SCRIPT, Ended, environment, privaudit

KILLS = 5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"),
]


def exported(folder: str, cwd: Path, call: Callable[..., Ended]) -> bytes:
    file = cwd / f"{folder}.csv"
    assert call("results", folder, "--csv", file, cwd=cwd).code == 0
    return file.read_bytes()


def figures(folder: Path) -> object:
    """The report as it is published, less times."""
    report = json.loads((folder / "report.json").read_text())
    for finding in report["findings"]:
        del finding["seconds"]
    return [report[key] for key in ("findings", "verdicts", "figures", "not_run", "digests")]


def killed_at(cells: int, folder: Path, *, jobs: int, group: bool) -> None:
    """Run the campaign and kill it, with its workers or alone, once so many cells are done."""
    process = subprocess.Popen(
        [str(SCRIPT), "run", "campaign.toml", "-o", folder.name, "-j", str(jobs), "-q"],
        cwd=folder.parent,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while finished(folder) < cells:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.005)
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_hundred_cells_killed_at_five_random_cells_give_the_bytes_of_an_unkilled_run(
    tmp_path: Path, call: Callable[..., Ended]
) -> None:
    (tmp_path / "campaign.toml").write_text(HUNDRED)
    # The number of workers changes nothing either.
    whole = privaudit("run", "campaign.toml", "-o", "whole", "-j", "1", "--json", cwd=tmp_path)
    assert whole.code == 0, whole.err
    summary = json.loads(whole.out)
    assert (summary["cells"], summary["failed"], summary["pending"]) == (100, 0, 0)
    rng = np.random.default_rng(20261130)
    # The last kill leaves cells to do, though two may end between two looks.
    at = sorted(int(n) for n in rng.choice(np.arange(1, 95), size=KILLS, replace=False))
    for position, cells in enumerate(at):
        jobs, group = ((1, True), (2, False), (2, True), (1, False), (1, True))[position]
        killed_at(cells, tmp_path / "killed", jobs=jobs, group=group)
    kept = finished(tmp_path / "killed")
    ended = privaudit("run", "campaign.toml", "-o", "killed", "-j", "2", "--json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    # Nothing that was finished is measured again.
    assert at[-1] <= kept < 100
    assert json.loads(ended.out)["computed"] == 100 - kept
    assert stored(tmp_path / "whole") == stored(tmp_path / "killed")
    assert exported("whole", tmp_path, call) == exported("killed", tmp_path, call)
    assert figures(tmp_path / "whole") == figures(tmp_path / "killed")
    # What the killed processes had begun to record is gone.
    assert not [p for p in (tmp_path / "killed" / "runs").iterdir() if p.name.startswith(".")]
