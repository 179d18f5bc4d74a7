"""What frequencies alone tell of codes: a control for attacks that use the geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._codes import codes_of
from privaudit.attacks.indices._observations import (
    READS,
    ObservedIndices,
    granted,
    guesses_of_rows,
    held,
    layout_of,
    observe,
    own_columns,
)
from privaudit.attacks.indices._simulation import quantise
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.transcript import Capability, View

__all__ = ["FrequencyMatching"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FrequencyMatching:
    """Match codes with the adversary's own codewords by the rank of their frequencies.

    The attack of Naveed, Kamara and Wright (CCS 2015) on deterministic encryption: the i-th most
    frequent code is taken for the i-th most frequent codeword of auxiliary records. Cells of
    k-means are about equally full, so that ranks tell next to nothing: on numerical columns the
    attack does worse than the mean record, and serves as a negative control. A column of few
    categories of unequal frequency is another matter.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    round: int | None = None

    name: ClassVar[str] = "indices/frequency-matching"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.AUXILIARY_DATA, Capability.FEATURE_LAYOUT}
    )
    reads: ClassVar[tuple[str, ...]] = READS

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct every row from the codewords matched with its codes.

        Returns
        -------
        Guesses
            As :meth:`privaudit.attacks.indices.AuxiliaryAlignment.run`.
        """
        observed, auxiliary, facts = self._facts(view, knowledge)
        layout = layout_of(observed, facts)
        codes, levels = codes_of(observed.indices, observed.subspaces)
        quantiser, own = quantise(auxiliary, layout, [len(level) for level in levels], rng=rng)
        values = self._mean(observed, auxiliary)
        for m, (columns, book) in enumerate(zip(layout, quantiser.codebooks, strict=True)):
            frequent = _by_frequency(codes[:, m], len(levels[m]))
            likely = _by_frequency(own[:, m], len(book))
            match = np.zeros(len(frequent), dtype=np.int64)
            match[frequent] = likely[np.minimum(np.arange(len(frequent)), len(likely) - 1)]
            values[:, columns] = book[match[codes[:, m]]]
        return self._guesses(view, observed, values)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean of the auxiliary records for every row."""
        observed, auxiliary, _ = self._facts(view, knowledge)
        return self._guesses(view, observed, self._mean(observed, auxiliary))

    def _facts(
        self, view: View, knowledge: Knowledge
    ) -> tuple[ObservedIndices, Table, VerticalKnowledge]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        return observed, held(facts.auxiliary), facts

    def _mean(self, observed: ObservedIndices, auxiliary: Table) -> npt.NDArray[np.float32]:
        mean = auxiliary.mean(axis=0).astype(np.float32)
        return np.broadcast_to(mean, (len(observed.ids), len(mean))).copy()

    def _guesses(
        self, view: View, observed: ObservedIndices, values: npt.NDArray[np.float32]
    ) -> Guesses:
        own, features = own_columns(view)
        if own.size:
            values[:, own] = features
        return guesses_of_rows(observed.ids, values, np.zeros(len(values)))


def _by_frequency(codes: npt.NDArray[np.integer], size: int) -> npt.NDArray[np.int64]:
    """Return the codes from the most to the least frequent."""
    return np.argsort(-np.bincount(codes, minlength=size), kind="stable").astype(np.int64)
