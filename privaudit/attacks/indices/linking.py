"""Which row is a person's, told from a noisy or partial copy of its record."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._codes import codes_of
from privaudit.attacks.indices._observations import (
    READS,
    ObservedIndices,
    granted,
    held,
    observe,
)
from privaudit.attacks.indices._persons import By, Nearest, check_by, nearest, place
from privaudit.attacks.vertical import PartialRecords
from privaudit.errors import ConfigurationError
from privaudit.transcript import Capability, View

__all__ = ["NOBODY", "RecordLinking", "SinglingOut"]

#: The guess that no single row is the person's.
NOBODY = -1


@dataclass(frozen=True, slots=True)
class RecordLinking:
    """Rank the rows that may be a person's, from some columns of its record, noisy or not.

    A ridge regression predicts the person's indices; rows are ranked by the distance of their
    indices, each column weighted by one over the variance of its prediction's error. The
    regression is fitted on known rows, or on aligned auxiliary records (as
    :class:`privaudit.attacks.indices.AuxiliaryAlignment` does); ``codebooks`` is the upper bound of
    an adversary that can encode the record itself.

    Attributes
    ----------
    by : {"known-records", "auxiliary-data", "codebooks"}
        What the prediction rests on; a capability that the view must have.
    ranks : int
        Rows to name for each person, the likeliest first.
    known : int or None
        Use only so many of the known rows.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    by: By = "known-records"
    ranks: int = 5
    known: int | None = None
    round: int | None = None

    name: ClassVar[str] = "indices/record-linking"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "linkability"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.PARTIAL_RECORDS})
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        check_by(self.by)
        if self.ranks < 1:
            raise ConfigurationError(f"ranks must be 1 or more, got {self.ranks}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Rank rows for each person.

        Returns
        -------
        Guesses
            Targets are the persons; values are row ids, (ranks,) int64, the likeliest first;
            scores are how much nearer the first row is than the next, as a share of the latter's
            distance.

        Raises
        ------
        UnmetRequirementsError
            If the view lacks uploads, partial records, or what ``by`` needs.
        InvalidDataError
            If a known row is none of those that were uploaded.
        """
        partial, observed, near = _match(self, view, knowledge, rng=rng, count=self.ranks + 1)
        ids = observed.ids[near.positions[:, : self.ranks]]
        return Guesses(partial.targets, tuple(ids), _margins(near))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Name rows at random, each once a person."""
        partial, observed = _facts(self, view, knowledge)
        count = min(self.ranks, len(observed.ids))
        values = tuple(rng.choice(observed.ids, size=count, replace=False) for _ in partial.targets)
        return Guesses(partial.targets, values, np.zeros(len(values)))


@dataclass(frozen=True, slots=True)
class SinglingOut:
    """Claim one row for a person, where the row that fits best is like no other.

    As :class:`RecordLinking`, but a claim is made only if no other row has the same tuple of
    codes; otherwise several persons share it and nobody was singled out.

    Attributes
    ----------
    by, known, round
        As there.
    """

    by: By = "known-records"
    known: int | None = None
    round: int | None = None

    name: ClassVar[str] = "indices/singling-out"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "singling-out"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.PARTIAL_RECORDS})
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        check_by(self.by)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Claim a row for each person, or none.

        Returns
        -------
        Guesses
            Targets are the persons; values are row ids, () int64, or ``NOBODY``; scores as those
            of :class:`RecordLinking`, 0 without a claim. Errors as there.
        """
        partial, observed, near = _match(self, view, knowledge, rng=rng, count=2)
        codes, _ = codes_of(observed.indices, observed.subspaces)
        _, number, count = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        first = near.positions[:, 0]
        alone = count[number.ravel()[first]] == 1
        claims = np.where(alone, observed.ids[first], NOBODY)
        diagnostics = {"claims": float(alone.sum()), "unique-rows": float((count == 1).sum())}
        return Guesses(
            target_ids=partial.targets,
            values=tuple(np.array(claim, dtype=np.int64) for claim in claims),
            scores=np.where(alone, _margins(near), 0.0),
            diagnostics=MappingProxyType(diagnostics),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Claim a random row for each person."""
        partial, observed = _facts(self, view, knowledge)
        claims = rng.choice(observed.ids, size=len(partial.targets))
        values = tuple(np.array(claim, dtype=np.int64) for claim in claims)
        return Guesses(partial.targets, values, np.zeros(len(values)))


Linking = RecordLinking | SinglingOut


def _facts(
    attack: Linking, view: View, knowledge: Knowledge
) -> tuple[PartialRecords, ObservedIndices]:
    facts = granted(view, knowledge, attack.requires, attack=attack.name)
    observed = observe(view, round=attack.round).of_others(view.coalition.members)
    return held(facts.partial), observed


def _match(
    attack: Linking, view: View, knowledge: Knowledge, *, rng: np.random.Generator, count: int
) -> tuple[PartialRecords, ObservedIndices, Nearest]:
    partial, observed = _facts(attack, view, knowledge)
    placed = place(
        attack.by,
        view,
        observed,
        knowledge,
        columns=partial.columns,
        values=partial.values,
        noise=partial.noise,
        attack=attack.name,
        known_rows=attack.known,
        rng=rng,
    )
    return partial, observed, nearest(observed, placed, count=count)


def _margins(near: Nearest) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if near.distances.shape[1] < 2:
        return np.ones(len(near.distances))
    first, second = near.distances[:, 0], near.distances[:, 1]
    return np.divide(second - first, second, out=np.zeros_like(second), where=second > 0)
