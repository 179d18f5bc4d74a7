"""Which attacks an audit of PA-CFL makes on which views."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from privaudit.attacks.base import Attack
from privaudit.attacks.inference import LabelsFromPermutation
from privaudit.attacks.inversion import (
    CosineInversion,
    DeepLeakage,
    RankProfileMatching,
    SortedValueMatching,
    TopKMatching,
    ZeroFillMatching,
)
from privaudit.attacks.reidentification import PermutationLinking
from privaudit.campaigns.linking import linkable_rounds, linking_cell
from privaudit.campaigns.planned import GRANTED, Planned, attack_cell, percent
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.scorers import image_scorers, label_scorers
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Coalition, PartyId

__all__ = [
    "plan_probe",
    "plan_training",
    "plan_undefended",
]

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER

VIEWS = "Records rebuilt from each view of PA-CFL"
FIGURE_10A = "Figure 10(a): from the largest entries of undefended gradients"
FIGURE_10BC = "Figure 10(b, c): from the views of AS and MS, by k"


def _setting(run: RecordedRun, protocol: str) -> str:
    model: Any = run.transcript.public["model"]
    return (
        f"{protocol}, one record of {run.dataset or 'unnamed data'} and one gradient a user, "
        f"{model['name']} with {model['dimension']:,} parameters"
    )


def plan_undefended(
    run: RecordedRun, *, fractions: tuple[float, ...], seed: int
) -> Iterator[Planned]:
    """Inversion of plain gradients: the reference, and the paper's figure 10(a)."""
    scorers = image_scorers(run)
    make = partial(attack_cell, run, members=(SERVER,), label="server", scorers=scorers, seed=seed)
    setting = _setting(run, "FedAvg")
    yield Planned(
        make(DeepLeakage(restarts=0), setting=setting, keep=True),
        "undefended, DLG",
        "Records from undefended gradients (DLG)",
        "What the server of plain federated averaging sees is enough to rebuild users' records.",
        gallery=FIGURE_10A,
    )
    yield Planned(
        make(CosineInversion(), setting=setting, keep=True),
        "undefended, cosine",
        "Records from undefended gradients (cosine and total variation)",
        "What the server of plain federated averaging sees is enough to rebuild users' records.",
        gallery=FIGURE_10A,
    )
    for fraction in fractions:
        at = f"{setting}, the {percent(fraction)} largest entries"
        yield Planned(
            make(TopKMatching(source="update", k_fraction=fraction), setting=at, keep=True),
            "top-k entries, others left free",
            f"Records from the {percent(fraction)} largest entries at their coordinates",
            "Entries that are not known are left free instead of being taken to be zero.",
            fraction,
            gallery=FIGURE_10A,
        )
        yield Planned(
            make(ZeroFillMatching(source="update", k_fraction=fraction), setting=at, keep=True),
            "top-k entries, others taken as zero",
            f"The same with unknown entries taken as zero, {percent(fraction)}",
            "A reading of the paper's figure 10(a).",
            fraction,
            gallery=FIGURE_10A,
        )


