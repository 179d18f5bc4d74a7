"""Tables, and how their columns are spread over the parties of a vertical federation.

Every party holds all rows and some columns. Rows are told apart by pseudonymous ids on which the
parties agreed beforehand (by private set intersection, for instance): alignment is a precondition,
checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from privaudit.errors import AlignmentError, ConfigurationError, InvalidDataError
from privaudit.transcript import PartyId

__all__ = ["AuxiliaryRows", "Column", "Table", "VerticalData", "VerticalParty", "align"]

Features = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of features.

    Attributes
    ----------
    name : str
        For example ``age``, ``workclass=Private``, ``pixel-3-7``.
    kind : {"numeric", "categorical"}
    source : str
        The column of the file that it comes from; one-hot columns share theirs.
    """

    name: str
    kind: Literal["numeric", "categorical"] = "numeric"
    source: str = ""


#: Largest magnitude: sums of squared differences of such values are still finite in float32.
LARGEST_VALUE = 1e16


def _check_features(features: Features, columns: Sequence[Column], *, what: str) -> None:
    if features.ndim != 2 or features.dtype != np.float32:
        raise InvalidDataError(
            f"features of {what} must be float32 of shape (rows, columns), got {features.dtype} "
            f"of shape {features.shape}"
        )
    if features.shape[1] != len(columns) or features.shape[1] == 0:
        raise InvalidDataError(
            f"{what}: {features.shape[1]} columns of features and {len(columns)} names; there must "
            "be equally many, and at least one"
        )
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise InvalidDataError(
            f"column '{columns[column].name}' of {what} is missing or not finite in row {row}: "
            "impute it, or leave the row or the column out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A whole table, before its columns are spread.

    Attributes
    ----------
    name : str
    features : ndarray of float32, shape (n, d)
    columns : tuple of Column
    labels : ndarray of int64, shape (n,), or None
        Truth for the quality of clusterings; no party holds it.
    classes : int
        Number of labels; 0 without any.
    image_shape : tuple of int or None
        Channels, height, width, where the columns are the pixels of an image.
    scaled : bool
        Whether columns were shifted or scaled by numbers computed from the rows.
    notes : tuple of str
        What was done to the source, for people: rows dropped, values imputed.
    """

    name: str
    features: Features
    columns: tuple[Column, ...]
    labels: Ids | None = None
    classes: int = 0
    image_shape: tuple[int, int, int] | None = None
    scaled: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_features(self.features, self.columns, what=f"'{self.name}'")
        if self.labels is not None and self.labels.shape != (len(self.features),):
            raise InvalidDataError(
                f"'{self.name}' has {len(self.features)} rows and labels of shape "
                f"{self.labels.shape}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class VerticalParty:
    """What one party holds: some columns of every row.

    Attributes
    ----------
    party : PartyId
    ids : ndarray of int64, shape (n,)
        Pseudonymous ids of the rows.
    features : ndarray of float32, shape (n, d_p)
    columns : tuple of Column
    positions : ndarray of int64, shape (d_p,)
        Where its columns lie in the whole table.
    """

    party: PartyId
    ids: Ids
    features: Features
    columns: tuple[Column, ...]
    positions: Ids

    def __post_init__(self) -> None:
        _check_features(self.features, self.columns, what=f"party '{self.party}'")
        large = np.abs(self.features) > LARGEST_VALUE
        if large.any():
            row, column = np.argwhere(large)[0]
            raise InvalidDataError(
                f"column '{self.columns[column].name}' of party '{self.party}' holds "
                f"{self.features[row, column]:g} in row {row}: squares of values beyond "
                f"{LARGEST_VALUE:g} overflow; scale the columns, or drop this one"
            )
        if self.ids.shape != (len(self.features),):
            raise AlignmentError(
                f"party '{self.party}' has {len(self.features)} rows and ids of shape "
                f"{self.ids.shape}"
            )
        distinct, counts = np.unique(self.ids, return_counts=True)
        if len(distinct) != len(self.ids):
            twice = distinct[counts > 1][:3].tolist()
            raise AlignmentError(
                f"party '{self.party}' has rows with the same id, for example {twice}: an id may "
                "occur once"
            )
        if self.positions.shape != (len(self.columns),):
            raise InvalidDataError(
                f"party '{self.party}' has {len(self.columns)} columns and positions of shape "
                f"{self.positions.shape}"
            )

    def take(self, index: npt.NDArray[np.integer]) -> VerticalParty:
        """Return the party with the rows at the given positions, in that order."""
        return VerticalParty(
            self.party, self.ids[index], self.features[index], self.columns, self.positions
        )


@dataclass(frozen=True, slots=True, eq=False)
class AuxiliaryRows:
    """Whole rows of the same population that no party holds, for adversaries that are granted some.

    Attributes
    ----------
    features : ndarray of float32, shape (m, d)
        All columns, in the order of the whole table.
    labels : ndarray of int64, shape (m,), or None
    """

    features: Features
    labels: Ids | None = None

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, slots=True, eq=False)
class VerticalData:
    """The parties of a vertical federation, with aligned rows.

    Attributes
    ----------
    dataset : str
    parties : tuple of VerticalParty
        With the same ids in the same order.
    labels : ndarray of int64, shape (n,), or None
        Truth, never seen by a party.
    classes : int
        Number of labels; 0 without any.
    auxiliary : AuxiliaryRows
    image_shape : tuple of int or None
        Where the whole table's columns are the pixels of an image.
    scaled : bool
        Whether columns were scaled by numbers computed from the rows, which is a release of its
        own that no bound covers.
    notes : tuple of str

    Raises
    ------
    AlignmentError
        If a party has other rows than the first, another order, or an id twice; names the party.
    """

    dataset: str
    parties: tuple[VerticalParty, ...]
    labels: Ids | None
    classes: int
    auxiliary: AuxiliaryRows
    image_shape: tuple[int, int, int] | None = None
    scaled: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [party.party for party in self.parties]
        if not names or len(set(names)) != len(names):
            raise ConfigurationError(f"parties must be at least one and distinct, got {names}")
        first = self.parties[0]
        for other in self.parties[1:]:
            if not np.array_equal(first.ids, other.ids):
                raise AlignmentError(_misaligned(first, other))
        if self.labels is not None and self.labels.shape != (len(self),):
            raise InvalidDataError(f"{len(self)} rows and labels of shape {self.labels.shape}")

    def __len__(self) -> int:
        return len(self.parties[0].ids)

    @property
    def ids(self) -> Ids:
        """Pseudonymous ids of the rows, in order."""
        return self.parties[0].ids

    @property
    def columns(self) -> int:
        """Number of columns of all parties."""
        return sum(len(party.columns) for party in self.parties)

    def whole(self) -> Features:
        """Return all columns in the order of the parties, shape (n, columns)."""
        return np.concatenate([party.features for party in self.parties], axis=1)

    def auxiliary_of(self, party: PartyId) -> Features:
        """Return a party's columns of the auxiliary rows."""
        (own,) = [p for p in self.parties if p.party == party]
        return self.auxiliary.features[:, own.positions]


def _misaligned(first: VerticalParty, other: VerticalParty) -> str:
    if len(first.ids) != len(other.ids):
        what = f"has {len(other.ids)} rows where '{first.party}' has {len(first.ids)}"
    elif np.array_equal(np.sort(first.ids), np.sort(other.ids)):
        what = f"has the rows of '{first.party}' in another order"
    else:
        missing = np.setdiff1d(first.ids, other.ids)[:3].tolist()
        what = f"lacks rows of '{first.party}', for example {missing}"
    return (
        f"party '{other.party}' {what}: rows must be aligned beforehand; "
        "privaudit.datasets.vertical.align keeps the rows that all parties have, in one order"
    )


def align(parties: Sequence[VerticalParty]) -> tuple[VerticalParty, ...]:
    """Return the parties with the rows that all of them have, by ascending id.

    In a deployment this is what private set intersection does. Whoever learns its result learns
    which ids all parties share; that by itself tells something of every row.

    Raises
    ------
    AlignmentError
        If no row is common to all parties.
    """
    common: Ids | None = None
    for party in parties:
        common = np.unique(party.ids) if common is None else np.intersect1d(common, party.ids)
    if common is None or len(common) == 0:
        names = ", ".join(f"'{party.party}'" for party in parties)
        raise AlignmentError(f"no row id is common to the parties {names or '(none given)'}")
    aligned = []
    for party in parties:
        order = np.argsort(party.ids)
        aligned.append(party.take(order[np.searchsorted(party.ids[order], common)]))
    return tuple(aligned)
