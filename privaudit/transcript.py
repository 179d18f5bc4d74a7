"""What was said in a protocol run, and what a coalition of parties knows of it.

A run is a *transcript*: the ordered messages between named parties, what each party holds
privately, and what is public. What a *coalition* knows is a projection of the transcript: the
union of what its members sent, received and hold. Attacks and accountants read projections only;
the *truth*, against which guesses are scored, is a separate object and never part of a view.

This module imports numpy and nothing else that is heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from privaudit.capabilities import EVIDENCED, Capability
from privaudit.errors import ConfigurationError, UnmetRequirementsError, did_you_mean

__all__ = [
    "EVIDENCED",
    "JSON",
    "Array",
    "ArraySpec",
    "Capability",
    "Coalition",
    "MemoryRecorder",
    "Message",
    "NullRecorder",
    "Party",
    "PartyId",
    "Recorder",
    "SpecifiedArrays",
    "Transcript",
    "Truth",
    "View",
]

PartyId: TypeAlias = str
Array: TypeAlias = npt.NDArray[Any]
JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Party:
    """A participant: ``role`` is ``"user"``, ``"server"``, or what else the protocol names."""

    id: PartyId
    role: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Type and shape of an array, known without reading it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the array's elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * np.dtype(self.dtype).itemsize


@runtime_checkable
class SpecifiedArrays(Protocol):
    """Arrays that are read on demand and know their specifications beforehand."""

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        """The specification of each array, by name."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message from one party to another; a broadcast is one message a receiver."""

    seq: int
    round: int | None
    kind: str
    sender: PartyId
    receiver: PartyId
    arrays: Mapping[str, Array] = field(default_factory=lambda: _EMPTY)
    meta: Mapping[str, JSON] = field(default_factory=lambda: _EMPTY)

    @property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Type and shape of each array; arrays that lie on disk are not read for it."""
        if isinstance(self.arrays, SpecifiedArrays):
            return self.arrays.specs
        return {name: ArraySpec(a.dtype.str, a.shape) for name, a in self.arrays.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the message."""
        return sum(spec.nbytes for spec in self.specs.values())


