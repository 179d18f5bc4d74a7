"""What do attacks on updates gain, undefended, in PA-CFL, and under DP-SGD?

    python benchmarks/defences.py [--seeds N] [--rounds N] [--json]

One federation of digits, 10 users of 60 records, Dirichlet 0.5, one hidden layer of 64. Learning
rates are those of a few tried that gave each defence its best accuracy after 8 rounds, or FedAvg
about that of the defended, so that utility is about equal wherever a defence reaches it. FedAvg;
DP-FedAvg at some noise multipliers; PA-CFL at some epsilon0, seen by the aggregation server with a
user (AS + user: important values in place) and by the management server (MS: noised remainders).
For each: accuracy of the users after the last round; epsilon over all rounds against the server,
of one record for DP-SGD and of all of a user's records for user-level DP; none in PA-CFL, whose
users send values or their order in the clear; membership (AUC, and members found at 10 % false
alarms), labels (dominant label, overlap), a property (share of labels 0 to 4: error), linking of
the last round; each with what the prior alone gives and with the control (payloads deranged among
senders). Figures are means over all targets of all seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privaudit import plugins
from privaudit.accounting import OutOfDomainError, compose_releases
from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.attacks.control import deranged, linking_truth, pseudonymise
from privaudit.attacks.inference import (
    LabelsFromNoisedRemainder,
    PropertyInference,
    UpdateMembership,
)
from privaudit.attacks.reidentification import GradientLinking
from privaudit.campaigns.membership import membership_experiment
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition
from privaudit.errors import UnmetRequirementsError
from privaudit.models import ModelSpec
from privaudit.protocols.baselines import kinds as fedavg
from privaudit.protocols.pa_cfl import kinds as pa_cfl
from privaudit.scoring.estimate import Scores, compare
from privaudit.scoring.labels import dominant_label, label_overlap
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.membership import auc_scores, hit_scores
from privaudit.scoring.properties import share_error
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Transcript, Truth

DELTA = 1e-3
USERS, RECORDS, AUXILIARY = 10, 60, 500
GROUP = (0, 1, 2, 3, 4)
Scorer = Callable[[Guesses, Truth], Scores]


@dataclass(frozen=True, slots=True)
class Defence:
    """A protocol, its parameters, and who attacks."""

    name: str
    protocol: str
    parameters: dict[str, Any]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run with all that attacks and scores need."""

    transcript: Transcript
    truth: Truth
    knowledge: Knowledge
    accuracy: float
    epsilon: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one attack under one defence."""

    defence: str
    accuracy: float
    epsilon: float | None
    unit: str
    attack: str
    metric: str
    n: int
    value: float
    low: float
    high: float
    baseline: float
    control: float | None
    why: str = ""


def defences() -> tuple[Defence, ...]:
    """Return the rows of the table."""
    server = (fedavg.SERVER,)
    none = Defence("none (FedAvg)", "fedavg", {"learning_rate": 0.2}, server)
    private = [
        Defence(
            f"DP-SGD, noise {m:g}",
            "dp-fedavg",
            {"noise_multiplier": m, "learning_rate": 1.0},
            server,
        )
        for m in (0.5, 1.0, 4.0)
    ]
    # About the epsilon of DP-SGD with noise 4, for all of a user's records instead of one.
    user = Defence(
        "user-level DP, noise 4.5",
        "dp-fedavg",
        {"noise_multiplier": 4.5, "privacy_level": "user", "learning_rate": 0.5},
        server,
    )
    clusters = [
        Defence(
            f"PA-CFL, eps0 {e:g}, {who}",
            "pa-cfl",
            {"epsilon0": e, "learning_rate": rate},
            members,
        )
        for e, rate in ((1.0, 0.05), (10.0, 0.2))
        for who, members in (
            ("AS + user", (pa_cfl.AGGREGATION_SERVER, "user-1")),
            ("MS", (pa_cfl.MANAGEMENT_SERVER,)),
        )
    ]
    return (none, *private, user, *clusters)


def federation(seed: int) -> FederatedData:
    return partition(
        load_dataset("digits"),
        users=USERS,
        scheme="dirichlet",
        alpha=0.5,
        records_per_user=RECORDS,
        auxiliary_records=AUXILIARY,
        rng=np.random.default_rng([seed, 1]),
    )


def run(defence: Defence, *, rounds: int, seed: int) -> Run:
    """Train, and account."""
    data = federation(seed)
    kind = plugins.load("protocol", defence.protocol)
    shared: dict[str, Any] = {"model": "mlp", "rounds": rounds}
    if defence.protocol == "pa-cfl":
        shared |= {"similarity": "jaccard", "top_k_fraction": 0.01}
    protocol = kind(kind.Config(**shared, **defence.parameters))
    recorder = MemoryRecorder()
    outcome = protocol.run(data, rng=np.random.default_rng([seed, 2]), recorder=recorder)
    transcript = recorder.transcript()
    initial = transcript.public_arrays["initial-parameters"]
    spec = ModelSpec("mlp", data.image_shape, data.classes)
    accuracy = outcome.metrics[-1].values["accuracy"] if outcome.metrics else float("nan")
    epsilon, unit = budget(protocol, transcript, defence)
    known = Knowledge(spec, initial, data.auxiliary)
    return Run(transcript, recorder.truth(), known, accuracy, epsilon, unit)


def budget(protocol: Any, transcript: Transcript, defence: Defence) -> tuple[float | None, str]:
    """Return the largest epsilon of a user against the attacker, or None, and its unit."""
    if defence.protocol == "pa-cfl":
        # Important values, and sequences, leave without noise.
        return None, "values or their order in the clear"
    if defence.protocol == "fedavg":
        return None, "in the clear"
    worst, unit = 0.0, ""
    events = protocol.events(transcript)
    for user in transcript.ids("user"):
        own = [e for e in events if user in e.subjects]
        unit = own[0].unit.removesuffix(" in one round")
        releases = Counter(e.mechanism for e in own)
        try:
            spent = compose_releases(releases, DELTA, relation=own[0].relation)
        except OutOfDomainError:
            return float("inf"), unit
        brackets = (spent.pure, spent.loss_distribution, spent.renyi)
        found = [b.upper for b in brackets if b is not None and b.upper is not None]
        if not found:
            return float("inf"), unit
        worst = max(worst, min(found))
    return worst, unit


def measured(
    attack: Attack,
    run: Run,
    defence: Defence,
    scorers: Sequence[Scorer],
    *,
    seed: int,
    transcript: Transcript | None = None,
    truth: Truth | None = None,
    knowledge: Knowledge | None = None,
    targets: frozenset[str] | None = None,
) -> list[tuple[Scores, Scores, Scores]]:
    """Score attack, prior and control."""
    seen = run.transcript if transcript is None else transcript
    known = run.knowledge if knowledge is None else knowledge
    view = seen.view(Coalition.of(*defence.members, capabilities=Capability))
    streams = np.random.default_rng([seed, 3]).spawn(4)
    guesses = attack.run(view, knowledge=known, rng=streams[0])
    prior = attack.baseline(view, knowledge=known, rng=streams[1])
    swapped = deranged(view, kinds=attack.reads, rng=streams[2])
    control = attack.run(swapped, knowledge=known, rng=streams[3])
    real = run.truth if truth is None else truth
    every = [[s(g, real) for g in (guesses, prior, control)] for s in scorers]
    if targets is not None:
        every = [[_only(score, targets) for score in three] for three in every]
    return [(own, before, other) for own, before, other in every]


def _only(scores: Scores, targets: frozenset[str]) -> Scores:
    kept = {t: v for t, v in scores.per_target.items() if t in targets}
    return replace(scores, per_target=kept)


def membership(run: Run, defence: Defence, seed: int) -> Any:
    users = tuple(u for u in run.transcript.ids("user") if u not in defence.members)
    knowledge, truth = membership_experiment(
        run.knowledge, run.truth, users, candidates=16, seed=seed
    )
    scorers = (auc_scores, partial(hit_scores, false_positives=0.1))
    return measured(
        UpdateMembership(), run, defence, scorers, seed=seed, truth=truth, knowledge=knowledge
    )


def labels(run: Run, defence: Defence, seed: int) -> Any:
    attack = LabelsFromNoisedRemainder(simulated_users=2)
    return measured(attack, run, defence, (dominant_label, label_overlap), seed=seed)


def shares(run: Run, defence: Defence, seed: int) -> Any:
    attack = PropertyInference(classes=GROUP, simulated_users=60)
    assert run.knowledge.auxiliary is not None
    score = partial(share_error, attribute=attack.attribute(run.knowledge.auxiliary))
    return measured(attack, run, defence, (score,), seed=seed)


def links(run: Run, defence: Defence, seed: int) -> Any:
    members = set(defence.members)
    kinds = (fedavg.UPDATE, pa_cfl.NOISED_REMAINDER, pa_cfl.IMPORTANT_VALUES)
    seen = {m.kind for m in run.transcript.messages if members & {m.sender, m.receiver}}
    kind = next(
        k for k in kinds if k in seen and (k != pa_cfl.NOISED_REMAINDER or "user-1" not in members)
    )
    last = max(m.round or 0 for m in run.transcript.messages if m.kind == kind)
    rng = np.random.default_rng([seed, 4])
    hidden, users = pseudonymise(run.transcript, kind=kind, round=last, rng=rng)
    truth = linking_truth(run.transcript, users)
    # A colluding user knows its own pseudonym.
    others = frozenset(p for p, user in users.items() if user not in members)
    return measured(
        GradientLinking(),
        run,
        defence,
        (link_accuracy,),
        seed=seed,
        transcript=hidden,
        truth=truth,
        targets=others,
    )


ATTACKS: dict[str, Callable[[Run, Defence, int], Any]] = {
    "membership": membership,
    "labels from noise": labels,
    "property": shares,
    "gradient linking": links,
}


def pooled(parts: Sequence[Scores]) -> Scores:
    """Join the scores of several seeds."""
    together = {f"{i}/{t}": v for i, part in enumerate(parts) for t, v in part.per_target.items()}
    return replace(parts[0], per_target=together)


def rows(seeds: int, rounds: int) -> Iterator[Row]:
    for defence in defences():
        runs = [run(defence, rounds=rounds, seed=seed) for seed in range(seeds)]
        accuracy = float(np.mean([r.accuracy for r in runs]))
        epsilons = [r.epsilon for r in runs if r.epsilon is not None]
        head = (defence.name, accuracy, max(epsilons) if epsilons else None, runs[0].unit)
        for name, attack in ATTACKS.items():
            try:
                found = [attack(r, defence, seed) for seed, r in enumerate(runs)]
            except UnmetRequirementsError as error:
                nothing = float("nan")
                yield Row(*head, name, "", 0, *(nothing,) * 4, None, f"not applicable: {error}")
                continue
            for place in range(len(found[0])):
                own, prior, control = (pooled([f[place][i] for f in found]) for i in range(3))
                figure = compare(own, baseline=prior, control=control, confidence=0.95)
                assert figure.baseline is not None
                yield Row(
                    *head,
                    name,
                    figure.metric,
                    figure.n,
                    figure.value,
                    figure.low,
                    figure.high,
                    figure.baseline.value,
                    None if figure.control is None else figure.control.value,
                )


def show(found: Sequence[Row], seconds: float) -> None:
    print(f"epsilon at delta = {DELTA:g}; value [95 %] / prior / control\n")
    defence = ""
    for row in found:
        if row.defence != defence:
            defence = row.defence
            spent = "none" if row.epsilon is None else f"{row.epsilon:.3g}"
            print(f"{defence}: accuracy {row.accuracy:.2f}, epsilon {spent} ({row.unit})")
        if row.why:
            print(f"    {row.attack:<18} {row.why.split(':')[0]}")
            continue
        figures = f"{row.value:.2f} [{row.low:.2f}, {row.high:.2f}] / {row.baseline:.2f} / "
        figures += "-" if row.control is None else f"{row.control:.2f}"
        print(f"    {row.attack:<18} {row.metric:<38} n = {row.n:<5} {figures}")
    print(f"\n{seconds:.0f} CPU seconds")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    started = time.process_time()
    found = list(rows(options.seeds, options.rounds))
    spent = time.process_time() - started
    if options.json:
        plain = [
            {k: v if v == v and v != float("inf") else None for k, v in asdict(r).items()}
            for r in found
        ]
        print(json.dumps({"rows": plain, "cpu_seconds": spent}, indent=1))
    else:
        show(found, spent)


if __name__ == "__main__":
    main()
