"""What a campaign's folder may be: damaged, archived where nobody can write, or another's."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from campaign_runs import TINY_CAMPAIGN
from cli_runs import Ended, contents

from privaudit.campaigns.grid import Store, read_campaign, run_campaign
from privaudit.campaigns.grid.specification import execute
from privaudit.campaigns.grid.store import FILE, StorageError
from privaudit.errors import ConfigurationError, OutputExistsError

Call = Callable[..., Ended]
NOBODY = 65534


class InProcess:
    def run(self, tasks, *, runs, data_root):
        for key, spec in tasks:
            yield key, execute(spec.to_json(), runs=runs, data_root=data_root)


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    return


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign's file, and in ``done`` what it gave."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "tiny.toml").write_text(TINY_CAMPAIGN)
    campaign = read_campaign(folder / "tiny.toml")
    run_campaign(campaign, folder / "done", engine=InProcess(), steps=silent)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def refused(ended: Ended, code: int = 2) -> str:
    assert ended.code == code, (ended.out, ended.err)
    assert ended.err.startswith("privaudit: error: ")
    assert ended.err.count("\n") == 1, ended.err
    return ended.err


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up the rights of the superuser, for whom no folder is read-only."""
    if os.geteuid():
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def archive(finished: Path) -> Iterator[Path]:
    """The campaign in a folder that everybody reads and nobody but the superuser writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "done"
        shutil.copytree(finished / "done", folder)
        Path(name).chmod(0o755)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def sealed(folder: Path) -> None:
    for file in folder.glob(f"{FILE}*"):
        file.chmod(0o444)
    folder.chmod(0o555)


def test_a_finished_campaign_is_one_plain_file(finished: Path) -> None:
    assert [f.name for f in (finished / "done").glob(f"{FILE}*")] == [FILE]
    with sqlite3.connect(finished / "done" / FILE) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_reader_keeps_the_file_in_its_mode_and_loses_nothing(copied: Path) -> None:
    with Store(copied / "done") as writer:
        key = writer.rows()[0].key
        with Store(copied / "done", readonly=True) as reader:
            before = reader.rows()
            writer._connection.execute("UPDATE cells SET note = 'seen' WHERE key = ?", (key,))
            writer.__exit__(None, None, None)
            assert [r.key for r in reader.rows()] == [r.key for r in before]
    with Store(copied / "done", readonly=True) as store:
        assert store.rows()[0].note == "seen"


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_an_archived_campaign_is_read_where_nobody_can_write(archive: Path, mode: str) -> None:
    with Store(archive, readonly=True) as store:
        expected = store.rows()
    connection = sqlite3.connect(archive / FILE)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()
    sealed(archive)
    held = sorted(f.name for f in archive.iterdir())
    with ordinary_user():
        with pytest.raises(OSError, match="ermission"):
            (archive / "new").touch()
        with Store(archive, readonly=True) as store:
            assert store.rows() == expected
            assert store.seconds_by_attack()
    assert sorted(f.name for f in archive.iterdir()) == held


def test_results_that_lie_in_the_log_alone_are_not_passed_over(archive: Path) -> None:
    connection = sqlite3.connect(archive / FILE)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE cells SET note = 'later'")
    connection.commit()
    log = archive / f"{FILE}-wal"
    kept = log.read_bytes()
    connection.close()
    log.write_bytes(kept)
    sealed(archive)
    with (
        ordinary_user(),
        pytest.raises(ConfigurationError, match="copy the folder to where it can"),
    ):
        Store(archive, readonly=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("result = '{no json'", "result of cell"),
        ("result = '{}'", "lacks 'triples'"),
        ("result = '[]'", "result of cell"),
        ("result = NULL", "there is none"),
        ("specification = 'no json'", "specification of cell"),
        ("specification = '{}'", "lacks 'run'"),
        ("specification = '{\"run\": 3}'", "specification of cell"),
        ("status = 'odd'", "'odd' is none of pending, measured"),
        ("seconds = 'long'", "'long' is no number"),
        ("reason = CAST(x'ff' AS TEXT)", "UTF-8"),
    ],
)
def test_a_damaged_cell_is_named_with_its_file(
    change: str, says: str, copied: Path, call: Call
) -> None:
    with sqlite3.connect(copied / "done" / FILE) as connection:
        (key,) = connection.execute("SELECT key FROM cells WHERE position = 1").fetchone()
        connection.execute(f"UPDATE cells SET {change} WHERE key = ?", (key,))
    for arguments in (("results", "done"), ("run", "tiny.toml", "-o", "done", "-q")):
        told = refused(call(*arguments, cwd=copied))
        assert f"done/{FILE} is damaged (" in told
        assert says in told
        assert key[:12] in told or says == "UTF-8"


def test_an_empty_file_is_told_as_empty(copied: Path, call: Call) -> None:
    (copied / "done" / FILE).write_bytes(b"")
    for arguments in (("results", "done"), ("run", "tiny.toml", "-o", "done", "-q")):
        assert f"done/{FILE} is empty (0 bytes): put back a copy" in refused(
            call(*arguments, cwd=copied)
        )
    # What a process left that was killed at once is begun anew.
    (copied / "begun").mkdir()
    (copied / "begun" / FILE).write_bytes(b"")
    run_campaign(
        read_campaign(copied / "tiny.toml"), copied / "begun", engine=InProcess(), steps=silent
    )


def test_results_that_were_moved_away_are_measured_anew(copied: Path) -> None:
    (copied / "done" / FILE).rename(copied / "damaged.sqlite")
    summary = run_campaign(
        read_campaign(copied / "tiny.toml"), copied / "done", engine=InProcess(), steps=silent
    )
    assert summary.measured == summary.computed == 4


@pytest.mark.parametrize("held", ["audit.json", "run/manifest.json", "a.tex", "campaign.json"])
def test_a_campaign_is_not_run_into_another_folder(
    held: str, finished: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out" / held
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(OutputExistsError, match=rf"holds {held.split('/')[0]}.*another folder"):
        run_campaign(
            read_campaign(finished / "tiny.toml"),
            tmp_path / "out",
            engine=InProcess(),
            steps=silent,
        )
    assert contents(tmp_path) == {f"out/{held}": b"{}"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "pa-cfl"),
        ("audit", "pa-cfl", "--force"),
        ("simulate", "fedavg"),
        ("simulate", "fedavg", "--force"),
    ],
)
def test_nothing_else_is_written_into_a_campaigns_folder(
    arguments: tuple[str, ...], finished: Path, call: Call
) -> None:
    before = contents(finished)
    told = refused(call(*arguments, "-o", "done", "-q", cwd=finished))
    assert "done holds a campaign (campaign.sqlite)" in told
    assert contents(finished) == before


@pytest.mark.parametrize("out", ["/proc/privaudit/x", "tiny.toml", "tiny.toml/x"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "tiny.toml", "-q"),
        ("audit", "pq-mds", "-q"),
        ("audit", "pa-cfl", "-q"),
        ("simulate", "fedavg", "-q", "-p", "model=mlp", "--rounds", "1"),
        ("report", "report"),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_line(
    command: tuple[str, ...], out: str, finished: Path, call: Call
) -> None:
    if command[0] == "report":
        call("run", "tiny.toml", "-o", "report", "-q", "-j", "1", cwd=finished)
    told = refused(call(*command, "-o", out, cwd=finished))
    assert ("tiny.toml" if "tiny" in out else "/proc/privaudit") in told


def test_a_full_disk_ends_an_audit_with_3(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    import privaudit.campaigns.auditing as auditing

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out" / "cells"))

    monkeypatch.setattr(auditing, "perform", full)
    told = refused(call("audit", "pa-cfl", "-o", "out", "-q", cwd=tmp_path), code=3)
    assert "out/cells: No space left on device; free the disk" in told


def test_a_file_that_cannot_be_written_to_is_no_full_disk(finished: Path) -> None:
    assert StorageError.exit_code == 3
    with (
        Store(finished / "done", readonly=True) as store,
        pytest.raises(ConfigurationError) as told,
    ):
        store.finish(store.rows()[0].key, {"status": "failed", "reason": "", "seconds": 0.0})
    assert told.value.exit_code == 2


def test_an_audit_that_is_refused_leaves_no_folder(tmp_path: Path, call: Call) -> None:
    made = call(
        "simulate", "fedavg", "-o", "run", "-q", "-p", "model=mlp", "--rounds", "1", "--users", "3",
        cwd=tmp_path,
    )  # fmt: skip
    assert made.code == 0, made.err
    shutil.rmtree(tmp_path / "run" / "truth")
    told = refused(call("audit", "run", "-o", "new/deep", "-q", cwd=tmp_path))
    assert "truth does not lie beside" in told
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_a_value_that_never_occurs_is_told_with_the_nearest(finished: Path, call: Call) -> None:
    ended = call("results", "done", "--where", "status=mesured", "--json", cwd=finished)
    assert (ended.code, json.loads(ended.out)) == (0, {"rows": []})
    assert ended.err == (
        "--where status=mesured: no row has status = mesured; there are measured. "
        "Did you mean 'measured'?\n"
    )
    assert call("results", "done", "--where", "seed=1", cwd=finished).err == ""
    assert "there are 0, 1" in call("results", "done", "--where", "seed=7", cwd=finished).err


def test_a_plan_shows_what_varies(finished: Path, tmp_path: Path, call: Call) -> None:
    wider = TINY_CAMPAIGN.replace("[grid]", '[grid]\n"parameters.learning_rate" = [0.1, 0.025]')
    (tmp_path / "wider.toml").write_text(wider)
    ended = call("run", "wider.toml", "--dry-run", cwd=tmp_path)
    assert ended.code == 0
    for value in ("0.1", "0.025"):
        assert ended.out.count(f"learning_rate={value} ") == 4


def test_the_files_of_a_report_are_not_listed_when_quiet(copied: Path, call: Call) -> None:
    assert call("run", "tiny.toml", "-o", "done", "-q", cwd=copied).code == 0
    assert call("report", "done", "-q", "--format", "md", cwd=copied) == Ended(0, "", "")
    assert call("report", "done", "--format", "md", cwd=copied).out == "done/report.md\n"


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
@pytest.mark.parametrize(
    "name",
    [
        FILE,
        f"{FILE}-wal",
        f"{FILE}-shm",
        "campaign.json",
        "report.json",
        "report.html",
        "report.md",
        "report.sarif",
        "runs/table.csv",
        "logs/worker.csv",
        "notes.txt",
        "../link/report.json",
        "../elsewhere.csv",
    ],
)
def test_an_export_replaces_nothing_but_exports(
    name: str, option: str, copied: Path, call: Call
) -> None:
    assert call("run", "tiny.toml", "-o", "done", "-q", cwd=copied).code == 0
    (copied / "done" / "notes.txt").write_text("mine")
    (copied / "link").symlink_to("done")
    (copied / "elsewhere.csv").symlink_to(f"done/{FILE}")
    before = contents(copied)
    told = refused(call("results", "done", option, f"done/{name}", cwd=copied))
    assert "must not replace; name another file" in told
    assert contents(copied) == before


def test_an_export_may_lie_in_the_folder_and_be_made_again(copied: Path, call: Call) -> None:
    for _ in range(2):
        ended = call("results", "done", "--csv", "done/rows.csv", cwd=copied)
        assert (ended.code, ended.out) == (0, "4 rows written to done/rows.csv\n"), ended.err
    assert (copied / "done" / "rows.csv").read_text().count("\n") == 5
    told = refused(call("results", "done", "--csv", "a.csv", "--parquet", "./a.csv", cwd=copied))
    assert "--csv and --parquet name one file" in told
    assert not (copied / "a.csv").exists()


def test_the_folder_of_an_audit_is_no_campaigns(tmp_path: Path, call: Call) -> None:
    (tmp_path / "audited").mkdir()
    (tmp_path / "audited" / "audit.json").write_text("{}")
    told = refused(call("results", "audited", cwd=tmp_path))
    assert "audited holds an audit, not a campaign; privaudit report audited" in told
    assert "privaudit run" not in told