@dataclass(frozen=True, slots=True)
class Coalition:
    """Parties that pool what they know, and what the threat model grants them besides."""

    members: frozenset[PartyId]
    capabilities: frozenset[Capability] = frozenset()

    @classmethod
    def of(cls, *members: PartyId, capabilities: Iterable[Capability] = ()) -> Coalition:
        """Make a coalition of the named parties."""
        return cls(frozenset(members), frozenset(capabilities))

    def __str__(self) -> str:
        return " + ".join(sorted(self.members))


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What a coalition knows of a run: messages of its members, their secrets, what is public.

    ``capabilities`` is the intersection of what the threat model grants and what the transcript
    shows to be true. There is no truth in a view, by construction.
    """

    coalition: Coalition
    parties: tuple[Party, ...]
    messages: tuple[Message, ...]
    secrets: Mapping[PartyId, Mapping[str, Array]]
    public: Mapping[str, JSON]
    public_arrays: Mapping[str, Array]
    capabilities: frozenset[Capability]

    def select(
        self,
        kind: str,
        *,
        round: int | None = None,
        sender: PartyId | None = None,
        receiver: PartyId | None = None,
    ) -> tuple[Message, ...]:
        """Return the view's messages of one kind, in order; ``None`` does not restrict."""
        return tuple(
            m
            for m in self.messages
            if m.kind == kind
            and (round is None or m.round == round)
            and (sender is None or m.sender == sender)
            and (receiver is None or m.receiver == receiver)
        )

    def rounds(self, kind: str) -> tuple[int, ...]:
        """Return the rounds, ascending, in which the view holds messages of a kind."""
        return tuple(sorted({m.round for m in self.messages if m.kind == kind and m.round}))

    def require(self, needed: Iterable[Capability], *, attack: str) -> None:
        """Raise unless the coalition has all needed capabilities in this transcript.

        Raises
        ------
        UnmetRequirementsError
            Names what is missing and whether it was not granted or is not true of the run.
        """
        missing = sorted(set(needed) - self.capabilities)
        if not missing:
            return
        refuted = [c for c in missing if c in self.coalition.capabilities]
        reason = (
            f"the transcript does not show {', '.join(refuted)} to hold"
            if refuted
            else "the threat model does not grant it"
        )
        raise UnmetRequirementsError(
            f"attack '{attack}' needs {', '.join(missing)}, which {self.coalition} does not have: "
            f"{reason}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """A whole run: parties, messages in order, secrets of each party, what is public.

    ``facts`` are the evidenced capabilities that hold of this run (for example
    ``single-local-step``).
    """

    parties: tuple[Party, ...]
    messages: tuple[Message, ...]
    secrets: Mapping[PartyId, Mapping[str, Array]] = field(default_factory=lambda: _EMPTY)
    public: Mapping[str, JSON] = field(default_factory=lambda: _EMPTY)
    public_arrays: Mapping[str, Array] = field(default_factory=lambda: _EMPTY)
    facts: frozenset[Capability] = frozenset()

    def view(self, coalition: Coalition) -> View:
        """Project the transcript on a coalition.

        Raises
        ------
        ConfigurationError
            If a member is not a party of the run, or the coalition is empty.
        """
        known = {party.id for party in self.parties}
        if not coalition.members:
            raise ConfigurationError("a coalition needs at least one party")
        for member in sorted(coalition.members - known):
            raise ConfigurationError(
                f"'{member}' is not a party of this run; parties are "
                f"{', '.join(party.id for party in self.parties)}."
                f"{did_you_mean(member, known)}"
            )
        messages = tuple(
            m
            for m in self.messages
            if m.sender in coalition.members or m.receiver in coalition.members
        )
        secrets = {p: self.secrets[p] for p in sorted(coalition.members) if p in self.secrets}
        granted = coalition.capabilities
        effective = (granted - EVIDENCED) | (granted & self.facts)
        return View(
            coalition=coalition,
            parties=self.parties,
            messages=messages,
            secrets=secrets,
            public=self.public,
            public_arrays=self.public_arrays,
            capabilities=effective,
        )

    def ids(self, role: str) -> tuple[PartyId, ...]:
        """Return the ids of the parties of a role, in declaration order."""
        return tuple(party.id for party in self.parties if party.role == role)


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What really was: arrays by target id. Scorers alone read it."""

    targets: Mapping[str, Mapping[str, Array]] = field(default_factory=lambda: _EMPTY)

    def get(self, target: str, name: str) -> Array:
        """Return one array of one target.

        Raises
        ------
        KeyError
            If the target or the array is not known; the message names what is.
        """
        if target not in self.targets:
            raise KeyError(f"the truth holds no target '{target}'")
        if name not in self.targets[target]:
            raise KeyError(f"the truth of '{target}' holds {sorted(self.targets[target])}")
        return self.targets[target][name]


class Recorder(Protocol):
    """Where a running protocol puts what happens: in memory, on disk, or both."""

    def declare(self, parties: Sequence[Party], *, facts: Iterable[Capability] = ()) -> None:
        """State the parties, once and before the first message, and the facts of the run."""
        ...

    def send(
        self,
        *,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        round: int | None = None,
        arrays: Mapping[str, Array] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Message:
        """Record one message and return it."""
        ...

    def publish(self, name: str, value: JSON | Array) -> None:
        """Record something that everybody knows."""
        ...

    def keep_secret(self, party: PartyId, name: str, array: Array) -> None:
        """Record something that one party holds and did not send."""
        ...

    def note_truth(self, target: str, **arrays: Array) -> None:
        """Record what scorers need to know about a target."""
        ...


def frozen_arrays(arrays: Mapping[str, Array] | None) -> Mapping[str, Array]:
    """Return read-only views of arrays of numbers, booleans or bytes.

    Raises
    ------
    ConfigurationError
        If an array holds objects or text.
    """
    result: dict[str, Array] = {}
    for name, value in (arrays or {}).items():
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ConfigurationError(
                f"array '{name}' has dtype {array.dtype}; allowed are booleans, integers and floats"
            )
        array = array.view()
        array.flags.writeable = False
        result[name] = array
    return MappingProxyType(result)


class MemoryRecorder:
    """A recorder that keeps everything in memory."""

    def __init__(self) -> None:
        self._parties: tuple[Party, ...] = ()
        self._facts: frozenset[Capability] = frozenset()
        self._messages: list[Message] = []
        self._secrets: dict[PartyId, dict[str, Array]] = {}
        self._public: dict[str, JSON] = {}
        self._public_arrays: dict[str, Array] = {}
        self._truth: dict[str, dict[str, Array]] = {}

    def declare(self, parties: Sequence[Party], *, facts: Iterable[Capability] = ()) -> None:
        """State the parties of the run; see :class:`Recorder`."""
        check_parties(parties, already=self._parties)
        self._parties = tuple(parties)
        self._facts = frozenset(facts)

    def send(
        self,
        *,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        round: int | None = None,
        arrays: Mapping[str, Array] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Message:
        """Record one message; see :class:`Recorder`."""
        check_ends(self._parties, kind=kind, sender=sender, receiver=receiver)
        message = Message(
            seq=len(self._messages),
            round=round,
            kind=kind,
            sender=sender,
            receiver=receiver,
            arrays=frozen_arrays(arrays),
            meta=MappingProxyType(dict(meta or {})),
        )
        self._messages.append(message)
        return message

    def publish(self, name: str, value: JSON | Array) -> None:
        """Record a public value; see :class:`Recorder`."""
        if isinstance(value, np.ndarray):
            self._public_arrays.update(frozen_arrays({name: value}))
        else:
            self._public[name] = value

    def keep_secret(self, party: PartyId, name: str, array: Array) -> None:
        """Record a secret; see :class:`Recorder`."""
        check_ends(self._parties, kind=f"secret {name}", sender=party, receiver=party)
        self._secrets.setdefault(party, {}).update(frozen_arrays({name: array}))

    def note_truth(self, target: str, **arrays: Array) -> None:
        """Record truth; see :class:`Recorder`."""
        self._truth.setdefault(target, {}).update(frozen_arrays(arrays))

    def transcript(self) -> Transcript:
        """Return what was recorded so far, without the truth."""
        return Transcript(
            parties=self._parties,
            messages=tuple(self._messages),
            secrets=MappingProxyType({p: MappingProxyType(s) for p, s in self._secrets.items()}),
            public=MappingProxyType(dict(self._public)),
            public_arrays=MappingProxyType(dict(self._public_arrays)),
            facts=self._facts,
        )

    def truth(self) -> Truth:
        """Return the truth recorded so far."""
        return Truth({t: MappingProxyType(dict(a)) for t, a in self._truth.items()})


class NullRecorder:
    """A recorder that keeps nothing: for runs of which only the outcome is wanted."""

    def declare(self, parties: Sequence[Party], *, facts: Iterable[Capability] = ()) -> None:
        """Do nothing; see :class:`Recorder`."""

    def send(
        self,
        *,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        round: int | None = None,
        arrays: Mapping[str, Array] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Message:
        """Return the message without keeping it; see :class:`Recorder`."""
        return Message(0, round, kind, sender, receiver, arrays or _EMPTY, meta or _EMPTY)

    def publish(self, name: str, value: JSON | Array) -> None:
        """Do nothing; see :class:`Recorder`."""

    def keep_secret(self, party: PartyId, name: str, array: Array) -> None:
        """Do nothing; see :class:`Recorder`."""

    def note_truth(self, target: str, **arrays: Array) -> None:
        """Do nothing; see :class:`Recorder`."""


def check_parties(parties: Sequence[Party], *, already: Sequence[Party]) -> None:
    """Raise ConfigurationError if parties were declared before, are none, or share an id."""
    if already:
        raise ConfigurationError("the parties of a run are declared once")
    ids = [party.id for party in parties]
    if not ids or len(set(ids)) != len(ids) or "" in ids:
        raise ConfigurationError(f"party ids must be non-empty and distinct, got {ids}")


def check_ends(parties: Sequence[Party], *, kind: str, sender: PartyId, receiver: PartyId) -> None:
    """Raise ConfigurationError if an end of a message is not a declared party."""
    known = {party.id for party in parties}
    for end in (sender, receiver):
        if end not in known:
            raise ConfigurationError(f"{kind}: '{end}' is not a declared party of the run")
