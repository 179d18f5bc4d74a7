"""What the benchmark of the attacks measures of images: one part a function, each pure.

Every attack and every score is the package's. A part returns samples by key: one number a target,
so that seeds can be pooled before anything is summarised.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from _attack_cases import AS, COLLUDER, MS, Case, World, view

from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.inference import LabelsFromPermutation
from privaudit.attacks.inversion import (
    AnalyticInversion,
    CosineInversion,
    DeepLeakage,
    RankProfileMatching,
    TopKMatching,
    ZeroFillMatching,
)
from privaudit.attacks.inversion._labels import label_of_whole
from privaudit.models import build, flatten_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.scoring.labels import label_accuracy
from privaudit.scoring.prior_images import prior_images
from privaudit.scoring.reconstruction import identification, psnr, record_id, ssim
from privaudit.transcript import Transcript, Truth, View

Statistic = Literal["median", "mean", "proportion", "minimum"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One number a target; ``higher`` is leakier unless it is false."""

    statistic: Statistic
    values: Mapping[str, float]
    higher: bool = True


Samples = dict[str, Sample]

#: As the specification's prototype searched: no fitted prior, from the class mean.
AS_SPECIFIED = {
    "init": "class-mean",
    "prior": "none",
    "total_variation": 0.03,
    "iterations": 200,
}
FROM_NOISE = {"init": "uniform", "prior": "none", "iterations": 250}
#: For several records: smaller steps and more variation (docs/attacks/inversion.md).
SEVERAL = {
    "learning_rate": 0.1,
    "total_variation": 0.003,
    "iterations": 300,
    "restarts": 1,
}


def attacked(
    attack: Attack, seen: View, knowledge: Knowledge, *, seed: int
) -> tuple[Guesses, float]:
    """Return the guesses and the CPU seconds of this process."""
    begun = time.process_time()
    guesses = attack.run(seen, knowledge=knowledge, rng=np.random.default_rng([seed, 7]))
    return guesses, time.process_time() - begun


def image_samples(key: str, guesses: Guesses, case: Case, *, per_record: bool = False) -> Samples:
    truth = case.truth()
    decibels = psnr(guesses, truth, per_record=per_record).per_target
    alike = ssim(guesses, truth, per_record=per_record).per_target
    named = identification(guesses, truth, pool=case.auxiliary, per_record=per_record)
    return {
        f"{key}: PSNR": Sample("median", decibels),
        f"{key}: SSIM": Sample("median", alike),
        f"{key}: identified": Sample("proportion", named.per_target),
    }


def minus(one: Sample, other: Sample) -> Sample:
    """Return the differences of two samples, target by target."""
    return Sample(
        one.statistic, {t: value - other.values[t] for t, value in one.values.items()}, one.higher
    )


def rank_labels(key: str, seen: View, case: Case) -> Samples:
    attack = LabelsFromPermutation()
    guesses, _ = attacked(attack, seen, case.knowledge, seed=0)
    hits = label_accuracy(guesses, case.truth()).per_target
    return {f"{key}: labels": Sample("proportion", hits)}


def baselines(key: str, case: Case) -> Samples:
    found: Samples = {}
    for name, guesses in prior_images(case.users, case.truth(), case.auxiliary).items():
        found |= image_samples(f"{key}{name}", guesses, case)
    return found


def on_update(case: Case, *, k_fraction: float | None = None, **options: object) -> Attack:
    """Return the matching of the largest entries of an undefended update."""
    settings = {
        "calibration": 8,
        **options,
        "source": "update",
        "k_fraction": k_fraction or case.share,
    }
    attack: Attack = TopKMatching(**settings)  # type: ignore[arg-type]
    return attack


