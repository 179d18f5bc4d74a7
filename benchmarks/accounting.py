"""Seconds per query of the accountant, each cold (no cached table), beside a peer.

    python benchmarks/accounting.py [--json] [--rounds N] [--quick]

Each query runs in turn, ``--rounds`` times over; medians are reported as wall time and as CPU time
of the process, beside the value answered. Imports happen before the first round and are not timed.

The peer is the numerical bound of Feldman, McMillan and Talwar (2021) by the method of its authors'
program, written anew in ``_fmt21_peer.py``: exact (one clone count a block) up to 10,000 users, in
blocks of n / 1,000 beyond, where exactness would take it minutes. Both run in turn in this process.
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
from typing import Any

import numpy as np
import scipy
from _fmt21_peer import fmt21_program

from privaudit import accounting
from privaudit.accounting import _blanket, _sweep, _vector
from privaudit.ledger import RandomizedResponse

CLUSTERS = (4, 20, 100, 1_000, 10_000, 100_000, 1_000_000)
VECTOR_CLUSTERS = (4, 20, 100, 1_000)
PEER_CLUSTERS = (20, 100, 1_000, 10_000, 100_000, 1_000_000)
#: Where queries are slowest: local budgets and deltas over which the slowest is reported.
EPSILON0S = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DELTAS = (1e-3, 1e-6, 1e-10, 1e-14)
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
    for rounds in (10, 100):
        found[f"coordinate bracket, n=4, {rounds} rounds"] = partial(composed, rounds)
    found["randomized response, 16 values, 8 reports"] = responses
    found["table of 1,000 cluster sizes, 2..1001"] = partial(table, tuple(range(2, 1002)))
    found["table of 1,000 cluster sizes to 10^6"] = partial(
        table, tuple(np.unique(np.geomspace(50, 1e6, 1000).astype(int)).tolist())
    )
    return found


def peers() -> dict[str, tuple[Callable[[], float], Callable[[], float]]]:
    """Return (peer, ours) at equal n, epsilon0 and delta."""
    found: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {}
    for n in PEER_CLUSTERS:
        step = 1 if n <= 10_000 else n // 1_000
        peer = partial(fmt21_program, n, 1.0, 1e-6, step=step)
        found[f"n={n}, blocks of {step}"] = peer, partial(accounting.coordinate_upper, n, 1.0, 1e-6)
    return found


def slowest(n: int) -> tuple[float, float, float]:
    """Return (CPU seconds, epsilon0, delta) of the slowest coordinate query at n."""
    worst = (0.0, 0.0, 0.0)
    for epsilon0 in EPSILON0S:
        for delta in DELTAS:
            forget()
            started = time.process_time()
            accounting.coordinate_upper(n, epsilon0, delta)
            worst = max(worst, (time.process_time() - started, epsilon0, delta))
    return worst


def table(sizes: tuple[int, ...]) -> float | None:
    return accounting.coordinate_brackets(sizes, 1.0, 1e-6)[sizes[-1]].upper


def composed(rounds: int) -> float | None:
    release = accounting.ShuffledVector(4, 1.0, 1)
    return accounting.compose_coordinate({release: rounds}, 1e-5).lower


def responses() -> float | None:
    release = RandomizedResponse(16, 0.5, 8)
    return accounting.compose_releases({release: 1}, 1e-5).best.upper


def bracket(n: int) -> float | None:
    return accounting.coordinate_bracket(n, 1.0, 1e-6).lower


def refined(n: int) -> float | None:
    return accounting.vector_budget({n: 1}, 1.0, 1e-5).refined.upper


def theorem2() -> float | None:
    return accounting.theorem2({20: 1}, 1.0, DIMENSION, 1e-5).upper


def forget() -> None:
    """Empty the tables that queries share; nothing is kept on disk either."""
    os.environ["PRIVAUDIT_CACHE"] = ""
    _sweep.upper_epsilon.cache_clear()
    _blanket.blanket_epsilon.cache_clear()
    _blanket.dataset_epsilon.cache_clear()
    _vector.forget()


def _beside(
    name: str, peer: Callable[[], float], ours: Callable[[], float], *, rounds: int
) -> dict[str, Any]:
    """Time both in turn; return the medians and their ratio."""
    spent: tuple[list[float], list[float]] = ([], [])
    answers = [0.0, 0.0]
    for _ in range(rounds):
        for i, query in enumerate((peer, ours)):
            forget()
            started = time.process_time()
            answers[i] = query()
            spent[i].append(time.process_time() - started)
    theirs, own = (statistics.median(seconds) for seconds in spent)
    return {
        "query": name,
        "peer_cpu_seconds": theirs,
        "cpu_seconds": own,
        "ratio": theirs / own,
        "peer_epsilon": answers[0],
        "epsilon": answers[1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON line at the end")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="leave the slowest peers out")
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
    pairs = peers()
    if options.quick:
        pairs = {name: pair for name, pair in pairs.items() if not name.startswith("n=10000,")}
    beside = [_beside(name, *pair, rounds=options.rounds) for name, pair in pairs.items()]
    print(f"\n{'FMT21 program beside the exact blanket':40s} {'peer s':>9s} {'ours s':>9s}  ratio")
    for pair in beside:
        print(
            f"{pair['query']:40s} {pair['peer_cpu_seconds']:9.4f} {pair['cpu_seconds']:9.4f}"
            f"  {pair['ratio']:5.1f}   epsilon {pair['peer_epsilon']:.5g} / {pair['epsilon']:.5g}"
        )
    print(f"\n{'slowest coordinate query over a grid':40s} {'':9s} {'CPU s':>9s}")
    worst = []
    for n in (10, 100, 1_000, 10_000, 1_000_000):
        seconds, epsilon0, delta = slowest(n)
        worst.append({"n": n, "cpu_seconds": seconds, "epsilon0": epsilon0, "delta": delta})
        print(f"n={n:<38d} {'':9s} {seconds:9.4f}  at eps0 = {epsilon0:g}, delta = {delta:g}")
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
                    "peers": beside,
                    "slowest": worst,
                    "peak_rss_mib": peak / 1024,
                    "environment": environment,
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
