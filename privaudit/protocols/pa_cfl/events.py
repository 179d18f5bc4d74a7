"""The ledger of PA-CFL: what each transcript shows to have been released, and to whom."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privaudit.errors import ConfigurationError
from privaudit.ledger import LaplaceVector, PrivacyEvent, UnprotectedRelease
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.config import PACFLConfig
from privaudit.transcript import Message, PartyId, Transcript

__all__ = ["derive_events"]

SUBVECTOR = "one user's whole less important subvector in one round"
RECORDS = "all records of one user in one round"


def derive_events(transcript: Transcript) -> tuple[PrivacyEvent, ...]:
    """Derive the privacy events from the messages that were sent.

    Participants, cluster sizes, thresholds and rounds are those observed; ``epsilon0`` and the
    clipping are those of the published configuration, against which the sizes are checked.

    Raises
    ------
    ConfigurationError
        If the messages contradict the published configuration.
    """
    public = transcript.public
    configuration = PACFLConfig.model_validate(public["configuration"])
    by_round: dict[int, list[Message]] = {}
    for message in transcript.messages:
        if message.round is not None:
            by_round.setdefault(message.round, []).append(message)
    events: list[PrivacyEvent] = []
    for t, messages in sorted(by_round.items()):
        events.extend(_unprotected(t, messages))
        events.extend(_noised(t, messages, configuration))
    return tuple(events)


def _of(messages: list[Message], kind: str) -> list[Message]:
    return [m for m in messages if m.kind == kind]


_UNPROTECTED: Mapping[str, str] = {
    kinds.PERMUTATION_SEQUENCE: "coordinates and order of the largest update values",
    kinds.IMPORTANT_VALUES: "important update values, unclipped and without noise",
    kinds.REMAINDER_NORM: "norm of the less important subvector",
    kinds.FULL_UPDATE: "the whole update",
    kinds.PLAIN_REMAINDER: "the less important subvector, unclipped and without noise",
    kinds.DATASET_SIZE: "size of the user's training set",
}


def _unprotected(t: int, messages: list[Message]) -> list[PrivacyEvent]:
    events = []
    for kind, what in _UNPROTECTED.items():
        sent = _of(messages, kind)
        if sent:
            spec = next(iter(sent[0].specs.values()))
            events.append(
                PrivacyEvent(
                    round=t,
                    mechanism=UnprotectedRelease(what, int(np.prod(spec.shape, dtype=np.int64))),
                    subjects=tuple(m.sender for m in sent),
                    observers=tuple(sorted({m.receiver for m in sent})),
                    unit=RECORDS,
                )
            )
    thresholds = _of(messages, kinds.CLIPPING_THRESHOLD)
    if thresholds:
        events.append(
            PrivacyEvent(
                round=t,
                mechanism=UnprotectedRelease("median of the users' norms", 1),
                subjects=tuple(m.sender for m in _of(messages, kinds.REMAINDER_NORM)),
                observers=tuple(sorted({m.receiver for m in thresholds})),
                unit=RECORDS,
            )
        )
    return events


def _noised(t: int, messages: list[Message], configuration: PACFLConfig) -> list[PrivacyEvent]:
    reports = _of(messages, kinds.NOISED_REMAINDER)
    if not reports:
        return []
    if not configuration.protection:
        raise ConfigurationError(
            f"round {t} holds noised reports although the configuration has protection = false"
        )
    dimensions = {m.specs["values"].shape for m in reports}
    if len(dimensions) != 1:
        raise ConfigurationError(f"round {t}: noised reports differ in length: {dimensions}")
    ((dimension,),) = dimensions
    if configuration.clip_norm is not None:
        threshold = configuration.clip_norm
    else:
        threshold = float(_of(messages, kinds.CLIPPING_THRESHOLD)[0].arrays["threshold"])

    def mechanism(shuffled: bool) -> LaplaceVector:
        return LaplaceVector(
            epsilon0=configuration.epsilon0,
            dimension=dimension,
            clip_norm=threshold,
            clip_source="fixed" if configuration.clipping == "fixed" else "median-of-users",
            shuffle="per-coordinate" if shuffled else "none",
        )

    def event(shuffled: bool, users: tuple[PartyId, ...], observer: PartyId) -> PrivacyEvent:
        return PrivacyEvent(
            round=t,
            mechanism=mechanism(shuffled),
            subjects=users,
            observers=(observer,),
            unit=SUBVECTOR,
        )

    senders = tuple(m.sender for m in reports)
    events = [event(False, senders, kinds.MANAGEMENT_SERVER)]
    shuffled = {str(m.meta["user"]) for m in _of(messages, kinds.SHUFFLED_REMAINDER)}
    for clustering in _of(messages, kinds.PRE_CLUSTERING):
        assignment = clustering.arrays["assignment"]
        users = clustering.meta["users"]
        if not isinstance(users, list | tuple) or len(users) != len(assignment):
            raise ConfigurationError(f"round {t}: the pre-clustering names another number of users")
        for cluster in np.unique(assignment):
            members = tuple(str(u) for u, c in zip(users, assignment, strict=True) if c == cluster)
            if set(members) <= shuffled:
                events.append(event(True, members, kinds.AGGREGATION_SERVER))
    return events