def images(world: World, seed: int) -> Samples:
    """Single records, at initial parameters: whole gradients, parts, ranks."""
    size = world.size
    case = world.case(users=size.users)
    transcript = case.transcript()
    server, management = view(transcript, SERVER), view(transcript, MS)
    found = baselines("", case)
    whole, spent = attacked(CosineInversion(**size.options()), server, case.knowledge, seed=seed)
    found |= image_samples("whole", whole, case)
    found["whole: least PSNR"] = Sample("minimum", found["whole: PSNR"].values)
    found["whole: CPU seconds"] = Sample("mean", {f"seed-{seed}": spent}, higher=False)
    solved, spent = attacked(AnalyticInversion(**size.options()), server, case.knowledge, seed=seed)
    found |= image_samples("analytic", solved, case)
    found["analytic: least PSNR"] = Sample("minimum", found["analytic: PSNR"].values)
    found["analytic: CPU seconds"] = Sample("mean", {f"seed-{seed}": spent}, higher=False)
    restored = label_of_whole(case.updates, case.spec)
    right = restored == case.records.labels
    found["whole: labels"] = Sample(
        "proportion", dict(zip(case.users, right.astype(float).tolist(), strict=True))
    )
    rows: dict[str, tuple[Attack, View]] = {
        "top-k": (on_update(case, **size.refined()), server),
        "top-k, as specified": (on_update(case, **size.refined(**AS_SPECIFIED)), server),
        "top-k, from noise": (on_update(case, **size.refined(**FROM_NOISE)), server),
        "top-k 1 %, from noise": (
            on_update(case, k_fraction=0.01, **size.refined(**FROM_NOISE)),
            server,
        ),
        "zero-fill, from noise": (
            ZeroFillMatching(**size.options(**FROM_NOISE), source="update", k_fraction=case.share),
            server,
        ),
        "AS + user": (TopKMatching(**size.refined(calibration=8)), view(transcript, AS, COLLUDER)),
        "ranks": (RankProfileMatching(**size.refined(calibration=8)), management),
        "ranks, as specified": (
            RankProfileMatching(**size.refined(**AS_SPECIFIED)),
            management,
        ),
        "top-k, PCA": (on_update(case, **size.refined(prior="pca")), server),
        "ranks, PCA": (RankProfileMatching(**size.refined(prior="pca")), management),
        "unit magnitudes": (
            ZeroFillMatching(**size.options(**FROM_NOISE), source="update", k_fraction=case.share),
            view(unit_magnitudes(case), SERVER),
        ),
    }
    for key, (attack, seen) in rows.items():
        guesses, _ = attacked(attack, seen, case.knowledge, seed=seed)
        found |= image_samples(key, guesses, case)
    found |= rank_labels("ranks", management, case)
    found["masked over zero-filled: PSNR"] = minus(
        found["top-k, from noise: PSNR"], found["zero-fill, from noise: PSNR"]
    )
    for key in ("top-k, as specified", "ranks, as specified"):
        found[f"{key}: PSNR over class mean"] = minus(
            found[f"{key}: PSNR"], found["class mean: PSNR"]
        )
    return found


def unit_magnitudes(case: Case) -> Transcript:
    """Return the weak reading of figure 10(c): one at each coordinate of pi, zero elsewhere."""
    ones = np.zeros_like(case.updates)
    np.put_along_axis(ones, case.sequences(), 1.0, axis=1)
    return case.transcript(updates=ones)


def later(world: World, seed: int) -> Samples:
    """Single records, at parameters that were trained before."""
    size = world.size
    case = world.case(users=size.users, steps=size.late_steps)
    correct = world.accuracy(case.parameters)
    transcript = case.transcript()
    server, management = view(transcript, SERVER), view(transcript, MS)
    found = baselines("later, ", case)
    found["later, accuracy"] = Sample("mean", {f"seed-{seed}": correct})
    rows: dict[str, tuple[Attack, View]] = {
        "later, whole": (CosineInversion(**size.options()), server),
        "later, analytic": (AnalyticInversion(**size.options()), server),
        "later, top-k": (on_update(case, **size.refined()), server),
        "later, top-k, PCA": (on_update(case, **size.refined(prior="pca")), server),
        "later, ranks": (RankProfileMatching(**size.refined(calibration=8)), management),
        "later, ranks, PCA": (RankProfileMatching(**size.refined(prior="pca")), management),
    }
    for key, (attack, seen) in rows.items():
        guesses, _ = attacked(attack, seen, case.knowledge, seed=seed)
        found |= image_samples(key, guesses, case)
    return found | rank_labels("later, ranks", management, case)


def several(world: World, seed: int) -> Samples:
    """Several records in one gradient, paired with the records by assignment and in naive order."""
    size = world.size
    found: Samples = {}
    for records, updates in size.batches:
        case = world.case(users=updates, per_user=records)
        server = view(case.transcript(), SERVER)
        attacks: dict[str, Attack] = {
            "batch": CosineInversion(**size.options(**SEVERAL)),
            "analytic, batch": AnalyticInversion(**size.options()),
        }
        for name, attack in attacks.items():
            key = f"{name} {records}"
            guesses, _ = attacked(attack, server, case.knowledge, seed=seed)
            found |= image_samples(key, guesses, case, per_record=True)
            found[f"{key}, naive order: PSNR"] = Sample("median", in_order(guesses, case))
        found[f"batch {records}: PSNR over naive order"] = minus(
            found[f"batch {records}: PSNR"], found[f"batch {records}, naive order: PSNR"]
        )
    return found


