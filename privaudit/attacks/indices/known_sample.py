"""Records from indices, by an adversary that knows the records of some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

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
from privaudit.attacks.indices._regression import (
    BLOCK,
    Method,
    Pairs,
    Predictor,
    assign_layout,
    choose_by_folds,
    fit,
)
from privaudit.attacks.vertical import KnownRecords, VerticalKnowledge
from privaudit.errors import ConfigurationError
from privaudit.transcript import Capability, View

__all__ = ["KnownSampleReconstruction"]

Table = npt.NDArray[np.float64]
_METHODS = ("auto", "table", "ridge", "procrustes", "gp")
#: What "auto" chooses from.
_CHOICE: tuple[Method, ...] = ("mean", "ridge", "procrustes", "gp", "table")


@dataclass(frozen=True, slots=True)
class KnownSampleReconstruction:
    r"""Reconstruct records from their indices with a map fitted on known rows.

    ``table`` takes an index for what it is, a code: the mean of the known sub-records with the same
    index, and those of the nearest known index for an index that no known row has. With
    ``fallback="mean"`` its guesses do not change if the indices are relabelled at will.
    ``ridge`` is :math:`\hat x=\mu+W(u-\bar u)`; ``procrustes`` a scaled orthogonal map for each
    subspace (Liu, Giannella and Kargupta, PKDD 2006), exact up to the quantisation where the
    embedding keeps all dimensions; ``gp`` kernel ridge regression. ``auto`` is the one of these and
    of the mean record with the least error over five folds of the known rows.

    Without ``feature-layout`` each column is assigned to the subspace whose codes predict it best
    on the known rows.

    Attributes
    ----------
    method : {"auto", "table", "ridge", "procrustes", "gp"}
    fallback : {"nearest", "mean"}
        For ``table``: what a code without a known row is taken for.
    known : int or None
        Use only so many of the known rows.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    method: Literal["auto", "table", "ridge", "procrustes", "gp"] = "auto"
    fallback: Literal["nearest", "mean"] = "nearest"
    known: int | None = None
    round: int | None = None

    name: ClassVar[str] = "indices/known-sample"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.KNOWN_RECORDS})
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ConfigurationError(f"method is one of {', '.join(_METHODS)}, got {self.method!r}")
        if self.fallback not in ("nearest", "mean"):
            raise ConfigurationError(f"fallback is 'nearest' or 'mean', got {self.fallback!r}")
        if self.known is not None and self.known < 2:
            raise ConfigurationError(f"known must be 2 or more, got {self.known}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct every row that is not known.

        Returns
        -------
        Guesses
            Targets are rows (``row-<id>``); values are records, (columns,) float32, in the order
            of the whole table; those columns that the coalition holds itself are its own. Scores
            are the fraction of subspaces in which a known row has the same index.

        Raises
        ------
        UnmetRequirementsError
            If no known rows are granted, or the view holds no uploads.
        InvalidDataError
            If a known row is none of those that were uploaded.
        """
        facts, known = self._known(view, knowledge)
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        at = observed.positions(known.ids, what="known records")
        layout, assigned = known_layout(view, facts, observed, known, at)
        pairs = Pairs(
            observed.indices[at], known.records, observed.subspaces, layout, self.fallback
        )
        diagnostics = {"known-rows": float(len(at)), "layout-assigned": float(assigned)}
        own, features = own_columns(view)
        if self.method == "auto":
            # The coalition's own columns need no guess, and others' indices do not determine them.
            wanted = np.setdiff1d(np.arange(known.records.shape[1]), own)
            method, errors = choose_by_folds(pairs, _CHOICE, rng=rng, columns=wanted)
            diagnostics |= {f"fold-error/{name}": error for name, error in errors.items()}
        else:
            method = self.method
        rest = np.delete(np.arange(len(observed.ids)), at)
        values = predict_rows(fit(method, pairs), observed.indices[rest], known.records.shape[1])
        values[:, own] = features[rest] if own.size else values[:, own]
        return guesses_of_rows(
            observed.ids[rest], values, _familiar(observed, at)[rest], diagnostics
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean of the known records for every row."""
        _, known = self._known(view, knowledge)
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        rest = np.delete(
            np.arange(len(observed.ids)), observed.positions(known.ids, what="known records")
        )
        mean = known.records.mean(axis=0).astype(np.float32)
        values = np.broadcast_to(mean, (len(rest), len(mean))).copy()
        own, features = own_columns(view)
        values[:, own] = features[rest] if own.size else values[:, own]
        return guesses_of_rows(observed.ids[rest], values, np.zeros(len(rest)))

    def _known(self, view: View, knowledge: Knowledge) -> tuple[VerticalKnowledge, KnownRecords]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        known = held(facts.known)
        return facts, known if self.known is None else known.first(self.known)


def predict_rows(predict: Predictor, inputs: Table, width: int) -> npt.NDArray[np.float32]:
    """Predict in blocks of rows, which bounds the memory."""
    values = np.empty((len(inputs), width), dtype=np.float32)
    for start in range(0, len(inputs), BLOCK):
        values[start : start + BLOCK] = predict(inputs[start : start + BLOCK])
    return values


def known_layout(
    view: View,
    facts: VerticalKnowledge,
    observed: ObservedIndices,
    known: KnownRecords,
    at: npt.NDArray[np.int64],
) -> tuple[tuple[npt.NDArray[np.int64], ...], bool]:
    """Return the columns of each subspace, and whether they had to be assigned from known rows."""
    if Capability.FEATURE_LAYOUT in view.capabilities and facts.layout is not None:
        return layout_of(observed, facts), False
    own, _ = own_columns(view)
    others = np.setdiff1d(np.arange(known.records.shape[1]), own)
    found = assign_layout(observed.indices[at], known.records[:, others], observed.subspaces)
    return tuple(others[columns] for columns in found), True


def _familiar(observed: ObservedIndices, at: npt.NDArray[np.int64]) -> Table:
    """Return the fraction of subspaces in which a row's index is that of a known row."""
    codes, levels = codes_of(observed.indices, observed.subspaces)
    hits = np.zeros(len(codes))
    for m, level in enumerate(levels):
        seen = np.zeros(len(level), dtype=bool)
        seen[codes[at, m]] = True
        hits += seen[codes[:, m]]
    return hits / len(levels)
