"""A client's model from its cosines to models that the coalition knows."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks._messages import array_of, in_round
from privaudit.attacks._similarities import similarity_on, similarity_rounds
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Capability, PartyId, View

__all__ = ["SimilarityReconstruction"]

Float64 = npt.NDArray[np.float64]

#: What the members hold of their own vectors, in the order in which it is looked for.
_HELD = ("quantised", "probe-vector")
_RANK_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True)
class SimilarityReconstruction:
    r"""Rebuild the direction of a client's vector from its cosines to the coalition's own.

    With the coalition's k vectors as unit rows of V and the cosines :math:`s = V x` of a target,
    the point of their span that has these cosines is :math:`V^T (V V^T)^{-1} s`: the target's
    projection on the span. Every further colluding client adds a dimension.

    Parameters start from one global model in every client, so that a large cosine to the truth
    means nothing by itself: the figure is what exceeds the baseline, that model alone.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first in which the coalition's clients take part.
    estimate : {"span", "nearest"}
        The point of the span, or the vector with the given cosines that is nearest to the
        baseline (projected on what the cosines say, and the baseline elsewhere).
    """

    round: int | None = None
    estimate: Literal["span", "nearest"] = "span"

    name: ClassVar[str] = "reconstruction/similarity-gram"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (
        kinds.SIMILARITY_VALUES,
        kinds.PARAMETERS,
        kinds.GLOBAL_MODEL,
    )

    def __post_init__(self) -> None:
        if self.estimate not in ("span", "nearest"):
            raise ConfigurationError(f"estimate is 'span' or 'nearest', got {self.estimate!r}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Rebuild the vector of every client that was compared with all of the coalition's.

        Returns
        -------
        Guesses
            Targets are ``CLIENT/round-T``; values are unit vectors, (d,) float64 (zero where all
            cosines are); scores are the share of the target's norm that lies in the span, up to
            rounding from 0 to 1.

        Raises
        ------
        UnmetRequirementsError
            If the coalition knows no vector of its own, or none was compared with a client.
        """
        t, known, targets, cosines = self._problem(view)
        prior = np.zeros(known.shape[1])
        if self.estimate == "nearest":
            prior = _prior(view, t, known)
        gram = known @ known.T
        wanted = cosines - known @ prior
        weights = np.linalg.lstsq(gram, wanted.T, rcond=_RANK_TOLERANCE)[0].T
        found = prior + weights @ known
        explained = np.linalg.lstsq(gram, cosines.T, rcond=_RANK_TOLERANCE)[0].T @ known
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        found = np.divide(found, norms, out=np.zeros_like(found), where=norms > 0)
        return Guesses(
            target_ids=tuple(f"{target}/round-{t}" for target in targets),
            values=tuple(found),
            scores=np.linalg.norm(explained, axis=1),
            diagnostics=MappingProxyType(
                {"known-vectors": float(len(known)), "rank": float(np.linalg.matrix_rank(gram))}
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess what all clients have in common.

        For similarities of parameters the global model that the round started from; for those of
        updates the last step of the global model, or in the first round the mean of the
        coalition's own updates.
        """
        t, known, targets, _ = self._problem(view)
        guess = _prior(view, t, known)
        return Guesses(
            target_ids=tuple(f"{target}/round-{t}" for target in targets),
            values=tuple(guess.copy() for _ in targets),
            scores=np.zeros(len(targets)),
        )

    def _problem(self, view: View) -> tuple[int, Float64, tuple[PartyId, ...], Float64]:
        for t, found in similarity_rounds(view, only=self.round).items():
            known = {
                party: vector
                for party in found.parties
                if party in view.coalition.members
                and (vector := _own_vector(view, party, t)) is not None
            }
            if not known:
                continue
            rows = {
                party: found.row(party, tuple(known))
                for party in found.parties
                if party not in view.coalition.members
            }
            targets = tuple(party for party, row in rows.items() if np.isfinite(row).all())
            if targets:
                matrix = np.stack(list(known.values()))
                return t, matrix, targets, np.stack([rows[party] for party in targets])
        raise UnmetRequirementsError(
            f"{view.coalition} has no client of its own that was compared with others "
            f"{in_round(self.round)}: a member's own vector is needed"
        )


def _own_vector(view: View, party: PartyId, t: int) -> Float64 | None:
    """Return the unit vector that a member of the coalition compared, where it is held."""
    held = view.secrets.get(party, {})
    for name in _HELD:
        if f"round-{t}/{name}" in held:
            return _unit(held[f"round-{t}/{name}"].astype(np.float64), party, t)
    for message in view.select(kinds.PARAMETERS, round=t, sender=party):
        vector = array_of(message, "parameters").astype(np.float64)
        if similarity_on(view) == "delta":
            start = _global_model(view, t)
            if start is None:
                return None
            vector -= start
        return _unit(vector, party, t)
    return None


def _prior(view: View, t: int, known: Float64) -> Float64:
    start = _global_model(view, t)
    if similarity_on(view) == "params":
        if start is None:
            raise ConfigurationError(
                f"the baseline needs the '{kinds.GLOBAL_MODEL}' of round {t}, which the view of "
                f"{view.coalition} does not hold"
            )
        return _unit(start, kinds.GLOBAL_MODEL, t)
    before = _global_model(view, t - 1)
    if start is not None and before is not None and (start != before).any():
        return _unit(start - before, kinds.GLOBAL_MODEL, t)
    return _unit(known.mean(axis=0), "the mean", t)


def _global_model(view: View, t: int) -> Float64 | None:
    for message in view.select(kinds.GLOBAL_MODEL, round=t):
        return array_of(message, "parameters").astype(np.float64)
    return None


def _unit(vector: Float64, whose: str, t: int) -> Float64:
    norm = float(np.linalg.norm(vector))
    if not np.isfinite(norm) or norm == 0:
        raise InvalidDataError(f"the vector of {whose} in round {t} is zero or not finite")
    return vector / norm
