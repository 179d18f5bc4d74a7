"""The ledger of DisUE: what each transcript shows to have been released, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.disue import kinds
from privaudit.transcript import Message, PartyId, Transcript

__all__ = ["RECORDS", "derive_events"]

RECORDS = "all records of one client in one round"


def _sender(message: Message) -> tuple[PartyId, ...]:
    return (message.sender,)


def _named(*names: str) -> Callable[[Message], tuple[PartyId, ...]]:
    return lambda message: tuple(str(message.meta[name]) for name in names)


def _pairs(message: Message) -> tuple[PartyId, ...]:
    pairs = message.meta["pairs"]
    assert isinstance(pairs, list | tuple)
    return tuple(dict.fromkeys(str(c) for pair in pairs for c in pair))  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class _Release:
    """What a kind of message gives away: of whom, and which array tells how much."""

    what: str
    array: str
    subjects: Callable[[Message], tuple[PartyId, ...]] = _sender
    #: How many values a message gives away, from the shape of the array.
    count: Callable[[tuple[int, ...]], int] = lambda shape: int(np.prod(shape, dtype=np.int64))
    #: Whether the messages of a round are parts of one release.
    parts: bool = False


def _without_pads(shape: tuple[int, ...]) -> int:
    return shape[0] - 2


_BROKEN = "PCSC ciphertexts are no protection"
_RELEASES: Mapping[str, _Release] = {
    kinds.PARAMETERS: _Release("the trained model", "parameters"),
    kinds.CLASS_COUNTS: _Release("number of records of each class", "counts"),
    kinds.SIMILARITY_VALUES: _Release("cosines with other clients", "cosines", _pairs, parts=True),
    kinds.SIMILARITY_CHALLENGE: _Release(
        f"the quantised vector: {_BROKEN}", "ciphertexts", _named("initiator"), _without_pads
    ),
    kinds.SHARED_KEY_CIPHERTEXT: _Release(
        f"the quantised vector: {_BROKEN}", "ciphertexts", count=_without_pads
    ),
    kinds.SIMILARITY_RESPONSE: _Release(
        "inner product with the initiator's vector and norm of the responder's",
        "response",
        _named("responder"),
        lambda shape: 2,
    ),
    kinds.SIMILARITY_PRODUCTS: _Release(
        "inner products of quantised vectors", "products", _pairs, lambda shape: shape[0]
    ),
    kinds.CLUSTER_CHOICE: _Release("the cluster model of least loss", "cluster"),
    kinds.GRADIENT_PROFILE: _Release("coordinates of the gradient", "values"),
    kinds.SUBSPACE: _Release("singular vectors of the raw images", "vectors"),
}


def derive_events(transcript: Transcript) -> tuple[PrivacyEvent, ...]:
    """Derive the privacy events from the messages that were sent: nothing has a bound.

    DisUE claims no differential privacy; every event is an unprotected release. Ciphertexts of
    PCSC count as the vector that they carry, for every party that receives or relays them.
    """
    by_round: dict[int, dict[str, list[Message]]] = {}
    for message in transcript.messages:
        if message.round is not None and message.kind in _RELEASES:
            by_round.setdefault(message.round, {}).setdefault(message.kind, []).append(message)
    events = []
    for t, found in sorted(by_round.items()):
        for kind in _RELEASES:
            if kind in found:
                events.append(_event(t, _RELEASES[kind], found[kind]))
    return tuple(events)


def _event(t: int, release: _Release, messages: list[Message]) -> PrivacyEvent:
    counts = [release.count(m.specs[release.array].shape) for m in messages]
    dimension = sum(counts) if release.parts else max(counts)
    subjects = dict.fromkeys(s for m in messages for s in release.subjects(m))
    observers = {end for m in messages for end in (m.sender, m.receiver)}
    owners = {m.sender for m in messages if release.subjects is _sender}
    return PrivacyEvent(
        round=t,
        mechanism=UnprotectedRelease(release.what, dimension),
        subjects=tuple(subjects),
        observers=tuple(sorted(observers - owners)),
        unit=RECORDS,
    )
