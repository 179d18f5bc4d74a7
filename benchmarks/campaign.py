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
from collections.abc import Iterable
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


def on_pool(jobs: int, specs: list[CellSpec], folder: Path) -> tuple[float, float]:
    """Return the seconds until the first result, and those of all the others."""
    started = time.perf_counter()
    with Store(folder) as store, Pool(nap, jobs=jobs) as pool:
        store.plan({"name": "benchmark"}, specs)
        return _timed(pool.results((s.key(), s.to_json()) for s in specs), store, started)


def on_dask(jobs: int, specs: list[CellSpec], folder: Path) -> tuple[float, float]:
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
        futures = {client.submit(nap, s.to_json(), key=s.key()): s.key() for s in specs}
        return _timed(
            ((futures[f], f.result()) for f in as_completed(list(futures))), store, started
        )


def _timed(results: Iterable[tuple[str, Any]], store: Store, started: float) -> tuple[float, float]:
    first = None
    for key, result in results:
        store.finish(key, result)
        if first is None:
            first = time.perf_counter()
    assert first is not None
    return first - started, time.perf_counter() - first


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
                    start, rest = engine(jobs, specs, Path(folder))
                starts.append(start)
                others.append(rest)
            rest = statistics.median(others)
            ideal = SECONDS * (options.cells - 1) / jobs
            rows.append(
                {
                    "engine": name,
                    "workers": jobs,
                    "cells": options.cells,
                    "start_s": statistics.median(starts),
                    "rest_s": rest,
                    "overhead_ms_a_cell": 1000 * (rest - ideal) / (options.cells - 1),
                }
            )
            row = rows[-1]
            print(
                f"{name:5} {jobs} worker(s): start {row['start_s']:.1f} s, then "
                f"{row['rest_s']:.2f} s for {options.cells - 1} cells of {1000 * SECONDS:.0f} ms: "
                f"{row['overhead_ms_a_cell']:.1f} ms a cell beyond the work"
            )
    if options.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
