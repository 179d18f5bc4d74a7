"""Inversion of parts of updates of several records and of several local steps.

    python benchmarks/partial_inversion.py [--data mnist --data-root ROOT --model cnn] [--json]

One round of PA-CFL a row: users with B records each, who send one gradient or the update of three
local epochs, at the initial parameters and after some steps of training on other records; k of d
entries. The aggregation server with one user has values at known coordinates (``top-k``), the
management server has ranks alone and is told B (``ranks``). Guesses are paired with records by
assignment; a record is identified if its guess is nearer to it than to any other user's record, its
siblings and the auxiliary records.
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
from _attack_cases import AS, COLLUDER, MS, Case, Size, view, world

from privaudit.attacks.inversion import (
    LocalStepsRanks,
    LocalStepsTopK,
    RankProfileMatching,
    TopKMatching,
)
from privaudit.scoring.prior_images import prior_images
from privaudit.scoring.reconstruction import identification, psnr, ssim

Matching = TopKMatching | RankProfileMatching | LocalStepsTopK | LocalStepsRanks
#: Records, and whether training is local.
CASES = ((1, False), (4, False), (8, False), (1, True), (4, True))


def attacks(
    records: int, *, local: bool, iterations: int
) -> dict[str, tuple[Matching, tuple[str, ...]]]:
    if local:
        return {
            "top-k": (LocalStepsTopK(iterations=iterations), (AS, COLLUDER)),
            "ranks": (LocalStepsRanks(iterations=iterations, records=records), (MS,)),
        }
    return {
        "top-k": (TopKMatching(iterations=iterations), (AS, COLLUDER)),
        "ranks": (RankProfileMatching(iterations=iterations, records=records), (MS,)),
    }


def median(scores: Mapping[str, float]) -> float:
    return float(np.median(list(scores.values())))


def measure(case: Case, *, iterations: int, labels_given: bool) -> dict[str, dict[str, float]]:
    transcript, truth, auxiliary = case.transcript(), case.truth(), case.auxiliary
    local = case.training["update"] != "gradient"
    rows = {}
    for name, (attack, members) in attacks(
        case.per_user, local=local, iterations=iterations
    ).items():
        if labels_given:
            given = {user: tuple(truth.get(user, "labels").tolist()) for user in case.users}
            attack = replace(attack, known_labels=given)
        started = time.process_time()
        guesses = attack.run(
            view(transcript, *members), knowledge=case.knowledge, rng=np.random.default_rng(1)
        )
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
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--auxiliary", type=int, default=800, help="records of the adversary")
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0025, 0.01])
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 300], help="of training")
    parser.add_argument("--seed", type=int, default=930)
    parser.add_argument("--labels-given", action="store_true", help="declare the true labels")
    parser.add_argument("--json", action="store_true", help="print JSON, last")
    arguments = parser.parse_args()
    found = []
    for steps in arguments.steps:
        for records, local in CASES:
            for share in arguments.shares:
                size = Size(
                    arguments.data,
                    model=arguments.model,
                    share=share,
                    auxiliary=arguments.auxiliary,
                )
                case = world(size, seed=arguments.seed, data_root=arguments.data_root).case(
                    users=arguments.users,
                    per_user=records,
                    steps=steps,
                    mode="fedavg" if local else "gradient",
                )
                rows = measure(
                    case, iterations=arguments.iterations, labels_given=arguments.labels_given
                )
                for name, row in rows.items():
                    told = {"steps": steps, "B": records, "local epochs": 3 if local else 0}
                    told |= {"k/d": share, "view": name}
                    print(told, {key: round(value, 2) for key, value in row.items()}, flush=True)
                    found.append({**told, **row})
    if arguments.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
