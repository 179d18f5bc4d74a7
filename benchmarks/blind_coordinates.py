"""Does the aggregation server of PA-CFL find the coordinates of its values without pi^g?

    python benchmarks/blind_coordinates.py [--data digits] [--seeds N] [--steps 0,20]
                                           [--rounds 1,2,5] [--json]

Each federation: users with Dirichlet(alpha) label skew, one gradient a user at parameters that
were trained for some steps of SGD (rate 0.1, batches of 64) on the users' pooled records. The
attack starts from the values of that round alone, from those of several rounds, each some steps
later than the one before (pi^g is another in every round, users' records are not), and from the
label shares found in a first round at the initial parameters. Coordinates: share placed exactly,
beside placing by rank (prior), and the deranged control, which scores the values of other users.
Labels: total variation distance to the true shares, beside the prior.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.inversion.blind import BlindCoordinates, Placement
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.models import build, default_model, flatten_parameters, load_parameters
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.sequences import global_permutation, permutation_sequence
from privaudit.protocols.training import accuracy, local_update
from privaudit.scoring.coordinates import coordinate_accuracy
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party, View

AS = kinds.AGGREGATION_SERVER
RATE, BATCH = 0.1, 64

#: Steps of SGD between rounds that are combined.
GAP = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One federation: accuracies of coordinates, distances of labels, CPU seconds."""

    data: str
    alpha: float
    seed: int
    steps: int
    model_accuracy: float
    start: str
    coordinates: float
    by_rank: float
    control: float
    distance: float
    prior_distance: float
    confidence: float
    cpu_seconds: float


def trained(data: FederatedData, steps: int, seed: int) -> np.ndarray:
    import torch

    model = build(default_model(data.image_shape, data.classes), seed=seed)
    rng = np.random.default_rng([seed, 1])
    images = torch.from_numpy(np.concatenate([c.train.images for c in data.clients]))
    labels = torch.from_numpy(np.concatenate([c.train.labels for c in data.clients]))
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(steps):
        batch = torch.from_numpy(rng.choice(len(labels), BATCH))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimiser.step()
    return flatten_parameters(model)


def record(
    recorder: MemoryRecorder, data: FederatedData, parameters: np.ndarray, t: int, k: int
) -> None:
    model = build(default_model(data.image_shape, data.classes), seed=0)
    load_parameters(model, parameters)
    updates = [
        local_update(
            model,
            client.train.images,
            client.train.labels,
            parameters=parameters,
            learning_rate=RATE,
            batch_size=BATCH,
            epochs=1,
            mode="gradient",
            rng=np.random.default_rng(0),
        )
        for client in data.clients
    ]
    sequences = np.stack([permutation_sequence(u, k=k) for u in updates])
    order = global_permutation(sequences, dimension=len(parameters), k=k)
    for client, update in zip(data.clients, updates, strict=True):
        sent: dict[str, dict[str, np.ndarray]] = {
            kinds.IMPORTANT_VALUES: {"values": update[order]},
            kinds.DATASET_SIZE: {"records": np.asarray(len(client.train), np.int64)},
        }
        for kind, arrays in sent.items():
            recorder.send(kind=kind, round=t, sender=client.party, receiver=AS, arrays=arrays)
        recorder.note_truth(f"{client.party}/round-{t}", update=update)


def combined(
    attack: BlindCoordinates,
    view: View,
    knowledge: Knowledge,
    parameters: Sequence[np.ndarray],
    chain: list[Placement],
    rng: np.random.Generator,
) -> Placement:
    """Place the attack's round, after those that follow it; ``chain`` keeps what was placed."""
    first = attack.round or 1
    for t in range(first + len(chain), first + len(parameters)):
        known = replace(knowledge, parameters=parameters[t - first])
        own = replace(attack, round=t)
        chain.append(own.place(view, knowledge=known, rng=rng, others=chain))
    if len(chain) == 1:
        return chain[0]
    again = replace(attack, start="other-rounds")
    return again.place(view, knowledge=knowledge, rng=rng, others=chain)


def mean(guesses: Guesses, recorder: MemoryRecorder) -> float:
    return float(np.mean(list(coordinate_accuracy(guesses, recorder.truth()).per_target.values())))


