"""Linking experiments: one round goes under pseudonyms, and an attack tells who is who."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.attacks.control import linking_truth, pseudonymise
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.attacks.reidentification import (
    CLUSTER_KINDS,
    LINKABLE_KINDS,
    ClusterLinking,
    GradientLinking,
    PermutationLinking,
    SimilarityLinking,
)
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.runs import RecordedRun, knowledge_of
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.disue import kinds as disue
from privaudit.scoring.linking import link_accuracy
from privaudit.transcript import Coalition, Transcript

__all__ = ["linkable_rounds", "linking_cell", "links_rounds"]


def links_rounds(attack: Attack) -> bool:
    """Return whether an attack links rounds, so that it needs one under pseudonyms."""
    return isinstance(
        attack, PermutationLinking | SimilarityLinking | GradientLinking | ClusterLinking
    )


def linkable_rounds(run: RecordedRun, attack: Attack) -> list[int]:
    """Return the rounds, ascending, that have messages which a linking attack reads."""
    return _rounds(run.transcript, attack)


def _kinds(
    transcript: Transcript, attack: Attack, coalition: Coalition | None = None
) -> tuple[str, ...]:
    if isinstance(attack, SimilarityLinking):
        # Where nobody sends similarities the server computes them from the models.
        said = any(m.kind == disue.SIMILARITY_VALUES for m in transcript.messages)
        return (disue.SIMILARITY_VALUES,) if said else (disue.PARAMETERS,)
    if isinstance(attack, GradientLinking | ClusterLinking):
        # One kind is linked: the first of these that the run has, or that the coalition sees.
        possible = LINKABLE_KINDS if isinstance(attack, GradientLinking) else CLUSTER_KINDS
        members = None if coalition is None else coalition.members
        others = {p.id for p in transcript.parties if p.role == "user"} - (members or set())
        sent = {
            m.kind
            for m in transcript.messages
            if members is None
            # Between a member and another user: what a colluding user sends to a server that is
            # no member tells nothing of others.
            or ({m.sender, m.receiver} & members and {m.sender, m.receiver} & others)
        }
        return tuple(kind for kind in possible if kind in sent)[:1]
    return attack.reads


def linking_cell(
    run: RecordedRun,
    attack: Attack,
    coalition: Coalition,
    *,
    label: str,
    probe: int,
    setting: str,
    seed: int,
    defence: tuple[str, Callable[[Transcript], Transcript]] | None = None,
) -> Cell:
    """Return the cell in which the users of round ``probe`` are hidden from the attack.

    Parameters
    ----------
    defence : (name, callable) or None
        Changes what was sent before the round goes under pseudonyms; the name becomes part of
        the cell's key.
    """
    rng = np.random.default_rng([seed, 4, probe])
    transcript = run.transcript if defence is None else defence[1](run.transcript)
    kinds = _kinds(transcript, attack, coalition)
    if not kinds:
        raise UnmetRequirementsError(
            f"attack '{attack.name}' links messages of kinds {', '.join(attack.reads)}, and "
            f"{coalition} saw none"
        )
    if isinstance(attack, SimilarityLinking):
        hidden, users = pseudonymise_round(transcript, round=probe, kinds=kinds, rng=rng)
        gallery = _known(transcript, attack, probe) if attack.open_set else None
        truth = linking_truth(transcript, users, gallery=gallery)
    elif isinstance(attack, ClusterLinking):
        hidden, users = pseudonymise_round(transcript, round=probe, kinds=kinds, rng=rng)
        truth = linking_truth(transcript, users)
    else:
        (kind,) = kinds
        hidden, users = pseudonymise(transcript, kind=kind, round=probe, rng=rng)
        truth = linking_truth(transcript, users)
    # A colluding user knows its own pseudonym.
    others = frozenset(name for name, user in users.items() if user not in coalition.members)
    treated = ":".join((*kinds, str(probe), str(seed), *(() if defence is None else defence[:1])))
    return Cell(
        attack=attack,
        coalition=coalition,
        label=label,
        transcript=hidden,
        digest=f"{run.digest}:pseudonymised:{treated}",
        truth=truth,
        knowledge=knowledge_of(run),
        scorers=(("link accuracy", link_accuracy, "proportion"),),
        setting=setting,
        seed=seed,
        targets=None if len(others) == len(users) else others,
    )


def _known(transcript: Transcript, attack: SimilarityLinking, probe: int) -> set[str]:
    """Return the users whom the attack can know: those of its gallery rounds."""
    users = set(transcript.ids("user"))
    rounds = [t for t in _rounds(transcript, attack) if t != probe]
    if not attack.history:
        before = [t for t in rounds if t < probe]
        chosen = attack.gallery_round or (max(before) if before else min(rounds))
        rounds = [chosen]
    kinds = _kinds(transcript, attack)
    found: set[str] = set()
    for m in transcript.messages:
        if m.kind in kinds and m.round in rounds:
            pairs = m.meta.get("pairs", ())
            assert isinstance(pairs, list | tuple)
            found |= {str(p) for pair in pairs for p in pair} | {m.sender, m.receiver}
    return found & users


def _rounds(transcript: Transcript, attack: Attack) -> list[int]:
    kinds = _kinds(transcript, attack)
    return sorted({m.round for m in transcript.messages if m.kind in kinds and m.round})
