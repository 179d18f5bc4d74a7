"""Dask workers answer every cell, and one that is killed costs nothing."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from campaign_runs import TINY_CAMPAIGN
from cli_runs import SCRIPT, interrupted, privaudit

from privaudit.campaigns.grid import CellSpec, Store, execute
from privaudit.campaigns.grid.engines import DaskEngine, Task, answers
from privaudit.campaigns.grid.store import FILE
from privaudit.campaigns.simulation import simulation_config
from privaudit.errors import ConfigurationError
from privaudit.testing import check_engine

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")


@pytest.fixture(scope="module")
def cluster() -> Any:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


def test_dask_passes_the_kit_of_engines(cluster: Any, tmp_path: Path) -> None:
    check_engine(DaskEngine(address=cluster.scheduler_address), tmp_path)


def test_cells_of_a_killed_worker_are_measured_elsewhere(cluster: Any, tmp_path: Path) -> None:
    tasks = cells()
    found: dict[str, dict[str, Any]] = {}
    engine = DaskEngine(address=cluster.scheduler_address)
    lost = 0
    for key, result in engine.run(tasks, runs=tmp_path, data_root=None):
        if not lost:
            lost = kill_a_busy_worker(cluster)
        assert key not in found
        found[key] = told(result)
    assert found == {key: told(execute(spec.to_json(), runs=tmp_path)) for key, spec in tasks}
    assert lost
    assert {result["status"] for result in found.values()} == {"measured"}


def dies(specification: dict[str, Any]) -> dict[str, Any]:
    if specification["run"]["seed"]:
        os._exit(1)
    raise ValueError("no such thing")


def test_work_that_raises_or_ends_its_worker_is_a_failed_cell(cluster: Any) -> None:
    raising, ending = cells()[0], cells()[-1]
    with distributed.Client(cluster) as client:
        found = dict(answers(client, dies, [raising, ending], retries=1))
    assert found[raising[0]]["reason"] == "ValueError: no such thing"
    assert "KilledWorker" in found[ending[0]]["reason"]
    assert {result["status"] for result in found.values()} == {"failed"}


@pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}")
def test_a_cluster_of_its_own_ends_in_silence(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY_CAMPAIGN.replace("[0, 1]", "[0, 1, 2]"))
    ended = privaudit("run", "tiny.toml", "-o", "out", "--engine", "dask", "-q", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}")
def test_ctrl_c_ends_a_cluster_with_one_line(tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(200)))
    (tmp_path / "tiny.toml").write_text(TINY_CAMPAIGN.replace("0, 1", seeds))
    ended = interrupted(
        "run", "tiny.toml", "-o", "out", "--engine", "dask", "-q",
        cwd=tmp_path, by=signal.SIGINT, when=lambda: measured(tmp_path / "out") > 2,
    )  # fmt: skip
    assert ended.code == 3
    assert ended.err == "privaudit: interrupted; finished work was kept\n"
    assert 2 < measured(tmp_path / "out") < 400


def measured(folder: Path) -> int:
    """How many cells of a campaign are measured by now."""
    if not (folder / FILE).is_file():
        return 0
    try:
        with Store(folder, readonly=True) as store:
            return len(store.rows(status="measured"))
    except ConfigurationError:
        # It is being made.
        return 0


def test_what_dask_says_is_held_back_at_its_end_only() -> None:
    nanny = logging.getLogger("distributed.nanny")
    before = nanny.level
    with DaskEngine(jobs=1)._client():
        assert nanny.level == before
    assert nanny.level == before


def kill_a_busy_worker(cluster: Any) -> int:
    """Return how many cells were in the hands of the killed worker; 0 if none is busy."""
    for nanny in cluster.workers.values():
        state = cluster.scheduler.workers.get(nanny.worker_address)
        if state is not None and state.processing:
            os.kill(nanny.pid, signal.SIGKILL)
            return len(state.processing)
    return 0


def told(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("seconds", "log")}


def cells() -> list[Task]:
    configs = [
        simulation_config(
            {
                "protocol": "fedavg",
                "parameters": {"rounds": 1, "model": "mlp", "local_epochs": 1},
                "federation": {"users": 3, "records_per_user": 8},
                "seed": seed,
            },
            where="test",
        ).model_dump(mode="json")
        for seed in range(2)
    ]
    return [
        (f"{config['seed']} {number}", CellSpec(config, "collusion/update-recovery", {}, "server"))
        for config in configs
        for number in range(10)
    ]
