"""Seconds per query of the accountant, each cold (no cached table).

    python benchmarks/accounting.py [--json] [--rounds N]

Each query runs in turn, ``--rounds`` times over; medians are reported as wall time and as CPU time
of the process, beside the value answered. Imports happen before the first round and are not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy

from privaudit import accounting
from privaudit.accounting import _blanket, _vector

CLUSTERS = (4, 20, 100, 1_000, 10_000, 100_000, 1_000_000)
VECTOR_CLUSTERS = (4, 20, 100, 1_000)
DIMENSION = 582_026  # PA-CFL's network for MNIST


def queries() -> dict[str, Callable[[], float | None]]:
    """Return what is timed, by name."""
    found: dict[str, Callable[[], float | None]] = {}
    for n in CLUSTERS:
        found[f"coordinate upper bound, n={n}"] = partial(accounting.coordinate_upper, n, 1.0, 1e-6)
    for n in (20, 1_000):
        found[f"coordinate bracket, n={n}"] = partial(bracket, n)
    for n in VECTOR_CLUSTERS:
        found[f"vector, refined, n={n}"] = partial(refined, n)
    found["Theorem 2, n=20"] = theorem2
    found["optimal composition"] = partial(
        accounting.optimal_composition, 1.0, compositions=DIMENSION, delta=1e-5
    )
    found["clone bound (FMT21), n=1000"] = partial(accounting.fmt21_numerical, 1_000, 1.0, 1e-6)
    return found


def bracket(n: int) -> float | None:
    return accounting.coordinate_bracket(n, 1.0, 1e-6).lower


def refined(n: int) -> float | None:
    return accounting.vector_budget({n: 1}, 1.0, 1e-5).refined.upper


def theorem2() -> float | None:
    return accounting.theorem2({20: 1}, 1.0, DIMENSION, 1e-5).upper


def forget() -> None:
    """Empty the tables that queries share."""
    _blanket.blanket_epsilon.cache_clear()
    _blanket.dataset_epsilon.cache_clear()
    _vector.forget()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON line at the end")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be >= 1")
    todo = queries()
    accounting.coordinate_upper(3, 0.7, 1e-5)  # imports SciPy's transforms
    accounting.vector_budget({2: 1}, 0.7, 1e-5)
    wall: dict[str, list[float]] = {name: [] for name in todo}
    cpu: dict[str, list[float]] = {name: [] for name in todo}
    answers: dict[str, float | None] = {}
    for _ in range(options.rounds):
        for name, query in todo.items():
            forget()
            started, started_cpu = time.perf_counter(), time.process_time()
            answers[name] = query()
            wall[name].append(time.perf_counter() - started)
            cpu[name].append(time.process_time() - started_cpu)
    print(f"{'query':40s} {'wall s':>9s} {'CPU s':>9s}  epsilon")
    rows = []
    for name in todo:
        seconds, own = statistics.median(wall[name]), statistics.median(cpu[name])
        epsilon = answers[name]
        rows.append(
            {"query": name, "wall_seconds": seconds, "cpu_seconds": own, "epsilon": epsilon}
        )
        print(f"{name:40s} {seconds:9.4f} {own:9.4f}  {epsilon:.6g}")
    if options.json:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        environment = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "cpus": os.cpu_count(),
            "load_average": os.getloadavg()[0],
        }
        print(
            json.dumps(
                {
                    "benchmark": "accounting",
                    "rounds": options.rounds,
                    "rows": rows,
                    "peak_rss_mib": peak / 1024,
                    "environment": environment,
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
