"""Similarity matrices of clients, as a view of DisUE holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from privaudit.attacks._messages import array_of
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Message, PartyId, View

__all__ = ["READS", "SimilarityRound", "pairs_of", "similarity_on", "similarity_rounds"]

#: Kinds of messages from which :func:`similarity_rounds` reads.
READS: tuple[str, ...] = (kinds.SIMILARITY_VALUES, kinds.PARAMETERS, kinds.GLOBAL_MODEL)

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityRound:
    """Who took part in a round, in the order of the view's parties, and how alike they are.

    ``matrix`` (parties, parties) float64 is symmetric, 1 on the diagonal, and ``nan`` where the
    view holds no similarity.
    """

    round: int
    parties: tuple[PartyId, ...]
    matrix: Matrix

    def row(self, party: PartyId, others: Sequence[PartyId]) -> Matrix:
        """Return the similarities of one party to others."""
        position = {p: i for i, p in enumerate(self.parties)}
        return self.matrix[position[party], [position[o] for o in others]]


def similarity_rounds(view: View, *, only: int | None = None) -> Mapping[int, SimilarityRound]:
    """Return the similarity matrix of each round (or ``only`` one) that the view knows.

    Taken from the ``similarity-values`` that were sent in a round. In a round without any, in
    which the view holds the parameters that clients sent in the clear (variant ``plain``), they
    are computed from those, as the server computes them.

    Raises
    ------
    InvalidDataError
        If similarities are not finite, or not one a pair.
    UnmetRequirementsError
        If the view knows no similarities.
    """
    found = {
        t: _reported(view, t, view.select(kinds.SIMILARITY_VALUES, round=t))
        for t in view.rounds(kinds.SIMILARITY_VALUES)
        if only in (None, t)
    }
    for t in view.rounds(kinds.PARAMETERS):
        sent = view.select(kinds.PARAMETERS, round=t)
        if t not in found and len(sent) > 1 and only in (None, t):
            found[t] = _computed(view, t, sent)
    if not found:
        when = "one round" if only is None else f"round {only}"
        raise UnmetRequirementsError(
            f"the view of {view.coalition} holds neither '{kinds.SIMILARITY_VALUES}' nor "
            f"'{kinds.PARAMETERS}' of two clients in {when}"
        )
    return dict(sorted(found.items()))


def similarity_on(view: View) -> str:
    """Return whether similarities are of parameters (``"params"``) or of updates (``"delta"``).

    Raises
    ------
    ConfigurationError
        If the public configuration does not say.
    """
    configuration = view.public.get("configuration")
    value = configuration.get("similarity_on") if isinstance(configuration, Mapping) else None
    if value not in ("params", "delta"):
        raise ConfigurationError(
            "the public 'configuration' must say what similarities are of, as 'similarity_on': "
            f"'params' or 'delta'; it says {value!r}"
        )
    return str(value)


def pairs_of(message: Message) -> tuple[tuple[PartyId, PartyId], ...]:
    """Return the pairs of parties that a message's ``pairs`` names.

    Raises
    ------
    InvalidDataError
        If it names none, or something else than pairs of ids.
    """
    listed = message.meta.get("pairs")
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise InvalidDataError(f"{message.kind}, message {message.seq}: meta 'pairs' is no list")
    for pair in listed:
        whole = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not whole or not all(isinstance(p, str) for p in cast(Sequence[object], pair)):
            raise InvalidDataError(
                f"{message.kind}, message {message.seq}: meta 'pairs' holds {pair!r}, which is no "
                "pair of ids"
            )
    return tuple((str(u), str(v)) for u, v in cast(Sequence[tuple[str, str]], listed))


def _reported(view: View, t: int, messages: Sequence[Message]) -> SimilarityRound:
    values: dict[tuple[PartyId, PartyId], float] = {}
    for message in messages:
        pairs, cosines = pairs_of(message), array_of(message, "cosines")
        if cosines.shape != (len(pairs),) or not np.isfinite(cosines).all():
            raise InvalidDataError(
                f"{message.kind} of {message.sender}, round {t}: {len(pairs)} pairs need as many "
                f"finite cosines, got an array of shape {cosines.shape}"
            )
        values.update({pair: float(c) for pair, c in zip(pairs, cosines, strict=True)})
    present = {party for pair in values for party in pair}
    parties = tuple(party.id for party in view.parties if party.id in present)
    unknown = present - set(parties)
    if unknown:
        raise InvalidDataError(f"round {t} has similarities of {sorted(unknown)}, who are no party")
    position = {party: i for i, party in enumerate(parties)}
    matrix = np.full((len(parties), len(parties)), np.nan)
    np.fill_diagonal(matrix, 1.0)
    for (u, v), cosine in values.items():
        i, j = position[u], position[v]
        matrix[i, j] = matrix[j, i] = cosine
    return SimilarityRound(t, parties, matrix)


def _computed(view: View, t: int, messages: Sequence[Message]) -> SimilarityRound:
    sent = {m.sender: array_of(m, "parameters").astype(np.float64) for m in messages}
    parties = tuple(party.id for party in view.parties if party.id in sent)
    vectors = np.stack([sent[party] for party in parties])
    if similarity_on(view) == "delta":
        starts = view.select(kinds.GLOBAL_MODEL, round=t)
        if not starts:
            raise ConfigurationError(
                f"similarities of updates need the '{kinds.GLOBAL_MODEL}' of round {t}, which the "
                f"view of {view.coalition} does not hold"
            )
        vectors -= array_of(starts[0], "parameters")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise InvalidDataError(f"round {t}: a client sent a vector that is zero or not finite")
    vectors /= norms
    matrix = vectors @ vectors.T
    np.fill_diagonal(matrix, 1.0)
    return SimilarityRound(t, parties, matrix)
