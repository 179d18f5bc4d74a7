"""Linking users by whom they are clustered with."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import PSEUDONYM_ROLE
from privaudit.attacks.reidentification import _matching as matching
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.disue import kinds as disue
from privaudit.protocols.pa_cfl import kinds as pa_cfl
from privaudit.transcript import Array, Capability, PartyId, View

__all__ = ["CLUSTER_KINDS", "ClusterLinking"]

Float64 = npt.NDArray[np.float64]

#: Kinds that are the same for all users of a cluster, and the name of their array.
CLUSTER_KINDS: Final = MappingProxyType(
    {pa_cfl.CLUSTER_AGGREGATE: "values", disue.CLUSTER_MODEL: "parameters"}
)


@dataclass(frozen=True, slots=True)
class ClusterLinking:
    """Tell who is behind pseudonyms from who gets the same model, and nothing else.

    Whoever delivers cluster models sees which users get the same one, even if it cannot read them.
    In one round users have pseudonyms; the share of named rounds in which two users were together
    is matched with who is together now, as graphs are matched
    (:mod:`privaudit.attacks.reidentification._matching`). Members of one cluster that were
    together in all rounds cannot be told from one another: of a cluster of s such users one is
    named rightly on average. The view comes from a transcript treated by
    :func:`privaudit.attacks.pseudonyms.pseudonymise_round`.

    Attributes
    ----------
    starts : int
        Random starts of the search.
    """

    starts: int = 30

    name: ClassVar[str] = "reidentification/cluster-linking"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "linkability"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = tuple(CLUSTER_KINDS)

    def __post_init__(self) -> None:
        if self.starts < 0:
            raise ConfigurationError(f"starts must be >= 0, got {self.starts}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the user behind each pseudonym.

        Returns
        -------
        Guesses
            Targets are the pseudonyms; values are positions among the users, () int64; scores are
            zero for all, because users of a cluster cannot be ranked.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no pseudonymous round, or no named one.
        """
        probes, probe, users, gallery = self._problem(view)
        # Ties are broken at random: the order of messages must not name anybody.
        order = rng.permutation(len(users))
        shuffled = gallery[np.ix_(order, order)]
        left, _ = matching.standardise(_undefined_diagonal(probe))
        right, known = matching.standardise(_undefined_diagonal(shuffled))
        found, agreement = matching.complete(left, right, known, starts=self.starts, rng=rng)
        # With fewer named users than pseudonyms some stay unmatched: any user for those.
        chosen = [users[order[a]] if a >= 0 else users[order[0]] for a in found]
        return Guesses(
            target_ids=probes,
            values=_positions(view, chosen),
            scores=np.zeros(len(probes)),
            diagnostics=MappingProxyType({"searches-in-agreement": float(agreement)}),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Match pseudonyms and users at random."""
        probes, _, users, _ = self._problem(view)
        times = -(-len(probes) // len(users))
        order = np.concatenate([rng.permutation(len(users)) for _ in range(times)])
        return Guesses(
            target_ids=probes,
            values=_positions(view, [users[i] for i in order[: len(probes)]]),
            scores=np.zeros(len(probes)),
        )

    def _problem(
        self, view: View
    ) -> tuple[tuple[PartyId, ...], Float64, tuple[PartyId, ...], Float64]:
        hidden = {p.id for p in view.parties if p.role == PSEUDONYM_ROLE}
        together = _together(view)
        probe_rounds = [t for t, (ids, _) in together.items() if set(ids) <= hidden]
        named = [t for t, (ids, _) in together.items() if not set(ids) & hidden]
        if not probe_rounds and hidden:
            raise UnmetRequirementsError(
                f"attack '{self.name}' reads who was in one cluster in a round under pseudonyms, "
                f"and {view.coalition} does not know it"
            )
        if len(probe_rounds) != 1 or not named:
            raise UnmetRequirementsError(
                f"linking needs one round of pseudonyms and one of known users who get cluster "
                f"models, found {len(probe_rounds)} and {len(named)}: treat the transcript by "
                "privaudit.attacks.pseudonyms.pseudonymise_round"
            )
        probes, probe = together[probe_rounds[0]]
        users = tuple(sorted({u for t in named for u in together[t][0]}))
        place = {u: i for i, u in enumerate(users)}
        total, seen = np.zeros((2, len(users), len(users)))
        for t in named:
            ids, same = together[t]
            at = np.ix_([place[u] for u in ids], [place[u] for u in ids])
            total[at] += same
            seen[at] += 1
        return probes, probe, users, np.where(seen > 0, total / np.maximum(seen, 1), np.nan)


def _together(view: View) -> dict[int, tuple[tuple[PartyId, ...], Float64]]:
    """Return for each round who got a model, and whether two of them got the same one."""
    received: dict[int, dict[PartyId, bytes]] = {}
    for kind, name in CLUSTER_KINDS.items():
        for message in view.select(kind):
            if message.receiver not in view.coalition.members and message.round is not None:
                payload = message.arrays[name].tobytes()
                received.setdefault(message.round, {})[message.receiver] = payload
    result = {}
    for t, models in received.items():
        ids = tuple(models)
        same = np.array([[models[a] == models[b] for b in ids] for a in ids], dtype=np.float64)
        result[t] = ids, same
    return result


def _undefined_diagonal(matrix: Float64) -> Float64:
    result = matrix.copy()
    np.fill_diagonal(result, np.nan)
    return result


def _positions(view: View, users: list[PartyId]) -> tuple[Array, ...]:
    place = {p.id: i for i, p in enumerate(q for q in view.parties if q.role == "user")}
    return tuple(np.array(place[u], dtype=np.int64) for u in users)
