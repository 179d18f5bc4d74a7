"""Which attacks an audit of PA-CFL makes on runs that train: labels, membership, links, records."""

from __future__ import annotations

from collections.abc import Iterator

from privaudit.attacks.base import Attack
from privaudit.attacks.inference import (
    LabelsFromNoisedRemainder,
    LabelsFromPermutation,
    LabelsFromZeroSums,
    UpdateMembership,
)
from privaudit.attacks.inversion import BlindMatching, RankProfileMatching, TopKMatching
from privaudit.attacks.reidentification import GradientLinking, PermutationLinking
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.linking import linkable_rounds, linking_cell
from privaudit.campaigns.membership import membership_cell
from privaudit.campaigns.planned import GRANTED, Planned, attack_cell
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.scorers import image_scorers, label_scorers, scorers_for
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Coalition, PartyId

__all__ = ["plan_membership", "plan_training"]

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER

#: Records that each user is asked about, and as many others, at most.
_CANDIDATES = 20

#: Shadow users, a user; trained anew in the control.
_SHADOWS = 8


def plan_training(
    run: RecordedRun, *, headline: bool, setting: str, seed: int
) -> Iterator[Planned]:
    """Attacks on a training run: labels, membership, links between rounds, and inversion."""
    yield from _labels(run, headline=headline, setting=setting, seed=seed)
    rounds = linkable_rounds(run, PermutationLinking())
    pairs = [(rounds[0], rounds[1])] if len(rounds) > 1 else []
    if len(rounds) > 2:
        pairs.append((rounds[0], rounds[-1]))
    for gallery, probe in pairs:
        cell = linking_cell(
            run,
            PermutationLinking(gallery_round=gallery),
            Coalition(frozenset({MS}), GRANTED),
            label="MS",
            probe=probe,
            setting=f"{setting}, round {probe} linked to round {gallery}",
            seed=seed,
        )
        yield Planned(
            cell,
            "linking of rounds",
            f"Pseudonymous users of round {probe} recognised from round {gallery}",
            "If users sent their permutation sequences under pseudonyms, the sequences themselves "
            "would tell who they are.",
            None,
            headline and probe == gallery + 1,
        )
    yield from _linking_by_updates(run, headline=headline, setting=setting, seed=seed)
    if headline:
        colluder = run.transcript.ids("user")[0]
        yield Planned(
            _membership(
                run,
                UpdateMembership(rounds=1),
                (AS, colluder),
                "AS + 1 user",
                setting=f"{setting}, round 1",
                seed=seed,
            ),
            "membership",
            "Whether a user trained on a record (matched filter)",
            "The important values of users' training updates tell members from others.",
        )
        yield from _inversion_of_training(run, setting=setting, seed=seed)


def _labels(run: RecordedRun, *, headline: bool, setting: str, seed: int) -> Iterator[Planned]:
    scorers = label_scorers(run)
    if headline:
        first = f"{setting}, round 1"
        attack = LabelsFromPermutation(round=1, simulated_users=100)
        yield Planned(
            attack_cell(run, attack, (MS,), "MS", scorers, setting=first, seed=seed),
            "MS, labels",
            "Which labels a user trains on",
            "The management server infers a user's most frequent label from its permutation "
            "sequence.",
            None,
            True,
        )
        zero = LabelsFromZeroSums()
        yield Planned(
            attack_cell(run, zero, (AS,), "AS", scorers_for(zero, run), setting=first, seed=seed),
            "AS, label shares without names",
            "Shares of a user's labels, up to which label is which",
            "The biases of the last layer sum to zero for every user, by which the aggregation "
            "server alone finds them among its values, and reads users' label shares off them.",
            None,
            True,
        )
    yield Planned(
        attack_cell(
            run,
            LabelsFromNoisedRemainder(),
            (MS,),
            "MS",
            scorers,
            setting=f"{setting}, all rounds",
            seed=seed,
        ),
        "MS, labels from noised values",
        "Which labels a user trains on, from the values under noise",
        "The less important values, clipped and noised, still tell a user's most frequent label "
        "when all of them are read together.",
        None,
        headline,
    )


