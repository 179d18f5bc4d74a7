"""Running a campaign: what is missing is measured, and every result stored as it comes."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from privaudit.campaigns.auditing import Steps
from privaudit.campaigns.folders import refuse_file
from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.grid.engines import Engine
from privaudit.campaigns.grid.store import FILE, StorageError, Store
from privaudit.errors import ConfigurationError, OutputExistsError
from privaudit.reports import replace_file

__all__ = ["Summary", "run_campaign"]

#: The resolved configuration, beside the results.
CONFIGURATION = "campaign.json"
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Summary:
    """How a campaign stands.

    Attributes
    ----------
    cells, measured, not_applicable, failed, pending : int
    computed : int
        Cells of this call; the others were there.
    seconds : float
        Wall-clock time of this call.
    """

    cells: int
    measured: int
    not_applicable: int
    failed: int
    pending: int
    computed: int
    seconds: float


def run_campaign(
    campaign: Campaign,
    out: Path,
    *,
    engine: Engine,
    data_root: Path | None = None,
    retry_failed: bool = False,
    steps: Steps,
    failed: Callable[[str], None] = lambda told: None,
) -> Summary:
    """Measure every cell that ``out`` does not hold; the same call resumes after any interruption.

    Parameters
    ----------
    retry_failed : bool
        Measure cells again that failed; cells that were measured never are.
    failed : callable
        Told of each cell that failed, at once: which, why, and where its log is.

    Raises
    ------
    ConfigurationError
        If the campaign has a wrong value, or runs or results cannot be stored.
    StorageError
        If the disk is full.
    OutputExistsError
        If the folder holds another campaign, or something else.
    """
    started = time.perf_counter()
    cells = campaign.cells()
    configuration = campaign.model_dump(mode="json")
    with _writable(out):
        _check_folder(out)
        out.mkdir(parents=True, exist_ok=True)
    with _alone(out), Store(out) as store:
        store.plan(configuration, cells)
        with _writable(out):
            text = json.dumps(configuration, indent=2, sort_keys=True)
            replace_file(out / CONFIGURATION, text.encode())
        rows = store.rows()
        wanted = {"pending", "failed"} if retry_failed else {"pending"}
        missing = {row.key: row.specification for row in rows if row.status in wanted}
        done = len(rows) - len(missing)
        _clean(out / "runs")
        results = engine.run(tuple(missing.items()), runs=out / "runs", data_root=data_root)
        for key, result in results:
            if result["status"] == "pending":
                raise StorageError(
                    f"{result['reason'].rstrip('.')}. Free it and run the same command again: "
                    f"{done} of {len(rows)} cells are finished and kept"
                )
            store.finish(key, result)
            done += 1
            spec = missing[key]
            who = spec.coalition or spec.threat_model
            told = f"{spec.run['protocol']}: {spec.attack} by {who}: {result['status']}"
            steps("cells", done, len(rows), told)
            if result["status"] == "failed":
                log = f"; log: {result['log']}" if result.get("log") else ""
                failed(f"{told} ({result['reason']}){log}")
        states = [row.status for row in store.rows()]
    return Summary(
        cells=len(states),
        measured=states.count("measured"),
        not_applicable=states.count("not-applicable"),
        failed=states.count("failed"),
        pending=states.count("pending"),
        computed=len(missing),
        seconds=time.perf_counter() - started,
    )


def _check_folder(out: Path) -> None:
    """Refuse a folder that holds something else: its report would be replaced.

    Raises
    ------
    OutputExistsError
    """
    refuse_file(out)
    if not out.is_dir() or (out / FILE).exists() or _was_campaign(out):
        return
    held = sorted(p.name for p in out.iterdir() if not p.name.startswith(LOCK))
    if held:
        raise OutputExistsError(
            f"{out} is not empty (it holds {', '.join(held[:5])}) and holds no campaign ({FILE}); "
            "name another folder with -o"
        )


def _was_campaign(out: Path) -> bool:
    """Tell whether the results of a campaign were moved away, because they were damaged."""
    try:
        read = json.loads((out / CONFIGURATION).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(read, dict) and {"name", "grid", "attack"} <= read.keys()


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputExistsError):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (StorageError if full else ConfigurationError)(
            f"{out}: cannot be written to ({error.strerror}); name another folder with -o, or free "
            "the disk and run the same command again"
        ) from error


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold the folder, so that no other process runs a campaign into it meanwhile.

    A lock of SQLite's: it ends with the process, however that ends.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(
                closing(sqlite3.connect(out / LOCK, timeout=0, isolation_level=None))
            )
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise ConfigurationError(
                f"{out / LOCK}: {error}; if another process runs this campaign, wait for it or "
                "end it; if the folder cannot be written to, name another one with -o"
            ) from error
        yield


def _clean(runs: Path) -> None:
    """Remove what processes that were killed had begun to record."""
    for part in runs.glob(".*"):
        if not part.name.startswith(".damaged-"):
            shutil.rmtree(part, ignore_errors=True)
