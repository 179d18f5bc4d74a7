"""Inversion of parts of updates of several records and of several local steps.

    python benchmarks/partial_inversion.py [--data mnist --data-root ROOT --model cnn] [--json]

One round of PA-CFL a row: users with B records each, who send one gradient or the update of three
local epochs; k of d entries. The aggregation server with one user has values at known coordinates
(``top-k``), the management server has ranks alone and is told B (``ranks``). Guesses are paired
with records by assignment; a record is identified if its guess is nearer to it than to any other
user's record, its siblings and 800 auxiliary records.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import (
    LocalStepsRanks,
    LocalStepsTopK,
    RankProfileMatching,
    TopKMatching,
)
from privaudit.campaigns.simulation import data_of, simulate, simulation_config
from privaudit.datasets.base import FederatedData
from privaudit.models import ModelSpec
from privaudit.scoring.prior_images import prior_images
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.transcript import Capability, Coalition, MemoryRecorder

AS, MS = "aggregation-server", "management-server"
Matching = TopKMatching | RankProfileMatching | LocalStepsTopK | LocalStepsRanks
LOCAL = {"update": "fedavg", "local_epochs": 3, "batch_size": 64}


def attacks(records: int, *, local: bool, iterations: int) -> dict[str, tuple[Matching, Coalition]]:
    with_user = Coalition.of(AS, "user-1", capabilities=Capability)
    alone = Coalition.of(MS, capabilities=Capability)
    if local:
        return {
            "top-k": (LocalStepsTopK(iterations=iterations), with_user),
            "ranks": (LocalStepsRanks(iterations=iterations, records=records), alone),
        }
    return {
        "top-k": (TopKMatching(iterations=iterations), with_user),
        "ranks": (RankProfileMatching(iterations=iterations, records=records), alone),
    }


def median(scores: Mapping[str, float]) -> float:
    return float(np.median(list(scores.values())))


def measure(
    arguments: argparse.Namespace, *, records: int, local: bool, share: float
) -> dict[str, dict[str, float]]:
    training = LOCAL if local else {"update": "gradient"}
    config = simulation_config(
        {
            "protocol": "pa-cfl",
            "seed": arguments.seed,
            "federation": {
                "dataset": arguments.data,
                "users": arguments.users + 1,
                "partition": "iid",
                "records_per_user": records,
                "auxiliary_records": 800,
            },
            "parameters": {
                "model": arguments.model,
                "rounds": 1,
                "similarity": "jaccard",
                "top_k_fraction": share,
                **training,
            },
        },
        where="partial_inversion.py",
    )
    data = data_of(config, data_root=arguments.data_root)
    assert isinstance(data, FederatedData)
    recorder = MemoryRecorder()
    simulate(config, data, recorder=recorder)
    transcript, truth = recorder.transcript(), recorder.truth()
    auxiliary = data.auxiliary
    assert auxiliary is not None
    spec = ModelSpec(arguments.model, auxiliary.images.shape[1:], 10)
    knowledge = Knowledge(spec, transcript.public_arrays["initial-parameters"], auxiliary)
    rows = {}
    wanted = attacks(records, local=local, iterations=arguments.iterations)
    for name, (attack, coalition) in wanted.items():
        view = transcript.view(coalition)
        if arguments.labels_given:
            given = {
                f"user-{i}": tuple(truth.get(f"user-{i}", "labels").tolist())
                for i in range(1, arguments.users + 2)
            }
            attack = replace(attack, known_labels=given)
        started = time.process_time()
        guesses = attack.run(view, knowledge=knowledge, rng=np.random.default_rng(1))
        seconds = time.process_time() - started
        named = identification(guesses, truth, pool=auxiliary, per_record=True).per_target
        rows[name] = {
            "PSNR": median(psnr(guesses, truth, per_record=True).per_target),
            "SSIM": median(ssim(guesses, truth, per_record=True).per_target),
            "identified": float(np.mean(list(named.values()))),
            "n": float(len(named)),
            "CPU seconds": seconds,
        }
        for kind, prior in prior_images(guesses.target_ids, truth, auxiliary).items():
            rows[name][kind] = median(psnr(prior, truth, per_record=True).per_target)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--model", default="small-cnn")
    parser.add_argument("--users", type=int, default=8, help="targets; one more colludes")
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0025, 0.01])
    parser.add_argument("--seed", type=int, default=930)
    parser.add_argument("--labels-given", action="store_true", help="declare the true labels")
    parser.add_argument("--json", action="store_true", help="print JSON, last")
    arguments = parser.parse_args()
    found = []
    for records, local in ((1, False), (4, False), (1, True), (4, True)):
        for share in arguments.shares:
            rows = measure(arguments, records=records, local=local, share=share)
            for name, row in rows.items():
                case = {"B": records, "local epochs": 3 if local else 0, "k/d": share, "view": name}
                print(case, {key: round(value, 2) for key, value in row.items()}, flush=True)
                found.append({**case, **row})
    if arguments.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
