"""Challenges and responses of PCSC as a view holds them, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import InvalidDataError, PrivauditError, UnmetRequirementsError
from privaudit.protocols.disue.kinds import (
    CLUSTER_MODEL,
    GLOBAL_MODEL,
    SHARED_KEY_CIPHERTEXT,
    SIMILARITY_CHALLENGE,
    SIMILARITY_RESPONSE,
)
from privaudit.secure_computation.integers import Bytes, decode_one
from privaudit.transcript import Array, Message, PartyId, View

__all__ = [
    "CIPHERTEXTS",
    "Answer",
    "Seen",
    "baseline_guesses",
    "challenges",
    "compares_updates",
    "guesses_of",
    "responses",
    "seen_challenges",
    "starting_model",
    "target_of",
]

#: Kinds of messages that carry ciphertexts of a client's vector.
CIPHERTEXTS = (SIMILARITY_CHALLENGE, SHARED_KEY_CIPHERTEXT)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One challenge: who made it, in which round, and what is in it.

    Ciphertexts are read from the message when they are asked for: a recording holds many copies of
    them, of tens of megabytes each.
    """

    initiator: PartyId
    responder: PartyId | None
    round: int | None
    modulus: int
    scale: int
    message: Message

    @property
    def ciphertexts(self) -> Bytes:
        """The C_i, shape (n + 2, width)."""
        return _array(self.message, "ciphertexts", dimensions=2)

    @property
    def length(self) -> int:
        """The length n of the vector behind it."""
        return max(self.message.specs["ciphertexts"].shape[0] - 2, 1)

    @property
    def target(self) -> str:
        """The id of the vector behind it, as the truth names it."""
        return target_of(self.initiator, self.round)


@dataclass(frozen=True, slots=True)
class Answer:
    """One response to a challenge."""

    initiator: PartyId
    responder: PartyId
    round: int | None
    value: int
    squared_norm: int


def target_of(client: PartyId, round: int | None) -> str:
    """Return ``"client/round-3"``, the id of a client's vector of a round."""
    return client if round is None else f"{client}/round-{round}"


def _check(message: Message, name: str, *, dimensions: int) -> None:
    spec = message.specs.get(name)
    right = spec is not None and np.dtype(spec.dtype) == np.uint8 and spec.nbytes > 0
    if spec is None or not right or len(spec.shape) != dimensions:
        found = "nothing" if spec is None else f"{np.dtype(spec.dtype)} of shape {spec.shape}"
        raise InvalidDataError(
            f"'{name}' of message {message.seq} ('{message.kind}' from '{message.sender}') must be "
            f"uint8 with {dimensions} dimension(s), got {found}"
        )


def _array(message: Message, name: str, *, dimensions: int) -> Bytes:
    _check(message, name, dimensions=dimensions)
    array: Bytes = message.arrays[name]
    return array


def _party(message: Message, name: str, *, view: View, default: PartyId | None) -> PartyId | None:
    value = message.meta.get(name, default)
    if value is not None and value not in [party.id for party in view.parties]:
        raise InvalidDataError(
            f"'{name}' of message {message.seq} ('{message.kind}') names no party: {value!r}"
        )
    return None if value is None else str(value)


def seen_challenges(view: View) -> tuple[Seen, ...]:
    """Return every distinct challenge of a view: one for each initiator, responder and round.

    Raises
    ------
    InvalidDataError
        If a message is malformed; it is named.
    """
    found: dict[tuple[str, str | None, int | None], Seen] = {}
    for message in view.messages:
        if message.kind not in CIPHERTEXTS:
            continue
        initiator = _party(message, "initiator", view=view, default=message.sender)
        responder = _party(message, "responder", view=view, default=None)
        assert initiator is not None
        key = (initiator, responder, message.round)
        if key in found:
            continue
        _check(message, "ciphertexts", dimensions=2)
        found[key] = Seen(
            initiator,
            responder,
            message.round,
            decode_one(_array(message, "modulus", dimensions=1)),
            decode_one(_array(message, "scale", dimensions=1)),
            message,
        )
    return tuple(found.values())


