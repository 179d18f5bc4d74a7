"""What goes wrong in a cell stays in that cell, and is told with reason and log."""

from __future__ import annotations

import errno
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign_runs import stored
from cli_runs import SCRIPT, privaudit

from privaudit.campaigns.cells import Cell, measure
from privaudit.campaigns.grid import Campaign, Store, run_campaign
from privaudit.campaigns.grid import recorded as recorded_runs
from privaudit.campaigns.grid.report import campaign_report
from privaudit.campaigns.grid.specification import execute
from privaudit.campaigns.grid.store import FILE
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.scoring.estimate import Scores

#: A distribution of attacks that each do one thing that an attack must not do.
POISON = '''
import os, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from privaudit.attacks.inference import LabelsFromCounts


class _Poison(LabelsFromCounts):
    def run(self, view, *, knowledge, rng):
        guesses = super().run(view, knowledge=knowledge, rng=rng)
        if "POISON_CURED" not in os.environ:
            guesses = self.spoil(guesses)
        return guesses


class NaN(_Poison):
    """Guess what is not a number."""
    name = "inference/nan"
    def spoil(self, guesses):
        for value in guesses.values:
            value[:] = np.nan
        return guesses


class Raises(_Poison):
    """Raise what no caller expects."""
    name = "inference/raises"
    def spoil(self, guesses):
        raise ZeroDivisionError("by design")


class Eats(_Poison):
    """Take two gigabytes."""
    name = "inference/eats"
    def spoil(self, guesses):
        held = np.ones(2 * 10**9, dtype=np.uint8)
        time.sleep(600)


class Hangs(_Poison):
    """Never end."""
    name = "inference/hangs"
    def spoil(self, guesses):
        time.sleep(600)


class Dies(_Poison):
    """End the process."""
    name = "inference/dies"
    def spoil(self, guesses):
        os.kill(os.getpid(), 9)
'''
NAMES = {"nan": "NaN", "raises": "Raises", "eats": "Eats", "hangs": "Hangs", "dies": "Dies"}

SMALL: dict[str, Any] = {
    "name": "small",
    "protocol": "disue",
    "parameters": {
        "rounds": 1,
        "model": "mlp",
        "local_epochs": 1,
        "similarity": "plain",
        "distillation": "none",
        "participation": 1.0,
    },
    "federation": {"users": 4, "records_per_user": 8, "auxiliary_records": 20},
    "grid": {"seed": [0, 1]},
    "attack": [{"name": "inference/class-counts", "coalitions": ["server", "4 users", "nobody"]}],
}


def campaign(**changes: Any) -> Campaign:
    return validated(Campaign, {**SMALL, **changes}, where="test")


class InProcess:
    def run(self, tasks: Any, *, runs: Path, data_root: Path | None) -> Any:
        for key, spec in tasks:
            yield key, execute(spec.to_json(), runs=runs, data_root=data_root)


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    return


def measured_in(folder: Path) -> dict[str, int]:
    told: list[str] = []
    recorded_runs.forget()
    summary = run_campaign(campaign(), folder, engine=InProcess(), steps=silent, failed=told.append)
    assert len(told) <= summary.failed
    return {"measured": summary.measured, "na": summary.not_applicable, "failed": summary.failed}


needs_script = pytest.mark.skipif(
    not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"
)