def in_order(guesses: Guesses, case: Case) -> dict[str, float]:
    """Return the PSNR of each record against the image that happens to have its number."""
    scores: dict[str, float] = {}
    for position, (user, value) in enumerate(zip(guesses.target_ids, guesses.values, strict=True)):
        records = case.records.images[case.of(position)]
        names = tuple(record_id(user, i) for i in range(case.per_user))
        truth = Truth({name: {"images": records[i : i + 1]} for i, name in enumerate(names)})
        alone = Guesses(names, tuple(np.asarray(value)), np.zeros(len(names)))
        scores |= psnr(alone, truth).per_target
    return scores


def deep_leakage(world: World, seed: int) -> Samples:
    """DLG on the sigmoid LeNet of its paper, at two kinds of initial parameters."""
    size = world.size
    spec = ModelSpec("lenet", world.spec.input_shape, world.spec.classes)
    usual = flatten_parameters(build(spec, seed=seed))
    wide = np.random.default_rng([seed, 4]).uniform(-0.5, 0.5, len(usual)).astype(np.float32)
    found: Samples = {}
    for key, parameters in {"wide": wide, "usual": usual}.items():
        case = world.case(users=size.deep_leakage, spec=spec, parameters=parameters)
        attack = DeepLeakage(**size.options(restarts=3))
        guesses, spent = attacked(
            attack, view(case.transcript(), SERVER), case.knowledge, seed=seed
        )
        decibels = psnr(guesses, case.truth()).per_target
        found[f"DLG, {key} parameters: above 30 dB"] = Sample(
            "proportion", {t: float(v > 30) for t, v in decibels.items()}
        )
        found[f"DLG, {key} parameters: CPU seconds an image"] = Sample(
            "mean", {f"seed-{seed}": spent / len(case.users)}, higher=False
        )
    return found


def controls(world: World, seed: int) -> Samples:
    """What must not work: ranks at random, another user's message, other parameters."""
    size = world.size
    case = world.case(users=size.users)
    rng = np.random.default_rng([seed, 5])
    dimension = len(case.parameters)
    random = np.stack([rng.permutation(dimension)[: case.k] for _ in case.users])
    other = flatten_parameters(build(case.spec, seed=seed + 10_000))
    plain = case.transcript()
    elsewhere = replace(case.knowledge, parameters=other)
    ranks = RankProfileMatching(**size.refined(calibration=8))
    part = on_update(case, **size.refined())
    whole = CosineInversion(**size.options(restarts=1))
    solved = AnalyticInversion(**size.options(layer_starts=1))
    server, management = view(plain, SERVER), view(plain, MS)
    nonsense = view(case.transcript(sequences=random), MS)

    def swapped(seen: View, attack: Attack) -> View:
        return deranged(seen, kinds=attack.reads, rng=np.random.default_rng([seed, 6]))

    rows: dict[str, tuple[Attack, View, Knowledge]] = {
        "random ranks": (ranks, nonsense, case.knowledge),
        "ranks of another": (ranks, swapped(management, ranks), case.knowledge),
        "ranks, other parameters": (ranks, management, elsewhere),
        "top-k of another": (part, swapped(server, part), case.knowledge),
        "top-k, other parameters": (part, server, elsewhere),
        "whole of another": (whole, swapped(server, whole), case.knowledge),
        "whole, other parameters": (whole, server, elsewhere),
        "analytic of another": (solved, swapped(server, solved), case.knowledge),
        "analytic, other parameters": (solved, server, elsewhere),
    }
    found: Samples = {}
    mean = image_samples(
        "", prior_images(case.users, case.truth(), case.auxiliary)["class mean"], case
    )
    for key, (attack, seen, knowledge) in rows.items():
        guesses, _ = attacked(attack, seen, knowledge, seed=seed)
        own = image_samples(key, guesses, case)
        own[f"{key}: PSNR over class mean"] = minus(own[f"{key}: PSNR"], mean[": PSNR"])
        found |= own
    found |= rank_labels("random ranks", nonsense, case)
    return found | rank_labels("ranks of another", rows["ranks of another"][1], case)