def challenges(view: View, *, attack: str) -> tuple[Seen, ...]:
    """Return one challenge for each client outside the coalition and round.

    Raises
    ------
    UnmetRequirementsError
        If the view holds none.
    InvalidDataError
        As :func:`seen_challenges`.
    """
    chosen: dict[str, Seen] = {}
    for seen in seen_challenges(view):
        if seen.initiator not in view.coalition.members:
            chosen.setdefault(seen.target, seen)
    if not chosen:
        raise UnmetRequirementsError(
            f"attack '{attack}' reads ciphertexts ({', '.join(CIPHERTEXTS)}), and {view.coalition} "
            "saw none of a client outside it; a server sees them in the variants relay and "
            "shared_key, a responder in pairwise and relay"
        )
    return tuple(chosen.values())


def responses(view: View) -> tuple[Answer, ...]:
    """Return every distinct response of a view.

    Raises
    ------
    InvalidDataError
        If a message is malformed; it is named.
    """
    found: dict[tuple[str, str, int | None], Answer] = {}
    for message in view.select(SIMILARITY_RESPONSE):
        initiator = _party(message, "initiator", view=view, default=message.receiver)
        responder = _party(message, "responder", view=view, default=message.sender)
        assert initiator is not None
        assert responder is not None
        found.setdefault(
            (initiator, responder, message.round),
            Answer(
                initiator,
                responder,
                message.round,
                decode_one(_array(message, "response", dimensions=1)),
                decode_one(_array(message, "squared_norm", dimensions=1)),
            ),
        )
    return tuple(found.values())


def compares_updates(view: View) -> bool:
    """Return whether the public configuration says that similarities are of updates."""
    configuration = view.public.get("configuration")
    if not isinstance(configuration, dict):
        return False
    return bool(configuration.get("similarity_on") == "delta")


def starting_model(
    view: View, client: PartyId, *, round: int | None
) -> npt.NDArray[np.float64] | None:
    """Return the model from which a client trained in a round, or None if the view lacks it.

    That of its cluster where the server sent it one, else the global model, else the initial one.

    Raises
    ------
    InvalidDataError
        If it is no finite vector.
    """
    sent = (
        *view.select(CLUSTER_MODEL, round=round, receiver=client),
        *view.select(GLOBAL_MODEL, round=round, receiver=client),
        *view.select(GLOBAL_MODEL, round=round),
    )
    model = sent[0].arrays.get("parameters") if sent else None
    if model is None:
        model = view.public_arrays.get("initial-parameters")
    if model is None:
        return None
    if model.ndim != 1 or not np.isfinite(model).all():
        raise InvalidDataError(
            f"the model that {client} was sent in round {round} is no finite vector"
        )
    return model.astype(np.float64)


def baseline_guesses(view: View, seen: Iterable[tuple[str, PartyId, int | None, int]]) -> Guesses:
    """Guess every vector from what was known before: the model sent to the client, quantised.

    Parameters
    ----------
    seen : iterable of (target, client, round, length)

    Returns
    -------
    Guesses
        int64; zeros where similarities are of updates, or no model of that length is known.
    """
    targets, values = [], []
    for target, client, round, length in seen:
        model = None if compares_updates(view) else starting_model(view, client, round=round)
        guess = np.zeros(length, dtype=np.int64)
        if model is not None and len(model) == length and np.abs(model).max() > 0:
            # 16 bits: the default, and the direction does not depend on it.
            guess = np.rint(model * (32_767 / np.abs(model).max())).astype(np.int64)
        targets.append(target)
        values.append(guess)
    return Guesses(tuple(targets), tuple(values), np.zeros(len(targets)))


def guesses_of(
    seen: Iterable[Seen],
    recover: Callable[[Seen], tuple[Array, float, dict[str, float]]],
) -> Guesses:
    """Attack each challenge; one that withstands becomes a guess of NaN, all of them an error.

    Parameters
    ----------
    recover : callable
        Returns values, score, and numbers for the diagnostics, of which the least is kept.

    Raises
    ------
    PrivauditError
        The first error, if no challenge gave way.
    """
    targets: list[str] = []
    values: list[Array] = []
    scores: list[float] = []
    diagnostics: dict[str, float] = {}
    errors: list[PrivauditError] = []
    for one in seen:
        targets.append(one.target)
        try:
            vector, score, numbers = recover(one)
        except PrivauditError as error:
            errors.append(error)
            vector = np.full(one.length, np.nan)
            score, numbers = -1.0, {}
        values.append(vector)
        scores.append(score)
        for name, number in numbers.items():
            diagnostics[name] = min(number, diagnostics.get(name, number))
    if len(errors) == len(targets):
        raise errors[0]
    diagnostics["withstood"] = float(len(errors))
    return Guesses(tuple(targets), tuple(values), np.array(scores), MappingProxyType(diagnostics))
