"""The ledger of DisUE: what each transcript shows to have been released, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.disue import kinds
from privaudit.transcript import Message, PartyId, Transcript

__all__ = ["RECORDS", "derive_events"]

RECORDS = "all records of one client in one round"

Parties = Callable[[Message], tuple[PartyId, ...]]


def _sender(message: Message) -> tuple[PartyId, ...]:
    return (message.sender,)


def _named(name: str) -> Parties:
    return lambda message: (str(message.meta[name]),)


def _pairs(message: Message) -> tuple[PartyId, ...]:
    pairs = message.meta["pairs"]
    assert isinstance(pairs, list | tuple)
    return tuple(dict.fromkeys(str(c) for pair in pairs for c in pair))


def _ends(message: Message) -> tuple[PartyId, ...]:
    return (message.sender, message.receiver)


def _receiver(message: Message) -> tuple[PartyId, ...]:
    return (message.receiver,)


def _values(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _without_pads(shape: tuple[int, ...]) -> int:
    return shape[0] - 2


@dataclass(frozen=True, slots=True)
class _Release:
    """What a kind of message gives away.

    ``array`` and ``count`` tell how many values a message gives away; ``parts`` says that the
    messages of a round are parts of one release. Who is a message's only subject observes nothing
    new in it.
    """

    what: str
    array: str
    subjects: Parties = _sender
    observers: Parties = _ends
    count: Callable[[tuple[int, ...]], int] = _values
    parts: bool = False


_BROKEN = "PCSC ciphertexts are no protection"
_RELEASES: Mapping[str, _Release] = {
    kinds.PARAMETERS: _Release("the trained model", "parameters"),
    kinds.CLASS_COUNTS: _Release("number of records of each class", "counts"),
    kinds.SIMILARITY_VALUES: _Release("cosines between clients", "cosines", _pairs, parts=True),
    kinds.SIMILARITY_CHALLENGE: _Release(
        f"the quantised vector: {_BROKEN}",
        "ciphertexts",
        _named("initiator"),
        count=_without_pads,
    ),
    kinds.SHARED_KEY_CIPHERTEXT: _Release(
        f"the quantised vector: {_BROKEN}", "ciphertexts", count=_without_pads
    ),
    kinds.SIMILARITY_RESPONSE: _Release(
        "inner product with the initiator's vector, and the responder's norm",
        "response",
        _named("responder"),
        count=lambda shape: 2,
    ),
    kinds.SIMILARITY_PRODUCTS: _Release(
        "inner products of quantised vectors", "products", _pairs, count=lambda shape: shape[0]
    ),
    kinds.INNER_PRODUCT_SHARES: _Release(
        "inner products of quantised vectors", "products", _pairs, _receiver
    ),
    kinds.CLUSTER_CHOICE: _Release("the cluster model of least loss", "cluster"),
    kinds.GRADIENT_PROFILE: _Release("coordinates of the gradient", "values"),
    kinds.SUBSPACE: _Release("singular vectors of the raw images, by class", "vectors"),
}
_SUM = "the sum of the trained models of a cluster"


def derive_events(transcript: Transcript) -> tuple[PrivacyEvent, ...]:
    """Derive the privacy events from the messages that were sent: nothing has a bound.

    DisUE claims no differential privacy; every event is an unprotected release. Ciphertexts of
    PCSC count as the vector that they carry, for every party that receives or relays them; masked
    models count as the sum that the server gets of each cluster, whose members are the event's
    subjects; single shares release nothing.
    """
    by_round: dict[int, list[Message]] = {}
    for message in transcript.messages:
        if message.round is not None:
            by_round.setdefault(message.round, []).append(message)
    events: list[PrivacyEvent] = []
    for t, messages in sorted(by_round.items()):
        for kind, release in _RELEASES.items():
            found = [m for m in messages if m.kind == kind]
            if found:
                events.append(_event(t, release, found))
        events.extend(_sums(t, messages))
    return tuple(events)


def _event(t: int, release: _Release, messages: list[Message]) -> PrivacyEvent:
    counts = [release.count(m.specs[release.array].shape) for m in messages]
    observers: set[PartyId] = set()
    for message in messages:
        subjects = set(release.subjects(message))
        observers |= set(release.observers(message)) - (subjects if len(subjects) == 1 else set())
    return _unprotected(
        t,
        release.what,
        sum(counts) if release.parts else max(counts),
        (s for m in messages for s in release.subjects(m)),
        observers,
    )


def _sums(t: int, messages: list[Message]) -> list[PrivacyEvent]:
    """Return one event a cluster whose members masked their models with one another."""
    masked = {m.sender: m for m in messages if m.kind == kinds.MASKED_PARAMETERS}
    clusters: dict[frozenset[PartyId], list[PartyId]] = {}
    for message in messages:
        if message.kind == kinds.CLUSTER_PEERS and message.receiver in masked:
            peers = message.meta["peers"]
            assert isinstance(peers, list | tuple)
            members = frozenset({message.receiver, *(str(p) for p in peers)})
            clusters.setdefault(members, []).append(message.receiver)
    return [
        _unprotected(
            t,
            _SUM,
            masked[members[0]].specs["values"].shape[0],
            members,
            {masked[m].receiver for m in members},
        )
        for members in clusters.values()
    ]


def _unprotected(
    t: int, what: str, dimension: int, subjects: Iterable[PartyId], observers: set[PartyId]
) -> PrivacyEvent:
    return PrivacyEvent(
        round=t,
        mechanism=UnprotectedRelease(what, dimension),
        subjects=tuple(dict.fromkeys(subjects)),
        observers=tuple(sorted(observers)),
        unit=RECORDS,
    )
