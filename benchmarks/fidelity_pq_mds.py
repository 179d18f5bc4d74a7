"""How well PQ-MDS clusters, against k-means on the centralised features, and for how many bytes.

    python benchmarks/fidelity_pq_mds.py [--data-root FOLDER] [--seeds N] [--mnist-rows N] [--json]

The paper's claims that can be measured without its tables: (1) clustering as good as k-means on
the whole features, (2) fewer bytes and one round, (3) no bias towards the party with more columns.
Its claim that nothing leaks is what ``privaudit audit pq-mds`` measures.

On scikit-learn's digits (1,797 images in two bands of 32 pixels), on MNIST in two halves where the
data root has it, and on a synthetic table of 180 columns with a weak grouping beside 6 with a
strong one. Means over seeds; each line says what it was run with. ``central`` is k-means on all
columns, ``alone`` on one party's. Last printed is what the figures show, claim by claim, derived
from them and nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.datasets.columns import split_vertically
from privaudit.datasets.tables import load_table, table_of_columns
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import DatasetNotFoundError
from privaudit.protocols.pq_mds import PQMDS, PQMDSConfig
from privaudit.protocols.pq_mds.kinds import SERVER
from privaudit.protocols.pq_mds.quality import agreement, clustering_quality, influence_shares
from privaudit.protocols.pq_mds.server import cluster
from privaudit.transcript import MemoryRecorder

Labels = npt.NDArray[np.int64]
Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """Means over seeds of one configuration."""

    name: str
    ari: float
    ari_range: tuple[float, float]
    nmi: float
    accuracy: float
    agreement: float
    error: float
    bytes_per_row: float


DIGITS: dict[str, Parameters] = {
    "M 1, K 8, r 1": {"subspaces": 1, "codewords": 8},
    "M 4, K 16, r 1": {"subspaces": 4},
    "M 8, K 16, r 1": {},
    "M 8, K 16, r 1, smacof": {"mds": "smacof"},
    "M 8, K 16, r 1, weighted": {"weighted": True},
    "M 16, K 8, r 1": {"subspaces": 16, "codewords": 8},
    "M 32, K 16, r 1": {"subspaces": 32},
    "M 8, K 16, r 2": {"embedding_dimensions": 2},
    "M 8, K 16, r 4": {"embedding_dimensions": 4},
    "M 8, K 64, r 2": {"codewords": 64, "embedding_dimensions": 2},
    "M 8, K 16, r 2, party": {"embedding_dimensions": 2, "scaling": "party"},
    "M 8, K 16, r 2, minmax": {"embedding_dimensions": 2, "scaling": "minmax"},
    "M 8, K 16, r 2, unit": {"embedding_dimensions": 2, "scaling": "unit"},
    "M 8, K 16, r 1, rank": {"scaling": "rank"},
    "no MDS: codes as numbers": {"release": "codes"},
    "no MDS: codes one-hot": {"release": "one-hot"},
    "codebooks uploaded": {"release": "reconstruction"},
    "coarse, k = 5": {"subspaces": 1, "defence": "coarse"},
    "k-RR, M 1, K 8, eps 2": {
        "subspaces": 1,
        "codewords": 8,
        "defence": "randomized-response",
        "epsilon0": 2.0,
    },
    "k-RR, M 1, K 8, eps 4": {
        "subspaces": 1,
        "codewords": 8,
        "defence": "randomized-response",
        "epsilon0": 4.0,
    },
    "k-RR, M 1, K 8, eps 8": {
        "subspaces": 1,
        "codewords": 8,
        "defence": "randomized-response",
        "epsilon0": 8.0,
    },
}
MNIST: dict[str, Parameters] = {
    "M 14, K 16, r 1": {"subspaces": 14},
    "M 14, K 64, r 1": {"subspaces": 14, "codewords": 64},
    "M 98, K 16, r 1": {"subspaces": 98},
    "M 14, K 64, r 2": {"subspaces": 14, "codewords": 64, "embedding_dimensions": 2},
}
IMBALANCE: dict[str, Parameters] = {
    "equal subspaces (4, 4)": {"subspaces": 4},
    "subspaces by width (60, 2)": {"subspaces": (60, 2)},
    "equal subspaces, party scaling": {"subspaces": 4, "scaling": "party"},
}


def run(
    data: VerticalData, parameters: Parameters, *, seed: int
) -> tuple[Labels, Labels, dict[str, float]]:
    """Return the labels, the true labels of the same rows, and what was measured."""
    recorder = MemoryRecorder()
    config = PQMDSConfig(**{"reference": False, **parameters})
    outcome = PQMDS(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    labels = recorder.transcript().secrets[SERVER]["labels/round-1"].astype(np.int64)
    truth = recorder.truth().get("rows", "ids")
    position = np.argsort(data.ids)[np.searchsorted(np.sort(data.ids), truth)]
    return labels, position, dict(outcome.metrics[-1].values)


def line_of(name: str, measured: list[dict[str, float]]) -> Line:
    def mean(key: str) -> float:
        return float(np.mean([m[key] for m in measured]))

    aris = [m["ari"] for m in measured]
    return Line(
        name=name,
        ari=mean("ari"),
        ari_range=(min(aris), max(aris)),
        nmi=mean("nmi"),
        accuracy=mean("clustering_accuracy"),
        agreement=mean("agreement"),
        error=mean("quantisation_error"),
        bytes_per_row=mean("bytes_per_row"),
    )


def quality_lines(
    data: VerticalData,
    configurations: dict[str, Parameters],
    *,
    seeds: int,
    starts: int,
    stream: Any,
) -> list[Line]:
    """Measure k-means on all columns, on each party's, and every configuration."""
    assert data.labels is not None
    plain: dict[str, list[dict[str, float]]] = {}
    central: list[Labels] = []
    for seed in range(seeds):
        for name, features in [
            ("central", data.whole()),
            *((f"alone: {p.party}", p.features) for p in data.parties),
        ]:
            rng = np.random.default_rng(seed)
            labels = cluster(features, data.classes, initialisations=starts, rng=rng).labels
            if name == "central":
                central.append(labels)
            plain.setdefault(name, []).append(
                clustering_quality(labels, data.labels)
                | {
                    "agreement": agreement(labels, central[seed])["ari"],
                    "quantisation_error": 0.0,
                    "bytes_per_row": 4.0 * features.shape[1],
                }
            )
    lines = [line_of(name, measured) for name, measured in plain.items()]
    for line in lines:
        show(line, stream)
    for name, parameters in configurations.items():
        measured = []
        for seed in range(seeds):
            options = {"clusters": data.classes, "initialisations": starts, **parameters}
            labels, rows, values = run(data, options, seed=seed)
            measured.append(values | {"agreement": agreement(labels, central[seed][rows])["ari"]})
        lines.append(line_of(name, measured))
        show(lines[-1], stream)
    return lines


