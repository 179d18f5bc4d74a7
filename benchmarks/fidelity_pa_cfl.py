"""Does PA-CFL as written do what its paper says?

    python benchmarks/fidelity_pa_cfl.py [--full] [--data-root FOLDER] [--json]

Runs the package's own protocol on the paper's Non-IID Set-2 (20 users in five groups of two labels
each) and puts what it finds beside the paper's claims: which similarity finds the groups (sections
5.4, 7.4.2), how accuracy and the clipping threshold develop at several local budgets (Table 2),
and Figure 11(a). Each claim has a rule, stated in ``_fidelity_verdicts.py`` before the numbers
were seen; nothing is tuned until it matches.

The short form takes a few minutes on one core: scikit-learn's digits, three seeds, and, if a data
root with MNIST is given, the clustering and Figure 11(a) on MNIST with one seed. ``--full`` also
trains on MNIST with the paper's CNN: 300 records a user, three seeds, the better part of an hour
on one core. With ``--keep FOLDER`` finished parts are stored there and not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import _fidelity_measures as measures
from _fidelity_measures import Setting
from _fidelity_tables import clustering_tables, overlap_table, training_tables, verdict_table
from _fidelity_verdicts import CLAIMS, Results, scores, verdicts

from privaudit.campaigns.pa_cfl.config import default_parameters
from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError, DatasetNotFoundError, PrivauditError

Part = Callable[[Setting, int, Path | None], dict[str, Any]]
PARTS: Mapping[str, Part] = {
    "clustering": measures.clustering,
    "overlap": measures.overlap,
    "training": measures.training,
    "ablation": measures.ablation,
}
PAPER_TRAINING: Mapping[str, Any] = {"learning_rate": 0.01, "batch_size": 64, "local_epochs": 3}


def digits(*, rounds: int = 10) -> Setting:
    """Return scikit-learn's digits with the training parameters that the audit takes for them."""
    fitted = {k: v for k, v in default_parameters("digits").items() if k != "rounds"}
    return Setting(
        "digits",
        records_per_user=None,
        overlap_records_per_label=20,
        rounds=rounds,
        late_round=min(6, rounds),
        training={"local_epochs": 3, **fitted},
    )


def mnist(*, rounds: int) -> Setting:
    """Return MNIST with the paper's training parameters, and fewer records and rounds."""
    return Setting(
        "mnist",
        records_per_user=300,
        overlap_records_per_label=60,
        rounds=rounds,
        late_round=min(6, rounds),
        training=PAPER_TRAINING,
    )


def plan(*, full: bool, with_mnist: bool) -> list[tuple[Setting, range, tuple[str, ...]]]:
    """Return what is computed: settings, seeds and parts, what matters most first."""
    if not full:
        steps = [(digits(), range(3), tuple(PARTS))]
        if with_mnist:
            steps.append((mnist(rounds=2), range(1), ("clustering", "overlap")))
        return steps
    large = mnist(rounds=6)
    return [
        (large, range(3), ("clustering",)),
        (large, range(5), ("overlap",)),
        (large, range(3), ("training",)),
        (digits(), range(5), tuple(PARTS)),
        (large, range(3), ("ablation",)),
    ]


def measured(
    name: str, setting: Setting, seed: int, *, data_root: Path | None, keep: Path | None
) -> dict[str, Any]:
    """Return a part, from the folder of finished parts if it is there with the same setting."""
    described = json.loads(json.dumps(asdict(setting)))
    file = None if keep is None else keep / f"{setting.dataset}-{name}-seed-{seed}.json"
    if file is not None and file.is_file():
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["setting"] != described:
            raise ConfigurationError(
                f"{file} was measured with other settings (rounds, records or training) than are "
                "asked for now; give another folder with --keep, or delete the file"
            )
        value: dict[str, Any] = stored["value"]
        return value
    start = time.perf_counter()
    value = PARTS[name](setting, seed, data_root)
    took = time.perf_counter() - start
    print(f"{setting.dataset}, seed {seed}, {name}: {took:.0f} s", file=sys.stderr, flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"setting": described, "value": value}), encoding="utf-8")
    return value


