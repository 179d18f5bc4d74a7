"""Where in the upload would a person's record lie: predicted indices and distances to rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.attacks.indices._observations import (
    ObservedIndices,
    granted,
    held,
    layout_of,
)
from privaudit.attacks.indices._regression import ridge
from privaudit.attacks.indices._simulation import align
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.errors import ConfigurationError
from privaudit.transcript import Capability, View

__all__ = ["NEEDED", "By", "Nearest", "Placed", "check_by", "nearest", "place"]

Table = npt.NDArray[np.float64]

By = Literal["known-records", "auxiliary-data", "codebooks"]

#: What each way of predicting a record's indices needs besides the record.
NEEDED: dict[str, frozenset[Capability]] = {
    "known-records": frozenset({Capability.KNOWN_RECORDS}),
    "auxiliary-data": frozenset({Capability.AUXILIARY_DATA, Capability.FEATURE_LAYOUT}),
    "codebooks": frozenset({Capability.CODEBOOKS, Capability.FEATURE_LAYOUT}),
}
assert set(NEEDED) == set(get_args(By))

#: Share of a column's variance that is added to its residual variance: no column is certain.
_FLOOR = 0.02
#: Persons whose distances to all rows are held at once.
_BLOCK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Predicted indices of persons.

    Attributes
    ----------
    indices : ndarray of float64, shape (persons, index columns)
    weights : ndarray of float64, shape (index columns,)
        One over the variance of the prediction's error.
    """

    indices: Table
    weights: Table


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The nearest rows of persons: positions (persons, count) and squared distances."""

    positions: npt.NDArray[np.int64]
    distances: Table


def check_by(by: str) -> None:
    """Raise ConfigurationError unless ``by`` is a way of predicting indices."""
    if by not in NEEDED:
        raise ConfigurationError(f"by is one of {', '.join(NEEDED)}, got {by!r}")


def place(
    by: By,
    view: View,
    observed: ObservedIndices,
    knowledge: Knowledge,
    *,
    columns: npt.NDArray[np.int64],
    values: Table,
    noise: float = 0.0,
    attack: str,
    known_rows: int | None = None,
    rng: np.random.Generator,
) -> Placed:
    """Predict the indices of persons from some columns of their records.

    A ridge regression from those columns to indices, fitted on known rows or on aligned auxiliary
    records; or the codebooks themselves, for persons all of whose columns are known.

    Raises
    ------
    UnmetRequirementsError
        If the view lacks what ``by`` needs.
    ConfigurationError
        If ``by`` is ``codebooks`` and columns are missing.
    """
    facts = granted(view, knowledge, NEEDED[by], attack=attack)
    if by == "codebooks":
        return _by_codebooks(facts, observed, columns, values)
    if by == "known-records":
        known = held(facts.known)
        known = known if known_rows is None else known.first(known_rows)
        at = observed.positions(known.ids, what="known records")
        records, indices = known.records, observed.indices[at]
        reliability = np.ones(indices.shape[1])
    else:
        layout = layout_of(observed, facts)
        sample = align(view, observed, layout, held(facts.auxiliary), rng=rng)
        records, indices, reliability = sample.records, sample.indices, sample.reliability
    predict = ridge(records[:, columns], indices, noise=noise)
    residual = predict.error + noise**2 * (predict.weights**2).sum(axis=0)
    variance = observed.indices.var(axis=0)
    # What an unreliable column does not share with the attacked run's is error as well.
    spread = residual + (_FLOOR + 1 - reliability**2) * variance
    weights = np.divide(reliability**2, spread, out=np.zeros_like(spread), where=spread > 0)
    return Placed(predict(values), weights)


def _by_codebooks(
    facts: VerticalKnowledge,
    observed: ObservedIndices,
    columns: npt.NDArray[np.int64],
    values: Table,
) -> Placed:
    where = {int(c): i for i, c in enumerate(columns)}
    books = {party: list(own) for party, own in held(facts.codebooks).items()}
    indices = np.zeros((len(values), observed.indices.shape[1]))
    layout = layout_of(observed, facts)
    for own, subspace, owner in zip(layout, observed.subspaces, observed.owners, strict=True):
        missing = [int(c) for c in own if int(c) not in where]
        if missing or not books.get(owner):
            raise ConfigurationError(
                f"placing a record by codebooks needs one for each subspace of {owner} and all "
                f"columns; missing columns: {missing[:5]}"
            )
        book = books[owner].pop(0)
        part = values[:, [where[int(c)] for c in own]]
        square = ((part[:, None] - book.codewords[None]) ** 2).sum(axis=2)
        indices[:, subspace] = book.levels[square.argmin(axis=1)]
    variance = observed.indices.var(axis=0)
    return Placed(
        indices, np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
    )


def nearest(observed: ObservedIndices, placed: Placed, *, count: int) -> Nearest:
    """Return the rows nearest to each person's predicted indices, nearest first.

    Equally near rows come in the order of the upload.
    """
    scale = np.sqrt(placed.weights)
    rows, persons = observed.indices * scale, placed.indices * scale
    count = min(count, len(rows))
    square = (rows**2).sum(axis=1)
    positions = np.empty((len(persons), count), dtype=np.int64)
    distances = np.empty((len(persons), count))
    for start in range(0, len(persons), _BLOCK):
        block = persons[start : start + _BLOCK]
        table = square[None] - 2 * block @ rows.T
        table += (block**2).sum(axis=1)[:, None]
        kept = np.argpartition(table, count - 1, axis=1)[:, :count]
        kept.sort(axis=1)
        near = np.take_along_axis(table, kept, axis=1)
        order = near.argsort(axis=1, kind="stable")
        positions[start : start + _BLOCK] = np.take_along_axis(kept, order, axis=1)
        distances[start : start + _BLOCK] = np.take_along_axis(near, order, axis=1)
    return Nearest(positions, np.maximum(distances, 0.0))
