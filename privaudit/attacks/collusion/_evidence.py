"""The messages of one round that bear on users' updates, sorted by what they tell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.collusion.aggregates import last_summand, mixing_weights, subtract_equally
from privaudit.errors import CorruptRecordingError, UnmetRequirementsError
from privaudit.protocols.baselines import kinds as baseline_kinds
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Message, PartyId, View

__all__ = ["Evidence", "first_round"]

Vector = npt.NDArray[np.float32]


def first_round(view: View, wanted: Iterable[str], *, asked: int | None) -> int:
    """Return the round asked for, or the first in which the view holds a message of these kinds.

    Raises
    ------
    UnmetRequirementsError
        If there is none.
    """
    kinds_read = set(wanted)
    rounds = sorted({m.round for m in view.messages if m.kind in kinds_read and m.round})
    if asked is None and rounds:
        return rounds[0]
    if asked in rounds:
        return int(asked) if asked is not None else 0
    raise UnmetRequirementsError(
        f"the view of {view.coalition} holds no message about updates "
        f"{'at all' if asked is None else f'in round {asked}'}; rounds with some: {rounds}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """An aggregate, (d,) float32, and the members of the coalition that received it."""

    kind: str
    values: Vector
    recipients: tuple[PartyId, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What the messages of one round in a view say, by user.

    Attributes
    ----------
    round, dimension : int
    users, targets : tuple of PartyId
        All users, and those outside the coalition.
    permutation, rest : ndarray of int64, shapes (k,) and (d - k,), or None
        pi^g and the other coordinates in ascending order, where the view holds them.
    sequences, important, noised, plain, shuffled, full : mappings by user
        Payloads of the messages that the view holds.
    clusters : mapping of PartyId to tuple of PartyId
        The pre-cluster of each user, where the view holds the pre-clustering.
    aggregates : tuple of Aggregate
        Each distinct aggregate that reached a member of the coalition.
    servers : bool
        Whether a party that is no user is in the coalition.
    """

    round: int
    dimension: int
    users: tuple[PartyId, ...]
    targets: tuple[PartyId, ...]
    permutation: npt.NDArray[np.int64] | None
    rest: npt.NDArray[np.int64] | None
    sequences: Mapping[PartyId, npt.NDArray[np.int64]]
    important: Mapping[PartyId, Vector]
    noised: Mapping[PartyId, Vector]
    plain: Mapping[PartyId, Vector]
    shuffled: Mapping[PartyId, Vector]
    full: Mapping[PartyId, Vector]
    clusters: Mapping[PartyId, tuple[PartyId, ...]]
    aggregates: tuple[Aggregate, ...]
    servers: bool

    @classmethod
    def of(cls, view: View, *, round: int) -> Evidence:
        """Sort the messages of a round.

        Raises
        ------
        UnmetRequirementsError
            If no message tells the dimension of the updates.
        CorruptRecordingError
            If a payload has another length than the others imply, or a coordinate that does not
            exist.
        """
        users = tuple(p.id for p in view.parties if p.role == "user")
        members = view.coalition.members

        def sent(kind: str, array: str) -> dict[PartyId, npt.NDArray[np.generic]]:
            return {m.sender: m.arrays[array] for m in view.select(kind, round=round)}

        important, noised, plain = (
            _floats(sent(kind, "values"))
            for kind in (kinds.IMPORTANT_VALUES, kinds.NOISED_REMAINDER, kinds.PLAIN_REMAINDER)
        )
        shuffled = _floats(
            {
                _user_of(m): m.arrays["values"]
                for m in view.select(kinds.SHUFFLED_REMAINDER, round=round)
            }
        )
        full = _floats(sent(kinds.FULL_UPDATE, "values") | sent(baseline_kinds.UPDATE, "values"))
        sequences = {
            m.sender: m.arrays["indices"].astype(np.int64)
            for m in view.select(kinds.PERMUTATION_SEQUENCE, round=round)
        }
        broadcast = view.select(kinds.GLOBAL_PERMUTATION, round=round)
        permutation = broadcast[0].arrays["indices"].astype(np.int64) if broadcast else None
        aggregates = _aggregates(view, round=round)
        heads = [len(v) for v in important.values()]
        if permutation is not None:
            heads.append(len(permutation))
        tails = [len(v) for group in (noised, plain, shuffled) for v in group.values()]
        whole = [len(v) for v in full.values()] + [len(a.values) for a in aggregates]
        dimension = _dimension(heads, tails, whole, round=round)
        return cls(
            round=round,
            dimension=dimension,
            users=users,
            targets=tuple(u for u in users if u not in members),
            permutation=permutation,
            rest=None if permutation is None else _complement(permutation, dimension, round=round),
            sequences=sequences,
            important=important,
            noised=noised,
            plain=plain,
            shuffled=shuffled,
            full=full,
            clusters=_clusters(view.select(kinds.PRE_CLUSTERING, round=round)),
            aggregates=aggregates,
            servers=not members <= set(users),
        )

    def cluster_of(self, user: PartyId) -> tuple[PartyId, ...] | None:
        """Return the user's pre-cluster if the view holds its shuffled columns."""
        cluster = self.clusters.get(user)
        if cluster is None or not all(member in self.shuffled for member in cluster):
            return None
        return cluster

    def columns(
        self, cluster: Sequence[PartyId]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return a pre-cluster's shuffled columns, and the reports that members know as theirs."""
        shuffled = np.stack([self.shuffled[u] for u in cluster])
        own = [self.noised[u] for u in cluster if u in self.noised]
        known = np.stack(own) if own else np.empty((0, shuffled.shape[1]), dtype=np.float32)
        return shuffled, known

    def derived_important(self) -> dict[PartyId, Vector]:
        """Return users' important values that follow from an aggregate and all other summands."""
        if self.permutation is None or all(user in self.important for user in self.targets):
            return {}
        k = len(self.permutation)
        found: dict[PartyId, Vector] = {}
        complete = all(user in self.shuffled for user in self.users)
        reports = np.stack([self.shuffled[u] for u in self.users]) if complete else None
        for aggregate in self.aggregates:
            important, rest = aggregate.values[:k], aggregate.values[k:]
            if reports is not None:
                weights = mixing_weights(rest, reports)
                if weights is None:
                    continue
                inside = {
                    user: float(w) for user, w in zip(self.users, weights, strict=True) if w != 0
                }
                last = last_summand(important, inside, self.important)
                if last is not None:
                    found[last[0]] = last[1]
            elif (
                not self.servers
                and len(self.targets) == 1
                and aggregate.kind == kinds.CLUSTER_AGGREGATE
            ):
                own = np.stack([self.important[u] for u in aggregate.recipients])
                approximate = subtract_equally(important, own)
                if approximate is not None:
                    found[self.targets[0]] = approximate
        return found


def _floats(arrays: Mapping[PartyId, npt.NDArray[np.generic]]) -> dict[PartyId, Vector]:
    return {party: np.asarray(array, dtype=np.float32) for party, array in arrays.items()}


def _user_of(message: Message) -> PartyId:
    user = message.meta.get("user")
    if not isinstance(user, str):
        raise CorruptRecordingError(
            f"message {message.seq} ({message.kind}): metadata must name its 'user', holds "
            f"{sorted(message.meta)}"
        )
    return user


def _aggregates(view: View, *, round: int) -> tuple[Aggregate, ...]:
    found: dict[bytes, Aggregate] = {}
    for kind in (kinds.CLUSTER_AGGREGATE, kinds.GLOBAL_AGGREGATE):
        for message in view.select(kind, round=round):
            if message.receiver not in view.coalition.members:
                continue
            values = np.asarray(message.arrays["values"], dtype=np.float32)
            key = hashlib.sha256(values.tobytes()).digest()
            others = found[key].recipients if key in found else ()
            found[key] = Aggregate(kind, values, (*others, message.receiver))
    return tuple(found.values())


def _clusters(messages: Sequence[Message]) -> dict[PartyId, tuple[PartyId, ...]]:
    if not messages:
        return {}
    (message,) = messages[:1]
    named = message.meta.get("users")
    users = [str(u) for u in named] if isinstance(named, Sequence) else []
    assignment = message.arrays["assignment"]
    if len(users) != len(assignment):
        raise CorruptRecordingError(
            f"{message.kind}, round {message.round}: {len(users)} users and "
            f"{len(assignment)} assignments"
        )
    return {
        user: tuple(u for u, c in zip(users, assignment, strict=True) if c == cluster)
        for user, cluster in zip(users, assignment, strict=True)
    }


def _dimension(
    heads: Sequence[int], tails: Sequence[int], whole: Sequence[int], *, round: int
) -> int:
    sizes = set(whole)
    if heads and tails:
        sizes |= {head + tail for head in heads for tail in tails}
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise UnmetRequirementsError(
            f"round {round}: no message in the view tells how many coordinates an update has"
        )
    raise CorruptRecordingError(
        f"round {round}: payloads imply updates of different lengths: {sorted(sizes)}"
    )


def _complement(
    permutation: npt.NDArray[np.int64], dimension: int, *, round: int
) -> npt.NDArray[np.int64]:
    distinct = np.unique(permutation)
    if distinct.size != permutation.size or distinct[0] < 0 or distinct[-1] >= dimension:
        raise CorruptRecordingError(
            f"round {round}: the global permutation sequence must hold distinct coordinates from "
            f"0 to {dimension - 1}"
        )
    return np.setdiff1d(np.arange(dimension, dtype=np.int64), distinct, assume_unique=True)
