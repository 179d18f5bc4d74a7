"""The ledger of PQ-MDS: what a transcript shows to have been released, and to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.ledger import (
    GaussianMechanism,
    Mechanism,
    PrivacyEvent,
    RandomizedResponse,
    UnprotectedRelease,
)
from privaudit.protocols.pq_mds import kinds
from privaudit.protocols.pq_mds.config import PQMDSConfig
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

    Raises
    ------
    ConfigurationError
        If the published configuration is none of this protocol, or messages contradict it.
    """
    return tuple(_events(transcript))


def _events(transcript: Transcript) -> Iterator[PrivacyEvent]:
    public: Mapping[str, Any] = transcript.public
    for name in ("configuration", "preprocessing"):
        if not isinstance(public.get(name), Mapping):
            raise ConfigurationError(f"the transcript publishes no '{name}' of PQ-MDS")
    config = validated(PQMDSConfig, public["configuration"], where="the published configuration")
    scaled = any(bool(value) for value in public["preprocessing"].values())
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
            if t == 1 and scaled:
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


def _upload(message: Message, config: PQMDSConfig) -> Iterator[Mechanism]:
    shapes = {name: spec.shape for name, spec in message.specs.items()}
    name = next((n for n in ("indices", "codes") if len(shapes.get(n, ())) == 2), None)
    if name is None:
        raise ConfigurationError(f"message {message.seq} ({message.kind}) holds no upload")
    columns = shapes[name][1]
    if message.kind == kinds.CODES or config.epsilon0 is None:
        what = "codes" if message.kind == kinds.CODES else "embedded codes (indices)"
        yield UnprotectedRelease(what, columns)
        return
    stated: Any = message.meta.get("codewords")
    subspaces = columns // config.embedding_dimensions if name == "indices" else columns
    if (
        not isinstance(stated, Sequence)
        or len(stated) != subspaces
        or not all(isinstance(k, int) and 1 <= k <= config.codewords for k in stated)
    ):
        raise ConfigurationError(
            f"message {message.seq} ({message.kind}) states codewords {str(stated)[:80]}; "
            f"{subspaces} numbers from 1 to {config.codewords} are what was configured"
        )
    categories = list(stated)
    for k in sorted(set(categories)):
        if k > 1:
            reports = categories.count(k)
            yield RandomizedResponse(categories=k, epsilon0=config.epsilon0, reports=reports)
    if config.noise_multiplier is not None:
        yield GaussianMechanism(
            noise_multiplier=config.noise_multiplier,
            sensitivity=SENSITIVITY,
            steps=config.noisy_steps * len(categories),
        )
    elif config.codebook == "k-means":
        size = sum(categories) * config.embedding_dimensions
        yield UnprotectedRelease("embedded codebooks trained on the rows", size)
