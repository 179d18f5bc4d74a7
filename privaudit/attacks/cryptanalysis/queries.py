"""Attacks of initiators on the clients that answer them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.cryptanalysis._unmask import Recovery, noise_of
from privaudit.attacks.cryptanalysis._views import (
    Answer,
    Seen,
    baseline_guesses,
    compares_updates,
    responses,
    seen_challenges,
    starting_model,
    target_of,
)
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.attacks.cryptanalysis.initiator import (
    Leak,
    read_response,
    recover_from_queries,
    recover_from_response,
    uncertainty,
)
from privaudit.attacks.cryptanalysis.malicious import read, recognised
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.disue.kinds import (
    CLUSTER_MODEL,
    GLOBAL_MODEL,
    SIMILARITY_CHALLENGE,
    SIMILARITY_RESPONSE,
)
from privaudit.transcript import Array, Capability, View

__all__ = ["HonestInitiator", "MaliciousModulus"]


def _exchanges(view: View, *, attack: str) -> dict[str, list[tuple[Seen, Answer]]]:
    """Return what each client outside the coalition answered to its members, by target.

    Raises
    ------
    UnmetRequirementsError
        If nobody answered a member.
    """
    members = view.coalition.members
    asked = {(s.initiator, s.responder, s.round): s for s in seen_challenges(view)}
    found: dict[str, list[tuple[Seen, Answer]]] = defaultdict(list)
    for answer in responses(view):
        if answer.initiator not in members or answer.responder in members:
            continue
        key = (answer.initiator, answer.responder, answer.round)
        seen = asked.get(key) or asked.get((answer.initiator, None, answer.round))
        if seen is not None:
            found[target_of(answer.responder, answer.round)].append((seen, answer))
    if not found:
        raise UnmetRequirementsError(
            f"attack '{attack}' reads responses to a challenge of its own, and nobody outside "
            f"answered {view.coalition}; add a client that acts as initiator"
        )
    return found


def _prior(view: View, *, attack: str) -> Guesses:
    exchanges = _exchanges(view, attack=attack)
    return baseline_guesses(
        view,
        [
            (target, pairs[0][1].responder, pairs[0][1].round, pairs[0][0].length)
            for target, pairs in exchanges.items()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestInitiator:
    """What a client that follows PCSC as initiator learns of those that answer it.

    It is meant to learn one inner product a query. It also receives the squared norm in the
    clear, and in the noise of the response a second linear equation in the responder's values.
    For vectors of a dozen values one response gives them all (knapsack, by LLL; a zero among them
    prevents it). For long vectors each query of a colluding initiator is one linear equation: with
    as many as there are values the vector is exact, with fewer the guess is its projection on the
    span of the queries, and across it the model that training started from.

    Attributes
    ----------
    value_bits, response_bits : int
        Public parameters: bits of a quantised value, and k4.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-initiator"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (
        SIMILARITY_CHALLENGE,
        SIMILARITY_RESPONSE,
        GLOBAL_MODEL,
        CLUSTER_MODEL,
    )

    value_bits: int = 16
    response_bits: int = 128

    def __post_init__(self) -> None:
        if self.value_bits < 2 or self.response_bits < 1:
            raise ConfigurationError(
                f"value_bits must be at least 2 and response_bits at least 1, got "
                f"{self.value_bits} and {self.response_bits}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the vector of every client that answered a member of the coalition.

        Returns
        -------
        Guesses
            Targets ``"client/round-t"``; values int64 (n,) where exact, else float64; scores the
            number of independent equations used.

        Raises
        ------
        UnmetRequirementsError
            If nobody outside answered a member.
        InvalidDataError
            If a message is malformed.
        RecoveryFailedError, InapplicableError
            If a member's own challenge was not made as the protocol says.
        """
        exchanges = _exchanges(view, attack=self.name)
        own: dict[int, Recovery] = {}
        values: list[Array] = []
        ranks: list[float] = []
        exact = 0
        for pairs in exchanges.values():
            leaks = [self._leak(seen, answer, own) for seen, answer in pairs]
            solved = self._knapsack(pairs, leaks, own)
            if solved is None:
                queries = np.stack([own[seen.modulus].values for seen, _ in pairs])
                projection = recover_from_queries(
                    queries,
                    [leak.product for leak in leaks],
                    prior=self._prior(view, pairs[0][1], length=queries.shape[1]),
                )
                values.append(projection.values)
                ranks.append(float(projection.rank))
                exact += projection.exact
            else:
                values.append(solved)
                ranks.append(float(len(solved)))
                exact += 1
        numbers = {"exact": float(exact), "least-rank": min(ranks)}
        return Guesses(tuple(exchanges), tuple(values), np.array(ranks), MappingProxyType(numbers))

    def _prior(self, view: View, answer: Answer, *, length: int) -> npt.NDArray[np.float64] | None:
        """Return the model from which the responder trained, if that is what is compared."""
        if compares_updates(view):
            return None
        model = starting_model(view, answer.responder, round=answer.round)
        return model if model is not None and len(model) == length else None

    def _leak(self, seen: Seen, answer: Answer, own: dict[int, Recovery]) -> Leak:
        # A member knows its key and vector; the view tells them as well, by the attack on pads.
        if seen.modulus not in own:
            own[seen.modulus] = recover_from_pads(seen.modulus, seen.scale, seen.ciphertexts)
        recovery = own[seen.modulus]
        bits = uncertainty(recovery.noise_bits, seen.scale, response_bits=self.response_bits)
        return read_response(
            seen.modulus, seen.scale, recovery.key, answer.value, uncertainty_bits=bits
        )

    def _knapsack(
        self, pairs: list[tuple[Seen, Answer]], leaks: list[Leak], own: dict[int, Recovery]
    ) -> Array | None:
        """Return the vector if one response gives it away."""
        for (seen, answer), leak in zip(pairs, leaks, strict=True):
            recovery = own[seen.modulus]
            if len(recovery.values) > 64:
                return None
            try:
                return recover_from_response(
                    recovery.values.tolist(),
                    noise_of(seen.modulus, seen.scale, seen.ciphertexts[:-2], recovery),
                    leak,
                    squared_norm=answer.squared_norm,
                    value_bits=self.value_bits,
                )
            except (InapplicableError, RecoveryFailedError):
                continue
        return None

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent at the beginning of the round, quantised."""
        return _prior(view, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaliciousModulus:
    """What a client that deviates from PCSC as initiator reads in the responses.

    The scheme's responder checks nothing. An initiator that sends ``C = (1, M, M^2, .., 0, ..)``
    gets some of the responder's values side by side, as digits of base M: two a run with a modulus
    of 512 bits, all of them with one of 220 bits a value. The attack is active: on a recording it
    applies only where a member of the coalition made such a challenge
    (``privaudit.attacks.cryptanalysis.craft``); ``extract`` plays it against a live responder.
    That the responder checks length and primality of the modulus does not prevent the reading of
    two values a run, nor does it protect the initiator from pcsc-ratio.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-malicious-modulus"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (SIMILARITY_CHALLENGE, SIMILARITY_RESPONSE)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Read the values of every client that answered a crafted challenge.

        Returns
        -------
        Guesses
            Targets ``"client/round-t"``; values float64 (n,), NaN where nothing was learned;
            scores the number of values learned.

        Raises
        ------
        UnmetRequirementsError
            If nobody outside answered a member.
        InapplicableError
            If every challenge of the coalition follows the protocol.
        """
        targets, values, scores = [], [], []
        for target, pairs in _exchanges(view, attack=self.name).items():
            length = pairs[0][0].length
            vector = np.full(length, np.nan)
            for seen, answer in pairs:
                crafted = recognised(seen.modulus, seen.scale, seen.ciphertexts)
                if crafted is not None:
                    for position, value in read(crafted, answer.value).items():
                        vector[position] = value
            learned = int(np.isfinite(vector).sum())
            if learned:
                targets.append(target)
                values.append(vector)
                scores.append(float(learned))
        if not targets:
            raise InapplicableError(
                f"attack '{self.name}' is active, and every challenge that {view.coalition} made "
                "follows the protocol; a passive recording gives it nothing to read"
            )
        return Guesses(tuple(targets), tuple(values), np.array(scores))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent, quantised, for the same targets."""
        answered = self.run(view, knowledge=knowledge, rng=rng).target_ids
        prior = _prior(view, attack=self.name)
        chosen = [prior.target_ids.index(target) for target in answered]
        return Guesses(answered, tuple(prior.values[i] for i in chosen), np.zeros(len(chosen)))
