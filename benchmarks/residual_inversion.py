"""Inversion of a residual network's gradients on colour images, at a small budget.

    python benchmarks/residual_inversion.py --data cifar10 [--iterations 300] [--updates 1] [--json]

ResNet-10 (4,910,922 parameters) at its initial parameters, one gradient an update. Batch
normalisation mixes the records of an update, and the engine goes through updates one at a time by
plain differentiation. Rows differ in what normalisation the users had and what is known of it:

- ``one record, running statistics``: a single 32x32 record has no batch statistics in the last
  stage, so that a user with one must use running ones; here those of an untrained network;
- ``two records``: statistics of the batch, as local training takes them, nothing known of them;
- ``.., statistics of auxiliary records`` and ``.., statistics told``: with a prior on them.

Baselines: the mean auxiliary image, and that of the record's true class, which an adversary has to
guess first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import CosineInversion
from privaudit.attacks.inversion._options import BatchNorm
from privaudit.attacks.inversion._regularisers import statistics_of
from privaudit.attacks.inversion._search import engine_for, tensor
from privaudit.datasets import load_dataset
from privaudit.datasets.base import LabelledImages
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party, Truth

SPEC = ModelSpec("resnet10", (3, 32, 32), 10)
FACTS = (
    Capability.MODEL_ARCHITECTURE,
    Capability.MODEL_PARAMETERS,
    Capability.SINGLE_LOCAL_STEP,
)
AUXILIARY = 1000


@dataclass(frozen=True)
class Case:
    """What users had, and what the adversary uses."""

    records: int
    batch_norm: BatchNorm
    weight: float = 0.0
    told: bool = False


CASES = {
    "one record, running statistics": Case(1, "eval"),
    "two records": Case(2, "train"),
    "two records, statistics of auxiliary records": Case(2, "train", 0.1),
    "two records, statistics told": Case(2, "train", 0.1, told=True),
}


def measure(
    case: Case, data: LabelledImages, attack: CosineInversion, *, updates: int, seed: int
) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(data))
    count = updates * case.records
    own, auxiliary = data.take(order[:count]), data.take(order[count : count + AUXILIARY])
    parameters = flatten_parameters(build(SPEC, seed=seed))
    engine = engine_for(
        SPEC, parameters, batch_norm=case.batch_norm, device="cpu", records=case.records
    )
    images, labels = tensor(own.images, engine), torch.from_numpy(own.labels)
    gradients = engine.gradients(images, functional.one_hot(labels, 10).float()).flat().detach()
    told = statistics_of(engine, images).detach()
    recorder = MemoryRecorder()
    users = [f"user-{i}" for i in range(updates)]
    recorder.declare([Party(SERVER, "server"), *(Party(u, "user") for u in users)], facts=FACTS)
    for row, user in enumerate(users):
        arrays = {"values": gradients[row].numpy(), "records": np.asarray(case.records)}
        if case.told:
            arrays["batch_statistics"] = told[row].numpy()
        recorder.send(kind=UPDATE, round=1, sender=user, receiver=SERVER, arrays=arrays)
    view = recorder.transcript().view(Coalition.of(SERVER, capabilities=Capability))
    truth = Truth(
        {
            user: {
                "images": own.images[i * case.records : (i + 1) * case.records],
                "labels": own.labels[i * case.records : (i + 1) * case.records],
            }
            for i, user in enumerate(users)
        }
    )
    knowledge = Knowledge(SPEC, parameters, auxiliary)
    attack = replace(attack, batch_norm=case.batch_norm, batch_statistics=case.weight)
    started = time.process_time()
    guesses = attack.run(view, knowledge=knowledge, rng=np.random.default_rng(seed))
    seconds = time.process_time() - started
    baseline = attack.baseline(view, knowledge=knowledge, rng=np.random.default_rng(seed))
    means = np.stack([auxiliary.images[auxiliary.labels == c].mean(0) for c in range(10)])
    error = ((means[own.labels] - own.images) ** 2).mean((1, 2, 3))

    def median(score: Mapping[str, float]) -> float:
        return float(np.median(list(score.values())))

    pool = auxiliary
    return {
        "psnr": median(psnr(guesses, truth, per_record=True).per_target),
        "ssim": median(ssim(guesses, truth, per_record=True).per_target),
        "identified": float(
            np.mean(
                list(identification(guesses, truth, pool=pool, per_record=True).per_target.values())
            )
        ),
        "psnr mean image": median(psnr(baseline, truth, per_record=True).per_target),
        "psnr class mean": float(np.median(-10 * np.log10(error))),
        "loss": guesses.diagnostics["mean loss"],
        "factored engine": guesses.diagnostics["factored engine"],
        "cpu seconds": seconds,
        "records": float(count),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar10", help="a data set, or an .npz file")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--updates", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--total-variation", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=920)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--json", action="store_true", help="print JSON, last")
    arguments = parser.parse_args()
    data = load_dataset(arguments.data, data_root=arguments.data_root).train
    attack = CosineInversion(
        iterations=arguments.iterations,
        learning_rate=arguments.learning_rate,
        total_variation=arguments.total_variation,
        restarts=1,
    )
    rows = {}
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        rows[name] = measure(case, data, attack, updates=arguments.updates, seed=arguments.seed)
        print(name, {key: round(value, 3) for key, value in rows[name].items()}, flush=True)
    if arguments.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
