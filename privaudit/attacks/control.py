"""Experiments on a view or transcript that tell what an attack's success rests on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.protocols.disue.kinds import (
    SHARED_KEY_CIPHERTEXT,
    SIMILARITY_CHALLENGE,
    SIMILARITY_RESPONSE,
)
from privaudit.transcript import (
    Array,
    Message,
    Party,
    PartyId,
    Transcript,
    Truth,
    View,
    frozen_arrays,
)

__all__ = [
    "PSEUDONYM_ROLE",
    "NothingToDerangeError",
    "deranged",
    "deranged_rows",
    "derangement",
    "leaked",
    "linking_truth",
    "pseudonymise",
]

#: Role of a party that stands for a user whose identity was removed.
PSEUDONYM_ROLE = "pseudonym"

#: Kinds of messages that may be relayed, and the metadata that name their author.
_AUTHORS = {
    SIMILARITY_CHALLENGE: "initiator",
    SHARED_KEY_CIPHERTEXT: "initiator",
    SIMILARITY_RESPONSE: "responder",
}


class NothingToDerangeError(ConfigurationError):
    """A view holds too few messages for the control experiment: there is nothing to exchange."""


def _own_stream(rng: np.random.Generator, purpose: int) -> np.random.Generator:
    """Derive a generator for one purpose.

    An experiment may hand generators of one seed to the treatment and to the attack; were both to
    draw the same permutation, a random guess would undo the treatment.
    """
    return np.random.default_rng([*rng.integers(2**32, size=4).tolist(), purpose])


def derangement(n: int, *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw a uniformly random permutation that leaves nothing in its place.

    Drawn by rejection; a permutation is a derangement with probability about 1/e.

    Raises
    ------
    ConfigurationError
        If ``n`` is less than two: then there is none.
    """
    if n < 2:
        raise ConfigurationError(f"a derangement needs at least two elements, got {n}")
    identity = np.arange(n)
    while True:
        order = rng.permutation(n)
        if not (order == identity).any():
            return order.astype(np.int64)


def deranged(view: View, *, kinds: Iterable[str], rng: np.random.Generator) -> View:
    """Return the view with the payloads of some kinds exchanged among their senders.

    The control experiment: whoever sent what is wrong for every sender, while the payloads as a
    whole are the same. An attack that does as well on this view reads something else than its
    target's own messages. Within each round and kind the arrays of each sender's messages are
    replaced by those of another, by one random derangement of the senders; ends, order and
    metadata stay. Where a single party sent all messages of a round and kind, they are deranged
    among the messages; a single message stays as it is. Where all messages of a round and kind
    list ``pairs`` in their metadata, the values of the pairs are deranged among all of these; a
    single pair stays as it is.
    Messages that a party relays for others (ciphertexts and responses of DisUE) count as their
    author's, whom the metadata name. What members of the coalition wrote stays, for they know it,
    where two others wrote messages of the kind.

    Raises
    ------
    NothingToDerangeError
        If no payload could be exchanged.
    ConfigurationError
        If two senders did not send to the same receivers.
    """
    rng = _own_stream(rng, 1)
    groups: dict[tuple[str, int | None], list[Message]] = defaultdict(list)
    for message in view.messages:
        groups[message.kind, message.round].append(message)
    wanted = set(kinds)
    swapped: dict[int, Message] = {}
    for (kind, _), messages in groups.items():
        if kind not in wanted:
            continue
        if kind in _AUTHORS:
            swapped.update(_exchanged_by_author(messages, view.coalition.members, rng=rng))
        elif all("pairs" in message.meta for message in messages):
            swapped.update(_exchanged_pairs(messages, rng=rng))
        elif len(messages) > 1:
            others = [m for m in messages if m.sender not in view.coalition.members]
            enough = len({m.sender for m in others}) > 1
            swapped.update(_exchanged(others if enough else messages, rng=rng))
    if not swapped:
        raise NothingToDerangeError(
            f"nothing to derange: the view of {view.coalition} holds no two messages of one round "
            f"and kind among {', '.join(sorted(wanted))}"
        )
    return replace(view, messages=tuple(swapped.get(m.seq, m) for m in view.messages))


