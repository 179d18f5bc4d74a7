"""Who may collude with whom, smallest coalitions first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Capability, Coalition, PartyId, Transcript

__all__ = ["CoalitionClass", "coalitions"]

#: How the literature abbreviates the servers of PA-CFL.
ABBREVIATIONS = {kinds.MANAGEMENT_SERVER: "MS", kinds.AGGREGATION_SERVER: "AS"}


@dataclass(frozen=True, slots=True)
class CoalitionClass:
    """Coalitions alike in who takes part, of which some stand for all.

    Attributes
    ----------
    label : str
        For example ``"AS + 1 user"``.
    size : int
        Number of members, the same for all.
    coalitions : tuple of Coalition
        Representatives, the one expected to be worst for the users first.
    """

    label: str
    size: int
    coalitions: tuple[Coalition, ...]


def coalitions(
    transcript: Transcript, *, capabilities: Iterable[Capability] = (), draws: int = 2
) -> Iterator[CoalitionClass]:
    """List the classes of coalitions of users and servers, smallest first.

    One user; each server; two users; each server with one user; all pairs of servers; each server
    with all users of one pre-cluster but one (where there are pre-clusters); each server with all
    users but one. Servers are the parties whose role is neither ``"user"`` nor ``"pseudonym"``.

    Representatives are chosen without randomness: first from the smallest pre-cluster that has two
    users, where a colluder takes away most, then evenly spaced over the users.

    Parameters
    ----------
    capabilities : iterable of Capability
        Granted to every coalition.
    draws : int
        Representatives of a class at most.
    """
    granted = frozenset(capabilities)
    users = transcript.ids("user")
    servers = [p.id for p in transcript.parties if p.role not in ("user", "pseudonym")]
    clusters = _pre_clusters(transcript)
    singles = _spread(users, first=[c[0] for c in clusters], draws=draws)
    pairs = _pairs(users, clusters, draws=draws)
    server_pairs = [(a, b) for i, a in enumerate(servers) for b in servers[i + 1 :]]

    found: list[CoalitionClass] = []

    def add(label: str, members: Iterable[Sequence[PartyId]]) -> None:
        sets = dict.fromkeys(frozenset(m) for m in members)
        # A coalition of everybody has nobody left to learn about.
        kept = [s for s in sets if not set(users) <= s]
        listed = [{coalition.members for coalition in c.coalitions} for c in found]
        if kept and not any(kept[0] in members for members in listed):
            made = tuple(Coalition(s, granted) for s in kept)
            found.append(CoalitionClass(label, len(kept[0]), made))

    add("1 user", [(u,) for u in singles])
    for server in servers:
        add(_short(server), [(server,)])
    add("2 users", pairs)
    for server in servers:
        add(f"{_short(server)} + 1 user", [(server, u) for u in singles])
    for pair in server_pairs:
        add(" + ".join(_short(s) for s in pair), [pair])
    for server in servers:
        for cluster in clusters[:1]:
            add(
                f"{_short(server)} + all but one of a pre-cluster",
                [(server, *_without(cluster, u)) for u in _spread(cluster, draws=draws)],
            )
        add(
            f"{_short(server)} + all but one user",
            [(server, *_without(users, u)) for u in singles],
        )
    yield from sorted(found, key=lambda c: c.size)


def _short(server: PartyId) -> str:
    return ABBREVIATIONS.get(server, server)


def _without(users: Sequence[PartyId], target: PartyId) -> tuple[PartyId, ...]:
    return tuple(u for u in users if u != target)


def _spread(
    users: Sequence[PartyId], *, first: Sequence[PartyId] = (), draws: int
) -> tuple[PartyId, ...]:
    """Return the first choice, then users evenly spaced, each once."""
    spaced = [users[i] for i in np.linspace(0, len(users) - 1, min(draws, len(users))).astype(int)]
    return tuple(dict.fromkeys([*first[:1], *reversed(spaced)]))[:draws]


def _pairs(
    users: Sequence[PartyId], clusters: Sequence[Sequence[PartyId]], *, draws: int
) -> tuple[tuple[PartyId, PartyId], ...]:
    if len(users) < 2:
        return ()
    together = [(c[0], c[1]) for c in clusters if len(c) > 2]
    apart = [(users[0], users[-1])]
    return tuple(dict.fromkeys([*together[:1], *apart]))[:draws]


def _pre_clusters(transcript: Transcript) -> list[tuple[PartyId, ...]]:
    """Return the pre-clusters of the first round that have two users at least, smallest first."""
    for message in transcript.messages:
        if message.kind == kinds.PRE_CLUSTERING:
            named = message.meta.get("users")
            ids = [str(u) for u in named] if isinstance(named, Sequence) else []
            groups: dict[int, list[PartyId]] = {}
            for user, cluster in zip(ids, message.arrays["assignment"], strict=True):
                groups.setdefault(int(cluster), []).append(user)
            return sorted((tuple(g) for g in groups.values() if len(g) > 1), key=len)
    return []
