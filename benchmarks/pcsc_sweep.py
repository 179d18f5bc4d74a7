"""Sizes of PCSC: where it decodes, and where the attacks on it are exact.

Encrypts random signed 16-bit vectors under many sizes (k1, k2, k3, k4), and counts in how many runs
a product decodes, and in how many the ratio of the pads, or of two ordinary coordinates, gives the
whole vector. Writes pcsc-sweep.csv and pcsc-sweep.png:

    python benchmarks/pcsc_sweep.py --runs 100 --output docs/figures
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt

from privaudit.attacks.cryptanalysis import Recovery, recover_from_pads, recover_from_pair
from privaudit.errors import ConfigurationError, PrivauditError
from privaudit.secure_computation import pcsc

matplotlib.use("Agg")
from matplotlib import pyplot as plt

LARGEST = 32_767
#: Sizes that were proposed, others in their proportions, and some that cannot decode.
SETS = (
    (512, 200, 128, 128),
    (1024, 128, 64, 64),
    (1024, 400, 300, 300),
    (2048, 900, 800, 800),
    (256, 100, 64, 64),
    (160, 60, 32, 32),
    (430, 200, 128, 128),
    (257, 200, 128, 128),
    (250, 200, 128, 128),
    (240, 180, 128, 128),
)
#: Lengths of the modulus with the other sizes of the literature.
MODULI = (*range(240, 272, 2), *range(280, 420, 20), *range(416, 452, 2), 470, 490, 512)


@dataclass(frozen=True, slots=True)
class Row:
    """Fractions of runs for one choice of sizes."""

    k1: int
    k2: int
    k3: int
    k4: int
    dimension: int
    runs: int
    guaranteed: bool
    decoded: float
    pads_exact: float
    pair_exact: float


def exact(attack: Callable[[], Recovery], vector: npt.NDArray[np.int64]) -> bool:
    try:
        return bool((attack().values[: len(vector)] == vector).all())
    except PrivauditError:
        return False


def measure(sizes: tuple[int, int, int, int], *, dimension: int, runs: int, seed: int) -> Row:
    parameters = pcsc.Parameters(*sizes)
    rng = np.random.default_rng([seed, *sizes])
    decoded = pads = pair = 0
    for _ in range(runs):
        a, b = rng.integers(-LARGEST, LARGEST + 1, (2, dimension))
        keys = pcsc.generate(parameters, source=rng)
        challenge = pcsc.encrypt(a, keys, parameters=parameters, source=rng)
        response = pcsc.respond(challenge, b, parameters=parameters, source=rng, validate=False)
        decoded += pcsc.decode(response, keys) == int(a @ b)
        p, alpha, ciphertexts = challenge.modulus, challenge.scale, challenge.ciphertexts
        pads += exact(partial(recover_from_pads, p, alpha, ciphertexts), a)
        pair += exact(partial(recover_from_pair, p, alpha, ciphertexts[:-2]), a)
    try:
        pcsc.check(parameters, dimension=dimension, largest=LARGEST)
        guaranteed = True
    except ConfigurationError:
        guaranteed = False
    return Row(*sizes, dimension, runs, guaranteed, decoded / runs, pads / runs, pair / runs)


def draw(curve: list[Row], sets: list[Row], path: Path) -> None:
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.2), width_ratios=(3, 2), layout="constrained"
    )
    lengths = [row.k1 for row in curve]
    series = (
        ("product decodes", [row.decoded for row in curve], "#444444", "o-"),
        ("attack exact: ratio of the pads", [row.pads_exact for row in curve], "#c0392b", "s-"),
        ("attack exact: two other coordinates", [row.pair_exact for row in curve], "#2471a3", "^-"),
    )
    for label, values, colour, style in series:
        left.plot(lengths, values, style, color=colour, label=label, markersize=4, linewidth=1.2)
    guaranteed = [row.k1 for row in curve if row.guaranteed]
    if guaranteed:
        left.axvspan(min(guaranteed), max(lengths), color="#27ae60", alpha=0.12, linewidth=0)
        middle = (min(guaranteed) + max(lengths)) / 2
        left.text(middle, 0.5, "decoding\nguaranteed", ha="center", color="#1e8449", fontsize=9)
    left.set_xlabel("bits of the modulus, k1   (k2, k3, k4 = 200, 128, 128)")
    left.set_ylabel(f"fraction of {curve[0].runs} runs, n = {curve[0].dimension}")
    left.set_ylim(-0.03, 1.06)
    left.legend(loc="center left", bbox_to_anchor=(0.14, 0.62), frameon=False, fontsize=9)
    left.set_title("There is no modulus that decodes and protects", fontsize=10)
    rows = np.arange(len(sets))
    right.barh(rows - 0.2, [r.decoded for r in sets], 0.36, color="#444444", label="decodes")
    right.barh(rows + 0.2, [r.pads_exact for r in sets], 0.36, color="#c0392b", label="exact")
    names = [f"{r.k1}, {r.k2}, {r.k3}, {r.k4}" for r in sets]
    right.set_yticks(rows, names, fontsize=9)
    right.invert_yaxis()
    right.set_xlim(0, 1.05)
    right.set_xlabel("fraction of runs")
    right.set_title("Other sizes: decodes (grey), pads' ratio exact (red)", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=100, help="runs for each choice of sizes")
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)

    def measured(sizes: tuple[int, int, int, int]) -> Row:
        row = measure(sizes, dimension=options.dimension, runs=options.runs, seed=options.seed)
        print(*astuple(row), sep="\t", flush=True)
        return row

    print(*(f.name for f in fields(Row)), sep="\t")
    sets = [measured(sizes) for sizes in SETS]
    curve = [measured((bits, 200, 128, 128)) for bits in MODULI]
    with (options.output / "pcsc-sweep.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(f.name for f in fields(Row))
        writer.writerows(astuple(row) for row in [*sets, *curve])
    draw(curve, sets, options.output / "pcsc-sweep.png")


if __name__ == "__main__":
    main()
