"""A row says when its recording was partial, or was damaged and made again."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from privaudit.campaigns.grid import Campaign, Store, run_campaign
from privaudit.campaigns.grid import recorded as recorded_runs
from privaudit.campaigns.grid.report import campaign_report
from privaudit.campaigns.grid.specification import execute
from privaudit.campaigns.grid.table import varying
from privaudit.campaigns.runs import open_run
from privaudit.cli._main import app
from privaudit.configuration import validated
from privaudit.reports import render_html, render_markdown

CAMPAIGN: dict[str, Any] = {
    "name": "notes",
    "protocol": "disue",
    "parameters": {
        "rounds": 2,
        "model": "mlp",
        "local_epochs": 1,
        "similarity": "plain",
        "distillation": "none",
        "participation": 1.0,
    },
    "federation": {"users": 4, "records_per_user": 8, "auxiliary_records": 20},
    "grid": {"seed": [0, 1]},
    "attack": [{"name": "inference/class-counts", "coalitions": ["server"]}],
}


class InProcess:
    def run(self, tasks: Any, *, runs: Path, data_root: Path | None) -> Any:
        for key, spec in tasks:
            yield key, execute(spec.to_json(), runs=runs, data_root=data_root)


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    return


def measured(folder: Path, **changes: Any) -> Campaign:
    recorded_runs.forget()
    campaign = validated(Campaign, {**CAMPAIGN, **changes}, where="test")
    run_campaign(campaign, folder, engine=InProcess(), steps=silent)
    return campaign


def results(folder: Path) -> list[dict[str, Any]]:
    ended = CliRunner().invoke(app, ["results", str(folder), "--json"])
    assert ended.exit_code == 0, ended.output
    rows: list[dict[str, Any]] = json.loads(ended.stdout)["rows"]
    return rows


def exported(folder: Path) -> list[dict[str, str]]:
    file = folder / "out.csv"
    assert CliRunner().invoke(app, ["results", str(folder), "--csv", str(file)]).exit_code == 0
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))


def again(folder: Path) -> None:
    with sqlite3.connect(folder / "campaign.sqlite") as connection:
        connection.execute("UPDATE cells SET status = 'pending', reason = '', result = NULL")


def test_rows_on_a_recording_that_was_made_again_say_so(tmp_path: Path) -> None:
    campaign = measured(tmp_path)
    before = {row["key"]: row["value"] for row in results(tmp_path)}
    assert {row["note"] for row in results(tmp_path)} == {None}
    assert "note" not in varying(results(tmp_path))
    again(tmp_path)
    damaged = sorted((tmp_path / "runs").iterdir())[0]
    blob = max((damaged / "run" / "arrays").iterdir(), key=lambda f: f.stat().st_size)
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(bytes(content))
    measured(tmp_path)
    rows = results(tmp_path)
    assert "note" in varying(rows)
    noted = {row["seed"]: row["note"] for row in rows}
    assert sorted(map(bool, noted.values())) == [False, True]
    assert "found damaged" in "".join(note or "" for note in noted.values())
    assert {row["status"] for row in rows} == {"measured"}
    assert {row["key"]: row["value"] for row in rows} == before  # the new recording is the same
    assert {int(r["seed"]): r["note"] or None for r in exported(tmp_path)} == noted
    report = campaign_report(campaign, tmp_path)
    assert {bool(f.note) for f in report.findings} == {False, True}
    assert any("found damaged" in warning for warning in report.warnings)
    for text in (render_html(report), render_markdown(report).replace("\n", " ")):
        assert "the recording was found damaged" in " ".join(text.split())


def test_a_process_that_did_not_find_the_damage_knows_of_it_too(tmp_path: Path) -> None:
    measured(tmp_path)
    shutil.rmtree(next((tmp_path / "runs").iterdir()) / "truth")
    again(tmp_path)
    measured(tmp_path)
    again(tmp_path)
    measured(tmp_path)  # finds sound recordings, one of which was made again
    with Store(tmp_path, readonly=True) as store:
        assert sorted(bool(row.note) for row in store.rows()) == [False, True]


def test_rows_on_a_run_that_ended_early_say_so(tmp_path: Path) -> None:
    campaign = measured(tmp_path, parameters={**CAMPAIGN["parameters"], "learning_rate": 1e25})
    rows = results(tmp_path)
    assert {row["status"] for row in rows} == {"measured"}
    assert all("the run ended early, after" in row["note"] for row in rows)
    assert all("diverged in round" in row["note"] for row in exported(tmp_path))
    report = campaign_report(campaign, tmp_path)
    assert all("diverged in round" in f.note for f in report.findings)
    assert any(w.startswith("2 cells were measured") for w in report.warnings)


def test_a_recording_without_its_end_says_that_it_is_partial(tmp_path: Path) -> None:
    measured(tmp_path)
    run = next(p for p in (tmp_path / "runs").iterdir() if not p.name.startswith("."))
    assert open_run(run).notes == ()
    lines = (run / "run" / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "run" / "events.jsonl").write_bytes(b"".join(lines[:-2]))
    manifest = json.loads((run / "run" / "manifest.json").read_text())
    manifest.update(complete=False, reason="killed", n_events=None, head_hash=None, digest=None)
    (run / "run" / "manifest.json").write_text(json.dumps(manifest))
    (note,) = open_run(run).notes
    assert note.startswith("the recording is partial: ")


def test_a_store_of_before_notes_is_read_and_goes_on(tmp_path: Path) -> None:
    measured(tmp_path)
    with sqlite3.connect(tmp_path / "campaign.sqlite") as connection:
        connection.execute("ALTER TABLE cells DROP COLUMN note")
    with Store(tmp_path, readonly=True) as store:
        assert [row.note for row in store.rows()] == ["", ""]
    again(tmp_path)
    measured(tmp_path)
    assert {row["status"] for row in results(tmp_path)} == {"measured"}
