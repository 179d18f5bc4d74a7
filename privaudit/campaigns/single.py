"""One attack on one coalition's view of a recorded run, with what this kind of attack needs."""

from __future__ import annotations

from privaudit.attacks.base import Attack
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.linking import linkable_rounds, linking_cell, links_rounds
from privaudit.campaigns.membership import membership_cell
from privaudit.campaigns.planned import attack_cell
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.scorers import scorers_for
from privaudit.errors import UnmetRequirementsError
from privaudit.transcript import Coalition

__all__ = ["single_cell"]


def single_cell(
    run: RecordedRun,
    attack: Attack,
    coalition: Coalition,
    *,
    label: str,
    seed: int,
    keep: bool = False,
) -> Cell:
    """Return the cell of an attack with its default experiment.

    The last round goes under pseudonyms for an attack that links rounds, candidates are drawn from
    the run for one on membership, and all others attack the run as it is.

    Raises
    ------
    ConfigurationError
        If a member of the coalition is no party of the run.
    UnmetRequirementsError
        If the run has too few rounds to link, or nothing to draw candidates from.
    """
    # A wrong party is an error of whoever asks, not a row of a result.
    run.transcript.view(coalition)
    if links_rounds(attack):
        rounds = linkable_rounds(run, attack)
        if len(rounds) < 2:
            raise UnmetRequirementsError(
                f"attack '{attack.name}' links two rounds; this run has what it reads in "
                f"{rounds or 'none'}"
            )
        # The attack must not read who sent what.
        return linking_cell(
            run,
            attack,
            coalition,
            label=label,
            probe=rounds[-1],
            setting=f"round {rounds[-1]} under pseudonyms",
            seed=seed,
        )
    if attack.name == "inference/membership":
        return membership_cell(run, attack, coalition, label=label, seed=seed)
    return attack_cell(
        run,
        attack,
        sorted(coalition.members),
        label,
        scorers_for(attack, run),
        setting="",
        seed=seed,
        keep=keep,
        capabilities=coalition.capabilities,
    )
