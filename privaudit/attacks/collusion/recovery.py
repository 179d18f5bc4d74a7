"""What of each user's update a coalition knows, by pooling messages and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.collusion._evidence import Evidence, first_round
from privaudit.attacks.collusion.columns import Attribution, attribute
from privaudit.protocols.baselines import kinds as baseline_kinds
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Capability, PartyId, View

__all__ = ["RECOVERED", "Recovery", "Status", "UpdateRecovery"]


class Status(IntEnum):
    """How well one coordinate of a user's update is known."""

    UNKNOWN = 0
    #: The value itself, placed at its coordinate.
    EXACT = 1
    #: The noised value, known to be this user's.
    ATTRIBUTED = 2
    #: The noised value is one of a set that belongs to several users.
    ANONYMOUS = 3
    #: The value, computed from an aggregate; exact up to rounding or to the weights supposed.
    DERIVED = 4


#: Element type of a guess, one element a coordinate. ``value`` is ``nan`` where none is known;
#: ``anonymity`` is the number of users among whom it cannot be told apart, 0 where unknown.
RECOVERED = np.dtype([("value", np.float32), ("status", np.uint8), ("anonymity", np.int32)])


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """What is known of one user's update in one round.

    Attributes
    ----------
    user : PartyId
    round : int
    coordinates : ndarray of RECOVERED, shape (d,)
    unplaced_exact : int
        Values of the user that were seen as they are, at unknown coordinates.
    unplaced_noised : int
        Noised values seen whose coordinates are known only up to the gaps that the global
        permutation sequence leaves; counted as not placed.
    unplaced_anonymity : int
        Least number of users among whom those cannot be told apart; 0 if there are none.
    ordered : int
        Coordinates known in the order of their magnitudes (the permutation sequence).
    ambiguous, unmatched : int
        See :class:`privaudit.attacks.collusion.columns.Attribution`.
    """

    user: PartyId
    round: int
    coordinates: npt.NDArray[np.void]
    unplaced_exact: int = 0
    unplaced_noised: int = 0
    unplaced_anonymity: int = 0
    ordered: int = 0
    ambiguous: int = 0
    unmatched: int = 0

    @property
    def target(self) -> str:
        """The id by which the truth names this update."""
        return f"{self.user}/round-{self.round}"


