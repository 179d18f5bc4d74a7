"""What a campaign costs beyond the work itself: cells that only sleep, on each engine.

The work of a cell is known exactly, so that all time beyond it is the campaign's: starting workers
(told apart), handing cells out, and storing each result durably.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from privaudit.campaigns.grid.pool import Pool
from privaudit.campaigns.grid.specification import CellSpec
from privaudit.campaigns.grid.store import Store

SECONDS = 0.02


def nap(task: Any) -> dict[str, Any]:
    time.sleep(SECONDS)
    return {
        "status": "measured",
        "reason": "",
        "triples": [],
        "diagnostics": {},
        "seconds": SECONDS,
    }


def specifications(count: int) -> list[CellSpec]:
    run = {"protocol": "fedavg", "parameters": {}, "federation": {}, "seed": 0}
    return [CellSpec({**run, "seed": i}, "inversion/dlg", {}, "server") for i in range(count)]


def on_pool(jobs: int, specs: list[CellSpec], folder: Path) -> tuple[float, float, int]:
    """Return the seconds of the start, those of the cells behind it, and how many these are.

    The first result ends the start: until then workers load the package.
    """
    started = time.perf_counter()
    with Store(folder) as store, Pool(nap, jobs=jobs) as pool:
        store.plan({"name": "benchmark"}, specs)
        results = pool.results((s.key(), s.to_json()) for s in specs)
        key, answer = next(results)
        assert answer.result is not None, answer.reason
        store.finish(key, answer.result)
        begun = time.perf_counter()
        for key, answer in results:
            assert answer.result is not None, answer.reason
            store.finish(key, answer.result)
        return begun - started, time.perf_counter() - begun, len(specs) - 1


def on_dask(jobs: int, specs: list[CellSpec], folder: Path) -> tuple[float, float, int]:
    from distributed import Client, LocalCluster, as_completed

    started = time.perf_counter()
    with (
        Store(folder) as store,
        LocalCluster(
            n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        store.plan({"name": "benchmark"}, specs)
        begun = time.perf_counter()
        futures = {client.submit(nap, s.to_json(), key=s.key()): s.key() for s in specs}
        for future in as_completed(list(futures)):
            store.finish(futures[future], future.result())
        return begun - started, time.perf_counter() - begun, len(specs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    engines = {"pool": on_pool}
    try:
        import distributed  # noqa: F401

        engines["dask"] = on_dask
    except ImportError:
        print("dask.distributed is not installed: its rows are left out")
    specs = specifications(options.cells)
    for name, engine in engines.items():
        for jobs in (1, 2):
            starts, others = [], []
            for _ in range(options.repeats):
                with tempfile.TemporaryDirectory() as folder:
                    start, rest, timed = engine(jobs, specs, Path(folder))
                starts.append(start)
                others.append(rest)
            rest = statistics.median(others)
            ideal = SECONDS * timed / jobs
            rows.append(
                {
                    "engine": name,
                    "workers": jobs,
                    "cells": options.cells,
                    "start_s": statistics.median(starts),
                    "rest_s": rest,
                    "overhead_ms_a_cell": 1000 * (rest - ideal) / timed,
                }
            )
            row = rows[-1]
            print(
                f"{name:5} {jobs} worker(s): start {row['start_s']:.1f} s, then "
                f"{row['rest_s']:.2f} s for {timed} cells of {1000 * SECONDS:.0f} ms: "
                f"{row['overhead_ms_a_cell']:.1f} ms a cell beyond the work"
            )
    if options.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
