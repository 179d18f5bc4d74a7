"""What an adversary may know of tables whose columns are spread over parties.

Column numbers are positions in the whole table, as in the parties' own ``columns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.transcript import PartyId

__all__ = ["Codebook", "KnownAttributes", "KnownRecords", "PartialRecords", "VerticalKnowledge"]

Table = npt.NDArray[np.float64]


def _check_table(name: str, table: Table, rows: int | None = None) -> None:
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InvalidDataError(
            f"{name} must be a finite table of shape (rows, columns), got shape {table.shape}"
        )
    if rows is not None and len(table) != rows:
        raise InvalidDataError(
            f"{name}: {rows} rows expected and {len(table)} given: the numbers must agree"
        )


@dataclass(frozen=True, slots=True, eq=False)
class KnownRecords:
    """Rows of the run whose records the adversary knows.

    Attributes
    ----------
    ids : ndarray of int64, shape (known,)
        Row ids, as the view names them; distinct.
    records : ndarray of float64, shape (known, columns)
        All columns of the whole table.
    """

    ids: npt.NDArray[np.int64]
    records: Table

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or len(np.unique(self.ids)) != len(self.ids):
            raise InvalidDataError("known records: row ids must be a list of distinct ids")
        _check_table("known records", self.records, len(self.ids))

    def first(self, count: int) -> KnownRecords:
        """Return the first ``count`` of them."""
        return KnownRecords(self.ids[:count], self.records[:count])


@dataclass(frozen=True, slots=True, eq=False)
class KnownAttributes:
    """Rows of which the adversary knows a sensitive attribute that is no column of the table.

    Attributes
    ----------
    ids : ndarray of int64, shape (known,)
        Row ids, as the view names them; distinct.
    values : ndarray of int64, shape (known,)
        Classes of the attribute.
    """

    ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or len(np.unique(self.ids)) != len(self.ids):
            raise InvalidDataError("known attributes: row ids must be a list of distinct ids")
        if self.values.shape != self.ids.shape:
            raise InvalidDataError(
                f"known attributes: {len(self.ids)} ids and values of shape {self.values.shape}: "
                "the numbers must agree"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """One subspace's codewords and what each becomes in the upload.

    Attributes
    ----------
    codewords : ndarray of float64, shape (codewords, width)
    levels : ndarray of float64, shape (codewords, r)
        The index of each codeword, as uploaded.
    """

    codewords: Table
    levels: Table

    def __post_init__(self) -> None:
        _check_table("codewords", self.codewords)
        _check_table("levels", self.levels, len(self.codewords))


@dataclass(frozen=True, slots=True, eq=False)
class PartialRecords:
    """Copies of some columns of targets whose rows the adversary looks for.

    Attributes
    ----------
    targets : tuple of str
        Names that the adversary gives to the persons it looks for; no row ids.
    columns : ndarray of int64, shape (known columns,)
        Which columns of the whole table the copies hold.
    values : ndarray of float64, shape (targets, known columns)
    noise : float
        Standard deviation of the errors that the adversary supposes in the copies, in their units.
    """

    targets: tuple[str, ...]
    columns: npt.NDArray[np.int64]
    values: Table
    noise: float = 0.0

    def __post_init__(self) -> None:
        if len(set(self.targets)) != len(self.targets):
            raise InvalidDataError("partial records: names of targets must be distinct")
        _check_table("partial records", self.values, len(self.targets))
        if self.columns.shape != (self.values.shape[1],):
            raise InvalidDataError(
                f"partial records: {self.columns.size} columns are named and values have "
                f"{self.values.shape[1]}"
            )
        if not 0 <= self.noise < np.inf:
            raise InvalidDataError(f"partial records: noise must be >= 0, got {self.noise}")


@dataclass(frozen=True, slots=True, eq=False)
class VerticalKnowledge:
    """What the adversary knows besides its view of a run on vertically split tables.

    Attributes
    ----------
    known : KnownRecords or None
        Capability ``known-records``.
    attributes : KnownAttributes or None
        ``known-attributes``.
    auxiliary : ndarray of float64, shape (records, columns), or None
        Records of the same population that are not in the run; ``auxiliary-data``.
    layout : mapping of PartyId to tuple of ndarray of int64, or None
        For each party and each of its subspaces, in order, the columns of the whole table in it;
        ``feature-layout``.
    candidates : ndarray of float64, shape (candidates, columns), or None
        Records of persons of whom some are in the run; ``candidate-list``.
    candidate_ids : tuple of str
        Their names.
    partial : PartialRecords or None
        ``partial-records``.
    codebooks : mapping of PartyId to tuple of Codebook, or None
        Those of each party, one a subspace; ``codebooks``, which no protocol gives away: an upper
        bound.
    """

    known: KnownRecords | None = None
    attributes: KnownAttributes | None = None
    auxiliary: Table | None = None
    layout: Mapping[PartyId, tuple[npt.NDArray[np.int64], ...]] | None = None
    candidates: Table | None = None
    candidate_ids: tuple[str, ...] = ()
    partial: PartialRecords | None = None
    codebooks: Mapping[PartyId, tuple[Codebook, ...]] | None = None

    def __post_init__(self) -> None:
        if self.auxiliary is not None:
            _check_table("auxiliary", self.auxiliary)
        if self.candidates is not None:
            _check_table("candidates", self.candidates, len(self.candidate_ids))
        for name in ("layout", "codebooks"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, MappingProxyType(dict(value)))
