"""Rules that every protocol keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from privaudit._conformance.digests import digest_transcript, digest_truth, require
from privaudit.datasets.base import FederatedData
from privaudit.datasets.vertical import VerticalData
from privaudit.ledger import PrivacyEvent, event_to_json
from privaudit.protocols.base import (
    AnyProtocol,
    FederatedProtocol,
    RunOutcome,
    VerticalProtocol,
    runs_on_columns,
)
from privaudit.transcript import Array, MemoryRecorder, Transcript, Truth

__all__ = ["check_protocol"]

#: Shorter label vectors occur in other data by chance.
SHORTEST_LABELS = 8


def check_protocol(
    protocol: AnyProtocol, data: FederatedData | VerticalData, *, seed: int = 0
) -> None:
    """Check that a protocol keeps the rules, by running it three times.

    The rules, by the names that messages start with:

    ``same-seed``
        The same generator state gives the same transcript, truth, and events, to the last bit.
    ``another-seed``
        Another seed gives another transcript: the generator that is passed is the one used.
    ``users``
        Every client, or party with columns, of the data is a party of role ``"user"``.
    ``parties``
        Both ends of every message, and owners of secrets, are declared parties.
    ``order``
        Messages are numbered from 0 without gaps, and rounds, counted from 1, do not go back.
    ``finite``
        No message holds a value that is not finite: a run that diverges says so instead.
    ``no-raw-data``
        No message and nothing public holds a user's images or (from eight records) labels, in
        float32, float64, or the type of the labels; nor, for a protocol over columns, a row or
        column of eight values or more. The secrets of a party may.
    ``truth``
        The truth holds ``images`` and ``labels`` of each user; for a protocol over columns
        ``features`` and ``columns`` of each party, and ``ids`` of the target ``rows``.
    ``events``
        Subjects and observers of events are parties, and their rounds occur in the transcript.
    ``outcome``
        The status is known, rounds and metrics agree with the transcript, a diverged run gives
        its reason.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    transcript, truth, outcome = _run(protocol, data, seed=seed)
    again, truth_again, outcome_again = _run(protocol, data, seed=seed)
    require(
        digest_transcript(transcript) == digest_transcript(again)
        and digest_truth(truth) == digest_truth(truth_again)
        # Metrics may be nan, which equals nothing; its text does.
        and repr(outcome) == repr(outcome_again),
        "same-seed",
        f"'{protocol.name}' ran differently with a generator in the same state; draw from rng only",
    )
    other, _, _ = _run(protocol, data, seed=seed + 1)
    require(
        digest_transcript(transcript) != digest_transcript(other),
        "another-seed",
        f"'{protocol.name}' runs alike with seeds {seed} and {seed + 1}: it does not draw from rng",
    )
    _check_parties(transcript, data)
    _check_order(transcript)
    _check_finite(transcript)
    _check_no_raw_data(transcript, data)
    for target, names in _truth_of(data):
        held = truth.targets.get(target, {})
        require(
            set(names) <= set(held),
            "truth",
            f"the truth of '{target}' must hold {' and '.join(names)}, holds {sorted(held)}",
        )
    _check_events(protocol, transcript, again)
    _check_outcome(outcome, transcript)


def _truth_of(data: FederatedData | VerticalData) -> list[tuple[str, tuple[str, ...]]]:
    """Return the targets that the truth must know, and what it must hold of each."""
    if isinstance(data, VerticalData):
        parties = [(party.party, ("features", "columns")) for party in data.parties]
        return [*parties, ("rows", ("ids",))]
    return [(client.party, ("images", "labels")) for client in data.clients]


def _run(
    protocol: AnyProtocol, data: FederatedData | VerticalData, *, seed: int
) -> tuple[Transcript, Truth, RunOutcome]:
    recorder = MemoryRecorder()
    rng = np.random.default_rng(seed)
    if isinstance(data, VerticalData):
        require(runs_on_columns(protocol), "users", f"'{protocol.name}' does not run over columns")
        vertical = cast(VerticalProtocol, protocol)
        outcome = vertical.run(data, rng=rng, recorder=recorder)
    else:
        horizontal = cast(FederatedProtocol, protocol)
        outcome = horizontal.run(data, rng=rng, recorder=recorder)
    return recorder.transcript(), recorder.truth(), outcome


def _check_parties(transcript: Transcript, data: FederatedData | VerticalData) -> None:
    users = set(transcript.ids("user"))
    clients = data.parties if isinstance(data, VerticalData) else data.clients
    missing = [c.party for c in clients if c.party not in users]
    require(not missing, "users", f"clients that are no party of role 'user': {missing}")
    known = {party.id for party in transcript.parties}
    for message in transcript.messages:
        require(
            message.sender in known and message.receiver in known,
            "parties",
            f"message {message.seq} ({message.kind}) goes from '{message.sender}' to "
            f"'{message.receiver}', which are not both declared",
        )
    require(set(transcript.secrets) <= known, "parties", "a secret belongs to no declared party")


