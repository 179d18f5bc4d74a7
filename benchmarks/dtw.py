"""Pairwise similarity of permutation sequences: our kernels beside the ``fastdtw`` package.

    python benchmarks/dtw.py [--json] [--full]

Everything is timed in one process, in rounds that take each contender in turn, so that what else
the machine does meets all of them; medians over the rounds are reported, as wall time and as CPU
time of the process (all threads). Compilation happens before the first round and is not timed.

The sequences are synthetic with the structure of the real ones. Users belong to groups; a user's
score of a coordinate is the group's score plus noise of the user's own, and the sequence lists the
k coordinates of highest score. Candidates are 4 k coordinates a group, half of them common to all
groups, a fifth in the first tenth of the coordinates (the convolutions, whose few coordinates have
large gradients). DTW's cost does not depend on the values, FastDTW's and RBO's hardly.

The default run measures the package on 20 pairs drawn anew each round, and scales to 190; with
``--full`` it runs all 190 each round, and the exact metric runs on 500 users too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from fastdtw.fastdtw import fastdtw as package_fastdtw  # the pure Python implementation

from privaudit.similarity import dtw, fastdtw, pairwise_distances

Sequences = npt.NDArray[np.int64]

USERS, LENGTH, DIMENSION = 20, 1455, 582_026  # the paper's N; k = 0.0025 d for the MNIST network
PACKAGE_SAMPLE = 20
LARGE_USERS = 500
LARGE_LENGTH, LARGE_DIMENSION = 25_000, 10_000_000  # Figure 7 of the paper


def permutation_sequences(
    users: int, length: int, dimension: int, *, groups: int, rng: np.random.Generator
) -> Sequences:
    """Return (users, length) coordinate indices, best first (see the module's docstring)."""
    pool_size = 4 * length
    weights = np.full(dimension, 0.8 / (dimension - dimension // 10))
    weights[: dimension // 10] = 0.2 / (dimension // 10)
    shares = rng.exponential(size=dimension) / weights  # the smallest: a weighted draw
    common, *own = np.split(
        rng.permutation(
            np.argpartition(shares, (1 + groups) * pool_size // 2)[
                : (1 + groups) * (pool_size // 2)
            ]
        ),
        1 + groups,
    )
    common_scores = rng.normal(size=common.size)
    pools = [np.concatenate([common, part]) for part in own]
    scores = [
        np.concatenate([common_scores, np.zeros(part.size)]) + rng.normal(size=2 * part.size)
        for part in own
    ]
    rows = []
    for user in range(users):
        group = user % groups
        noisy = scores[group] + 0.5 * rng.normal(size=scores[group].size)
        rows.append(pools[group][np.argsort(-noisy)[:length]])
    return np.array(rows, dtype=np.int64)


def plain_dtw(x: Sequences, y: Sequences) -> float:
    """The textbook dynamic programme in Python floats, the oracle of exactness."""
    infinity = float("inf")
    columns = [float(value) for value in y]
    above = [0.0] + [infinity] * len(columns)
    for value in (float(v) for v in x):
        row = [infinity]
        for s, other in enumerate(columns):
            row.append(abs(value - other) + min(above[s + 1], row[s], above[s]))
        above = row
    return above[-1]


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return (wall seconds, CPU seconds of the process, result)."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def seconds(rounds: list[tuple[float, float]]) -> dict[str, float]:
    """Summarise the rounds of one contender by their medians."""
    return {
        "wall_s": statistics.median(wall for wall, _ in rounds),
        "cpu_s": statistics.median(cpu for _, cpu in rounds),
    }


def compare(*, full: bool, rng: np.random.Generator) -> dict[str, Any]:
    """All pairs of 20 users: the package, our FastDTW and our exact DTW, in turn."""
    sequences = permutation_sequences(USERS, LENGTH, DIMENSION, groups=5, rng=rng)
    pairs = list(itertools.combinations(range(USERS), 2))
    small = sequences[:3, :64]
    for metric in ("dtw", "fastdtw", "rbo", "jaccard"):
        pairwise_distances(small, metric=metric)  # compiles

    rounds: dict[str, list[tuple[float, float]]] = {"package": [], "fastdtw": [], "dtw": []}
    package: dict[tuple[int, int], float] = {}
    for _ in range(3):
        sample = (
            pairs
            if full
            else [pairs[i] for i in rng.choice(len(pairs), PACKAGE_SAMPLE, replace=False)]
        )

        def run_package(sample: list[tuple[int, int]] = sample) -> list[float]:
            return [package_fastdtw(sequences[i], sequences[j], radius=1)[0] for i, j in sample]

        wall, cpu, found = timed(run_package)
        package.update(zip(sample, found, strict=True))
        scale = len(pairs) / len(sample)
        rounds["package"].append((wall * scale, cpu * scale))
        repeats = 5  # ours take milliseconds
        for _ in range(repeats):
            wall, cpu, fast = timed(lambda: pairwise_distances(sequences, metric="fastdtw"))
            rounds["fastdtw"].append((wall, cpu))
            wall, cpu, exact = timed(lambda: pairwise_distances(sequences, metric="dtw"))
            rounds["dtw"].append((wall, cpu))

    upper = np.triu_indices(USERS, k=1)
    checked = [pairs[i] for i in rng.choice(len(pairs), 10 if full else 3, replace=False)]
    times = {name: seconds(values) for name, values in rounds.items()}
    return {
        "pairs": len(pairs),
        "length": LENGTH,
        "package_pairs_timed_a_round": len(pairs) if full else PACKAGE_SAMPLE,
        "times": times,
        "ratio": times["package"]["wall_s"] / times["dtw"]["wall_s"],
        "ratio_cpu": times["package"]["cpu_s"] / times["dtw"]["cpu_s"],
        "ratio_fastdtw": times["package"]["wall_s"] / times["fastdtw"]["wall_s"],
        "ratio_fastdtw_cpu": times["package"]["cpu_s"] / times["fastdtw"]["cpu_s"],
        "exact": all(exact[i, j] == plain_dtw(sequences[i], sequences[j]) for i, j in checked),
        "exact_pairs_checked": len(checked),
        "fastdtw_equals_package": all(fast[pair] == value for pair, value in package.items()),
        "fastdtw_pairs_checked": len(package),
        "fastdtw_mean_overestimate": float(np.mean(fast[upper] / exact[upper] - 1)),
        "gigacells_a_cpu_second": len(pairs) * LENGTH**2 / times["dtw"]["cpu_s"] / 1e9,
        "single_pair_ms": {
            "dtw": timed(lambda: dtw(sequences[0], sequences[1]))[0] * 1e3,
            "fastdtw": timed(lambda: fastdtw(sequences[0], sequences[1]))[0] * 1e3,
        },
    }


def many_users(metric: Any, length: int, dimension: int, rng: np.random.Generator) -> Any:
    """Time one metric on all pairs of 500 users."""
    sequences = permutation_sequences(LARGE_USERS, length, dimension, groups=10, rng=rng)
    wall, cpu, _ = timed(lambda: pairwise_distances(sequences, metric=metric))
    pairs = LARGE_USERS * (LARGE_USERS - 1) // 2
    return {
        "metric": metric,
        "users": LARGE_USERS,
        "pairs": pairs,
        "length": length,
        "wall_s": wall,
        "cpu_s": cpu,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def show(result: dict[str, Any], stream: Any) -> None:
    """Print the figures for a reader."""

    def line(text: str) -> None:
        print(text, file=stream)

    times, threads = result["times"], result["threads"]
    line(f"{result['pairs']} pairs, k = {LENGTH}, medians; ours on {threads} threads")
    names = {
        "package": f"fastdtw package ({result['package_pairs_timed_a_round']} pairs, scaled)",
        "fastdtw": "our fastdtw",
        "dtw": "our exact dtw",
    }
    for name, label in names.items():
        wall, cpu = times[name]["wall_s"], times[name]["cpu_s"]
        line(f"  {label:<42} wall {wall:9.4f} s   cpu {cpu:9.4f} s")
    line(
        f"  package / exact {result['ratio']:.0f} (cpu {result['ratio_cpu']:.0f}),"
        f" package / our fastdtw {result['ratio_fastdtw']:.0f}"
        f" (cpu {result['ratio_fastdtw_cpu']:.0f})"
    )
    line(
        f"  exact: {result['exact']} ({result['exact_pairs_checked']} pairs, bit for bit);"
        f" our fastdtw equals the package: {result['fastdtw_equals_package']}"
        f" ({result['fastdtw_pairs_checked']} pairs)"
    )
    line(
        f"  fastdtw over exact: {result['fastdtw_mean_overestimate']:+.1%} on average;"
        f" exact kernel: {result['gigacells_a_cpu_second']:.1f} Gcell per CPU second"
    )
    for case in result["many_users"]:
        line(
            f"{case['users']} users, {case['metric']}, k = {case['length']}: wall"
            f" {case['wall_s']:.1f} s, cpu {case['cpu_s']:.1f} s"
            f" (peak memory so far {case['memory_mib']:.0f} MiB)"
        )
    line(f"peak memory {result['peak_memory_mib']:.0f} MiB, all {result['elapsed_s']:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--full", action="store_true", help="every package pair; exact, 500 users")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sequences (default 0)")
    arguments = parser.parse_args()
    start = time.perf_counter()
    rng = np.random.default_rng(arguments.seed)
    result = compare(full=arguments.full, rng=rng)
    result["many_users"] = [many_users("rbo", LARGE_LENGTH, LARGE_DIMENSION, rng)]
    if arguments.full:
        for metric in ("dtw", "fastdtw", "jaccard", "rbo"):
            result["many_users"].append(many_users(metric, LENGTH, DIMENSION, rng))
    result["threads"] = len(os.sched_getaffinity(0))
    result["machine"] = platform.machine()
    result["python"] = platform.python_version()
    result["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result["elapsed_s"] = time.perf_counter() - start
    result["full"] = arguments.full
    show(result, sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(json.dumps(result))
    return 0 if result["exact"] and result["fastdtw_equals_package"] else 1


if __name__ == "__main__":
    sys.exit(main())
