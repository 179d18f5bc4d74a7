"""Whether a person's record is in the run at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._observations import (
    READS,
    ObservedIndices,
    granted,
    held,
    observe,
)
from privaudit.attacks.indices._persons import By, check_by, nearest, place
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.transcript import Capability, View

__all__ = ["IndexMembership"]


@dataclass(frozen=True, slots=True)
class IndexMembership:
    """Score each candidate by how near the nearest row is to where its record would lie.

    The predicted indices and their weights are those of
    :class:`privaudit.attacks.indices.RecordLinking`. With ``codebooks`` a member's indices are
    found exactly: an upper bound, and what a party that turns against the others could do to its
    own columns.

    Attributes
    ----------
    by : {"known-records", "auxiliary-data", "codebooks"}
    known : int or None
        Use only so many of the known rows.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    by: By = "known-records"
    known: int | None = None
    round: int | None = None

    name: ClassVar[str] = "indices/membership"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.CANDIDATE_LIST})
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        check_by(self.by)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Score every candidate.

        Returns
        -------
        Guesses
            Targets are the candidates; values are scores, () float64: minus the weighted squared
            distance of the nearest row, the larger the likelier a member; scores are the same.

        Raises
        ------
        UnmetRequirementsError
            If the view lacks uploads, a candidate list, or what ``by`` needs.
        InvalidDataError
            If a known row is none of those that were uploaded.
        """
        facts, observed = self._facts(view, knowledge)
        candidates = held(facts.candidates)
        placed = place(
            self.by,
            view,
            observed,
            knowledge,
            columns=np.arange(candidates.shape[1]),
            values=candidates,
            attack=self.name,
            known_rows=self.known,
            rng=rng,
        )
        return _scored(facts, -nearest(observed, placed, count=1).distances[:, 0])

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Score candidates at random."""
        facts, _ = self._facts(view, knowledge)
        return _scored(facts, rng.random(len(facts.candidate_ids)))

    def _facts(self, view: View, knowledge: Knowledge) -> tuple[VerticalKnowledge, ObservedIndices]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        return facts, observe(view, round=self.round).of_others(view.coalition.members)


def _scored(
    facts: VerticalKnowledge, scores: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Guesses:
    return Guesses(facts.candidate_ids, tuple(np.array(s) for s in scores), scores)
