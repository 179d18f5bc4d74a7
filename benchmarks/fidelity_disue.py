"""Does distillation between groups help, and under which clustering?

    python benchmarks/fidelity_disue.py [--full] [--data-root FOLDER] [--keep FOLDER] [--json]

Trains the package's own DisUE on scikit-learn's digits at Dirichlet 0.01, Dirichlet 0.1 and
independent data, and puts side by side the accuracy of the global model of

* FedAvg: the same run without distillation, whose average of group means weighted by records is
  that of FedAvg, whatever the groups;
* DisUE (affinity propagation) with the losses as the paper writes them, and as FedFTG's code
  computes them;
* IFCA, CFL, CFL-GP and PACFL in the place of affinity propagation (the paper's compatibility
  study).

In one seed all systems have the same data, clients in each round and initial model. Accuracy is
the mean over all users of that on each one's own test records. What comes out is printed, whatever
it shows; nothing here is tuned, and no test of this package demands an outcome.

The short form takes some minutes on one core: 10 rounds, three seeds. ``--full``: 30 rounds, five
seeds. With a data root also MNIST, with the CNN and 100 users of which 15 take part: 3 rounds and
one seed (some 20 minutes on one core), 10 rounds and three seeds in full (hours).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privaudit.datasets import load_dataset
from privaudit.datasets.partition import Scheme, partition
from privaudit.errors import ConfigurationError, PrivauditError
from privaudit.protocols.disue import DisUE, DisUEConfig
from privaudit.transcript import NullRecorder

FEDAVG = "FedAvg"
#: Similarity in the clear: which of its encryptions is used changes no number here.
SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    FEDAVG: {"distillation": "none"},
    "DisUE": {},
    "DisUE, FedFTG's code": {"distillation": "fedftg_code"},
    "IFCA + IGA": {"clustering": "ifca"},
    "CFL + IGA": {"clustering": "cfl"},
    "CFL-GP + IGA": {"clustering": "cfl-gp"},
    "PACFL + IGA": {"clustering": "pacfl"},
}
PARTITIONS: Mapping[str, tuple[Scheme, float]] = {
    "Dir 0.01": ("dirichlet", 0.01),
    "Dir 0.1": ("dirichlet", 0.1),
    "IID": ("iid", 0.5),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A data set, and how it is trained on."""

    dataset: str
    users: int
    records_per_user: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


def digits(rounds: int) -> Setting:
    """Return the digits with a network and batches that learn within few rounds."""
    small = {"model": "mlp", "batch_size": 10, "generator_width": 16}
    return Setting("digits", 20, 50, {**small, "rounds": rounds})


def mnist(rounds: int) -> Setting:
    """Return MNIST with the paper's participation and batches, and fewer records and rounds."""
    return Setting(
        "mnist", 100, 200, {"participation": 0.15, "rounds": rounds, "generator_width": 16}
    )


def measured(
    setting: Setting, scheme: str, system: str, seed: int, data_root: Path | None
) -> dict[str, Any]:
    """Run one system once; return its accuracy after each round, and how the run ended."""
    kind, alpha = PARTITIONS[scheme]
    data = partition(
        load_dataset(setting.dataset, data_root=data_root),
        users=setting.users,
        scheme=kind,
        alpha=alpha,
        records_per_user=setting.records_per_user,
        auxiliary_records=20,
        rng=np.random.default_rng([seed, 1]),
    )
    config = DisUEConfig(similarity="plain", **{**setting.parameters, **SYSTEMS[system]})
    outcome = DisUE(config).run(data, rng=np.random.default_rng([seed, 2]), recorder=NullRecorder())
    return {
        "accuracy": [m.values["accuracy"] for m in outcome.metrics],
        "clusters": [m.values["clusters"] for m in outcome.metrics],
        "status": outcome.status,
        "warnings": len(outcome.warnings),
    }


def kept(
    setting: Setting,
    scheme: str,
    system: str,
    seed: int,
    *,
    data_root: Path | None,
    keep: Path | None,
) -> dict[str, Any]:
    """Return a run from the folder of finished runs if it is there with the same setting."""
    described = json.loads(json.dumps([asdict(setting), dict(SYSTEMS[system])]))
    slug = "-".join(c for c in f"{system} {scheme}".lower().replace(",", "").split())
    file = None if keep is None else keep / f"{setting.dataset}-{slug}-seed-{seed}.json"
    if file is not None and file.is_file():
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["setting"] != described:
            raise ConfigurationError(
                f"{file} was measured with other settings than are asked for now; give another "
                "folder with --keep, or delete the file"
            )
        value: dict[str, Any] = stored["value"]
        return value
    start = time.perf_counter()
    value = measured(setting, scheme, system, seed, data_root)
    took = time.perf_counter() - start
    print(f"{setting.dataset}, {scheme}, seed {seed}, {system}: {took:.0f} s", file=sys.stderr)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"setting": described, "value": value}), encoding="utf-8")
    return value


