"""Does DisUE's similarity matrix tell who is who?

    python benchmarks/similarity_linking.py [--seeds N] [--distillation paper] [--json]

Clients of one round are given pseudonyms, and the attack matches them to the clients of another
round by the similarity matrices alone: sorted rows, quadratic assignment, or five known clients
(which are not counted). The control takes the pseudonymous round from another federation. Three
tables: all of 20 clients in every round; defences; clients sampled anew in every round. Each
figure is the median over seeds, with the least and the greatest; chance is one over the clients
that the attack can name.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from _similarity_runs import Federation, Matrix, Setting, cosines, record, train

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import linking_truth
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.attacks.reidentification import SimilarityLinking
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.defences import co_membership, noised, rounded
from privaudit.scoring.estimate import Scores
from privaudit.scoring.linking import link_accuracy, presence_accuracy, recognition
from privaudit.transcript import Coalition, Transcript, Truth

ALPHAS: Mapping[str, float | None] = {"0.01": 0.01, "0.1": 0.1, "0.5": 0.5, "IID": None}
MEASURES = ("params", "delta")
GALLERY = 5
LAGS = (1, 5)
ANCHORS = 5
#: Rounds of runs with sampled clients; each of the last is attacked with all before it known.
LONG, ATTACKED = 60, 2

Defence = Callable[[Matrix, np.random.Generator], Matrix]
DEFENCES: Mapping[str, Defence] = {
    "none": lambda s, _: s,
    "3 decimals": lambda s, _: rounded(s, decimals=3),
    "2 decimals": lambda s, _: rounded(s, decimals=2),
    "1 decimal": lambda s, _: rounded(s, decimals=1),
    "noise 0.1 sd": lambda s, rng: noised(s, deviations=0.1, rng=rng),
    "noise 0.3 sd": lambda s, rng: noised(s, deviations=0.3, rng=rng),
    "noise 0.5 sd": lambda s, rng: noised(s, deviations=0.5, rng=rng),
    "noise 1 sd": lambda s, rng: noised(s, deviations=1.0, rng=rng),
    "labels only": lambda s, rng: co_membership(s, seed=int(rng.integers(2**31))),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: ``values`` has one rate a seed, each over ``targets`` pseudonyms or fewer."""

    table: str
    setting: str
    method: str
    chance: float
    targets: int
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A treated run: what is known, what is hidden, and who is who."""

    transcript: Transcript
    truth: Truth
    users: Mapping[str, str]
    present: frozenset[str]


def task(
    matrices: Sequence[Matrix], clients: Sequence[np.ndarray], *, users: int, seed: int
) -> Task:
    """Hide the clients of the last of several rounds."""
    names = [f"user-{i + 1}" for i in range(users)]
    run = record(matrices, clients, names)
    rng = np.random.default_rng([seed, 1])
    hidden, behind = pseudonymise_round(
        run, round=len(matrices), kinds=(kinds.SIMILARITY_VALUES,), rng=rng
    )
    known = frozenset(names[i] for present in clients[:-1] for i in present)
    return Task(hidden, linking_truth(run, behind, gallery=known), behind, known)


def attack(
    work: Task, *, seed: int, method: str, history: bool = False, open_set: bool = False
) -> tuple[Guesses, Guesses]:
    """Return what attack and baseline guess."""
    anchors: tuple[tuple[str, str], ...] = ()
    if method == "anchors":
        both = [(p, u) for p, u in work.users.items() if u in work.present]
        anchors = tuple(both[:ANCHORS])
    linking = SimilarityLinking(
        method=method,  # type: ignore[arg-type]
        history=history,
        anchors=anchors,
        open_set=open_set,
    )
    view = work.transcript.view(Coalition.of(kinds.SERVER))
    run, guess = (
        f(view, knowledge=Knowledge(), rng=np.random.default_rng([seed, 2]))
        for f in (linking.run, linking.baseline)
    )
    return run, guess


def rate(scores: Scores) -> float:
    return float(np.mean(list(scores.per_target.values())))


def full_participation(runs: Mapping[str, Sequence[Federation]]) -> Iterator[Row]:
    for alpha, federations in runs.items():
        for measure in MEASURES:
            for lag in LAGS:
                found: dict[str, list[float]] = defaultdict(list)
                for seed, federation in enumerate(federations):
                    other = federations[(seed + 1) % len(federations)]
                    rounds = [federation.rounds[t - 1] for t in (GALLERY, GALLERY + lag)]
                    matrices = [cosines(r, measure) for r in rounds]
                    clients = [r.clients for r in rounds]
                    work = task(matrices, clients, users=20, seed=seed)
                    for method in ("sorted", "qap", "anchors"):
                        guesses, _ = attack(work, seed=seed, method=method)
                        found[method].append(rate(link_accuracy(guesses, work.truth)))
                    strange = [matrices[0], cosines(other.rounds[GALLERY + lag - 1], measure)]
                    control = task(strange, clients, users=20, seed=seed)
                    guesses, _ = attack(control, seed=seed, method="qap")
                    found["control"].append(rate(link_accuracy(guesses, control.truth)))
                setting = f"{alpha}, {measure}, {GALLERY} -> {GALLERY + lag}"
                for method, values in found.items():
                    targets = 20 - ANCHORS * (method == "anchors")
                    yield Row("20 of 20", setting, method, 1 / targets, targets, tuple(values))


def defences(runs: Mapping[str, Sequence[Federation]]) -> Iterator[Row]:
    for alpha in ("0.1", "IID"):
        for measure in MEASURES:
            for name, defence in DEFENCES.items():
                values = []
                for seed, federation in enumerate(runs[alpha]):
                    rng = np.random.default_rng([seed, 3])
                    rounds = federation.rounds[GALLERY - 1 : GALLERY + 1]
                    matrices = [defence(cosines(r, measure), rng) for r in rounds]
                    work = task(matrices, [r.clients for r in rounds], users=20, seed=seed)
                    guesses, _ = attack(work, seed=seed, method="qap")
                    values.append(rate(link_accuracy(guesses, work.truth)))
                setting = f"{alpha}, {measure}, {GALLERY} -> {GALLERY + 1}"
                yield Row("defences", setting, name, 1 / 20, 20, tuple(values))


def sampled(setting: Setting, runs: Mapping[str, Sequence[Federation]]) -> Iterator[Row]:
    """Attack rounds of sampled clients, with the round before or all before as the gallery."""
    table = f"{setting.sampled} of {setting.users}"
    for alpha, federations in runs.items():
        for measure in MEASURES:
            for history in (False, True):
                found: dict[str, list[float]] = defaultdict(list)
                sizes = []
                for seed, federation in enumerate(federations):
                    rates: dict[str, list[float]] = defaultdict(list)
                    for back in range(1, ATTACKED + 1):
                        last = setting.rounds + 1 - back
                        chosen = federation.rounds[0 if history else last - 2 : last]
                        work = task(
                            [cosines(r, measure) for r in chosen],
                            [r.clients for r in chosen],
                            users=setting.users,
                            seed=1000 * seed + back,
                        )
                        sizes.append(len(work.present))
                        for name, value in open_and_closed(work, history, seed).items():
                            rates[name].append(value)
                    for name, of_rounds in rates.items():
                        found[name].append(float(np.nanmean(of_rounds)))
                gallery = f"rounds before ({LONG - ATTACKED}+)" if history else "round before"
                for name, values in found.items():
                    yield Row(
                        table,
                        f"{alpha}, {measure}, {gallery}",
                        name,
                        float(np.mean(1 / np.array(sizes))) if name in CLOSED else float("nan"),
                        setting.sampled,
                        tuple(values),
                    )


CLOSED = ("sorted", "qap", "anchors")


def open_and_closed(work: Task, history: bool, seed: int) -> dict[str, float]:
    """Return rates of recognition of the clients that are in the gallery, and of presence."""
    result = {}
    both = sum(user in work.present for user in work.users.values())
    result["clients in both"] = float(both)
    for method in CLOSED:
        # With no more known clients than anchors there is nobody left to recognise.
        if both > (ANCHORS if method == "anchors" else 0):
            guesses, _ = attack(work, seed=seed, method=method, history=history)
            result[method] = rate(recognition(guesses, work.truth))
    guesses, prior = attack(work, seed=seed, method="qap", history=history, open_set=True)
    result["qap, open set"] = rate(recognition(guesses, work.truth)) if both else float("nan")
    result["presence told"] = rate(presence_accuracy(guesses, work.truth))
    result["presence guessed"] = rate(presence_accuracy(prior, work.truth))
    return result


def show(rows: Sequence[Row]) -> None:
    tables = dict.fromkeys(row.table for row in rows)
    for table in tables:
        own = [row for row in rows if row.table == table]
        methods = list(dict.fromkeys(row.method for row in own))
        width = max(len(row.setting) for row in own)
        print(f"\n{table}: median [least, greatest] over {len(own[0].values)} seeds")
        for setting in dict.fromkeys(row.setting for row in own):
            print(f"  {setting:<{width}}")
            for method in methods:
                for row in own:
                    if row.setting == setting and row.method == method:
                        chance = "" if np.isnan(row.chance) else f"   chance {row.chance:.3f}"
                        print(
                            f"    {method:<18} {row.median:5.2f} "
                            f"[{min(row.values):.2f}, {max(row.values):.2f}]{chance}"
                        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--distillation", choices=("none", "paper"), default="none")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    make = partial(Setting, distillation=options.distillation)

    def runs(setting: Callable[..., Setting], alphas: Sequence[str]) -> dict[str, list[Federation]]:
        return {
            name: [train(setting(ALPHAS[name]), seed=seed) for seed in range(options.seeds)]
            for name in alphas
        }

    everybody = runs(make, tuple(ALPHAS))
    rows = [*full_participation(everybody), *defences(everybody)]
    for users, number, records in ((20, 10, 64), (100, 15, 12)):
        some = partial(make, users=users, sampled=number, rounds=LONG, records_per_user=records)
        rows += sampled(some(None), runs(some, ("0.1", "IID")))
    if options.json:
        print(json.dumps([asdict(row) | {"median": row.median} for row in rows], indent=1))
    else:
        show(rows)


if __name__ == "__main__":
    main()