def heading(text: str, stream: Any) -> None:
    print(f"\n{text}", file=stream)
    print(
        f"  {'':<28}{'ARI':>6}{'(range)':>15}{'NMI':>7}{'ACC':>7}{'agree':>7}{'error':>7}"
        f"{'B/row':>8}",
        file=stream,
    )


def show(line: Line, stream: Any) -> None:
    low, high = line.ari_range
    print(
        f"  {line.name:<28}{line.ari:6.3f}  ({low:.3f}-{high:.3f}){line.nmi:7.3f}"
        f"{line.accuracy:7.3f}{line.agreement:7.3f}{line.error:7.3f}{line.bytes_per_row:8.1f}",
        file=stream,
        flush=True,
    )


def imbalanced(seed: int) -> tuple[VerticalData, Labels]:
    """180 columns of a weak grouping, 6 of a strong one, standardised, and the strong grouping."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(4, size=(2, 1200))
    blocks = []
    for width, group, apart in zip((180, 6), groups, (0.5, 3.0), strict=True):
        centres = apart * rng.normal(size=(4, width))
        blocks.append(centres[group] + rng.normal(size=(1200, width)))
    features = np.hstack(blocks)
    features = (features - features.mean(0)) / features.std(0)
    table = table_of_columns("imbalanced", features, [f"x{i}" for i in range(186)])
    data = split_vertically(table, widths=(180, 6), auxiliary_rows=0, rng=np.random.default_rng(0))
    return data, groups[1]


def imbalance(*, seeds: int, stream: Any) -> dict[str, tuple[float, float]]:
    """Return of each variant the narrow party's share of variance and the NMI with its grouping."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        data, grouping = imbalanced(seed)
        labels = cluster(data.whole(), 4, initialisations=10, rng=np.random.default_rng(seed))
        share = influence_shares([p.features for p in data.parties])[1]
        nmi = agreement(labels.labels, grouping)["nmi"]
        found.setdefault("central", []).append((share, nmi))
        for name, parameters in IMBALANCE.items():
            own, _, values = run(data, {"clusters": 4, **parameters}, seed=seed)
            nmi = agreement(own, grouping)["nmi"]
            found.setdefault(name, []).append((values["influence_share/party-2"], nmi))
    print(
        "\nSynthetic, 180 columns of a weak grouping and 6 of a strong one: the narrow party's "
        "share of the variance, NMI with its grouping",
        file=stream,
    )
    result = {}
    for name, pairs in found.items():
        share, nmi = (float(np.mean(values)) for values in zip(*pairs, strict=True))
        result[name] = (share, nmi)
        print(f"  {name:<32}{share:7.3f}{nmi:7.3f}", file=stream)
    return result


