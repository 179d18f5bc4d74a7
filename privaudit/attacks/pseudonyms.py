"""Hiding who took part in one round, to ask whether what was sent tells it nevertheless."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from privaudit.attacks._messages import array_of
from privaudit.attacks._similarities import pairs_of
from privaudit.attacks.control import PSEUDONYM_ROLE
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.transcript import Array, Message, Party, PartyId, Transcript

__all__ = ["pseudonymise_round"]

Pair = tuple[PartyId, PartyId]


def pseudonymise_round(
    transcript: Transcript, *, round: int, kinds: Collection[str], rng: np.random.Generator
) -> tuple[Transcript, Mapping[PartyId, PartyId]]:
    """Give every user of one round a pseudonym, in all that messages of some kinds say of it.

    Senders, receivers and the ids that a meta ``pairs`` lists are replaced; other metadata are
    dropped. What would tell users by their place goes too: messages of one sender each are put in
    random order, and the values of pairs are gathered and sent anew as if users had taken part in
    the order of their pseudonyms (who starts a comparison, and with how many, follows from that
    order). Messages of all other kinds in that round are left out: the question is what the named
    kinds tell alone.

    Parameters
    ----------
    transcript : Transcript
    round : int
    kinds : collection of str
        Kinds whose messages have a user as one end, or ``pairs`` of users in their metadata.
    rng : numpy.random.Generator

    Returns
    -------
    transcript : Transcript
        The same run; the messages are numbered anew.
    users : mapping of PartyId to PartyId
        The user behind each pseudonym: truth, to be kept from the attack.

    Raises
    ------
    ConfigurationError
        If the round has no message of these kinds with a user.
    InvalidDataError
        If a message's ``pairs`` are no pairs of ids, or an array does not have one row each.
    """
    everyone = transcript.ids("user")
    chosen = [m for m in transcript.messages if m.round == round and m.kind in kinds]
    mentioned = {p for m in chosen for p in (m.sender, m.receiver, *_members(m))}
    present = [user for user in everyone if user in mentioned]
    if not present:
        rounds = sorted({m.round for m in transcript.messages if m.kind in kinds and m.round})
        raise ConfigurationError(
            f"no message of kind {', '.join(sorted(kinds))} with a user in round {round}; rounds "
            f"with some: {rounds}"
        )
    # A stream of its own: an attack that were given a generator of the same seed must not draw
    # the same permutation.
    stream = np.random.default_rng([*rng.integers(2**32, size=4).tolist(), 3])
    order = stream.permutation(len(present))
    names = {present[i]: f"{PSEUDONYM_ROLE}-{n}" for n, i in enumerate(order)}
    hidden: list[Message] = []
    for kind in sorted({m.kind for m in chosen}):
        messages = [m for m in chosen if m.kind == kind]
        if all("pairs" in m.meta for m in messages):
            hidden.extend(_pairs_anew(messages, names))
        else:
            hidden.extend(_shuffled(messages, names, rng=stream))
    before = [m for m in transcript.messages if m.round is None or m.round < round]
    after = [m for m in transcript.messages if m.round is not None and m.round > round]
    treated = replace(
        transcript,
        parties=(
            *transcript.parties,
            *(Party(f"{PSEUDONYM_ROLE}-{n}", PSEUDONYM_ROLE) for n in range(len(present))),
        ),
        messages=tuple(replace(m, seq=n) for n, m in enumerate([*before, *hidden, *after])),
    )
    return treated, MappingProxyType({name: user for user, name in names.items()})


def _members(message: Message) -> tuple[PartyId, ...]:
    if "pairs" not in message.meta:
        return ()
    return tuple(p for pair in pairs_of(message) for p in pair)


def _shuffled(
    messages: Sequence[Message], names: Mapping[PartyId, PartyId], *, rng: np.random.Generator
) -> list[Message]:
    return [
        replace(
            messages[i],
            sender=names.get(messages[i].sender, messages[i].sender),
            receiver=names.get(messages[i].receiver, messages[i].receiver),
            meta=MappingProxyType({}),
        )
        for i in rng.permutation(len(messages))
    ]


def _pairs_anew(messages: Sequence[Message], names: Mapping[PartyId, PartyId]) -> list[Message]:
    """Send the values of all pairs again, ordered by the pseudonyms."""
    place = {name: n for n, name in enumerate(sorted(names.values(), key=_number))}
    template = messages[0]
    rows: dict[Pair, tuple[Message, int]] = {}
    for message in messages:
        pairs = pairs_of(message)
        for name in template.arrays:
            if array_of(message, name).shape[:1] != (len(pairs),):
                raise InvalidDataError(
                    f"{message.kind} of {message.sender}, round {message.round}: {len(pairs)} "
                    f"pairs need as many rows of '{name}', got shape {message.arrays[name].shape}"
                )
        for row, (u, v) in enumerate(pairs):
            first, second = sorted(
                (names.get(u, u), names.get(v, v)), key=lambda p: place.get(p, -1)
            )
            rows[first, second] = message, row
    ordered = sorted(rows, key=lambda pair: (place.get(pair[0], -1), place.get(pair[1], -1)))
    if all(m.sender in names for m in messages):
        groups = [
            [p for p in ordered if p[0] == start] for start in dict.fromkeys(p for p, _ in ordered)
        ]
    else:
        groups = [ordered]
    result = []
    for group in groups:
        arrays: dict[str, Array] = {
            name: np.stack([rows[pair][0].arrays[name][rows[pair][1]] for pair in group])
            for name in template.arrays
        }
        sender = group[0][0] if template.sender in names else template.sender
        result.append(
            replace(
                template,
                sender=sender,
                arrays=MappingProxyType(arrays),
                meta=MappingProxyType({"pairs": [list(pair) for pair in group]}),
            )
        )
    return result


def _number(name: PartyId) -> int:
    return int(name.rsplit("-", 1)[1])
