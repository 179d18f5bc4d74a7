"""Records from indices, by an adversary that knows no row, only the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
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
from privaudit.attacks.indices._regression import Pairs, fit
from privaudit.attacks.indices._simulation import align
from privaudit.attacks.indices.known_sample import predict_rows
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.errors import ConfigurationError
from privaudit.transcript import Capability, View

__all__ = ["AuxiliaryAlignment"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AuxiliaryAlignment:
    """Reconstruct records from their indices with a map fitted on auxiliary records alone.

    The adversary runs the protocol's public steps on records of the same population, which no
    party holds. What differs in the victims' run is the sign of each axis and the codewords'
    numbers. The signs are those under which the columns of both runs correlate alike: the leading
    eigenvector of the product of both correlation matrices, improved by single flips, and one
    overall sign by the marginals. A regression from the own indices to the own records then
    applies to the victims' indices. It is the embedding's geometry that allows this: against codes
    that are numbered at random only frequencies are left, see
    :class:`privaudit.attacks.indices.FrequencyMatching`.

    Attributes
    ----------
    method : {"gp", "ridge", "table"}
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    method: Literal["gp", "ridge", "table"] = "gp"
    round: int | None = None

    name: ClassVar[str] = "indices/auxiliary-alignment"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.AUXILIARY_DATA, Capability.FEATURE_LAYOUT}
    )
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        if self.method not in ("gp", "ridge", "table"):
            raise ConfigurationError(f"method is gp, ridge or table, got {self.method!r}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct every row.

        Returns
        -------
        Guesses
            As :meth:`privaudit.attacks.indices.KnownSampleReconstruction.run`; scores are zero: the
            attack cannot tell good rows from bad. The diagnostic ``agreement`` is the correlation
            of both runs' correlations: far below one where the populations differ.
        """
        observed, auxiliary, facts = self._facts(view, knowledge)
        layout = layout_of(observed, facts)
        sample = align(view, observed, layout, auxiliary, rng=rng)
        pairs = Pairs(sample.indices, sample.records, observed.subspaces, layout)
        values = predict_rows(fit(self.method, pairs), observed.indices, auxiliary.shape[1])
        diagnostics = {
            "auxiliary-records": float(len(sample.records)),
            "agreement": sample.agreement,
        }
        return self._guesses(view, observed, values, diagnostics)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean of the auxiliary records for every row."""
        observed, auxiliary, _ = self._facts(view, knowledge)
        mean = auxiliary.mean(axis=0).astype(np.float32)
        values = np.broadcast_to(mean, (len(observed.ids), len(mean))).copy()
        return self._guesses(view, observed, values, {})

    def _facts(
        self, view: View, knowledge: Knowledge
    ) -> tuple[ObservedIndices, Table, VerticalKnowledge]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        return observed, held(facts.auxiliary), facts

    def _guesses(
        self,
        view: View,
        observed: ObservedIndices,
        values: npt.NDArray[np.float32],
        diagnostics: dict[str, float],
    ) -> Guesses:
        own, features = own_columns(view)
        if own.size:
            values[:, own] = features
        return guesses_of_rows(observed.ids, values, np.zeros(len(values)), diagnostics)
