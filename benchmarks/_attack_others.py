"""What the benchmark of the attacks measures of labels and coordinates; see _attack_measures.py."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from _attack_cases import AS, MS, RATE, Case, World, dataset, recorder_of, trained, view
from _attack_measures import Sample, Samples, attacked, minus
from blind_coordinates import record
from scipy.optimize import linear_sum_assignment

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference import (
    LabelsFromNoisedRemainder,
    LabelsFromPermutation,
    LabelsFromZeroSums,
)
from privaudit.attacks.inversion import BlindCoordinates
from privaudit.attacks.inversion._multisets import largest_remainder
from privaudit.datasets.base import LabelledImages
from privaudit.datasets.partition import partition
from privaudit.models import build, load_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.training import local_update
from privaudit.scoring.coordinates import coordinate_accuracy
from privaudit.scoring.labels import (
    dominant_label,
    label_accuracy,
    label_overlap,
    total_variation,
)
from privaudit.transcript import Array, Capability, Coalition, MemoryRecorder, Party

#: Budget of the noise, and what the clipping threshold is: the median norm of the remainders.
EPSILON0 = 1.0


def labels(world: World, seed: int) -> Samples:
    """Labels from permutation sequences alone, for one record and for many."""
    size = world.size
    found: Samples = {}
    for age, steps in {"": 0, "later, ": size.late_steps}.items():
        parameters = world.parameters(steps)
        for records in (1, 4, 16, 64):
            case = world.case(users=size.label_users, per_user=records, parameters=parameters)
            found |= label_samples(f"{age}labels, {records}", case, size.simulated_users)
    users, records, simulated = size.averaging
    for age, steps in {"": 0, "later, ": size.late_steps}.items():
        case = world.case(users=users, per_user=records, steps=steps, alpha=0.1, mode="fedavg")
        found |= label_samples(f"{age}labels, local training", case, simulated)
    return found


def label_samples(key: str, case: Case, simulated: int) -> Samples:
    seen = view(case.transcript(), MS)
    attack = LabelsFromPermutation(simulated_users=simulated, records=(case.per_user,))
    guesses, _ = attacked(attack, seen, case.knowledge, seed=0)
    prior = attack.baseline(seen, knowledge=case.knowledge, rng=np.random.default_rng(0))
    truth = case.truth()
    if case.per_user == 1:
        hits = label_accuracy(guesses, truth).per_target
        guessed = label_accuracy(prior, truth).per_target
        return {
            f"{key}: right": Sample("proportion", hits),
            f"{key}: right by the prior": Sample("proportion", guessed),
        }
    overlap = Sample("mean", label_overlap(guesses, truth).per_target)
    alone = Sample("mean", label_overlap(prior, truth).per_target)
    return {
        f"{key}: overlap": overlap,
        f"{key}: overlap by the prior": alone,
        f"{key}: overlap over the prior": minus(overlap, alone),
        f"{key}: exact": Sample("proportion", exact(guesses, case)),
        f"{key}: dominant": Sample("proportion", dominant_label(guesses, truth).per_target),
        f"{key}: distance": Sample("mean", total_variation(guesses, truth).per_target, False),
        f"{key}: distance by the prior": Sample(
            "mean", total_variation(prior, truth).per_target, False
        ),
    }


def exact(guesses: Guesses, case: Case) -> dict[str, float]:
    """Return 1 for users whose every label is right once shares are rounded to records."""
    truth = case.truth()
    return {
        user: float(
            np.array_equal(
                largest_remainder(np.asarray(value, np.float64), case.per_user),
                np.sort(truth.get(user, "labels")),
            )
        )
        for user, value in zip(guesses.target_ids, guesses.values, strict=True)
    }


def blind(world: World, seed: int) -> Samples:
    """The aggregation server alone: one federation a target, for users share one order."""
    size = world.size
    found: Samples = {}
    for number, alpha in enumerate(size.federations):
        _add(found, federation(world, seed * 100 + number, alpha, 0))
    for steps in (20, 100):
        for number in range(size.late_federations):
            _add(found, federation(world, seed * 100 + number, size.federations[0], steps))
    return found


def _add(found: Samples, more: Samples) -> None:
    for key, sample in more.items():
        before = found[key].values if key in found else {}
        found[key] = replace(sample, values={**before, **sample.values})


def federation(world: World, seed: int, alpha: float, steps: int) -> Samples:
    size = world.size
    users, records = size.federation
    data = partition(
        dataset(size.dataset, world.data_root),
        users=users,
        scheme="dirichlet",
        alpha=alpha,
        records_per_user=records if len(world.auxiliary) > 1000 else min(records, 32),
        test_records_per_user=4,
        auxiliary_records=len(world.auxiliary),
        rng=np.random.default_rng(seed),
    )
    pooled = LabelledImages(
        np.concatenate([c.train.images for c in data.clients]),
        np.concatenate([c.train.labels for c in data.clients]),
    )
    spec = world.spec
    initial = trained(spec, pooled, steps=0, seed=seed)
    parameters = trained(spec, pooled, steps=steps, seed=seed)
    recorder = MemoryRecorder()
    parties = [Party(c.party, "user") for c in data.clients]
    facts = set(Capability) - {Capability.SINGLE_RECORD_UPDATES}
    recorder.declare([*parties, Party(AS, "server")], facts=facts)
    configuration = {"learning_rate": RATE, "batch_size": records, "local_epochs": 1}
    recorder.publish("configuration", {**configuration, "update": "gradient"})
    recorder.publish("initial-parameters", initial)
    k = int(size.share * len(initial))
    record(recorder, data, initial, 1, k)
    if steps:
        record(recorder, data, parameters, 2, k)
    seen = recorder.transcript().view(Coalition.of(AS, capabilities=Capability))
    knowledge = Knowledge(spec, parameters, data.auxiliary)
    shares = np.stack(
        [np.bincount(c.train.labels, minlength=spec.classes) / len(c.train) for c in data.clients]
    )
    prior = np.bincount(data.auxiliary.labels, minlength=spec.classes) / len(data.auxiliary)
    key, target = f"blind, {steps} steps", f"federation-{seed}-{alpha:g}"
    found: Samples = {
        f"{key}: distance of labels by the prior": one(
            target, float(np.abs(prior - shares).sum(1).mean() / 2), higher=False
        )
    }
    for start in ("values", "first-round") if steps else ("values",):
        name = key if start == "values" else f"{key}, from the first round"
        attack = BlindCoordinates(
            round=2 if steps else 1,
            start=start,
            **dict(size.blind),
        )
        begun = time.process_time()
        placed = attack.place(seen, knowledge=knowledge, rng=np.random.default_rng([seed, 2]))
        spent = time.process_time() - begun
        right = coordinate_accuracy(attack.guesses(placed), recorder.truth()).per_target
        share = float(np.mean(list(right.values())))
        distance = float(np.abs(placed.histograms - shares).sum(1).mean() / 2)
        found |= {
            f"{name}: coordinates": one(target, share),
            f"{name}: at least 60 % placed": one(target, float(share >= 0.6), "proportion"),
            f"{name}: distance of labels": one(target, distance, higher=False),
            f"{name}: CPU seconds": one(target, spent, higher=False),
        }
    if not steps:
        unnamed, _ = attacked(LabelsFromZeroSums(), seen, knowledge, seed=seed)
        agreement = best_correlation(np.stack(unnamed.values), shares)
        found[f"{key}: correlation of unnamed labels"] = one(target, agreement)
        found[f"{key}: correlation at least 0.98"] = one(
            target, float(agreement >= 0.98), "proportion"
        )
    return found


def one(target: str, value: float, statistic: Any = "mean", *, higher: bool = True) -> Sample:
    return Sample(statistic, {target: value}, higher)


def best_correlation(guessed: npt.NDArray[np.float64], shares: npt.NDArray[np.float64]) -> float:
    """Return the mean correlation of classes over users under the best naming of the classes."""
    classes = guessed.shape[1]
    table = np.zeros((classes, classes))
    for i in range(classes):
        for j in range(classes):
            if guessed[:, i].std() > 0 and shares[:, j].std() > 0:
                table[i, j] = np.corrcoef(guessed[:, i], shares[:, j])[0, 1]
    rows, columns = linear_sum_assignment(-table)
    # A class that nobody holds has no correlation.
    held = shares[:, columns].std(0) > 0
    return float(table[rows, columns][held].mean())


def noise(world: World, seed: int) -> Samples:
    """Labels from noised remainders, idealised: the same parameters and gradient every round."""
    size = world.size
    spec = ModelSpec(size.noise_model, world.spec.input_shape, world.spec.classes)
    parameters = trained(spec, world.others, steps=0, seed=seed)
    rng = np.random.default_rng([seed, 8])
    users = tuple(f"seed-{seed}-user-{i + 1}" for i in range(size.users))
    classes = rng.permutation(np.resize(np.arange(spec.classes), size.users))
    records = size.federation[1]
    model = build(spec, seed=0)
    load_parameters(model, parameters)
    gradients = []
    for label in classes:
        own = rng.choice(np.flatnonzero(world.targets.labels == label), records)
        gradients.append(
            local_update(
                model,
                world.targets.images[own],
                world.targets.labels[own],
                parameters=parameters,
                learning_rate=RATE,
                batch_size=records,
                epochs=1,
                mode="gradient",
                rng=rng,
            )
        )
    updates = np.stack(gradients)
    k = max(1, int(size.share * updates.shape[1]))
    order = np.argsort(-np.abs(updates).sum(0), kind="stable")[:k]
    rest = updates[:, np.setdiff1d(np.arange(updates.shape[1]), order)]
    norms = np.linalg.norm(rest, axis=1, keepdims=True)
    threshold = float(np.median(norms))
    clipped = rest * np.minimum(1, threshold / norms)
    training = {
        "learning_rate": RATE,
        "batch_size": records,
        "local_epochs": 1,
        "update": "gradient",
        "epsilon0": EPSILON0,
    }
    recorder = recorder_of(users, single=False, training=training)
    recorder.publish("initial-parameters", parameters)
    for t in range(1, max(size.noise_rounds) + 1):
        for user, values in zip(users, clipped, strict=True):
            noised = values + rng.laplace(scale=2 * threshold / EPSILON0, size=len(values))
            recorder.send(
                kind=kinds.NOISED_REMAINDER,
                round=t,
                sender=user,
                receiver=MS,
                arrays={"values": noised.astype(np.float32)},
            )
        told: dict[str, dict[str, Array]] = {
            kinds.GLOBAL_PERMUTATION: {"indices": order},
            kinds.CLIPPING_THRESHOLD: {"threshold": np.asarray(threshold)},
        }
        for kind, arrays in told.items():
            recorder.send(kind=kind, round=t, sender=MS, receiver=users[0], arrays=arrays)
    for user, label in zip(users, classes, strict=True):
        recorder.note_truth(user, labels=np.full(records, label, np.int64))
    seen = view(recorder.transcript(), MS)
    knowledge = Knowledge(spec, parameters, world.auxiliary)
    found: Samples = {}
    for rounds in size.noise_rounds:
        for name in ("laplace", "linear"):
            attack = LabelsFromNoisedRemainder(
                filter=name,
                rounds=rounds,
                records=records,
                simulated_users=2,
            )
            guesses, _ = attacked(attack, seen, knowledge, seed=seed)
            hits = dominant_label(guesses, recorder.truth()).per_target
            found[f"noise, {rounds} rounds, {name}: labels"] = Sample("proportion", hits)
    return found
