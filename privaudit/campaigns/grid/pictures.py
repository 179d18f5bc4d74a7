"""The figures of a campaign: leakage by coalition, along every axis, and over two axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from privaudit.campaigns.cells import ScoreTriple
from privaudit.campaigns.findings import interval
from privaudit.campaigns.grid.store import Row
from privaudit.campaigns.grid.subjects import axis_name, axis_value, coalition_size, label_of
from privaudit.campaigns.measurements import Measurement
from privaudit.reports.heatmap import heat_map
from privaudit.reports.intervals import MOST_SERIES, interval_chart
from privaudit.reports.model import Figure, Interval
from privaudit.scoring.estimate import Estimate, Scores, compare

__all__ = ["MOST_FIGURES", "Measured", "campaign_figures", "leak"]

Measured = tuple[Row, Measurement]

#: More is no report; results are exported for those who want every picture.
MOST_FIGURES: Final = 30
_ALONE: Final = 0.95


def campaign_figures(grid: Sequence[str], measured: Sequence[Measured]) -> list[Figure]:
    """Return the figures of the first metric of every attack on every protocol.

    Cells that differ in what a figure does not show are pooled: their targets together make its
    points and intervals.

    Parameters
    ----------
    grid : sequence of str
        The campaign's axes.
    """
    groups: dict[tuple[str, str], list[Measured]] = {}
    for row, m in measured:
        if m.triples:
            spec = row.specification
            groups.setdefault((str(spec.run["protocol"]), spec.attack), []).append((row, m))
    drawn = [_Group(n, *key, cells, grid) for n, (key, cells) in enumerate(groups.items())]
    return [
        *itertools.chain.from_iterable(group.by_coalition() for group in drawn),
        *itertools.chain.from_iterable(group.along_axes() for group in drawn),
        *itertools.chain.from_iterable(group.over_two_axes() for group in drawn),
    ]


def leak(triple: ScoreTriple) -> float:
    """Return by how much an attack beats guessing, in its own unit; more is leakier."""
    values = compare(triple.attack, baseline=triple.baseline, control=None, confidence=_ALONE)
    assert values.baseline is not None
    sign = 1.0 if values.higher_is_leakier else -1.0
    return sign * (values.value - values.baseline.value)


def _pooled(triples: Sequence[ScoreTriple]) -> Estimate:
    """Return the figure of the targets of several cells together, with its baseline."""

    def together(scores: Sequence[Scores]) -> Scores:
        first = scores[0]
        values = {f"{i} {t}": v for i, s in enumerate(scores) for t, v in s.per_target.items()}
        return Scores(first.metric, first.statistic, values, first.higher_is_leakier)

    return compare(
        together([t.attack for t in triples]),
        baseline=together([t.baseline for t in triples]),
        control=None,
        confidence=_ALONE,
    )


def _split(cells: Sequence[Measured], by: Callable[[Row], Any]) -> dict[Any, list[ScoreTriple]]:
    found: dict[Any, list[ScoreTriple]] = {}
    for row, m in cells:
        found.setdefault(by(row), []).append(m.triples[0])
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """The cells of one attack on one protocol."""

    number: int
    protocol: str
    attack: str
    cells: Sequence[Measured]
    grid: Sequence[str]

    @property
    def quantity(self) -> str:
        first = self.cells[0][1].triples[0]
        unit = {"proportion": "share of targets"}.get(first.unit, first.unit)
        return f"{first.name} ({unit})" if unit else first.name

    @property
    def name(self) -> str:
        return f"{self.attack} on {self.protocol}"

    def coalitions(self) -> list[str]:
        """Return who attacked, the smallest first."""
        found = {label_of(row): coalition_size(row) for row, _ in self.cells}
        return sorted(found, key=lambda who: (found[who], who))

    def leakiest(self) -> str:
        pooled = _split(self.cells, label_of)
        return max(
            self.coalitions(),
            key=lambda who: sum(leak(t) for t in pooled[who]) / len(pooled[who]),
        )

    def axes(self) -> list[str]:
        """Return what varies among the cells besides seed and coalition."""
        options = {f"options.{k}" for row, _ in self.cells for k in row.specification.options}
        candidates = [*(a for a in self.grid if a not in ("protocol", "seed")), *sorted(options)]
        values = {a: {repr(axis_value(row, a)) for row, _ in self.cells} for a in candidates}
        return [a for a in candidates if len(values[a]) > 1]

    def pooled_over(self, shown: Sequence[str]) -> str:
        """Return, in words, over what the points of a figure are pooled."""
        hidden = [axis_name(a) for a in self.axes() if a not in shown]
        seeds = len({row.specification.run["seed"] for row, _ in self.cells})
        parts = [*([f"{seeds} seeds"] if seeds > 1 else []), *hidden]
        over = f" Pooled over {', '.join(parts)}." if parts else ""
        return f"Bars are {_ALONE:.0%} intervals of each point by itself, uncorrected.{over}"

    def by_coalition(self) -> Iterator[Figure]:
        """Yield leakage against coalition size, if there are several coalitions."""
        who = self.coalitions()
        if len(who) < 2:
            return
        pooled = {k: _pooled(v) for k, v in _split(self.cells, label_of).items()}
        sizes = {label_of(row): coalition_size(row) for row, _ in self.cells}
        yield interval_chart(
            [f"{name} ({sizes[name]})" for name in who],
            {"attack": [interval(pooled[name]) for name in who]},
            baseline=[_guessing(pooled[name]) for name in who],
            id=f"coalitions-{self.number}",
            title=f"Leakage by coalition: {self.name}",
            caption=f"In brackets, the size of the coalition. {self.pooled_over(())}",
            quantity=self.quantity,
            axis="coalition",
            upright=False,
        )

    def along_axes(self) -> Iterator[Figure]:
        """Yield attack success along each axis, one line a coalition."""
        for axis in self.axes():
            values = _ordered({axis_value(row, axis) for row, _ in self.cells})
            cells = _split(self.cells, partial(_place, axis=axis))
            pooled = {k: _pooled(v) for k, v in cells.items()}
            series: dict[str, list[Interval | None]] = {
                who: [interval(pooled[who, v]) if (who, v) in pooled else None for v in values]
                for who in self.coalitions()[:MOST_SERIES]
            }
            at = _split(self.cells, partial(axis_value, axis=axis))
            numbers = all(_is_number(v) for v in values)
            yield interval_chart(
                [_shown(v) for v in values],
                series,
                baseline=[_guessing(_pooled(at[v])) for v in values],
                id=f"axis-{self.number}-{axis}",
                title=f"Success against {axis_name(axis)}: {self.name}",
                caption=self.pooled_over((axis,)),
                quantity=self.quantity,
                axis=axis_name(axis),
                upright=numbers,
            )

    def over_two_axes(self) -> Iterator[Figure]:
        """Yield a heat map of the leakiest coalition, if two axes vary."""
        counts = {a: len({repr(axis_value(r, a)) for r, _ in self.cells}) for a in self.axes()}
        axes = sorted(counts, key=lambda a: -counts[a])[:2]
        if len(axes) < 2:
            return
        who = self.leakiest()
        cells = [(row, m) for row, m in self.cells if label_of(row) == who]
        columns, rows = (_ordered({axis_value(row, a) for row, _ in cells}) for a in axes)
        at = _split(cells, lambda row: (axis_value(row, axes[1]), axis_value(row, axes[0])))
        pooled = {k: _pooled(v).value for k, v in at.items()}
        by = f", by {who}, which leaks most" if len(self.coalitions()) > 1 else f", by {who}"
        yield heat_map(
            [[pooled.get((r, c)) for c in columns] for r in rows],
            rows=[_shown(r) for r in rows],
            columns=[_shown(c) for c in columns],
            row_axis=axis_name(axes[1]),
            column_axis=axis_name(axes[0]),
            id=f"heat-map-{self.number}",
            title=f"Heat map: {self.name}{by}",
            quantity=self.quantity,
        )


def _place(row: Row, *, axis: str) -> tuple[str, Any]:
    return label_of(row), axis_value(row, axis)


def _guessing(figure: Estimate) -> float:
    assert figure.baseline is not None
    return figure.baseline.value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(values: set[Any]) -> list[Any]:
    return sorted(values, key=lambda v: (not _is_number(v), v if _is_number(v) else str(v)))


def _shown(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else "not set" if value is None else str(value)
