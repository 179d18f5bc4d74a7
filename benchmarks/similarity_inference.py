"""What do similarities, class counts and lone models say of clients' labels and models?

    python benchmarks/similarity_inference.py [--seeds N] [--json]

DisUE with 20 clients, all in every round. Labels: from the class counts that cross the wire; from
similarities to injected models of single classes (an active adversary); from a model in the clear,
as that of a client alone in its cluster. Each beside the prior (the label histogram of the
auxiliary records) and the control (payloads deranged among their senders). Vectors: from the
cosines to k colluding clients or to the ten injected models, beside the baseline, what all have in
common. Figures are means over all clients of all seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from _similarity_runs import Federation, Setting, train

from privaudit.attacks.base import Attack, Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.inference import (
    INJECTED_ROLE,
    LabelsFromCounts,
    LabelsFromLoneModel,
    LabelsFromSimilarity,
    inject_probes,
)
from privaudit.attacks.reconstruction import SimilarityReconstruction
from privaudit.models import ModelSpec
from privaudit.protocols.disue import kinds
from privaudit.scoring.labels import dominant_label, total_variation
from privaudit.scoring.vectors import cosine_beyond, vector_cosine
from privaudit.transcript import Capability, Coalition, Transcript, View

Measure = Literal["params", "delta"]

ALPHAS: dict[str, float | None] = {"0.01": 0.01, "0.1": 0.1, "0.5": 0.5, "IID": None}
MEASURES: tuple[Measure, ...] = ("params", "delta")
ROUNDS = (1, 5, 10)
COLLUDERS = (1, 4, 9, 19)
VECTOR_ROUND = 5


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Rates of the dominant label and total variations, of attack, prior and control."""

    alpha: str
    source: str
    round: int
    clients: int
    dominant: tuple[float, float, float]
    variation: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class VectorRow:
    """Cosines to the clients' vectors; ``beyond`` without what all clients have in common."""

    alpha: str
    similarity_on: str
    known: str
    clients: int
    baseline: float
    span: float
    nearest: float
    beyond_span: float
    beyond_nearest: float


@cache
def run(alpha: str, measure: Measure, seed: int) -> Federation:
    return train(Setting(ALPHAS[alpha], similarity_on=measure), seed=seed)


def knowledge(federation: Federation) -> Knowledge:
    data = federation.data
    return Knowledge(ModelSpec("mlp", data.image_shape, data.classes), None, data.auxiliary)


def coalition(*members: str) -> Coalition:
    return Coalition.of(kinds.SERVER, *members, capabilities=Capability)


def probed(federation: Federation, t: int, seed: int) -> Transcript:
    return inject_probes(
        federation.transcript,
        round=t,
        vectors={
            client.party: federation.truth.get(f"{client.party}/round-{t}", "vector")
            for client in federation.data.clients
        },
        knowledge=knowledge(federation),
        rng=np.random.default_rng([seed, 4]),
    )


def scores(
    attack: Attack, view: View, federation: Federation, seed: int
) -> dict[str, tuple[list[float], list[float]]]:
    known = knowledge(federation)
    streams = np.random.default_rng([seed, 5]).spawn(4)
    control = deranged(view, kinds=attack.reads, rng=streams[3])
    guesses = {
        "attack": attack.run(view, knowledge=known, rng=streams[0]),
        "prior": attack.baseline(view, knowledge=known, rng=streams[1]),
        "control": attack.run(control, knowledge=known, rng=streams[2]),
    }
    return {
        name: (
            list(dominant_label(g, federation.truth).per_target.values()),
            list(total_variation(g, federation.truth).per_target.values()),
        )
        for name, g in guesses.items()
    }