def _linking_by_updates(
    run: RecordedRun, *, headline: bool, setting: str, seed: int
) -> Iterator[Planned]:
    attack = GradientLinking()
    rounds = linkable_rounds(run, attack)
    if len(rounds) < 2:
        return
    colluder, probe = run.transcript.ids("user")[0], rounds[-1]
    views: tuple[tuple[tuple[PartyId, ...], str, str], ...] = (
        ((MS,), "MS", "noised values"),
        ((AS, colluder), "AS + 1 user", "important values"),
        ((AS,), "AS", "important values"),
    )
    for members, label, read in views:
        cell = linking_cell(
            run,
            attack,
            Coalition(frozenset(members), GRANTED),
            label=label,
            probe=probe,
            setting=f"{setting}, round {probe} linked to all earlier ones",
            seed=seed,
        )
        yield Planned(
            cell,
            f"linking by {read}",
            f"Pseudonymous users of round {probe} recognised by their {read}",
            "If users sent their values under pseudonyms, the directions of their updates would "
            "tell who they are.",
            None,
            headline,
        )


def plan_membership(
    run: RecordedRun, *, protected: bool, setting: str, seed: int
) -> Iterator[Planned]:
    """Whether a record is among a user's few, on runs of one gradient: PA-CFL and undefended."""
    colluder = run.transcript.ids("user")[0]
    members, label = ((AS, colluder), "AS + 1 user") if protected else ((SERVER,), "server")
    ratio = UpdateMembership(method="likelihood-ratio", shadows=_SHADOWS)
    methods: tuple[tuple[UpdateMembership, str], ...] = (
        (UpdateMembership(method="loss-change"), "loss"),
        (UpdateMembership(method="gradient-alignment"), "gradient alignment"),
        (UpdateMembership(), "matched filter"),
        (ratio, "likelihood ratio with shadow users"),
    )
    for attack, words in methods if protected else methods[2:]:
        yield Planned(
            _membership(run, attack, members, label, setting=setting, seed=seed),
            f"membership, {words}",
            f"Whether a user trained on a record ({words})",
            "The important values tell the records that a user trained on from others of the same "
            "labels."
            if protected
            else "What the same attack reaches on whole updates: whether it could succeed here.",
            None,
            protected and attack is ratio,
        )
    if protected:
        for server, name in ((AS, "AS"), (MS, "MS")):
            yield Planned(
                _membership(run, ratio, (server,), name, setting=setting, seed=seed),
                "membership",
                f"Whether a user trained on a record ({name})",
                "Needs updates whose coordinates are known.",
            )


def _membership(
    run: RecordedRun,
    attack: UpdateMembership,
    members: tuple[PartyId, ...],
    label: str,
    *,
    setting: str,
    seed: int,
) -> Cell:
    """Return a cell that asks of each user about as many records as auxiliary ones allow.

    Half of the auxiliary records stay with the adversary, who learns from them.
    """
    held = 0 if run.auxiliary is None else len(run.auxiliary)
    asked = min(_CANDIDATES, held // (2 * len(run.transcript.ids("user"))))
    try:
        return membership_cell(
            run,
            attack,
            Coalition(frozenset(members), GRANTED),
            label=label,
            setting=setting,
            candidates=max(1, asked),
            seed=seed,
        )
    except ConfigurationError:
        # No auxiliary record has a label that users have. Without candidates the cell says so.
        return attack_cell(run, attack, members, label, (), setting=setting, seed=seed)


def _inversion_of_training(run: RecordedRun, *, setting: str, seed: int) -> Iterator[Planned]:
    """Inversion of training updates; where it does not apply, the report says why."""
    colluder = run.transcript.ids("user")[0]
    attacks: tuple[tuple[Attack, tuple[PartyId, ...], str], ...] = (
        (RankProfileMatching(), (MS,), "MS"),
        (BlindMatching(), (AS,), "AS"),
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
