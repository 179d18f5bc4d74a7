"""The ledger of PQ-MDS: what a transcript shows to have been released, and to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privaudit.ledger import (
    GaussianMechanism,
    Mechanism,
    PrivacyEvent,
    RandomizedResponse,
    UnprotectedRelease,
)
from privaudit.protocols.pq_mds import kinds
from privaudit.quantisation.randomised import SENSITIVITY
from privaudit.transcript import Message, PartyId, Transcript

__all__ = ["UNIT", "derive_events"]

#: What may change between neighbouring inputs.
UNIT = "one row of the party's columns"


def derive_events(transcript: Transcript) -> tuple[PrivacyEvent, ...]:
    """Return what each party's rows went into, by round, in the order of the transcript.

    Undefended uploads, and all that is computed from them, have no differential privacy. With
    randomized response each code of a row is a report; codebooks count on their own: Gaussian
    noise in each step of ``noisy-lloyd``, nothing for ``auxiliary`` (their rows are public), no
    protection for ``k-means``, whose centres shape what is uploaded. What the server returns is
    computed from the uploads, so its receivers observe the same mechanisms.
    """
    return tuple(_events(transcript))


def _events(transcript: Transcript) -> Iterator[PrivacyEvent]:
    config: Any = transcript.public["configuration"]
    preprocessing: Any = transcript.public["preprocessing"]
    returned = {m.round: set[PartyId]() for m in transcript.messages}
    for message in transcript.messages:
        if message.kind in (kinds.LABELS, kinds.CENTROIDS):
            returned[message.round].add(message.receiver)
    for message in transcript.messages:
        subjects, t = (message.sender,), message.round or 1
        observers: tuple[PartyId, ...] = (message.receiver,)
        if message.kind in (kinds.INDICES, kinds.CODES):
            # Every party sees what was computed from all uploads, but for its own.
            others = sorted(returned[message.round] - {message.sender})
            observers = (message.receiver, *others)
            yield from (
                PrivacyEvent(t, mechanism, subjects, observers, UNIT)
                for mechanism in _upload(message, config)
            )
            if t == 1 and (preprocessing["scaled"] or preprocessing["standardized"]):
                what = "scaling of the columns by numbers computed from the rows"
                yield PrivacyEvent(t, UnprotectedRelease(what, 2), subjects, observers, UNIT)
        elif message.kind in _PLAIN:
            what, array = _PLAIN[message.kind]
            shape = message.specs[array].shape
            dimension = shape[1] if message.kind == kinds.TRIAL_CODES else 1
            if message.kind == kinds.CODEBOOK:
                dimension = shape[0] * shape[1]
            yield PrivacyEvent(t, UnprotectedRelease(what, dimension), subjects, observers, UNIT)


_PLAIN: Mapping[str, tuple[str, str]] = {
    kinds.CODEBOOK: ("codebooks", "centres"),
    kinds.TRIAL_CODES: ("codes, to the trusted counter", "codes"),
    kinds.ALIGNMENT_TOKENS: ("salted hashes of the rows' identifiers", "tokens"),
}


def _upload(message: Message, config: Mapping[str, Any]) -> Iterator[Mechanism]:
    specs = message.specs
    if config["defence"] != "randomized-response":
        shape = next(iter(specs.values())).shape
        what = "codes" if message.kind == kinds.CODES else "embedded codes (indices)"
        yield UnprotectedRelease(what, shape[1])
        return
    stated: Any = message.meta["codewords"]
    categories = [int(k) for k in stated]
    for k in sorted(set(categories)):
        if k > 1:
            reports = categories.count(k)
            yield RandomizedResponse(
                categories=k, epsilon0=float(config["epsilon0"]), reports=reports
            )
    if config["codebook"] == "noisy-lloyd":
        yield GaussianMechanism(
            noise_multiplier=float(config["noise_multiplier"]),
            sensitivity=SENSITIVITY,
            steps=int(config["noisy_steps"]) * len(categories),
        )
    elif config["codebook"] == "k-means":
        size = sum(categories) * int(config["embedding_dimensions"])
        yield UnprotectedRelease("embedded codebooks trained on the rows", size)
