"""Membership experiments: candidates of a recorded run, and what is true of them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from privaudit.attacks.base import Attack, Knowledge
from privaudit.attacks.candidates import Candidates
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.runs import RecordedRun, knowledge_of
from privaudit.campaigns.scorers import membership_scorers
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import Array, Coalition, PartyId, Truth

__all__ = ["membership_cell", "membership_experiment"]


def membership_experiment(
    knowledge: Knowledge,
    truth: Truth,
    users: tuple[PartyId, ...],
    *,
    candidates: int = 20,
    strangers: LabelledImages | None = None,
    seed: int,
) -> tuple[Knowledge, Truth]:
    """Ask of each user about some of its records and as many of the same labels that nobody holds.

    Others are taken out of ``strangers``, or out of the auxiliary records, which then do without
    them: an adversary that found a candidate among its auxiliary records would know the answer.
    Members and others have the same labels, so that a user's skew does not tell them apart;
    members for whom no other record of the label is left are not asked about.

    Parameters
    ----------
    knowledge : Knowledge
        With auxiliary records.
    truth : Truth
        That of the run: ``images`` and ``labels`` of each user.
    users : tuple of str
    candidates : int
        Members asked about a user at most; as many others.
    strangers : LabelledImages, optional
        Records that nobody in the run holds.
    seed : int

    Returns
    -------
    knowledge : Knowledge
        With candidates in random order, and auxiliary records without them.
    truth : Truth
        ``member`` () bool of each candidate, by its id; nothing of it is in the knowledge.

    Raises
    ------
    ConfigurationError
        If there are no records to draw others from, or no pair can be made.
    """
    pool = strangers if strangers is not None else knowledge.auxiliary
    if pool is None or not len(pool):
        raise ConfigurationError("candidates that are no members need auxiliary records")
    rng = np.random.default_rng([seed, 6])
    free = rng.permutation(len(pool))
    used = np.zeros(len(pool), dtype=bool)
    ids: list[str] = []
    images: list[Array] = []
    labels: list[int] = []
    members: dict[str, bool] = {}
    for user in users:
        own = np.asarray(truth.get(user, "images")), np.asarray(truth.get(user, "labels"))
        pairs: list[tuple[int, int]] = []
        for place in rng.permutation(len(own[1])):
            if len(pairs) == candidates:
                break
            label = own[1][place]
            left = free[(pool.labels[free] == label) & ~used[free]]
            if len(left):
                used[left[0]] = True
                pairs.append((int(place), int(left[0])))
        drawn = [(own[0][p], own[1][p], True) for p, _ in pairs]
        drawn += [(pool.images[o], pool.labels[o], False) for _, o in pairs]
        for number, at in enumerate(rng.permutation(len(drawn))):
            image, label, member = drawn[at]
            ids.append(f"{user}/candidate-{number}")
            images.append(image)
            labels.append(int(label))
            members[ids[-1]] = member
    if not ids:
        raise ConfigurationError(
            "no record outside the run has a label that a user's records have; give more "
            "auxiliary records"
        )
    asked = Candidates(
        tuple(ids),
        LabelledImages(np.stack(images).astype(np.float32), np.array(labels, dtype=np.int64)),
    )
    auxiliary = knowledge.auxiliary
    if strangers is None and auxiliary is not None:
        auxiliary = auxiliary.take(np.flatnonzero(~used))
    return (
        replace(knowledge, auxiliary=auxiliary, candidates=asked),
        Truth({i: MappingProxyType({"member": np.array(m)}) for i, m in members.items()}),
    )


def membership_cell(
    run: RecordedRun,
    attack: Attack,
    coalition: Coalition,
    *,
    label: str,
    setting: str = "",
    candidates: int = 20,
    seed: int,
) -> Cell:
    """Return the cell of an attack on membership, with candidates drawn from the run.

    Raises
    ------
    UnmetRequirementsError
        If the run came without its truth, of which members are drawn, or without auxiliary
        records.
    """
    if run.truth is None or run.auxiliary is None or not len(run.auxiliary):
        raise UnmetRequirementsError(
            f"attack '{attack.name}' is asked about records of the run and others: it needs the "
            "run's truth and auxiliary records"
        )
    users = tuple(u for u in run.transcript.ids("user") if u not in coalition.members)
    knowledge, truth = membership_experiment(
        knowledge_of(run), run.truth, users, candidates=candidates, seed=seed
    )
    others = sum(not bool(truth.get(t, "member")) for t in truth.targets)
    return Cell(
        attack=attack,
        coalition=coalition,
        label=label,
        transcript=run.transcript,
        digest=run.digest,
        truth=truth,
        knowledge=knowledge,
        scorers=membership_scorers(others=others),
        setting=setting,
        seed=seed,
    )