@needs_script
@pytest.mark.slow
def test_poisoned_cells_cost_themselves_alone_and_are_measured_on_request(tmp_path: Path) -> None:
    info = tmp_path / "poison-0.dist-info"
    info.mkdir()
    (tmp_path / "poison.py").write_text(POISON)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: poison\nVersion: 0\n")
    entries = "".join(f"inference/{n} = poison:{c}\n" for n, c in NAMES.items())
    (info / "entry_points.txt").write_text(f"[privaudit.attacks]\n{entries}")
    lines = ['name = "poisoned"', 'protocol = "disue"', "[parameters]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in SMALL["parameters"].items()]
    lines += ["[federation]", *(f"{k} = {v}" for k, v in SMALL["federation"].items())]
    for name in (*NAMES, "class-counts"):
        lines += ["[[attack]]", f'name = "inference/{name}"', 'coalitions = ["server"]']
    (tmp_path / "campaign.toml").write_text("\n".join(lines) + "\n")
    command = (
        *("run", "campaign.toml", "-o", "out", "-j", "2", "--json", "-q"),
        *("--time-limit", "12", "--memory-limit", "1500"),
    )
    ended = privaudit(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert ended.code == 3, ended.err
    rows = stored_by_attack(tmp_path / "out")
    reasons = {name: row["reason"] for name, row in rows.items() if row["status"] == "failed"}
    assert reasons == {
        "nan": reasons["nan"],
        "raises": "ZeroDivisionError: by design",
        "eats": reasons["eats"],
        "hangs": "it took longer than the limit of 12 s",
        "dies": "its worker process died (exit code -9)",
    }
    assert "the limit is 1,500 MB" in reasons["eats"]
    assert "sum to nan" in reasons["nan"]
    assert rows["class-counts"]["status"] == "measured"
    # Each failure is told at once, with the path of a log that exists.
    told = [line for line in ended.err.splitlines() if "; log: " in line]
    assert len(told) == 5
    logs = {line.split(" by ")[0]: Path(tmp_path, line.split("; log: ")[1]) for line in told}
    assert all(log.is_file() for log in logs.values())
    assert "ZeroDivisionError" in logs["disue: inference/raises"].read_text()
    listed = privaudit("results", "out", "--where", "status=failed", cwd=tmp_path)
    assert all(log.name in listed.out for log in logs.values())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert not report["complete"]
    assert {row["status"] for row in report["not_run"]} == {"failed"}
    again = privaudit(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert json.loads(again.out)["computed"] == 0
    assert again.code == 3
    cured = privaudit(
        *command, "--retry-failed", cwd=tmp_path, PYTHONPATH=str(tmp_path), POISON_CURED="1"
    )
    assert cured.code == 0, cured.err
    assert json.loads(cured.out)["computed"] == 5
    assert json.loads((tmp_path / "out" / "report.json").read_text())["complete"]


def stored_by_attack(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for _, _, specification, status, reason, result in stored(folder):
        attack = json.loads(specification)["attack"].removeprefix("inference/")
        found[attack] = {"status": status, "reason": reason, "result": result}
    return found


@needs_script
@pytest.mark.slow
def test_the_engines_give_the_same_bytes_of_cells_that_fail_too(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    (tmp_path / "campaign.json").write_text("{}")
    lines = ['name = "small"', 'protocol = "disue"', "[parameters]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in SMALL["parameters"].items()]
    lines += ["[federation]", *(f"{k} = {v}" for k, v in SMALL["federation"].items())]
    lines += ["[grid]", "seed = [0, 1]", "[[attack]]", 'name = "inference/class-counts"']
    lines += ['coalitions = ["server", "4 users", "nobody"]']
    (tmp_path / "campaign.toml").write_text("\n".join(lines) + "\n")
    for engine in ("dask", "local"):
        command = ("run", "campaign.toml", "-o", engine, "--engine", engine, "-q", "-j", "1")
        assert privaudit(*command, cwd=tmp_path, timeout=300).code == 3
    assert stored(tmp_path / "dask") == stored(tmp_path / "local")
    assert {row[3] for row in stored(tmp_path / "dask")} == {
        "measured", "not-applicable", "failed",
    }  # fmt: skip


def test_a_wrong_party_fails_its_cells_and_no_other(tmp_path: Path) -> None:
    assert measured_in(tmp_path) == {"measured": 2, "na": 2, "failed": 2}
    reasons = {row[4] for row in stored(tmp_path) if row[3] == "failed"}
    assert len(reasons) == 1
    assert "'nobody' is not a party of this run" in reasons.pop()


def test_a_damaged_recording_is_set_aside_and_made_again(tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    measured_in(whole)
    measured_in(damaged)
    with sqlite3.connect(damaged / "campaign.sqlite") as connection:
        connection.execute("UPDATE cells SET status = 'pending', reason = '', result = NULL")
    first, second = sorted((damaged / "runs").iterdir())
    lines = (first / "run" / "events.jsonl").read_bytes()
    (first / "run" / "events.jsonl").write_bytes(lines[: len(lines) // 2])
    blob = max((second / "run" / "arrays").iterdir(), key=lambda f: f.stat().st_size)
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(bytes(content))
    measured_in(damaged)
    assert stored(whole) == stored(damaged)
    aside = [p.name for p in (damaged / "runs").iterdir() if p.name.startswith(".damaged-")]
    assert len(aside) == 2
    for run in (first, second):
        assert (run / "run" / "events.jsonl").read_bytes() == (
            whole / "runs" / run.name / "run" / "events.jsonl"
        ).read_bytes()


@pytest.mark.parametrize("part", ["run", "truth"])
def test_a_recording_that_lacks_a_part_is_made_again(tmp_path: Path, part: str) -> None:
    import shutil

    expected = measured_in(tmp_path)
    before = stored(tmp_path)
    with sqlite3.connect(tmp_path / "campaign.sqlite") as connection:
        connection.execute("UPDATE cells SET status = 'pending', reason = '', result = NULL")
    shutil.rmtree(next((tmp_path / "runs").iterdir()) / part)
    assert measured_in(tmp_path) == expected
    assert stored(tmp_path) == before


def test_a_full_disk_stops_the_campaign_and_fails_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recorded_runs.recorded

    def full(config: Any, folder: Path, **options: Any) -> Any:
        if config.seed == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(config, folder, **options)

    monkeypatch.setattr(recorded_runs, "recorded", full)
    with pytest.raises(ConfigurationError, match=r"No space left.* 3 of 6 cells") as told:
        measured_in(tmp_path)
    assert told.value.exit_code == 3
    monkeypatch.setattr(recorded_runs, "recorded", real)
    assert measured_in(tmp_path) == {"measured": 2, "na": 2, "failed": 2}


def test_a_full_disk_under_the_results_is_told_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, connect = Store.finish, sqlite3.connect

    def filling(store: Store, key: str, result: Any) -> None:
        # SQLite's own limit on pages stands for the disk: the same error from the same place.
        store._connection.execute("PRAGMA max_page_count = 1")
        finish(store, key, {**result, "reason": result["reason"] + " " * 10**6})

    monkeypatch.setattr(Store, "finish", filling)
    with pytest.raises(ConfigurationError, match=r"full.*finished cells are kept") as told:
        measured_in(tmp_path)
    assert told.value.exit_code == 3
    monkeypatch.setattr(Store, "finish", finish)
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert measured_in(tmp_path) == {"measured": 2, "na": 2, "failed": 2}


@pytest.mark.parametrize("content", [b"no database at all, but text\n" * 99, None])
def test_damaged_results_are_told_as_damaged_and_left_alone(
    tmp_path: Path, content: bytes | None
) -> None:
    measured_in(tmp_path)
    file = tmp_path / FILE
    if content is None:
        whole = file.read_bytes()
        content = whole[:4096] + bytes(len(whole) - 4096)
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"is damaged .*measures every cell anew"):
        measured_in(tmp_path)
    assert file.read_bytes() == content


def test_two_processes_do_not_run_a_campaign_into_one_folder(tmp_path: Path) -> None:
    class Nested(InProcess):
        def run(self, tasks: Any, *, runs: Path, data_root: Path | None) -> Any:
            with pytest.raises(ConfigurationError, match="another process runs this campaign"):
                run_campaign(campaign(), tmp_path, engine=InProcess(), steps=silent)
            yield from super().run(tasks, runs=runs, data_root=data_root)

    summary = run_campaign(campaign(), tmp_path, engine=Nested(), steps=silent)
    assert summary.pending == 0


def test_scores_none_of_which_is_finite_fail_a_cell_or_lose_a_metric(tmp_path: Path) -> None:
    measured_in(tmp_path)
    with Store(tmp_path, readonly=True) as store:
        spec = next(r.specification for r in store.rows() if r.status == "measured")
    from dataclasses import replace

    from privaudit.campaigns.grid.specification import _cell

    run = recorded_runs.ensure_run(spec.run, tmp_path / "runs", data_root=None)
    cell: Cell = _cell(spec, run)

    def hollow(guesses: Any, truth: Any) -> Scores:
        return Scores("hollow", "mean", dict.fromkeys(guesses.target_ids, np.nan))

    first = ("hollow", hollow, "")
    failed = measure(replace(cell, scorers=(first, *cell.scorers)))
    assert (failed.status, failed.reason) == (
        "failed",
        "the hollow of every target is not finite",
    )
    second = measure(replace(cell, scorers=(*cell.scorers, first)))
    assert [t.name for t in second.triples] == [name for name, _, _ in cell.scorers]
    assert second.diagnostics["not-finite/hollow"] == 1.0


def test_the_report_tells_every_failed_cell_with_its_reason(tmp_path: Path) -> None:
    measured_in(tmp_path)
    report = campaign_report(campaign(), tmp_path)
    assert not report.complete
    assert {(r.status, r.coalition_label.split(",")[0]) for r in report.not_run} == {
        ("failed", "nobody"),
        ("not-applicable", "4 users"),
    }
