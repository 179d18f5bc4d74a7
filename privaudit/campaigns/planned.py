"""A cell of an audit, with the words that a report needs for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privaudit.attacks.base import Attack, Knowledge
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.runs import RecordedRun, knowledge_of
from privaudit.campaigns.scorers import Named
from privaudit.transcript import Capability, Coalition, PartyId, Truth

__all__ = ["GRANTED", "Planned", "attack_cell", "percent"]

#: What the threat model grants; what a transcript does not bear out falls away.
GRANTED = frozenset(Capability)


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A cell with what a report says of it.

    Attributes
    ----------
    cell : Cell
    series : str
        Name of the line in a figure that this cell belongs to.
    title, summary : str
        In plain words.
    position : float or None
        Position on the axis of such a figure.
    headline : bool
        Whether a verdict rests on it: an attack on the protocol itself at the audited parameters.
    gallery : str
        Heading of the gallery that shows the guesses, or empty.
    """

    cell: Cell
    series: str
    title: str
    summary: str
    position: float | None = None
    headline: bool = False
    gallery: str = ""


def percent(fraction: float) -> str:
    """Return a fraction in per cent, as short as it can be written."""
    return f"{100 * fraction:g} %"


def attack_cell(
    run: RecordedRun,
    attack: Attack,
    members: Sequence[PartyId],
    label: str,
    scorers: Named,
    *,
    setting: str,
    seed: int,
    keep: bool = False,
    knowledge: Knowledge | None = None,
    capabilities: frozenset[Capability] = GRANTED,
) -> Cell:
    """Return the cell of an attack by some parties on a recorded run.

    Parameters
    ----------
    label : str
        The coalition in words.
    keep : bool
        Whether the guesses are stored too, for galleries.
    knowledge : Knowledge or None
        What the run makes public if None.
    """
    return Cell(
        attack=attack,
        coalition=Coalition(frozenset(members), capabilities),
        label=label,
        transcript=run.transcript,
        digest=run.digest,
        truth=run.truth or Truth(),
        knowledge=knowledge_of(run) if knowledge is None else knowledge,
        scorers=scorers,
        setting=setting,
        keep_guesses=keep,
        seed=seed,
    )