def conclusions(sets: dict[str, list[Line]], shares: dict[str, tuple[float, float]]) -> list[str]:
    """Say what the figures show of each claim."""
    said = []
    for name, lines in sets.items():
        by = {line.name: line for line in lines}
        central = by["central"]
        alone = max(line.ari for line in lines if line.name.startswith("alone"))
        ones = [line for line in lines if line.name.startswith("M ") and "r 1" in line.name]
        best = max(ones, key=lambda line: line.ari)
        least = min(ones, key=lambda line: line.ari)
        more = max(
            (line for line in lines if line.name.startswith("M ") and "r 1" not in line.name),
            key=lambda line: line.ari,
        )
        worse = [line.name for line in ones if line.ari < alone]
        said.append(
            f"{name}, claim 1 (as good as k-means on all columns): ARI {central.ari:.3f} "
            f"centrally; with one dimension, as in the paper, from {least.ari:.3f} ({least.name}) "
            f"to {best.ari:.3f} ({best.name}), with more at best {more.ari:.3f} ({more.name})."
        )
        said.append(
            f"{name}: agreement with the central partition is an ARI of {least.agreement:.3f}, "
            f"{best.agreement:.3f} and {more.agreement:.3f} for these three."
            + (f" Worse than one party alone ({alone:.3f}): {'; '.join(worse)}." if worse else "")
        )
        said.append(
            f"{name}, claim 2 (bytes): {central.bytes_per_row:.0f} a row centrally, "
            + ", ".join(
                f"{line.bytes_per_row:.0f} ({central.bytes_per_row / line.bytes_per_row:.1f} "
                "times fewer)"
                for line in (least, best, more)
            )
            + " for these three, in one round."
        )
    central_share = shares["central"][0]
    equal, party = (shares[n] for n in ("equal subspaces (4, 4)", "equal subspaces, party scaling"))
    said.append(
        f"Claim 3 (imbalance): the narrow party carries {central_share:.1%} of the variance "
        f"centrally, {equal[0]:.1%} with equally many subspaces, {party[0]:.1%} with party "
        f"scaling; its grouping is found with NMI {shares['central'][1]:.2f}, {equal[1]:.2f}, "
        f"{party[1]:.2f}."
    )
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, help="folder with MNIST in torchvision's layout")
    parser.add_argument("--seeds", type=int, default=5, help="seeds on the digits (default 5)")
    parser.add_argument(
        "--mnist-rows",
        type=int,
        default=20_000,
        help="rows of MNIST (default 20,000; at most 70,000)",
    )
    parser.add_argument("--mnist-seeds", type=int, default=3, help="seeds on MNIST (default 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    arguments = parser.parse_args()
    stream, start = (sys.stderr if arguments.json else sys.stdout), time.perf_counter()
    sets: dict[str, list[Line]] = {}
    digits = split_vertically(load_table("digits"), auxiliary_rows=0, rng=np.random.default_rng(0))
    heading(f"Digits, 1,797 rows in two bands, {arguments.seeds} seeds, 10 starts", stream)
    sets["digits"] = quality_lines(digits, DIGITS, seeds=arguments.seeds, starts=10, stream=stream)
    try:
        table = load_table("mnist", data_root=arguments.data_root)
    except DatasetNotFoundError:
        print("\nMNIST is not under the data root: skipped (--data-root)", file=stream)
    else:
        rows = arguments.mnist_rows
        mnist = split_vertically(table, rows=rows, auxiliary_rows=0, rng=np.random.default_rng(0))
        heading(
            f"MNIST, {rows:,} rows in two halves, {arguments.mnist_seeds} seeds, 3 starts", stream
        )
        sets["MNIST"] = quality_lines(
            mnist, MNIST, seeds=arguments.mnist_seeds, starts=3, stream=stream
        )
    shares = imbalance(seeds=arguments.seeds, stream=stream)
    said = conclusions(sets, shares)
    print("\n" + "\n".join(said), file=stream)
    print(f"{time.perf_counter() - start:.0f} s", file=stream)
    if arguments.json:
        print(
            json.dumps(
                {
                    "sets": {
                        name: [asdict(line) for line in lines] for name, lines in sets.items()
                    },
                    "imbalance": shares,
                    "conclusions": said,
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
