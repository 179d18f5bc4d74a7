"""What indices give away without any knowledge: the codes, and integers on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._codes import Columns, codes_of, relabelled
from privaudit.attacks.indices._observations import (
    READS,
    ObservedIndices,
    granted,
    layout_of,
    observe,
)
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import Capability, View

__all__ = ["CodeRecovery", "IntegerGrid"]

Table = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CodeRecovery:
    """Read the codes off the indices: multidimensional scaling is a relabelling.

    Rows with the same code have the same index and rows with different codes different ones, so
    that numbering the distinct indices gives the codes up to their names. The exception are
    codewords that the embedding puts on one point.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    round: int | None = None

    name: ClassVar[str] = "indices/code-recovery"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = READS

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Give each distinct index of a subspace a number.

        Returns
        -------
        Guesses
            Targets are subspaces (``<party>/subspace-<m>``, from 0); values are (n,) int64, a
            number for each row's code, rows in the order of their ids; scores are zero.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no upload of a party outside the coalition.
        """
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        codes, levels = codes_of(observed.indices, observed.subspaces)
        diagnostics = {
            "subspaces": float(len(levels)),
            "most-codes": float(max(len(level) for level in levels)),
        }
        names = _subspace_names(observed)
        values = tuple(codes[np.argsort(observed.ids)].T)
        return Guesses(names, values, np.zeros(len(names)), MappingProxyType(diagnostics))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Give every row a random number, as many different ones as there are codes."""
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        _, levels = codes_of(observed.indices, observed.subspaces)
        names = _subspace_names(observed)
        values = tuple(rng.integers(len(level), size=len(observed.ids)) for level in levels)
        return Guesses(names, values, np.zeros(len(names)))


def _subspace_names(observed: ObservedIndices) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    names = []
    for owner in observed.owners:
        names.append(f"{owner}/subspace-{seen.setdefault(owner, 0)}")
        seen[owner] += 1
    return tuple(names)


@dataclass(frozen=True, slots=True)
class IntegerGrid:
    """Read integers off the indices of subspaces of a single column, up to a reflection.

    One column of few distinct values gets one codeword a value, and its embedding in one dimension
    is the column itself, up to sign and offset (and unit, where uploads are scaled). If its values
    are integers, the indices lie on a grid; the grid's step is the unit. No knowledge is needed but
    which subspaces hold one column.

    Attributes
    ----------
    tolerance : float
        How far from a grid point an index may lie, in steps.
    round : int or None
        The round to attack; None for the first that the view holds.
    """

    tolerance: float = 0.01
    round: int | None = None

    name: ClassVar[str] = "indices/integer-grid"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.FEATURE_LAYOUT})
    reads: ClassVar[tuple[str, ...]] = READS

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 0.5:
            raise ConfigurationError(f"tolerance must be in (0, 0.5), got {self.tolerance}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Find the grid of each subspace of one column that varies.

        Returns
        -------
        Guesses
            Targets are columns (``column-<c>``); values are steps above the least value, (n,)
            int64, rows in the order of their ids, or all -1 where no grid fits; scores are 1
            where one does, else 0.

        Raises
        ------
        UnmetRequirementsError
            If the layout is not granted, or no subspace of a party outside the coalition holds a
            single column that varies.
        """
        observed, chosen = self._chosen(view, knowledge)
        order = np.argsort(observed.ids)
        values, scores = [], []
        for subspace in chosen.values():
            codes, levels = relabelled(observed.indices[:, subspace])
            steps = _grid(levels[:, 0], self.tolerance)
            values.append(np.full(len(codes), -1) if steps is None else steps[codes[order]])
            scores.append(float(steps is not None))
        names = tuple(f"column-{column}" for column in chosen)
        return Guesses(names, tuple(values), np.array(scores))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess that every row has the value of the most frequent index, in the middle of all."""
        observed, chosen = self._chosen(view, knowledge)
        values = []
        for subspace in chosen.values():
            codes, levels = relabelled(observed.indices[:, subspace])
            # Without reading values off the indices, only their number and frequency is left.
            values.append(np.full(len(codes), len(levels) // 2, dtype=np.int64))
        names = tuple(f"column-{column}" for column in chosen)
        return Guesses(names, tuple(values), np.zeros(len(names)))

    def _chosen(
        self, view: View, knowledge: Knowledge
    ) -> tuple[ObservedIndices, dict[int, Columns]]:
        facts = granted(view, knowledge, self.requires, attack=self.name)
        observed = observe(view, round=self.round).of_others(view.coalition.members)
        layout = layout_of(observed, facts)
        chosen = {
            int(columns[0]): subspace
            for columns, subspace in zip(layout, observed.subspaces, strict=True)
            if len(columns) == 1 and np.ptp(observed.indices[:, subspace[0]]) > 0
        }
        if not chosen:
            raise UnmetRequirementsError(
                f"{self.name} reads subspaces of one column that varies; the view of "
                f"{view.coalition} holds none: the protocol would have to use as many subspaces as "
                "a party has columns"
            )
        return observed, chosen


def _grid(levels: Table, tolerance: float) -> Ints | None:
    """Return the steps of values above the least on the coarsest grid that fits, or None."""
    height = levels - levels.min()
    gaps = np.diff(np.unique(height))
    # The unit divides the least gap; a finer grid than a sixteenth of it fits anything.
    for divisor in range(1, 17):
        steps = height * divisor / gaps.min()
        if np.abs(steps - np.round(steps)).max() <= tolerance * divisor:
            return np.asarray(np.round(steps), dtype=np.int64)
    return None
