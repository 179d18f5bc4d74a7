"""Linking a user's permutation sequences across rounds."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import PSEUDONYM_ROLE
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.pa_cfl import kinds
from privaudit.similarity import jaccard, rank_biased_overlap
from privaudit.transcript import Capability, Message, View

__all__ = ["PermutationLinking"]


@dataclass(frozen=True, slots=True)
class PermutationLinking:
    """Tell which user is behind each pseudonymous permutation sequence.

    A sequence holds the coordinates of a user's largest updates, which follow from its data and
    change little from round to round. The attack compares each pseudonymous sequence with those
    that users sent under their names in another round, and matches them. Were sequences sent
    anonymously, this is how well the sender would be known nevertheless. The view comes from a
    transcript treated by :func:`privaudit.attacks.control.pseudonymise`.

    Attributes
    ----------
    gallery_round : int or None
        Round with known senders; None for the last before the pseudonymous one that the view
        holds, or else the first after.
    similarity : {"rbo", "jaccard"}
        Rank-biased overlap (Webber, Moffat and Zobel, ACM TOIS 28(4), 2010) or Jaccard's.
    persistence : float
        Parameter p of rank-biased overlap; ranks beyond about 1 / (1 - p) weigh little.
    matching : {"assignment", "nearest"}
        One user for each pseudonym at the greatest total similarity (every sender takes part
        once), or the most similar user for each pseudonym by itself.
    """

    gallery_round: int | None = None
    similarity: Literal["rbo", "jaccard"] = "rbo"
    persistence: float = 0.999
    matching: Literal["assignment", "nearest"] = "assignment"

    name: ClassVar[str] = "reidentification/permutation-linking"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "linkability"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (kinds.PERMUTATION_SEQUENCE,)

    def __post_init__(self) -> None:
        if self.similarity not in ("rbo", "jaccard"):
            raise ConfigurationError(f"similarity is 'rbo' or 'jaccard', got {self.similarity!r}")
        if self.matching not in ("assignment", "nearest"):
            raise ConfigurationError(
                f"matching is 'assignment' or 'nearest', got {self.matching!r}"
            )
        if not 0 < self.persistence < 1:
            raise ConfigurationError(f"persistence must be in (0, 1), got {self.persistence}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the user behind each pseudonym.

        Returns
        -------
        Guesses
            Targets are the pseudonyms; values are positions among the users, () int64; scores are
            how much more similar the guessed user is than the next.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no pseudonymous sequence, or no round with known senders.
        """
        probes, gallery = self._sequences(view)
        table = np.array([[self._alike(p, g) for g in gallery] for p in probes])
        if self.matching == "assignment":
            from scipy.optimize import linear_sum_assignment

            rows, columns = linear_sum_assignment(table, maximize=True)
            # With fewer gallery senders than pseudonyms some stay unmatched: nearest for those.
            chosen = table.argmax(axis=1)
            chosen[rows] = columns
        else:
            chosen = table.argmax(axis=1)
        own = table[np.arange(len(table)), chosen]
        others = table.copy()
        others[np.arange(len(table)), chosen] = -np.inf
        margin = own - others.max(axis=1) if table.shape[1] > 1 else own
        return Guesses(
            target_ids=tuple(m.sender for m in probes),
            values=_positions(view, [gallery[c] for c in chosen]),
            scores=margin.astype(np.float64),
            diagnostics=MappingProxyType(
                {
                    "mean-similarity-of-matches": float(own.mean()),
                    "mean-similarity": float(table.mean()),
                }
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Match pseudonyms and users at random: right for one in N on average."""
        probes, gallery = self._sequences(view)
        order = np.concatenate(
            [rng.permutation(len(gallery)) for _ in range(-(-len(probes) // len(gallery)))]
        )
        return Guesses(
            target_ids=tuple(m.sender for m in probes),
            values=_positions(view, [gallery[c] for c in order[: len(probes)]]),
            scores=np.zeros(len(probes)),
        )

    def _alike(self, probe: Message, known: Message) -> float:
        a, b = probe.arrays["indices"], known.arrays["indices"]
        if self.similarity == "jaccard":
            return 1.0 - jaccard(a, b)
        return rank_biased_overlap(a, b, persistence=self.persistence)

    def _sequences(self, view: View) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        role = {party.id: party.role for party in view.parties}
        sent = view.select(kinds.PERMUTATION_SEQUENCE)
        probes = tuple(m for m in sent if role[m.sender] == PSEUDONYM_ROLE)
        if not probes and PSEUDONYM_ROLE in role.values():
            raise UnmetRequirementsError(
                f"attack '{self.name}' reads '{kinds.PERMUTATION_SEQUENCE}', and {view.coalition} "
                "saw none of a pseudonym"
            )
        if len({m.round for m in probes}) != 1 or len({m.sender for m in probes}) != len(probes):
            raise UnmetRequirementsError(
                f"linking needs one round of '{kinds.PERMUTATION_SEQUENCE}' messages from "
                "pseudonyms, one each: treat the transcript by "
                "privaudit.attacks.control.pseudonymise"
            )
        known = tuple(m for m in sent if role[m.sender] == "user" and m.round is not None)
        rounds = sorted({m.round for m in known if m.round is not None})
        probe_round = probes[0].round or 0
        gallery_round = self.gallery_round
        if gallery_round is None and rounds:
            before = [r for r in rounds if r < probe_round]
            gallery_round = before[-1] if before else rounds[0]
        gallery = tuple(m for m in known if m.round == gallery_round)
        if not gallery:
            raise UnmetRequirementsError(
                f"no sequence with a known sender in round {gallery_round}; rounds with some: "
                f"{rounds}"
            )
        return probes, gallery


def _positions(view: View, messages: list[Message]) -> tuple[npt.NDArray[np.int64], ...]:
    users = [party.id for party in view.parties if party.role == "user"]
    return tuple(np.array(users.index(m.sender), dtype=np.int64) for m in messages)
