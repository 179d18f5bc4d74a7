"""Spread the columns of a table over parties.

``contiguous``
    Runs of columns in the table's order, as even as possible or of given widths. On images these
    are horizontal bands.
``random``
    The columns are shuffled (by the seed) first; each party's columns stay in the table's order.
``halves``
    Images only, two parties: the left and the right half.
``quarters``
    Images only, four parties: top left, top right, bottom left, bottom right.
``groups``
    Columns by name: each party lists names, names of source columns, or patterns (``mean *``).
    One party may list ``*`` alone: it holds what the others leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from privaudit.datasets.vertical import AuxiliaryRows, Table, VerticalData, VerticalParty
from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["SPLITS", "Split", "divide_columns", "split_vertically"]

Split: TypeAlias = Literal["contiguous", "random", "halves", "quarters", "groups"]

#: Names of the splits.
SPLITS: tuple[str, ...] = get_args(Split)

Positions = npt.NDArray[np.int64]


def split_vertically(
    table: Table,
    *,
    split: Split = "contiguous",
    parties: int = 2,
    widths: Sequence[int] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    rows: int | None = None,
    auxiliary_rows: int | None = None,
    rng: np.random.Generator,
) -> VerticalData:
    """Give each party some columns of every row, and keep some rows apart for adversaries.

    Parameters
    ----------
    table : Table
    split : {"contiguous", "random", "halves", "quarters", "groups"}
        See the module's documentation.
    parties : int
        Named ``party-1`` to ``party-P``; ``groups`` names its own.
    widths : sequence of int, optional
        Columns of each party, for ``contiguous`` and ``random``; as even as possible by default.
    groups : mapping of str to sequence of str, optional
        For ``groups``: each party's columns.
    rows : int, optional
        Rows of the federation, drawn at random; by default all that are not auxiliary.
    auxiliary_rows : int, optional
        Rows that no party holds, drawn at random; may be 0. By default 300, and at most a fifth
        of the rows.
    rng : numpy.random.Generator

    Returns
    -------
    VerticalData
        Pseudonyms of rows are a random permutation, so that an id says nothing of a row.

    Raises
    ------
    ConfigurationError
        If columns or rows do not suffice, or a column is in no group or in two.
    """
    row_rng, column_rng = rng.spawn(2)
    total = len(table.features)
    if auxiliary_rows is None:
        auxiliary_rows = min(300, total // 5)
    if not 0 <= auxiliary_rows < total:
        raise ConfigurationError(
            f"auxiliary_rows must be from 0 to {total - 1} ('{table.name}' has {total} rows), got "
            f"{auxiliary_rows}"
        )
    count = total - auxiliary_rows if rows is None else rows
    if not 1 <= count <= total - auxiliary_rows:
        raise ConfigurationError(
            f"rows must be from 1 to {total - auxiliary_rows} ('{table.name}' has {total} rows, "
            f"{auxiliary_rows} are auxiliary), got {rows}"
        )
    order = row_rng.permutation(total)
    held, apart = np.sort(order[:count]), order[count : count + auxiliary_rows]
    ids = row_rng.permutation(count).astype(np.int64)
    chosen = divide_columns(
        table, split=split, parties=parties, widths=widths, groups=groups, rng=column_rng
    )
    members = tuple(
        VerticalParty(
            name,
            ids,
            np.ascontiguousarray(table.features[held][:, positions]),
            tuple(table.columns[i] for i in positions),
            positions,
        )
        for name, positions in chosen.items()
    )
    labels = table.labels
    return VerticalData(
        dataset=table.name,
        parties=members,
        labels=None if labels is None else labels[held],
        classes=table.classes,
        auxiliary=AuxiliaryRows(table.features[apart], None if labels is None else labels[apart]),
        image_shape=table.image_shape,
        scaled=table.scaled,
        notes=table.notes,
    )


def divide_columns(
    table: Table,
    *,
    split: Split,
    parties: int,
    widths: Sequence[int] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    rng: np.random.Generator,
) -> dict[str, Positions]:
    """Return the columns of each party by its name; see :func:`split_vertically`."""
    if split not in SPLITS:
        raise ConfigurationError(
            f"unknown split '{split}'; splits are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}"
        )
    if (split == "groups") != (groups is not None):
        raise ConfigurationError("groups go with split = 'groups', and only with it")
    if widths is not None and split not in ("contiguous", "random"):
        raise ConfigurationError(f"widths go with split 'contiguous' or 'random', not '{split}'")
    if groups is not None:
        return _by_name(table, groups)
    if parties < 1:
        raise ConfigurationError(f"parties must be at least 1, got {parties}")
    if split in ("halves", "quarters"):
        pieces = _by_place(table, split, parties)
    else:
        order = np.arange(len(table.columns), dtype=np.int64)
        if split == "random":
            order = rng.permutation(order)
        pieces = [np.sort(piece) for piece in _cut(order, table.name, parties, widths)]
    return {f"party-{i}": piece for i, piece in enumerate(pieces, start=1)}


def _cut(
    order: Positions, name: str, parties: int, widths: Sequence[int] | None
) -> list[Positions]:
    if widths is None:
        if parties > len(order):
            raise ConfigurationError(
                f"'{name}' has {len(order)} columns, too few for {parties} parties"
            )
        return list(np.array_split(order, parties))
    if len(widths) != parties or min(widths) < 1 or sum(widths) != len(order):
        raise ConfigurationError(
            f"widths must be {parties} numbers of at least 1 with the sum {len(order)}, the "
            f"columns of '{name}'; got {list(widths)}"
        )
    return np.split(order, np.cumsum(widths)[:-1])


def _by_place(table: Table, split: str, parties: int) -> list[Positions]:
    needed = 2 if split == "halves" else 4
    if table.image_shape is None:
        raise ConfigurationError(
            f"split '{split}' needs images; the columns of '{table.name}' are no pixels: use "
            "'contiguous', 'random' or 'groups'"
        )
    if parties != needed:
        raise ConfigurationError(f"split '{split}' is for {needed} parties, got {parties}")
    grid = np.arange(len(table.columns), dtype=np.int64).reshape(table.image_shape)
    height, width = grid.shape[1] // 2, grid.shape[2] // 2
    if split == "halves":
        pieces = [grid[:, :, :width], grid[:, :, width:]]
    else:
        pieces = [
            grid[:, top][:, :, left]
            for top in (slice(height), slice(height, None))
            for left in (slice(width), slice(width, None))
        ]
    return [np.ascontiguousarray(piece).ravel() for piece in pieces]


def _by_name(table: Table, groups: Mapping[str, Sequence[str]]) -> dict[str, Positions]:
    if not groups:
        raise ConfigurationError("groups must name at least one party with its columns")
    owner: dict[int, str] = {}
    known = sorted({c.name for c in table.columns} | {c.source for c in table.columns} - {""})
    takes_rest = [party for party, patterns in groups.items() if list(patterns) == ["*"]]
    if len(takes_rest) > 1:
        raise ConfigurationError(
            f"groups '{takes_rest[0]}' and '{takes_rest[1]}' both hold what is left ('*')"
        )
    for party, patterns in groups.items():
        for pattern in () if party in takes_rest else patterns:
            found = [
                i
                for i, column in enumerate(table.columns)
                if pattern in (column.name, column.source)
                or fnmatchcase(column.name, pattern)
                or (column.source and fnmatchcase(column.source, pattern))
            ]
            if not found:
                raise ConfigurationError(
                    f"group '{party}': '{table.name}' has no column '{pattern}'."
                    f"{did_you_mean(pattern, known)}"
                )
            for i in found:
                if owner.setdefault(i, party) != party:
                    raise ConfigurationError(
                        f"column '{table.columns[i].name}' is in the groups '{owner[i]}' and "
                        f"'{party}'; a column has one party"
                    )
    for i in range(len(table.columns)) if takes_rest else ():
        owner.setdefault(i, takes_rest[0])
    empty = [party for party in groups if party not in owner.values()]
    if empty:
        raise ConfigurationError(f"group '{empty[0]}' has no column")
    left = [column.name for i, column in enumerate(table.columns) if i not in owner]
    if left:
        raise ConfigurationError(
            f"columns of '{table.name}' in no group: {', '.join(left[:5])}"
            f"{', ...' if len(left) > 5 else ''}; name them or drop them from the table"
        )
    return {
        party: np.array([i for i in sorted(owner) if owner[i] == party], dtype=np.int64)
        for party in groups
    }