Results = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def last(runs: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return the accuracy after the last round of each seed; nan where a run diverged."""
    return np.array(
        [r["accuracy"][-1] if r["status"] == "completed" else float("nan") for r in runs]
    )


def tables(setting: Setting, results: Results, seeds: int) -> list[str]:
    """Return everything that is printed of one data set, as Markdown."""
    head = f"| | {' | '.join(results)} |"
    rule = "|---|" + "---|" * len(results)
    lines = [
        f"## {setting.dataset}: {setting.users} users, {setting.parameters['rounds']} rounds, "
        f"{seeds} seeds",
        "",
        "Accuracy of the global model after the last round, mean ± standard deviation over seeds:",
        "",
        head,
        rule,
    ]
    for system in SYSTEMS:
        cells = []
        for runs in results.values():
            values = last(runs[system])
            cells.append(f"{values.mean():.3f} ± {values.std(ddof=1) if seeds > 1 else 0:.3f}")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Difference from {FEDAVG} in the same seed: mean, and in how many seeds it is above:",
        "",
        head,
        rule,
    ]
    for system in SYSTEMS:
        if system == FEDAVG:
            continue
        cells = []
        for runs in results.values():
            gain = last(runs[system]) - last(runs[FEDAVG])
            cells.append(f"{gain.mean():+.3f}, {int((gain > 0).sum())} of {seeds}")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    lines += ["", "Clusters a round, mean over rounds and seeds:", "", head, rule]
    for system in SYSTEMS:
        cells = [
            f"{np.mean([r['clusters'] for r in runs[system]]):.1f}" for runs in results.values()
        ]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    diverged = [
        f"{system} ({scheme})"
        for scheme, runs in results.items()
        for system in SYSTEMS
        if any(r["status"] != "completed" for r in runs[system])
    ]
    return [*lines, "", f"Diverged: {', '.join(diverged) or 'none'}.", ""]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--full", action="store_true", help="more rounds and seeds")
    parser.add_argument("--data-root", type=Path, help="folder with MNIST, to train on it too")
    parser.add_argument("--rounds", type=int, help="rounds instead of the form's own")
    parser.add_argument("--seeds", type=int, help="seeds instead of the form's own")
    parser.add_argument("--keep", type=Path, help="store finished runs here, do not repeat them")
    parser.add_argument("--json", action="store_true", help="print one JSON line at the end")
    options = parser.parse_args()
    if any(given is not None and given < 1 for given in (options.rounds, options.seeds)):
        parser.error("--rounds and --seeds must be at least 1")
    # Setting and seeds of each data set: short form, full form.
    steps = [(digits(30), 5) if options.full else (digits(10), 3)]
    if options.data_root is not None:
        steps.append((mnist(10), 3) if options.full else (mnist(3), 1))
    everything: dict[str, Any] = {}
    try:
        for setting, _ in steps:
            # What cannot be read is found before anything is computed.
            load_dataset(setting.dataset, data_root=options.data_root)
        for chosen, usual in steps:
            setting = chosen
            if options.rounds is not None:
                setting = replace(
                    chosen, parameters={**chosen.parameters, "rounds": options.rounds}
                )
            seeds = options.seeds or usual
            results = {
                scheme: {
                    system: [
                        kept(
                            setting,
                            scheme,
                            system,
                            seed,
                            data_root=options.data_root,
                            keep=options.keep,
                        )
                        for seed in range(seeds)
                    ]
                    for system in SYSTEMS
                }
                for scheme in PARTITIONS
            }
            print("\n".join(tables(setting, results, seeds)), flush=True)
            everything[setting.dataset] = {
                "setting": asdict(setting),
                "accuracy": {
                    scheme: {system: last(runs[system]).tolist() for system in SYSTEMS}
                    for scheme, runs in results.items()
                },
            }
    except PrivauditError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps(everything))
    return 0


if __name__ == "__main__":
    sys.exit(main())
