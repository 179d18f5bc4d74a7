"""What a party that colludes with the server learns of the other parties' columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._observations import (
    READS,
    ObservedIndices,
    granted,
    guesses_of_rows,
    held,
    observe,
    own_columns,
)
from privaudit.attacks.indices._regression import (
    Method,
    Pairs,
    choose_by_folds,
    fit,
)
from privaudit.attacks.indices.known_sample import known_layout, predict_rows
from privaudit.attacks.vertical import KnownRecords, VerticalKnowledge
from privaudit.errors import UnmetRequirementsError
from privaudit.transcript import Capability, View

__all__ = ["CrossPartyInference"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CrossPartyInference:
    """Infer the other parties' columns of every row, from their indices and the own columns.

    The attack fits its maps on known rows: from the others' indices alone (as
    :class:`privaudit.attacks.indices.KnownSampleReconstruction`), and from indices and own columns
    together; five folds of the known rows choose. The baseline is imputation: the own columns
    alone, with the same known rows. Only what the attack has above imputation is due to the indices
    (Jayaraman and Evans, *Are Attribute Inference Attacks Just Imputation?*, CCS 2022).

    Attributes
    ----------
    known : int or None
        Use only so many of the known rows.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    known: int | None = None
    round: int | None = None

    name: ClassVar[str] = "indices/cross-party"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.KNOWN_RECORDS})
    reads: ClassVar[tuple[str, ...]] = READS

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the others' columns of every row that is not known.

        Returns
        -------
        Guesses
            Targets are rows (``row-<id>``); values are whole records, (columns,) float32, the own
            columns being the coalition's own; scores are zero.

        Raises
        ------
        UnmetRequirementsError
            If no known rows are granted, no member of the coalition holds columns, or the view
            holds no upload of others.
        """
        facts, known, observed, own, features = self._facts(view, knowledge)
        at = observed.positions(known.ids, what="known records")
        layout, _ = known_layout(view, facts, observed, known, at)
        alone = Pairs(observed.indices[at], known.records, observed.subspaces, layout)
        both = _beside(alone, features[at])
        errors: dict[tuple[bool, Method], float] = {}
        for joint, pairs in ((False, alone), (True, both)):
            methods: tuple[Method, ...] = ("ridge", "gp") if joint else ("mean", "gp", "table")
            _, found = choose_by_folds(pairs, methods, rng=rng, columns=_others(known, own))
            errors |= {(joint, method): error for method, error in found.items()}
        joint, method = min(errors, key=errors.__getitem__)
        rest = np.delete(np.arange(len(observed.ids)), at)
        inputs = observed.indices[rest]
        if joint:
            inputs = np.concatenate([inputs, features[rest]], axis=1)
        pairs = both if joint else alone
        values = predict_rows(fit(method, pairs), inputs, known.records.shape[1])
        values[:, own] = features[rest]
        diagnostics = {
            f"fold-error/{m}{'-with-own-columns' if j else ''}": error
            for (j, m), error in errors.items()
        }
        return guesses_of_rows(observed.ids[rest], values, np.zeros(len(rest)), diagnostics)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Impute the others' columns from the own ones, with the same known rows."""
        _, known, observed, own, features = self._facts(view, knowledge)
        at = observed.positions(known.ids, what="known records")
        pairs = Pairs(features[at], known.records, (), ())
        method, errors = choose_by_folds(
            pairs, ("mean", "ridge", "gp"), rng=rng, columns=_others(known, own)
        )
        rest = np.delete(np.arange(len(observed.ids)), at)
        values = predict_rows(fit(method, pairs), features[rest], known.records.shape[1])
        values[:, own] = features[rest]
        diagnostics = {f"fold-error/{m}": error for m, error in errors.items()}
        return guesses_of_rows(observed.ids[rest], values, np.zeros(len(rest)), diagnostics)

    def _facts(
        self, view: View, knowledge: Knowledge
    ) -> tuple[VerticalKnowledge, KnownRecords, ObservedIndices, npt.NDArray[np.int64], Table]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        known = held(facts.known)
        own, features = own_columns(view)
        if not own.size:
            raise UnmetRequirementsError(
                f"{self.name} is the attack of a party that holds columns itself; none of "
                f"{view.coalition} does: use indices/known-sample for the server alone"
            )
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        known = known if self.known is None else known.first(self.known)
        return facts, known, observed, own, features


def _others(known: KnownRecords, own: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.setdiff1d(np.arange(known.records.shape[1]), own)


def _beside(pairs: Pairs, features: Table) -> Pairs:
    return Pairs(
        np.concatenate([pairs.indices, features], axis=1), pairs.records, (), (), pairs.fallback
    )
