"""Product quantisation and scaling: our numpy code beside faiss on one core.

    python benchmarks/pq_mds.py [--data-root FOLDER] [--rounds N] [--section NAME] [--json]

Product quantisation is of 60,000 rows of 784 columns, in 8 subspaces of 256 codewords: training
with 15 iterations on 64 rows a codeword, then the codes of all rows. The rows are MNIST's training
images where the data root has them, else synthetic ones of low rank. The contenders take turns in
one process on one thread, so that what else the machine does meets both; medians over the rounds
are reported, as CPU time of the process and as wall time. A first round warms caches and is not
counted. The error is the squared error of the decoded rows over that of the mean row.

The attacks on indices run once, at 60,000 rows, in a process of their own: the time and the peak of
memory of each attack with its baseline, its control, and all intervals.

Each section prints its own figures; with ``--json`` all of them are one object on standard output.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # read by the libraries when they are imported, below

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from _index_attacks import index_attacks, show_index_attacks  # noqa: E402

from privaudit.datasets import load_dataset  # noqa: E402
from privaudit.errors import DatasetNotFoundError  # noqa: E402
from privaudit.quantisation import Layout, classical_mds, train_quantiser  # noqa: E402

Rows = npt.NDArray[np.float32]
Timed = dict[str, list[float]]

ROWS, COLUMNS = 60_000, 784
SUBSPACES, CODEWORDS, ITERATIONS, POINTS = 8, 256, 15, 64


def mnist_or_synthetic(data_root: Path | None) -> tuple[str, Rows]:
    """Return the name of the rows and the rows, float32 of shape (60,000, 784)."""
    try:
        images = load_dataset("mnist", data_root=data_root).train.images
        return "MNIST", np.ascontiguousarray(images.reshape(len(images), -1))
    except DatasetNotFoundError:
        rng = np.random.default_rng(0)
        factors = rng.normal(size=(ROWS, 32)).astype(np.float32)
        basis = rng.normal(size=(32, COLUMNS)).astype(np.float32)
        noise = rng.normal(scale=0.5, size=(ROWS, COLUMNS)).astype(np.float32)
        return "synthetic, rank 32 and noise", factors @ basis + noise


def timed(work: Callable[[], Any], into: Timed) -> Any:
    """Run, and note CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    into["cpu_s"].append(time.process_time() - cpu)
    into["wall_s"].append(time.perf_counter() - wall)
    return result


def medians(times: Timed) -> dict[str, float]:
    """Return medians without the first round."""
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def error(rows: Rows, decoded: Rows) -> float:
    """Return squared error over that of the mean row."""
    total = float(np.square(rows - rows.mean(axis=0)).sum(dtype=np.float64))
    return float(np.square(rows - decoded).sum(dtype=np.float64)) / total


def quantisation(data_root: Path | None, rounds: int) -> dict[str, Any]:
    """Time training and encoding, ours and faiss's in turn."""
    name, rows = mnist_or_synthetic(data_root)

    def ours() -> Callable[[], Rows]:
        quantiser = train_quantiser(
            rows,
            Layout.of(COLUMNS, SUBSPACES),
            codewords=CODEWORDS,
            iterations=ITERATIONS,
            points_per_codeword=POINTS,
            rng=np.random.default_rng(0),
        )
        codes = quantiser.encode(rows)
        return lambda: quantiser.decode(codes)

    def theirs() -> Callable[[], Rows]:
        quantiser = faiss.ProductQuantizer(COLUMNS, SUBSPACES, CODEWORDS.bit_length() - 1)
        quantiser.cp.niter, quantiser.cp.max_points_per_centroid = ITERATIONS, POINTS
        quantiser.train(rows)
        codes = quantiser.compute_codes(rows)
        return lambda: np.asarray(quantiser.decode(codes), dtype=np.float32)

    contenders = {"privaudit": ours}
    try:
        faiss = importlib.import_module("faiss")
        faiss.omp_set_num_threads(1)
        contenders["faiss"] = theirs
    except ImportError:
        print("faiss-cpu is not installed: no comparison", file=sys.stderr)
    times: dict[str, Timed] = {c: {"cpu_s": [], "wall_s": []} for c in contenders}
    decode: dict[str, Callable[[], Rows]] = {}
    for _ in range(rounds + 1):
        for contender, work in contenders.items():
            decode[contender] = timed(work, times[contender])
    result: dict[str, Any] = {
        "rows": name,
        "rounds": rounds,
        "contenders": {
            c: {**medians(times[c]), "error": error(rows, decode[c]())} for c in contenders
        },
    }
    if "faiss" in contenders:
        # Within each round, so that a slow spell of the machine meets both.
        pairs = zip(times["privaudit"]["cpu_s"][1:], times["faiss"]["cpu_s"][1:], strict=True)
        result["cpu_over_faiss"] = statistics.median(a / b for a, b in pairs)
    return result


def show_quantisation(result: dict[str, Any], stream: Any) -> None:
    print(
        f"product quantisation, {ROWS:,} x {COLUMNS} ({result['rows']}), M = {SUBSPACES}, "
        f"K = {CODEWORDS}, {ITERATIONS} iterations, {POINTS} rows a codeword, one thread, medians "
        f"of {result['rounds']} rounds",
        file=stream,
    )
    for name, figures in result["contenders"].items():
        print(
            f"  {name:<10} cpu {figures['cpu_s']:6.2f} s   wall {figures['wall_s']:6.2f} s   "
            f"error {figures['error']:.4f}",
            file=stream,
        )
    if "cpu_over_faiss" in result:
        print(f"  CPU time over faiss's: {result['cpu_over_faiss']:.2f}", file=stream)


def scaling(_: Path | None, rounds: int) -> dict[str, Any]:
    """Time classical scaling of one codebook."""
    centres = np.random.default_rng(0).normal(size=(CODEWORDS, COLUMNS // SUBSPACES))
    times: Timed = {"cpu_s": [], "wall_s": []}
    for _repeat in range(10 * rounds + 1):
        timed(lambda: classical_mds(centres, 1), times)
    return {"codewords": CODEWORDS, **medians(times)}


def show_scaling(result: dict[str, Any], stream: Any) -> None:
    print(
        f"classical scaling of {result['codewords']} centres: cpu {1e3 * result['cpu_s']:.1f} ms, "
        f"wall {1e3 * result['wall_s']:.1f} ms",
        file=stream,
    )


#: Name of each section, what measures it, and what prints it.
SECTIONS: dict[
    str,
    tuple[Callable[[Path | None, int], dict[str, Any]], Callable[[dict[str, Any], Any], None]],
] = {
    "quantisation": (quantisation, show_quantisation),
    "scaling": (scaling, show_scaling),
    "attacks": (index_attacks, show_index_attacks),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, help="folder with MNIST in torchvision's layout")
    parser.add_argument("--rounds", type=int, default=5, help="rounds counted (default 5)")
    parser.add_argument(
        "--section", choices=tuple(SECTIONS), help="measure only this (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    arguments = parser.parse_args()
    stream = sys.stderr if arguments.json else sys.stdout
    results: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    for name, (measure, show) in SECTIONS.items():
        if arguments.section not in (None, name):
            continue
        results[name] = measure(arguments.data_root, arguments.rounds)
        show(results[name], stream)
    results["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {results['peak_memory_mib']:.0f} MiB", file=stream)
    if arguments.json:
        print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