def plan_probe(
    run: RecordedRun, *, fraction: float, headline: bool, seed: int
) -> Iterator[Planned]:
    """Inversion of PA-CFL's views when every user holds one record: figure 10, and collusion."""
    scorers = image_scorers(run)
    setting = f"{_setting(run, 'PA-CFL')}, k = {percent(fraction)} of d"
    colluder = run.transcript.ids("user")[0]
    at = f"k = {percent(fraction)}"
    shown = VIEWS if headline else FIGURE_10BC
    make = partial(attack_cell, run, scorers=scorers, setting=setting, seed=seed, keep=True)
    yield Planned(
        make(RankProfileMatching(), (MS,), "MS"),
        "MS, order of coordinates alone",
        f"Records from the order of coordinates alone, {at}",
        "The management server rebuilds records from which coordinates are largest, and in which "
        "order; it has no gradient value.",
        fraction,
        headline,
        shown,
    )
    yield Planned(
        make(SortedValueMatching(iterations=60), (AS,), "AS"),
        "AS, values without coordinates",
        f"Records from values without coordinates, {at}",
        "The aggregation server alone matches the sizes of the important values.",
        fraction,
        headline,
        shown,
    )
    if not headline:
        yield Planned(
            make(ZeroFillMatching(placement="as-received"), (AS,), "AS"),
            "AS, values at wrong coordinates",
            f"Records from values taken in the order received, {at}",
            "A reading of the paper's figure 10(b).",
            fraction,
            gallery=shown,
        )
    yield Planned(
        make(TopKMatching(), (AS, colluder), "AS + 1 user"),
        "AS + 1 user, values at true coordinates",
        f"Records from important values at their coordinates, {at}",
        "One user gives the aggregation server the global permutation sequence, which places "
        "every important value.",
        fraction,
        headline,
        shown,
    )
    if headline:
        yield Planned(
            attack_cell(
                run,
                LabelsFromPermutation(round=1),
                (MS,),
                "MS",
                label_scorers(run),
                setting=setting,
                seed=seed,
            ),
            "MS, label",
            "The label of a user's only record",
            "The management server reads the label off the permutation sequence.",
            fraction,
            True,
        )


def plan_training(
    run: RecordedRun, *, headline: bool, setting: str, seed: int
) -> Iterator[Planned]:
    """Attacks on a training run: labels, links between rounds, and inversion if it applies."""
    if headline:
        yield Planned(
            attack_cell(
                run,
                LabelsFromPermutation(round=1, simulated_users=100),
                (MS,),
                "MS",
                label_scorers(run),
                setting=f"{setting}, round 1",
                seed=seed,
            ),
            "MS, labels",
            "Which labels a user trains on",
            "The management server infers a user's most frequent label from its permutation "
            "sequence.",
            None,
            True,
        )
    rounds = linkable_rounds(run, PermutationLinking())
    pairs = [(rounds[0], rounds[1])] if len(rounds) > 1 else []
    if len(rounds) > 2:
        pairs.append((rounds[0], rounds[-1]))
    for gallery, probe in pairs:
        yield _linking(run, gallery, probe, setting=setting, seed=seed, headline=headline)
    if headline:
        yield from _inversion_of_training(run, setting=setting, seed=seed)


def _inversion_of_training(run: RecordedRun, *, setting: str, seed: int) -> Iterator[Planned]:
    """Inversion of training updates; where it does not apply, the report says why."""
    colluder = run.transcript.ids("user")[0]
    attacks: tuple[tuple[Attack, tuple[PartyId, ...], str], ...] = (
        (RankProfileMatching(), (MS,), "MS"),
        (SortedValueMatching(), (AS,), "AS"),
        (TopKMatching(), (AS, colluder), "AS + 1 user"),
    )
    for attack, members, label in attacks:
        yield Planned(
            attack_cell(
                run, attack, members, label, image_scorers(run), setting=setting, seed=seed
            ),
            "inversion of training updates",
            f"Records from training updates ({label})",
            "Gradient inversion needs an update that is one gradient.",
        )


def _linking(
    run: RecordedRun, gallery: int, probe: int, *, setting: str, seed: int, headline: bool
) -> Planned:
    cell = linking_cell(
        run,
        PermutationLinking(gallery_round=gallery),
        Coalition(frozenset({MS}), GRANTED),
        label="MS",
        probe=probe,
        setting=f"{setting}, round {probe} linked to round {gallery}",
        seed=seed,
    )
    return Planned(
        cell,
        "linking of rounds",
        f"Pseudonymous users of round {probe} recognised from round {gallery}",
        "If users sent their permutation sequences under pseudonyms, the sequences themselves "
        "would tell who they are.",
        None,
        headline and probe == gallery + 1,
    )