def index_order_check(results: Results) -> str | None:
    """Return in how many seeds exact DTW by index found the five groups in round 1 (R = 3)."""
    found = scores(results, "dtw by index", late=False)
    if not found:
        return None
    return f"{sum(score == 1 for score in found)} of {len(found)} seeds"


def report(setting: Setting, results: Results) -> list[str]:
    """Return everything that is printed of one data set."""
    lines = [f"## {setting.dataset}", ""]
    lines += clustering_tables(setting, results)
    checked = index_order_check(results)
    if checked is not None:
        lines += [f"Exact DTW by index found the groups in round 1 (R = 3, skip): {checked}.", ""]
    lines += training_tables(setting, results)
    lines += overlap_table(results)
    lines += verdict_table(verdicts(results))
    return lines


def has_mnist(data_root: Path | None, *, wanted: bool) -> bool:
    """Return whether MNIST can be read; if it is ``wanted`` and cannot, that is an error."""
    if data_root is None and not os.environ.get("PRIVAUDIT_DATA") and not wanted:
        return False
    try:
        load_dataset("mnist", data_root=data_root)
    except DatasetNotFoundError:
        if wanted:
            raise
        return False
    return True


def run(
    steps: Sequence[tuple[Setting, Sequence[int], Sequence[str]]],
    *,
    data_root: Path | None,
    keep: Path | None,
    parts: Sequence[str],
) -> tuple[dict[str, Setting], dict[str, dict[int, dict[str, Any]]]]:
    """Compute the steps; return the setting and the results of each data set."""
    settings: dict[str, Setting] = {}
    results: dict[str, dict[int, dict[str, Any]]] = {}
    for setting, seeds, names in steps:
        settings[setting.dataset] = setting
        for seed in seeds:
            for name in names:
                if name in parts:
                    value = measured(name, setting, seed, data_root=data_root, keep=keep)
                    results.setdefault(setting.dataset, {}).setdefault(seed, {})[name] = value
    return settings, results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="train on MNIST too; several seeds")
    parser.add_argument("--data-root", type=Path, help="folder with MNIST (or PRIVAUDIT_DATA)")
    parser.add_argument("--keep", type=Path, help="folder for finished parts, reused when there")
    parser.add_argument(
        "--parts", default=",".join(PARTS), help=f"comma-separated, of {', '.join(PARTS)}"
    )
    parser.add_argument("--seeds", type=int, help="number of seeds, instead of the form's own")
    parser.add_argument("--dataset", choices=("digits", "mnist"), help="only this data set")
    parser.add_argument("--json", action="store_true", help="print one JSON object as last line")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--parts {options.parts}: allowed are {', '.join(PARTS)}")
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least 1")
    import torch

    torch.set_num_threads(1)  # sums do not depend on the machine's number of cores
    start = time.perf_counter()
    try:
        wanted = options.full or options.dataset == "mnist"
        available = options.dataset != "digits" and has_mnist(options.data_root, wanted=wanted)
        steps = [
            (setting, seeds if options.seeds is None else range(options.seeds), names)
            for setting, seeds, names in plan(full=options.full, with_mnist=available)
            if options.dataset in (None, setting.dataset)
        ]
        settings, results = run(steps, data_root=options.data_root, keep=options.keep, parts=parts)
    except PrivauditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("# Rules, stated before the numbers\n")
    for claim in CLAIMS:
        print(f"- {claim.claim} ({claim.section}; paper: {claim.paper}): {claim.rule}")
    print()
    for name, found in results.items():
        print("\n".join(report(settings[name], found)))
    if options.json:
        summary = {
            "form": "full" if options.full else "short",
            "settings": {name: asdict(setting) for name, setting in settings.items()},
            "results": results,
            "verdicts": {
                name: [asdict(v) for v in verdicts(found)] for name, found in results.items()
            },
            "dtw_by_index_found_the_groups": {
                name: index_order_check(found) for name, found in results.items()
            },
            "elapsed_s": time.perf_counter() - start,
        }
        print(json.dumps(summary, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