def _exchanged_pairs(
    messages: Sequence[Message], *, rng: np.random.Generator
) -> dict[int, Message]:
    names = sorted(messages[0].arrays)
    counts = {len(message.arrays[name]) for message in messages for name in names}
    pooled = {name: np.concatenate([m.arrays[name] for m in messages]) for name in names}
    total = max((len(values) for values in pooled.values()), default=0)
    if total < 2:
        return {}
    if any(len(values) != total for values in pooled.values()):
        raise ConfigurationError(
            f"{messages[0].kind}, round {messages[0].round}: deranging pairs needs "
            f"one entry a pair in every array; lengths found: {sorted(counts)}"
        )
    order = derangement(total, rng=rng)
    ends = np.cumsum([len(m.arrays[names[0]]) for m in messages])[:-1]
    parts = {name: np.split(values[order], ends) for name, values in pooled.items()}
    return {
        message.seq: replace(
            message, arrays=MappingProxyType({name: parts[name][i] for name in names})
        )
        for i, message in enumerate(messages)
    }


def _exchanged(messages: Sequence[Message], *, rng: np.random.Generator) -> dict[int, Message]:
    senders = sorted({message.sender for message in messages})
    if len(senders) == 1:
        order = derangement(len(messages), rng=rng)
        return {
            message.seq: replace(message, arrays=messages[source].arrays)
            for message, source in zip(messages, order, strict=True)
        }
    order = derangement(len(senders), rng=rng)
    source_of = {sender: senders[source] for sender, source in zip(senders, order, strict=True)}
    sent: dict[tuple[PartyId, PartyId], list[Message]] = defaultdict(list)
    for message in messages:
        sent[message.sender, message.receiver].append(message)
    result: dict[int, Message] = {}
    for (sender, receiver), own in sent.items():
        others = sent.get((source_of[sender], receiver), [])
        if len(others) != len(own):
            raise ConfigurationError(
                f"{own[0].kind}, round {own[0].round}: {sender} and {source_of[sender]} did not "
                f"send the same number of messages to {receiver}, so they cannot be exchanged"
            )
        for message, other in zip(own, others, strict=True):
            result[message.seq] = replace(message, arrays=other.arrays)
    return result


def deranged_rows(
    view: View,
    *,
    kinds: Iterable[str],
    rows: int,
    rng: np.random.Generator,
    separately: bool = False,
) -> View:
    """Return the view with the rows of some kinds' arrays exchanged among one another.

    The control experiment for messages that hold one row a person: every row is another's, while
    the messages as a whole are the same. One random derangement is applied to all arrays of
    ``rows`` rows, so that what belongs together stays together; an array named ``rows``, which
    tells whose they are, stays as it is.

    Parameters
    ----------
    view : View
    kinds : iterable of str
        Kinds of messages to derange.
    rows : int
        Persons in the run; arrays of another length are not touched.
    rng : Generator
    separately : bool
        Derange each column by itself, so that what belongs together is torn apart as well; for
        attacks that do not care which row is whose, such as one on membership.

    Raises
    ------
    NothingToDerangeError
        If no array of such messages has so many rows.
    """
    rng = _own_stream(rng, 3)
    wanted = set(kinds)
    order = derangement(rows, rng=rng)
    found = False

    def treated(name: str, array: Array) -> Array:
        nonlocal found
        if name == "rows" or array.ndim == 0 or len(array) != rows:
            return array
        found = True
        if not separately or array.ndim == 1:
            return array[order]
        columns = [column[derangement(rows, rng=rng)] for column in np.moveaxis(array, 1, 0)]
        return np.stack(columns, axis=1)

    messages = tuple(
        replace(
            m, arrays=frozen_arrays({k: treated(k, np.asarray(a)) for k, a in m.arrays.items()})
        )
        if m.kind in wanted
        else m
        for m in view.messages
    )
    if not found:
        raise NothingToDerangeError(
            f"nothing to derange: the view of {view.coalition} holds no array of {rows} rows in "
            f"messages of kinds {', '.join(sorted(wanted))}"
        )
    return replace(view, messages=messages)


