"""Label histograms that clients state themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks._messages import array_of, in_round
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._histograms import population
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Array, Capability, Message, View

__all__ = ["LabelsFromCounts"]


@dataclass(frozen=True, slots=True)
class LabelsFromCounts:
    """Read clients' label histograms from the class counts that they send.

    DisUE's label sampler and its weights of the teachers (eq. 5 and 6) need how many records of
    each class the members of a cluster hold. The paper does not say how the server gets them; it
    gets them in the clear.

    Attributes
    ----------
    round : int or None
        The round to read; None for each client's first.
    """

    round: int | None = None

    name: ClassVar[str] = "inference/class-counts"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (kinds.CLASS_COUNTS,)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Return the histogram of every client outside the coalition.

        Returns
        -------
        Guesses
            Targets are the clients; values are histograms, (classes,) float64, that sum to one;
            scores are the numbers of records.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no class counts of a client outside the coalition.
        InvalidDataError
            If counts are negative or all zero.
        """
        sent = self._sent(view)
        counts = [array_of(m, "counts").astype(np.float64) for m in sent]
        for message, count in zip(sent, counts, strict=True):
            if count.ndim != 1 or count.min(initial=0) < 0 or not count.sum() > 0:
                raise InvalidDataError(
                    f"class counts of {message.sender}, round {message.round}, are not numbers of "
                    "records with a positive sum"
                )
        return Guesses(
            target_ids=tuple(m.sender for m in sent),
            values=tuple(count / count.sum() for count in counts),
            scores=np.array([count.sum() for count in counts]),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the auxiliary records' label histogram, or equal shares where none are declared."""
        sent = self._sent(view)
        (classes,) = sent[0].specs["counts"].shape
        prior: Array = np.full(classes, 1.0 / classes)
        if knowledge.auxiliary is not None and len(knowledge.auxiliary):
            prior = population(knowledge.auxiliary.labels, classes)
        return Guesses(
            tuple(m.sender for m in sent), tuple(prior.copy() for _ in sent), np.zeros(len(sent))
        )

    def _sent(self, view: View) -> tuple[Message, ...]:
        first: dict[str, Message] = {}
        for message in view.select(kinds.CLASS_COUNTS, round=self.round):
            if message.sender not in view.coalition.members:
                first.setdefault(message.sender, message)
        if not first:
            raise UnmetRequirementsError(
                f"the view of {view.coalition} holds no '{kinds.CLASS_COUNTS}' of a client outside "
                f"it {in_round(self.round)}; rounds with some: "
                f"{list(view.rounds(kinds.CLASS_COUNTS))}"
            )
        return tuple(first.values())
