"""What a campaign costs beyond the work itself: cells that only sleep, on each engine.

    python benchmarks/campaign.py [--workers 1,2] [--seconds 0.02] [--cells 200] [--json]
    python benchmarks/campaign.py --workers 1,2,4,8,16,32,64 --seconds 0.05,0.2,1   # a curve

The work of a cell is known exactly, so that all time beyond it is the campaign's: handing cells out
and storing each result durably. Starting is told apart: it ends when every worker is there.

Cells that sleep need no core, so that many more workers than cores can be simulated: what is
measured then is how many of them one coordinator and one database keep busy, not how fast cells
that compute would be. On dask, more than eight workers are threads of eight processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from privaudit.campaigns.grid.engines import answers
from privaudit.campaigns.grid.pool import Pool
from privaudit.campaigns.grid.specification import CellSpec
from privaudit.campaigns.grid.store import Store

Work = Callable[[Any], dict[str, Any]]

#: Processes of a simulated dask cluster.
PROCESSES = 8


def nap(task: Any, *, seconds: float, meeting: Path, jobs: int) -> dict[str, Any]:
    """Sleep; the first time, until every other worker is there too."""
    own = meeting / f"{os.getpid()}-{threading.get_ident()}"
    if not own.exists():
        own.touch()
        while len(list(meeting.iterdir())) < jobs:
            time.sleep(0.05)
    time.sleep(seconds)
    return {
        "status": "measured",
        "reason": "",
        "triples": [],
        "diagnostics": {},
        "seconds": seconds,
    }


def specifications(count: int) -> list[CellSpec]:
    run = {"protocol": "fedavg", "parameters": {}, "federation": {}, "seed": 0}
    return [CellSpec({**run, "seed": i}, "inversion/dlg", {}, "server") for i in range(count)]


@contextmanager
def on_pool(
    jobs: int, specs: list[CellSpec], work: Work
) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    def measured_by(pool: Pool) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, answer in pool.results((s.key(), s.to_json()) for s in specs):
            assert answer.result is not None, answer.reason
            yield key, answer.result

    with Pool(work, jobs=jobs) as pool:
        yield measured_by(pool)


@contextmanager
def on_dask(
    jobs: int, specs: list[CellSpec], work: Work
) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    from distributed import Client, LocalCluster

    processes = min(jobs, PROCESSES)
    with (
        LocalCluster(
            n_workers=processes,
            threads_per_worker=-(-jobs // processes),
            processes=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield answers(client, work, [(s.key(), s) for s in specs], retries=0)


def measured(engine: str, jobs: int, seconds: float, cells: int) -> dict[str, Any]:
    """Return the seconds until every worker has slept once, and those of ``cells`` after that."""
    specs = specifications(cells + jobs)
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as meeting,
        Store(Path(folder)) as store,
    ):
        store.plan({"name": "benchmark"}, specs)
        work = partial(nap, seconds=seconds, meeting=Path(meeting), jobs=jobs)
        begun = started
        with ENGINES[engine](jobs, specs, work) as results:
            for number, (key, result) in enumerate(results):
                store.finish(key, result)
                if number == 0:
                    begun = time.perf_counter()
            rest = time.perf_counter() - begun
    # The first answers come together, when the last worker is there; after them all is even.
    return {"start": begun - started, "rest": rest, "timed": cells}


ENGINES = {"pool": on_pool, "dask": on_dask}


def summary(engine: str, jobs: int, seconds: float, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over rounds; overhead is of a worker's time a cell."""
    rate = statistics.median(r["timed"] / r["rest"] for r in rounds)
    return {
        "engine": engine,
        "workers": jobs,
        "cell_s": seconds,
        "cells": rounds[0]["timed"],
        "start_s": statistics.median(r["start"] for r in rounds),
        "cells_a_second": rate,
        "busy": min(1.0, rate * seconds / jobs),
        "overhead_ms_a_cell": 1000 * (1 / rate - seconds / jobs),
    }


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--seconds", type=numbers, default=[0.02], help="of a cell")
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", default="pool,dask")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    engines = options.engines.split(",")
    try:
        import distributed  # noqa: F401
    except ImportError:
        print("dask.distributed is not installed: its rows are left out")
        engines = [name for name in engines if name != "dask"]
    rows: list[dict[str, Any]] = []
    for engine in engines:
        for jobs in map(int, options.workers):
            for seconds in options.seconds:
                rounds = [
                    measured(engine, jobs, seconds, options.cells) for _ in range(options.repeats)
                ]
                rows.append(row := summary(engine, jobs, seconds, rounds))
                print(
                    f"{engine:5} {jobs:3} worker(s), cells of {1000 * seconds:.0f} ms: start "
                    f"{row['start_s']:.1f} s, then {row['cells_a_second']:.0f} cells a second, "
                    f"{row['overhead_ms_a_cell']:.1f} ms a cell beyond the work, workers busy "
                    f"{row['busy']:.0%}",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
