"""Matching clients between rounds by nothing but how alike their models are."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks._similarities import READS, SimilarityRound, similarity_rounds
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import PSEUDONYM_ROLE
from privaudit.attacks.reidentification import _matching as matching
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import Array, Capability, PartyId, View

__all__ = ["SimilarityLinking"]

#: Of rows matched to a gallery with shuffled entries, so many fall below the bound of presence.
_LEVEL = 0.05
_NULL_DRAWS = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    probes: tuple[PartyId, ...]
    probe: matching.Matrix
    gallery_ids: tuple[PartyId, ...]
    gallery: matching.Matrix
    known: matching.Mask


@dataclass(frozen=True, slots=True)
class SimilarityLinking:
    """Tell which client is behind each pseudonym, from the similarities of all pairs.

    Clients train on the same records in every round, so that who is like whom changes little.
    Were they to take part under pseudonyms, the similarity matrix, which the server needs for
    clustering and no encryption hides from it, would name them: matching the pseudonymous
    matrix to one with names is graph matching. The view comes from a transcript treated by
    :func:`privaudit.attacks.pseudonyms.pseudonymise_round`. Rounds need not have the same
    clients.

    Attributes
    ----------
    gallery_round : int or None
        Round with known clients; None for the last before the pseudonymous one, or else the first
        after. Ignored with ``history``.
    history : bool
        Take all rounds with known clients: the mean over the rounds of each pair's standardised
        similarity. With partial participation one round knows few of the clients.
    method : {"qap", "sorted", "anchors"}
        Quadratic assignment, sorted rows, or the similarities to clients that are known.
    anchors : tuple of (pseudonym, client)
        What the adversary knows beforehand (for ``"anchors"``); these are no targets.
    starts : int
        Most random starts of ``"qap"`` besides the one from sorted rows. Skewed clients need few;
        with IID clients or few of all in a round a few find only local optima.
    open_set : bool
        Whether a pseudonym may be declared not to be in the gallery, value -1. It is unless the
        median of its row's squared differences lies below the 5 % quantile of those that the same
        method gets on the gallery with its entries shuffled. Where the gallery has every user of
        the run, nobody is absent.
    """

    gallery_round: int | None = None
    history: bool = False
    method: Literal["qap", "sorted", "anchors"] = "qap"
    anchors: tuple[tuple[PartyId, PartyId], ...] = ()
    starts: int = 200
    open_set: bool = False

    name: ClassVar[str] = "reidentification/similarity-linking"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "linkability"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        if self.method not in ("qap", "sorted", "anchors"):
            raise ConfigurationError(f"method is 'qap', 'sorted' or 'anchors', got {self.method!r}")
        if (self.method == "anchors") != bool(self.anchors):
            raise ConfigurationError("anchors are given with method 'anchors', and only with it")
        if self.starts < 0:
            raise ConfigurationError(f"starts must be >= 0, got {self.starts}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the client behind each pseudonym.

        Returns
        -------
        Guesses
            Targets are the pseudonyms but for anchors; values are positions among the users,
            () int64, or -1 for a client that is not in the gallery; scores are by how much the
            next best client fits worse, all others staying where they are.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no pseudonymous round or none with known clients.
        ConfigurationError
            If an anchor is not in them.
        """
        problem = self._problem(view)
        found, agreement = self._match(problem, problem.gallery, rng)
        absent = found < 0
        if self.open_set and len(problem.gallery_ids) < _users(view):
            absent |= _misfits(problem, problem.gallery, found) > self._bound(problem, rng)
        count = len(found)
        pairs = max(1, count * (count - 1) // 2)
        table = matching.expected_costs(problem.probe, problem.gallery, problem.known, found)
        margins = _margins(table, found)
        targets = [i for i in range(count) if problem.probes[i] not in dict(self.anchors)]
        return Guesses(
            target_ids=tuple(problem.probes[i] for i in targets),
            values=_positions(view, problem, np.where(absent, -1, found)[targets]),
            scores=margins[targets],
            diagnostics=MappingProxyType(
                {
                    "squared-difference-a-pair": matching.cost(
                        problem.probe, problem.gallery, problem.known, found
                    )
                    / pairs,
                    "gallery-clients": float(len(problem.gallery_ids)),
                    "gallery-pairs-known": _share_known(problem.known),
                    "searches-in-agreement": agreement,
                }
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Match at random; with ``open_set``, call so many absent as the gallery lacks of all."""
        problem = self._problem(view)
        names = [i for i, p in enumerate(problem.probes) if p not in dict(self.anchors)]
        taken = {a for _, a in self._anchored(problem)}
        free = np.array([a for a in range(len(problem.gallery_ids)) if a not in taken])
        order = np.full(len(names), -1, dtype=np.int64)
        drawn = rng.permutation(free)[: len(names)]
        order[rng.permutation(len(names))[: len(drawn)]] = drawn
        if self.open_set:
            share = len(problem.gallery_ids) / _users(view)
            order[rng.random(len(names)) >= share] = -1
        return Guesses(
            target_ids=tuple(problem.probes[i] for i in names),
            values=_positions(view, problem, order),
            scores=np.zeros(len(names)),
        )

    def _match(
        self, problem: _Problem, gallery: matching.Matrix, rng: np.random.Generator
    ) -> tuple[matching.Matching, float]:
        probe, known = problem.probe, problem.known
        if self.method == "sorted":
            return matching.by_sorted_rows(probe, gallery, known), 1.0
        if self.method == "anchors":
            anchors = self._anchored(problem)
            return matching.by_anchors(probe, gallery, known, anchors=anchors), 1.0
        return matching.complete(probe, gallery, known, starts=self.starts, rng=rng)

    def _bound(self, problem: _Problem, rng: np.random.Generator) -> float:
        upper = np.argwhere(np.triu(problem.known, 1))
        misfits = []
        for _ in range(_NULL_DRAWS):
            i, j = upper.T
            shuffled = np.zeros_like(problem.gallery)
            shuffled[i, j] = rng.permutation(problem.gallery[i, j])
            shuffled += shuffled.T
            found, _ = self._match(problem, shuffled, rng)
            misfits.append(_misfits(problem, shuffled, found))
        return float(np.quantile(np.concatenate(misfits), _LEVEL))

    def _anchored(self, problem: _Problem) -> list[tuple[int, int]]:
        probes = {p: i for i, p in enumerate(problem.probes)}
        gallery = {p: i for i, p in enumerate(problem.gallery_ids)}
        for pseudonym, client in self.anchors:
            if pseudonym not in probes or client not in gallery:
                raise ConfigurationError(
                    f"anchor ({pseudonym}, {client}): the pseudonym must be one of "
                    f"{', '.join(probes)}, the client one of {', '.join(gallery)}"
                )
        return [(probes[pseudonym], gallery[client]) for pseudonym, client in self.anchors]

    def _problem(self, view: View) -> _Problem:
        role = {party.id: party.role for party in view.parties}
        rounds = similarity_rounds(view)
        hidden = [r for r in rounds.values() if {role[p] for p in r.parties} == {PSEUDONYM_ROLE}]
        named = [r for r in rounds.values() if PSEUDONYM_ROLE not in {role[p] for p in r.parties}]
        if not hidden and PSEUDONYM_ROLE in role.values():
            raise UnmetRequirementsError(
                f"attack '{self.name}' reads the similarities of a round under pseudonyms, and "
                f"{view.coalition} knows none"
            )
        if len(hidden) != 1 or not named:
            raise UnmetRequirementsError(
                f"linking needs one round of pseudonyms and one of known clients, found "
                f"{len(hidden)} and {len(named)}: treat the transcript by "
                "privaudit.attacks.pseudonyms.pseudonymise_round"
            )
        probe, _ = matching.standardise(hidden[0].matrix)
        chosen = named if self.history else [self._gallery(named, hidden[0].round)]
        ids, gallery, known = _average(view, chosen)
        return _Problem(hidden[0].parties, probe, ids, gallery, known)

    def _gallery(self, named: list[SimilarityRound], probe_round: int) -> SimilarityRound:
        by_round = {r.round: r for r in named}
        chosen = self.gallery_round
        if chosen is None:
            chosen = max((t for t in by_round if t < probe_round), default=min(by_round))
        if chosen not in by_round:
            raise UnmetRequirementsError(
                f"no similarities of known clients in round {chosen}; rounds with some: "
                f"{sorted(by_round)}"
            )
        return by_round[chosen]


def _average(
    view: View, rounds: list[SimilarityRound]
) -> tuple[tuple[PartyId, ...], matching.Matrix, matching.Mask]:
    """Average the standardised similarities of each pair over the rounds in which both were."""
    present = {p for r in rounds for p in r.parties}
    ids = tuple(party.id for party in view.parties if party.id in present)
    position = {p: i for i, p in enumerate(ids)}
    total, seen = np.zeros((len(ids), len(ids))), np.zeros((len(ids), len(ids)))
    for one in rounds:
        values, known = matching.standardise(one.matrix)
        at = np.ix_([position[p] for p in one.parties], [position[p] for p in one.parties])
        total[at] += values
        seen[at] += known
    return ids, np.divide(total, seen, out=np.zeros_like(total), where=seen > 0), seen > 0


def _misfits(
    problem: _Problem, gallery: matching.Matrix, found: matching.Matching
) -> npt.NDArray[np.float64]:
    """Return, for each probe, the median of its squared differences to known entries."""
    result = np.full(len(found), np.inf)
    placed = np.flatnonzero(found >= 0)
    at = found[placed]
    squares = (problem.probe[np.ix_(placed, placed)] - gallery[np.ix_(at, at)]) ** 2
    known = problem.known[np.ix_(at, at)]
    for row, i in enumerate(placed):
        if known[row].any():
            result[i] = float(np.median(squares[row][known[row]]))
    return result


def _margins(table: matching.Matrix, found: matching.Matching) -> npt.NDArray[np.float64]:
    rows = np.flatnonzero(found >= 0)
    margins = np.zeros(len(found))
    if table.shape[1] < 2:
        return margins
    own = table[rows, found[rows]]
    others = table[rows].copy()
    others[np.arange(len(rows)), found[rows]] = np.inf
    margins[rows] = others.min(axis=1) - own
    return margins


def _users(view: View) -> int:
    return sum(party.role == "user" for party in view.parties)


def _share_known(known: matching.Mask) -> float:
    n = len(known)
    return float(known.sum() / (n * (n - 1))) if n > 1 else 0.0


def _positions(view: View, problem: _Problem, found: matching.Matching) -> tuple[Array, ...]:
    users = {p.id: i for i, p in enumerate(q for q in view.parties if q.role == "user")}
    return tuple(
        np.array(-1 if a < 0 else users[problem.gallery_ids[a]], dtype=np.int64) for a in found
    )