@dataclass(frozen=True, slots=True)
class UpdateRecovery:
    """Recover users' updates from the pooled messages of any coalition, by bookkeeping alone.

    The rules, for a user i outside the coalition, in a run of PA-CFL (sections 5.2 to 5.7):

    - pi^g is known to every user and to the management server (MS), so the aggregation server
      (AS) with any one user places i's k important values exactly.
    - MS places i's d2 noised values, which i sent to it.
    - AS with pi^g places the columns of i's pre-cluster; in each the colluders' own values are
      found by exact equality and taken out. Where one value is left it is i's.
    - MS knows all that went into the aggregates but the important values. With one user's copy
      of an aggregate it finds the weights by least squares, hence who is in the sum, and with the
      important values of all of those but i it finds i's by subtraction.
    - Users without a server know neither weights nor members. Where all but one user collude, an
      aggregate that is not theirs alone gives the last one's important values, supposing equal
      weights.

    In an undefended protocol the server has every update as it is.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    round: int | None = None

    name: ClassVar[str] = "collusion/update-recovery"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (
        kinds.PERMUTATION_SEQUENCE,
        kinds.GLOBAL_PERMUTATION,
        kinds.PRE_CLUSTERING,
        kinds.IMPORTANT_VALUES,
        kinds.NOISED_REMAINDER,
        kinds.PLAIN_REMAINDER,
        kinds.SHUFFLED_REMAINDER,
        kinds.CLUSTER_AGGREGATE,
        kinds.GLOBAL_AGGREGATE,
        kinds.FULL_UPDATE,
        baseline_kinds.UPDATE,
    )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Recover the update of every user outside the coalition.

        Returns
        -------
        Guesses
            Targets ``"user-i/round-t"``; values of dtype ``RECOVERED``, shape (d,); scores are
            the fractions of coordinates known exactly or derived. ``diagnostics`` holds the
            counts of :class:`Recovery`, as ``"unplaced-exact/<target>"`` and so on.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no message of a known kind in the round.
        """
        recoveries = tuple(self.recover(view))
        return _guesses(recoveries)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Know nothing: without messages no coordinate of an update is known."""
        evidence = Evidence.of(view, round=first_round(view, self.reads, asked=self.round))
        return _guesses(
            tuple(
                Recovery(user, evidence.round, _unknown(evidence.dimension))
                for user in evidence.targets
            )
        )

    def recover(self, view: View) -> Iterator[Recovery]:
        """Yield what the coalition knows of each user outside it.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no message of a known kind in the round.
        """
        evidence = Evidence.of(view, round=first_round(view, self.reads, asked=self.round))
        derived = evidence.derived_important()
        columns: dict[frozenset[PartyId], Attribution] = {}
        for user in evidence.targets:
            yield _recover(evidence, user, derived.get(user), columns)


def _unknown(dimension: int) -> npt.NDArray[np.void]:
    coordinates = np.zeros(dimension, dtype=RECOVERED)
    coordinates["value"] = np.nan
    return coordinates


def _recover(
    evidence: Evidence,
    user: PartyId,
    derived: npt.NDArray[np.float32] | None,
    columns: dict[frozenset[PartyId], Attribution],
) -> Recovery:
    found = _unknown(evidence.dimension)
    ordered = len(evidence.sequences.get(user, ()))
    full = evidence.full.get(user)
    if full is not None:
        _place(found, slice(None), full, Status.EXACT)
        return Recovery(user, evidence.round, found, ordered=ordered)
    permutation, rest = evidence.permutation, evidence.rest
    important, plain = evidence.important.get(user), evidence.plain.get(user)
    noised = evidence.noised.get(user)
    cluster = evidence.cluster_of(user)
    attribution: Attribution | None = None
    if noised is None and cluster is not None:
        key = frozenset(cluster)
        if key not in columns:
            columns[key] = attribute(*evidence.columns(cluster))
        attribution = columns[key]
    ambiguous = attribution.ambiguous if attribution else 0
    unmatched = attribution.unmatched if attribution else 0
    if permutation is None or rest is None:
        return Recovery(
            user,
            evidence.round,
            found,
            unplaced_exact=sum(v.size for v in (important, plain) if v is not None),
            unplaced_noised=attribution.values.size if attribution else 0,
            unplaced_anonymity=int(attribution.candidates.min()) if attribution else 0,
            ordered=ordered,
            ambiguous=ambiguous,
            unmatched=unmatched,
        )
    if important is not None:
        _place(found, permutation, important, Status.EXACT)
    elif derived is not None:
        _place(found, permutation, derived, Status.DERIVED)
    if plain is not None:
        _place(found, rest, plain, Status.EXACT)
    elif noised is not None:
        _place(found, rest, noised, Status.ATTRIBUTED)
    elif attribution is not None:
        alone = attribution.candidates == 1
        found["value"][rest] = attribution.values
        found["status"][rest] = np.where(alone, Status.ATTRIBUTED, Status.ANONYMOUS)
        found["anonymity"][rest] = attribution.candidates
    return Recovery(
        user, evidence.round, found, ordered=ordered, ambiguous=ambiguous, unmatched=unmatched
    )


def _place(
    found: npt.NDArray[np.void],
    where: npt.NDArray[np.int64] | slice,
    values: npt.NDArray[np.float32],
    status: Status,
) -> None:
    found["value"][where] = values
    found["status"][where] = status
    found["anonymity"][where] = 1


def _guesses(recoveries: tuple[Recovery, ...]) -> Guesses:
    known = (Status.EXACT, Status.DERIVED)
    diagnostics: dict[str, float] = {}
    for r in recoveries:
        diagnostics |= {
            f"unplaced-exact/{r.target}": float(r.unplaced_exact),
            f"unplaced-noised/{r.target}": float(r.unplaced_noised),
            f"unplaced-anonymity/{r.target}": float(r.unplaced_anonymity),
            f"ordered/{r.target}": float(r.ordered),
            f"ambiguous-columns/{r.target}": float(r.ambiguous),
            f"unmatched-columns/{r.target}": float(r.unmatched),
        }
    return Guesses(
        target_ids=tuple(r.target for r in recoveries),
        values=tuple(r.coordinates for r in recoveries),
        scores=np.array(
            [float(np.isin(r.coordinates["status"], known).mean()) for r in recoveries]
        ),
        diagnostics=MappingProxyType(diagnostics),
    )