def leaked(
    transcript: Transcript,
    *,
    kinds: Iterable[str],
    ids: str,
    outsider: PartyId,
    rng: np.random.Generator,
) -> Transcript:
    """Add a stranger to whom messages of some kinds leaked, with their rows in random order.

    Parameters
    ----------
    transcript : Transcript
    kinds : iterable of str
    ids : str
        Public array of the rows' ids. A leaked message holds them, in its own order, as array
        ``rows``; all have the same order.
    outsider : PartyId
        Id of the stranger; its role is ``"outsider"``.
    rng : Generator

    Raises
    ------
    ConfigurationError
        If the ids are not public, no message is of these kinds, or the id is taken.
    """
    wanted = set(kinds)
    chosen = [m for m in transcript.messages if m.kind in wanted]
    if ids not in transcript.public_arrays or not chosen:
        raise ConfigurationError(
            f"a leak needs the public array '{ids}' and messages of kinds "
            f"{', '.join(sorted(wanted))}; the run has {len(chosen)} of them"
        )
    if outsider in {party.id for party in transcript.parties}:
        raise ConfigurationError(f"'{outsider}' is a party of the run already")
    rows = transcript.public_arrays[ids]
    order = _own_stream(rng, 4).permutation(len(rows))
    end = 1 + max(m.seq for m in transcript.messages)
    copies = []
    for i, message in enumerate(chosen):
        arrays = {
            name: array[order] if array.ndim and len(array) == len(rows) else array
            for name, array in message.arrays.items()
        }
        arrays["rows"] = rows[order]
        copies.append(
            replace(message, seq=end + i, receiver=outsider, arrays=frozen_arrays(arrays))
        )
    return replace(
        transcript,
        parties=(*transcript.parties, Party(outsider, "outsider")),
        messages=(*transcript.messages, *copies),
    )


def _exchanged_by_author(
    messages: Sequence[Message], members: Set[PartyId], *, rng: np.random.Generator
) -> dict[int, Message]:
    """Exchange the payloads of messages that may have been relayed, by one derangement."""
    written: dict[PartyId, list[Message]] = defaultdict(list)
    for message in messages:
        author = str(message.meta.get(_AUTHORS[message.kind], message.sender))
        if author not in members:
            written[author].append(message)
    authors = sorted(written)
    if len(authors) < 2:
        return {}
    order = derangement(len(authors), rng=rng)
    result: dict[int, Message] = {}
    for author, source in zip(authors, order, strict=True):
        others = written[authors[source]]
        for message in written[author]:
            # The numbers of messages may differ: the first client of a list asks all others, the
            # last but one only the last.
            same = [m for m in others if m.receiver == message.receiver]
            result[message.seq] = replace(message, arrays=(same or others)[0].arrays)
    return result


def pseudonymise(
    transcript: Transcript, *, kind: str, round: int, rng: np.random.Generator
) -> tuple[Transcript, Mapping[PartyId, PartyId]]:
    """Replace the senders of one kind in one round by pseudonyms.

    Each sender becomes a new party of role ``"pseudonym"``. The messages are also put in random
    order, because users who report in a fixed order would be known by it, and lose their
    metadata, which may name the sender.

    Returns
    -------
    transcript : Transcript
        The same run with pseudonymous senders.
    users : mapping of PartyId to PartyId
        The user behind each pseudonym: truth, to be kept from the attack.

    Raises
    ------
    ConfigurationError
        If no message has this kind and round, or a party sent two of them.
    """
    chosen = [m for m in transcript.messages if m.kind == kind and m.round == round]
    senders = [m.sender for m in chosen]
    if not chosen or len(set(senders)) != len(senders):
        rounds = sorted({m.round for m in transcript.messages if m.kind == kind and m.round})
        raise ConfigurationError(
            f"pseudonymise needs one '{kind}' message a sender in round {round}, found "
            f"{len(chosen)} of {len(set(senders))} senders; rounds with this kind: {rounds}"
        )
    names = [f"{PSEUDONYM_ROLE}-{i}" for i in range(len(chosen))]
    source = _own_stream(rng, 2).permutation(len(chosen))
    by_slot: dict[int, Message] = {}
    users: dict[PartyId, PartyId] = {}
    for slot, name, index in zip(chosen, names, source, strict=True):
        original = chosen[index]
        users[name] = original.sender
        by_slot[slot.seq] = replace(
            slot,
            sender=name,
            receiver=original.receiver,
            arrays=original.arrays,
            meta=MappingProxyType({}),
        )
    hidden = replace(
        transcript,
        parties=(*transcript.parties, *(Party(name, PSEUDONYM_ROLE) for name in names)),
        messages=tuple(by_slot.get(m.seq, m) for m in transcript.messages),
    )
    return hidden, MappingProxyType(users)


def linking_truth(
    transcript: Transcript,
    users: Mapping[PartyId, PartyId],
    *,
    gallery: Collection[PartyId] | None = None,
) -> Truth:
    """Return the truth of a linking attack: ``user`` () int64 for each pseudonym.

    ``user`` is the position of the user among ``transcript.ids("user")``; with ``gallery``, the
    users that the attack can know, it is -1 for all others.
    """
    position = {
        user: i if gallery is None or user in gallery else -1
        for i, user in enumerate(transcript.ids("user"))
    }
    return Truth(
        {
            name: MappingProxyType({"user": np.array(position[user], dtype=np.int64)})
            for name, user in users.items()
        }
    )
