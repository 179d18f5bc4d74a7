"""Do the attacks reach what the specification's prototypes reached?

    python benchmarks/fidelity_attacks.py [--data-root FOLDER] [--only images,labels] [--json]

On fresh seeds, with the package's own attacks: images from whole gradients, from the true top-k
values, from ranks alone, of several records, at initial parameters and after training; labels from
ranks; coordinates from the aggregation server's values alone; labels from noised reports; and
controls that must not work. Each row states what the prototype measured, what is accepted, what
was found here with n and a 95 % interval, and a verdict by a rule of ``_attack_expectations.py``
that was written down before.

The network is the paper's (582,026 parameters), k = 0.25 %. Digits, enlarged to 28 x 28, always;
MNIST and Fashion-MNIST where a data root has them. Everything
takes the better part of an hour a data set on one core; finished parts are kept with ``--keep
FOLDER`` and not computed again. ``--quick`` runs every part at a size at which nothing is learned.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import _attack_measures as measures
import _attack_others as others
from _attack_cases import Size, quick, world
from _attack_expectations import RULES, Row, rows, table
from _attack_measures import Sample, Samples

from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError, DatasetNotFoundError, PrivauditError

PARTS: Mapping[str, Any] = {
    "controls": measures.controls,
    "images": measures.images,
    "later": measures.later,
    "several": measures.several,
    "dlg": measures.deep_leakage,
    "labels": others.labels,
    "blind": others.blind,
    "noise": others.noise,
}
DATASETS = ("digits28", "mnist", "fashion-mnist")
FIRST_SEED = 8101


def measured(
    part: str, size: Size, seed: int, *, data_root: Path | None, keep: Path | None
) -> Samples:
    """Return a part's samples, from the folder of finished parts if they are there."""
    described = json.loads(json.dumps(asdict(size)))
    file = None if keep is None else keep / f"{size.dataset}-{part}-seed-{seed}.json"
    if file is not None and file.is_file():
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["size"] != described:
            raise ConfigurationError(
                f"{file} was measured with other sizes than are asked for now; give another "
                "folder with --keep, or delete the file"
            )
        return {key: Sample(**sample) for key, sample in stored["samples"].items()}
    begun = time.process_time()
    samples: Samples = PARTS[part](world(size, seed=seed, data_root=data_root), seed)
    spent = time.process_time() - begun
    print(f"{size.dataset}, seed {seed}, {part}: {spent:.0f} CPU s", file=sys.stderr, flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = {"size": described, "samples": {k: asdict(s) for k, s in samples.items()}}
        file.write_text(json.dumps(text), encoding="utf-8")
    return samples


def pooled(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several seeds and parts, pooled by key."""
    found: Samples = {}
    for part in parts:
        for key, sample in part.items():
            before = found[key].values if key in found else {}
            found[key] = replace(sample, values={**before, **sample.values})
    return found


def available(name: str, data_root: Path | None, *, wanted: bool) -> bool:
    """Return whether a data set can be read; if it is ``wanted`` and cannot, that is an error."""
    if name == "digits28":
        return True
    if data_root is None and not os.environ.get("PRIVAUDIT_DATA") and not wanted:
        return False
    try:
        load_dataset(name, data_root=data_root)
    except DatasetNotFoundError:
        if wanted:
            raise
        return False
    return True


def chosen_sizes(options: argparse.Namespace) -> list[Size]:
    """Return what is to be measured."""
    if options.quick:
        return [quick()]
    names = (options.dataset,) if options.dataset else DATASETS
    return [
        Size(name)
        for name in names
        if available(name, options.data_root, wanted=options.dataset == name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run everything at tiny sizes")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts: {', '.join(PARTS)}")
    parser.add_argument("--dataset", choices=DATASETS, help="only this data set")
    parser.add_argument(
        "--data-root", type=Path, help="folder with MNIST and Fashion-MNIST (or PRIVAUDIT_DATA)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="seeds, pooled")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--keep", type=Path, help="folder for finished parts, reused when there")
    parser.add_argument("--json", action="store_true", help="print one JSON object as last line")
    options = parser.parse_args(arguments)
    parts = options.only.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--only {options.only}: allowed are {', '.join(PARTS)}")
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least 1")
    import torch

    torch.set_num_threads(1)  # sums do not depend on the machine's number of cores
    begun = time.process_time()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    judged: list[Row] = []
    try:
        for size in chosen_sizes(options):
            samples = pooled(
                [
                    measured(part, size, seed, data_root=options.data_root, keep=options.keep)
                    for seed in seeds
                    for part in parts
                ]
            )
            judged += rows(size.dataset, samples)
    except PrivauditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("# Rules, stated before the numbers\n")
    for judgement, rule in RULES.items():
        print(f"- {judgement}: {rule}.")
    for name in dict.fromkeys(row.dataset for row in judged):
        print(f"\n## {name}\n")
        print("\n".join(table([row for row in judged if row.dataset == name])))
    if options.json:
        summary = {
            "form": "quick" if options.quick else "full",
            "seeds": list(seeds),
            "rows": [_finite(asdict(row)) for row in judged],
            "reached": sum(row.verdict == "reached" for row in judged),
            "not_reached": sum(row.verdict.startswith("not reached") for row in judged),
            "controls_beyond_chance": sum(row.verdict == "BEYOND CHANCE" for row in judged),
            "cpu_seconds": time.process_time() - begun,
        }
        print(json.dumps(summary, allow_nan=False))
    return 0


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without infinities, which JSON does not have."""
    value = row["value"]
    return {**row, "value": value if abs(value) < float("inf") else None}


if __name__ == "__main__":
    sys.exit(main())
