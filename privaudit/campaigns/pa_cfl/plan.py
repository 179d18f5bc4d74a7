"""Which attacks an audit of PA-CFL makes on runs of single records: figure 10, and collusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from privaudit.attacks.inference import LabelsFromPermutation, LabelsFromValues
from privaudit.attacks.inversion import (
    AnalyticInversion,
    BlindCoordinates,
    BlindMatching,
    CosineInversion,
    DeepLeakage,
    RankProfileMatching,
    SortedValueMatching,
    TopKMatching,
    ZeroFillMatching,
)
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.planned import Planned, attack_cell, percent
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.scorers import image_scorers, label_scorers, scorers_for
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl import kinds

__all__ = ["plan_figure", "plan_probe", "plan_undefended"]

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER

VIEWS = "Records rebuilt from each view of PA-CFL"
FIGURE_10A = "Figure 10(a): from the largest entries of undefended gradients"
FIGURE_10BC = "Figure 10(b, c): from the views of AS and MS, by k"

#: What attacks on undefended gradients show.
_ENOUGH = "What the server of plain federated averaging sees is enough to rebuild users' records."

#: Turns in which an audit refines images: fewer than the attacks do by themselves, for an audit
#: makes each attack and its control at every share of entries. None for values that one user places
#: on the paper's network, where it would take a minute and gains little.
_REFINEMENTS = 2
_REFINEMENTS_OF_RANKS = 1


def _top_k(*, refine: bool = True, **options: Any) -> TopKMatching:
    return TopKMatching(refinements=_REFINEMENTS if refine else 0, **options)


def _setting(run: RecordedRun, protocol: str) -> str:
    model: Any = run.transcript.public["model"]
    return (
        f"{protocol}, one record of {run.dataset or 'unnamed data'} and one gradient a user, "
        f"{model['name']} with {model['dimension']:,} parameters"
    )


def _blind_applies(run: RecordedRun) -> bool:
    model: Any = run.transcript.public["model"]
    k, classes = int(str(run.transcript.public["k"])), int(model["classes"])
    return not BlindCoordinates().unmet(k=k, classes=classes, dimension=int(model["dimension"]))


def _whole_gradients(
    make: Callable[..., Cell], setting: str, *, gallery: str = ""
) -> Iterator[Planned]:
    """Plan the strongest attacks on whole gradients."""
    for attack, series, title in (
        (
            CosineInversion(),
            "undefended, cosine",
            "Records from undefended gradients (cosine and total variation)",
        ),
        (
            AnalyticInversion(),
            "undefended, layer by layer",
            "Records from undefended gradients (layer by layer)",
        ),
    ):
        cell = make(attack, setting=setting, keep=True)
        yield Planned(cell, series, title, _ENOUGH, gallery=gallery)


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
        _ENOUGH,
        gallery=FIGURE_10A,
    )
    yield from _whole_gradients(make, setting, gallery=FIGURE_10A)
    for fraction in fractions:
        at = f"{setting}, the {percent(fraction)} largest entries"
        yield Planned(
            make(_top_k(source="update", k_fraction=fraction), setting=at, keep=True),
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
        make(RankProfileMatching(refinements=_REFINEMENTS_OF_RANKS), (MS,), "MS"),
        "MS, order of coordinates alone",
        f"Records from the order of coordinates alone, {at}",
        "The management server rebuilds records from which coordinates are largest, and in which "
        "order; it has no gradient value.",
        fraction,
        headline,
        shown,
    )
    yield Planned(
        make(BlindMatching(), (AS,), "AS"),
        "AS, values that it places by itself",
        f"Records from values that the aggregation server places by itself, {at}",
        "The aggregation server alone finds the coordinates of its values from what all users have "
        "in common, and rebuilds records from the values that it is sure of.",
        fraction,
        headline,
        shown,
    )
    # Where that attack does not apply, this one is what is left to the aggregation server.
    if not _blind_applies(run):
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
        make(_top_k(refine=not headline), (AS, colluder), "AS + 1 user"),
        "AS + 1 user, values at true coordinates",
        f"Records from important values at their coordinates, {at}",
        "One user gives the aggregation server the global permutation sequence, which places "
        "every important value.",
        fraction,
        headline,
        shown,
    )
    if headline:
        yield from _labels_and_coordinates(run, fraction=fraction, setting=setting, seed=seed)


def _labels_and_coordinates(
    run: RecordedRun, *, fraction: float, setting: str, seed: int
) -> Iterator[Planned]:
    """Read labels as each server does, and place values without pi^g."""
    placing = BlindCoordinates()
    make = partial(attack_cell, run, setting=setting, seed=seed)
    yield Planned(
        make(LabelsFromPermutation(round=1), (MS,), "MS", label_scorers(run)),
        "MS, label",
        "The label of a user's only record",
        "The management server reads the label off the permutation sequence.",
        fraction,
        True,
    )
    yield Planned(
        make(LabelsFromValues(placing), (AS,), "AS", label_scorers(run)),
        "AS, label",
        "The label of a user's only record, from values without coordinates",
        "The aggregation server alone finds the biases of the last layer among its values, and "
        "reads the label off them.",
        fraction,
        True,
    )
    yield Planned(
        make(placing, (AS,), "AS", scorers_for(placing, run)),
        "AS, coordinates",
        "Coordinates of the important values, without the global permutation sequence",
        "The aggregation server alone places the values at their coordinates. All users share one "
        "order, so that they stand or fall together: this is one federation, whatever n says.",
        fraction,
    )


def plan_figure(
    run: RecordedRun, *, fraction: float, fractions: tuple[float, ...], seed: int
) -> Iterator[Planned]:
    """Rows of the figure of exposures that a plain run gives; ``fractions`` are planned already."""
    scorers = image_scorers(run)
    make = partial(attack_cell, run, members=(SERVER,), label="server", scorers=scorers, seed=seed)
    setting = _setting(run, "FedAvg")
    if not fractions:
        yield from _whole_gradients(make, setting)
    if fraction not in fractions:
        at = f"{setting}, the {percent(fraction)} largest entries"
        yield Planned(
            make(_top_k(source="update", k_fraction=fraction), setting=at, keep=True),
            "top-k entries, others left free",
            f"Records from the {percent(fraction)} largest entries at their coordinates",
            "Entries that are not known are left free instead of being taken to be zero.",
        )