def _check_order(transcript: Transcript) -> None:
    require(bool(transcript.messages), "order", "the run has no message")
    sequence = [message.seq for message in transcript.messages]
    require(
        sequence == list(range(len(sequence))),
        "order",
        "messages must be numbered 0, 1, 2, ... in the order of the transcript",
    )
    last = 1
    for message in transcript.messages:
        if message.round is not None:
            require(
                message.round >= last,
                "order",
                f"message {message.seq} ({message.kind}) is of round {message.round} after one of "
                f"round {last}; rounds count from 1",
            )
            last = message.round


def _check_finite(transcript: Transcript) -> None:
    for message in transcript.messages:
        for name, array in message.arrays.items():
            require(
                array.dtype.kind != "f" or bool(np.isfinite(array).all()),
                "finite",
                f"'{name}' of message {message.seq} ({message.kind}) is not finite",
            )


def _released(transcript: Transcript) -> Iterator[tuple[str, Array]]:
    for message in transcript.messages:
        for name, array in message.arrays.items():
            yield f"'{name}' of message {message.seq} ({message.kind})", array
    for name, array in transcript.public_arrays.items():
        yield f"public '{name}'", array


def _check_no_raw_data(transcript: Transcript, data: FederatedData | VerticalData) -> None:
    needles = _columns(data) if isinstance(data, VerticalData) else _images(data)
    for place, array in _released(transcript):
        content = np.ascontiguousarray(array).tobytes()
        for what, needle in needles:
            require(needle not in content, "no-raw-data", f"{place} holds {what}")


def _columns(data: VerticalData) -> list[tuple[str, bytes]]:
    """Return a row and a column of each party, and the labels, as they would look if sent."""
    needles: list[tuple[str, bytes]] = []
    for party in data.parties:
        for what, lines in (("row", party.features), ("column", party.features.T)):
            line = next((one for one in lines if one.min() != one.max()), None)
            if line is not None and len(line) >= SHORTEST_LABELS:
                for kind in (np.float32, np.float64):
                    needles.append((f"a {what} of {party.party}", line.astype(kind).tobytes()))
    labels = data.labels
    if labels is not None and len(labels) >= SHORTEST_LABELS and len(np.unique(labels)) > 1:
        needles += [("the labels", labels.astype(kind).tobytes()) for kind in (np.int64, np.uint8)]
    return needles


def _images(data: FederatedData) -> list[tuple[str, bytes]]:
    needles: list[tuple[str, bytes]] = []
    for client in data.clients:
        # An image of one colour only could occur by chance; take the first that is not.
        image = next((i for i in client.train.images if i.min() != i.max()), None)
        if image is not None:
            needles.append((f"an image of {client.party}", image.tobytes()))
            needles.append((f"an image of {client.party}", image.astype(np.float64).tobytes()))
        labels = client.train.labels
        if len(labels) >= SHORTEST_LABELS and len(np.unique(labels)) > 1:
            needles.append((f"the labels of {client.party}", labels.tobytes()))
    return needles


def _check_events(protocol: AnyProtocol, transcript: Transcript, again: Transcript) -> None:
    events = protocol.events(transcript)
    known = {party.id for party in transcript.parties}
    rounds = {message.round for message in transcript.messages}
    for event in events:
        named = {*event.subjects, *event.observers}
        require(
            isinstance(event, PrivacyEvent) and named <= known,
            "events",
            f"an event of round {event.round} names parties that do not exist: "
            f"{sorted(named - known)}",
        )
        require(
            event.round in rounds,
            "events",
            f"an event is of round {event.round}, of which the transcript holds no message",
        )
    require(
        [event_to_json(e) for e in events] == [event_to_json(e) for e in protocol.events(again)],
        "same-seed",
        "events of two equal transcripts differ",
    )


def _check_outcome(outcome: RunOutcome, transcript: Transcript) -> None:
    require(
        outcome.status in ("completed", "diverged"),
        "outcome",
        f"the status is 'completed' or 'diverged', got {outcome.status!r}",
    )
    require(
        outcome.status == "completed" or bool(outcome.reason),
        "outcome",
        "a run that diverged gives its reason",
    )
    last = max((m.round for m in transcript.messages if m.round is not None), default=0)
    # In a run that diverged the last round was begun and not carried out in full.
    allowed = (last,) if outcome.status == "completed" else (last - 1, last)
    require(
        outcome.rounds in allowed,
        "outcome",
        f"the outcome says {outcome.rounds} rounds, the last message is of round {last}",
    )
    rounds = [metrics.round for metrics in outcome.metrics]
    require(
        rounds == sorted(set(rounds)) and all(1 <= r <= outcome.rounds for r in rounds),
        "outcome",
        f"metrics are of rounds {rounds}, of {outcome.rounds} carried out",
    )
