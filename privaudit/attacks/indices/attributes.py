"""What the cluster of a row tells a party of a sensitive attribute that it does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks._messages import array_of
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._observations import (
    granted,
    held,
    own_columns,
    row_target,
)
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.pq_mds import kinds
from privaudit.transcript import Capability, View

__all__ = ["ClusterAttribute"]

Table = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Most clusters that a recording may name: each becomes a column.
_MOST_CLUSTERS = 4096


@dataclass(frozen=True, slots=True)
class ClusterAttribute:
    """Predict a sensitive attribute from the own columns and the cluster labels sent back.

    Logistic regression on the standardised own columns and the row's cluster, fitted on rows whose
    attribute is known; the own columns together vary as much as the cluster. The baseline has the
    same rows and the own columns alone: only the difference is what the protocol's answer gives
    away, and it may be nothing.

    Attributes
    ----------
    strengths : tuple of float
        Inverse strengths of the regression's L2 penalty (scikit-learn's C) to choose from, by five
        folds of the known rows.
    own : bool
        False leaves the own columns out, for attack and baseline: the label alone.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    strengths: tuple[float, ...] = (1.0, 10.0, 100.0)
    own: bool = True
    round: int | None = None

    name: ClassVar[str] = "indices/cluster-attribute"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.KNOWN_ATTRIBUTES})
    reads: ClassVar[tuple[str, ...]] = (kinds.LABELS,)

    def __post_init__(self) -> None:
        if not self.strengths or min(self.strengths) <= 0:
            raise ConfigurationError(f"strengths must be > 0, got {self.strengths}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Predict the attribute of every row where it is not known.

        Returns
        -------
        Guesses
            Targets are rows (``row-<id>``); values are classes, () int64; scores their
            probabilities.

        Raises
        ------
        UnmetRequirementsError
            If no known attributes are granted, or the view holds no labels.
        InvalidDataError
            If a known row is none of the run's.
        """
        return self._predict(view, knowledge, clusters=True, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Predict from the own columns alone; without any, the most frequent known class."""
        return self._predict(view, knowledge, clusters=False, rng=rng)

    def _predict(
        self, view: View, knowledge: Knowledge, *, clusters: bool, rng: np.random.Generator
    ) -> Guesses:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        known = held(facts.attributes)
        ids, labels = _labels(view, self.round)
        place = {int(row): i for i, row in enumerate(ids)}
        missing = [int(row) for row in known.ids if int(row) not in place]
        if missing:
            raise InvalidDataError(
                f"known attributes: {len(missing)} row ids are not in the run, for example "
                f"{missing[0]}"
            )
        at = np.array([place[int(row)] for row in known.ids], dtype=np.int64)
        rest = np.delete(np.arange(len(ids)), at)
        inputs = self._inputs(view, labels if clusters else None, len(ids))
        classes, probability = _classify(
            inputs[at], known.values, inputs[rest], strengths=self.strengths, rng=rng
        )
        return Guesses(
            target_ids=tuple(row_target(int(row)) for row in ids[rest]),
            values=tuple(np.array(c, dtype=np.int64) for c in classes),
            scores=probability,
        )

    def _inputs(self, view: View, labels: Ints | None, rows: int) -> Table:
        parts: list[Table] = []
        own, features = own_columns(view)
        if self.own and own.size:
            spread = features.std(axis=0)
            parts.append(features / np.where(spread > 0, spread, 1.0))
        if labels is not None:
            parts.append((labels[:, None] == np.unique(labels)[None]).astype(np.float64))
        blocks = [_of_unit_variance(part) for part in parts]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((rows, 0))


def _of_unit_variance(block: Table) -> Table:
    """Centre a block of columns and scale it so that their variances add up to one."""
    centred = block - block.mean(axis=0)
    total = float(centred.var(axis=0).sum())
    result: Table = centred / np.sqrt(total) if total > 0 else centred
    return result


def _labels(view: View, round: int | None) -> tuple[Ints, Ints]:
    sent = view.select(kinds.LABELS)
    chosen = round if round is not None else min((m.round or 0 for m in sent), default=None)
    messages = [m for m in sent if (m.round or 0) == chosen]
    rows = view.public_arrays.get(kinds.ROWS)
    if not messages or rows is None:
        raise UnmetRequirementsError(
            f"the view of {view.coalition} holds no '{kinds.LABELS}' in round {chosen}; rounds "
            f"with some: {sorted({m.round for m in sent if m.round is not None})}"
        )
    labels = np.asarray(array_of(messages[0], "labels"))
    if labels.dtype.kind not in "iu" or len(np.unique(labels)) > _MOST_CLUSTERS:
        raise InvalidDataError(
            f"labels must be whole numbers of at most {_MOST_CLUSTERS} clusters; got "
            f"{len(np.unique(labels))} of type {labels.dtype}"
        )
    if rows.dtype.kind not in "iu":
        raise InvalidDataError(f"row ids must be whole numbers; got {rows.dtype}")
    if labels.shape != rows.shape:
        raise InvalidDataError(
            f"{labels.size} labels and {rows.size} row ids: the numbers must agree"
        )
    return rows.astype(np.int64), labels.astype(np.int64)


def _classify(
    inputs: Table,
    classes: Ints,
    rest: Table,
    *,
    strengths: Sequence[float],
    rng: np.random.Generator,
) -> tuple[Ints, Table]:
    present, count = np.unique(classes, return_counts=True)
    if len(present) == 1 or inputs.shape[1] == 0:
        best = int(count.argmax())
        share = float(count[best] / count.sum())
        return np.full(len(rest), present[best]), np.full(len(rest), share)
    from sklearn.linear_model import LogisticRegression

    fold = rng.permutation(len(classes)) % min(5, len(classes))

    def hits(strength: float) -> int:
        right = 0
        for part in np.unique(fold):
            train = fold != part
            if len(np.unique(classes[train])) > 1:
                model = LogisticRegression(C=strength, max_iter=2000)
                model.fit(inputs[train], classes[train])
                right += int((model.predict(inputs[~train]) == classes[~train]).sum())
        return right

    model = LogisticRegression(C=max(strengths, key=hits), max_iter=2000).fit(inputs, classes)
    probability = model.predict_proba(rest)
    best_class = probability.argmax(axis=1)
    return (
        np.asarray(model.classes_[best_class], dtype=np.int64),
        np.asarray(probability.max(axis=1), dtype=np.float64),
    )