def labels(seeds: int) -> Iterator[LabelRow]:
    for alpha in ALPHAS:
        for t in ROUNDS:
            for source in ("counts", "lone model", "probes, params", "probes, delta"):
                pooled: dict[str, tuple[list[float], list[float]]] = {}
                for seed in range(seeds):
                    federation = run(alpha, "delta" if "delta" in source else "params", seed)
                    view = federation.transcript.view(coalition())
                    attack: Attack = LabelsFromCounts(round=t)
                    if source == "lone model":
                        attack = LabelsFromLoneModel(round=t)
                    elif source != "counts":
                        treated = probed(federation, t, seed)
                        attack = LabelsFromSimilarity(round=t)
                        view = treated.view(coalition(*treated.ids(INJECTED_ROLE)))
                    for name, found in scores(attack, view, federation, seed).items():
                        own = pooled.setdefault(name, ([], []))
                        for mine, more in zip(own, found, strict=True):
                            mine.extend(more)
                means = [
                    tuple(float(np.mean(pooled[name][part])) for name in pooled) for part in (0, 1)
                ]
                clients = len(pooled["attack"][0])
                yield LabelRow(alpha, source, t, clients, means[0], means[1])  # type: ignore[arg-type]


def vectors(seeds: int) -> Iterator[VectorRow]:
    for alpha in ALPHAS:
        for measure in MEASURES:
            for known in (*COLLUDERS, "10 probes"):
                pooled: list[list[float]] = [[] for _ in range(5)]
                for seed in range(seeds):
                    federation = run(alpha, measure, seed)
                    transcript = federation.transcript
                    members = transcript.ids("user")[: known if isinstance(known, int) else 0]
                    if not isinstance(known, int):
                        transcript = probed(federation, VECTOR_ROUND, seed)
                        members = transcript.ids(INJECTED_ROLE)
                    view = transcript.view(coalition(*members))
                    span = SimilarityReconstruction(round=VECTOR_ROUND)
                    nearest = replace(span, estimate="nearest")
                    prior, *found = (
                        method(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
                        for method in (span.baseline, span.run, nearest.run)
                    )
                    beyond = cosine_beyond(prior.values[0])
                    results = [
                        *(vector_cosine(g, federation.truth) for g in (prior, *found)),
                        *(beyond(g, federation.truth) for g in found),
                    ]
                    for values, result in zip(pooled, results, strict=True):
                        values.extend(result.per_target.values())
                name = known if isinstance(known, str) else f"{known} client{'s' * (known > 1)}"
                means = [float(np.mean(values)) for values in pooled]
                yield VectorRow(alpha, measure, name, len(pooled[0]), *means)


def show(of_labels: Sequence[LabelRow], of_vectors: Sequence[VectorRow]) -> None:
    print("labels: attack / prior / control")
    print(f"{'alpha':<6} {'from':<15} round  clients  dominant label      total variation")
    for row in of_labels:
        parts = (" / ".join(f"{v:.2f}" for v in part) for part in (row.dominant, row.variation))
        place = f"{row.alpha:<6} {row.source:<15} {row.round:>5}  {row.clients:>7}"
        print(place, *parts, sep="  ")
    print(f"\nvectors, round {VECTOR_ROUND}: cosine to the client's vector; beyond the baseline")
    print(f"{'alpha':<6} {'of':<7} {'known':<11} baseline  span  nearest | beyond: span  nearest")
    for one in of_vectors:
        print(
            f"{one.alpha:<6} {one.similarity_on:<7} {one.known:<11} {one.baseline:8.3f} "
            f"{one.span:5.3f}  {one.nearest:7.3f} | {one.beyond_span:12.2f} "
            f"{one.beyond_nearest:8.2f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    of_labels, of_vectors = list(labels(options.seeds)), list(vectors(options.seeds))
    if options.json:
        rows = {
            "labels": [asdict(row) for row in of_labels],
            "vectors": [asdict(row) for row in of_vectors],
        }
        print(json.dumps(rows, indent=1))
    else:
        show(of_labels, of_vectors)


if __name__ == "__main__":
    main()