def rows(options: argparse.Namespace, seed: int) -> Iterator[Row]:
    small = options.data.startswith("digits")
    data = partition(
        load_dataset(options.data, data_root=options.data_root),
        users=options.users,
        scheme="dirichlet",
        alpha=options.alpha,
        records_per_user=32 if small else 64,
        test_records_per_user=4,
        auxiliary_records=600 if small else 2000,
        rng=np.random.default_rng(seed),
    )
    spec = default_model(data.image_shape, data.classes)
    model = build(spec, seed=seed)
    share = 0.05 if options.data == "digits" else 0.0025
    shares = np.stack(
        [np.bincount(c.train.labels, minlength=10) / len(c.train) for c in data.clients]
    )
    auxiliary = data.auxiliary
    prior = np.bincount(auxiliary.labels, minlength=10) / len(auxiliary)
    for steps in options.steps:
        initial, parameters = trained(data, 0, seed), trained(data, steps, seed)
        recorder = MemoryRecorder()
        users = [Party(c.party, "user") for c in data.clients]
        facts = set(Capability) - {Capability.SINGLE_RECORD_UPDATES}
        recorder.declare([*users, Party(AS, "server")], facts=facts)
        configuration = {"learning_rate": RATE, "batch_size": BATCH, "local_epochs": 1}
        recorder.publish("configuration", {**configuration, "update": "gradient"})
        recorder.publish("initial-parameters", initial)
        k = int(share * len(initial))
        record(recorder, data, initial, 1, k)
        later = [trained(data, steps + GAP * i, seed) for i in range(max(options.rounds))]
        for i, own in enumerate(later if steps else []):
            record(recorder, data, own, 2 + i, k)
        view = recorder.transcript().view(Coalition.of(AS, capabilities=Capability))
        knowledge = Knowledge(spec, parameters, auxiliary)
        correct = accuracy(
            model,
            auxiliary.images,
            auxiliary.labels,
            parameters=parameters,
            calibration=auxiliary.images,
        )
        attack = BlindCoordinates(round=2 if steps else 1, generations=4)
        chain = list[Placement]()
        for start in (*options.rounds, "first-round") if steps else (1,):
            begun = time.process_time()
            rng = np.random.default_rng([seed, 2])
            if start == "first-round":
                first = replace(attack, start="first-round")
                placed = first.place(view, knowledge=knowledge, rng=rng)
            else:
                placed = combined(attack, view, knowledge, later[:start], chain, rng)
            spent = time.process_time() - begun
            guesses = attack.guesses(placed)
            others = deranged(view, kinds=attack.reads, rng=np.random.default_rng([seed, 3]))
            # The order of the columns is that of all users: values of another, same coordinates.
            swapped = {
                m.sender: m.arrays["values"]
                for m in others.select(kinds.IMPORTANT_VALUES, round=placed.round)
            }
            control = replace(placed, values=np.stack([swapped[u] for u in placed.users]))
            baseline = attack.baseline(view, knowledge=knowledge, rng=rng)
            yield Row(
                data=options.data,
                alpha=options.alpha,
                seed=seed,
                steps=steps,
                model_accuracy=correct,
                start=start if start == "first-round" else f"{start} round{'s' * (start > 1)}",
                coordinates=mean(guesses, recorder),
                by_rank=mean(baseline, recorder),
                control=mean(attack.guesses(control), recorder),
                distance=float(np.abs(placed.histograms - shares).sum(1).mean() / 2),
                prior_distance=float(np.abs(prior - shares).sum(1).mean() / 2),
                confidence=float(placed.confidence.mean()),
                cpu_seconds=spent,
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=51)
    parser.add_argument("--steps", default="0,20")
    parser.add_argument("--rounds", default="1", help="rounds that are combined, ascending")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON at the end")
    options = parser.parse_args(arguments)
    options.steps = [int(step) for step in options.steps.split(",")]
    options.rounds = [int(count) for count in options.rounds.split(",")]
    print(
        "data   alpha seed steps model | start        coord.  rank control |  TVD prior conf.  CPU"
    )
    found = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for r in rows(options, seed):
            found.append(r)
            print(
                f"{r.data:<7}{r.alpha:5.2f} {r.seed:4d} {r.steps:5d} {r.model_accuracy:5.2f} | "
                f"{r.start:<12} {r.coordinates:6.3f} {r.by_rank:5.3f} {r.control:7.3f} | "
                f"{r.distance:4.2f} {r.prior_distance:5.2f} {r.confidence:5.2f} "
                f"{r.cpu_seconds:4.0f}",
                flush=True,
            )
    if options.json:
        print(json.dumps([asdict(row) for row in found]))


if __name__ == "__main__":
    main()
