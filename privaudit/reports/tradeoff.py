"""Utility against leakage: one point a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privaudit.errors import ConfigurationError
from privaudit.reports._canvas import (
    COLOURS,
    GREY,
    MARKERS,
    add_legend,
    as_figure,
    literal,
    new_canvas,
)
from privaudit.reports._format import number, sentence
from privaudit.reports.model import Figure, Interval

__all__ = ["Point", "tradeoff"]


@dataclass(frozen=True, slots=True)
class Point:
    """One setting.

    Attributes
    ----------
    label : str
        For the text of the figure.
    mark : str
        A few characters beside the point, or empty.
    group : str
        Points of a group share colour and entry of the legend.
    utility : float
    leakage : Interval
    """

    label: str
    mark: str
    group: str
    utility: float
    leakage: Interval


def tradeoff(
    points: Sequence[Point],
    *,
    id: str,
    title: str,
    caption: str,
    utility: str,
    leakage: str,
    no_leakage: float,
    reference: float | None = None,
    reference_label: str = "",
) -> Figure:
    """Draw leakage (across, with intervals) against utility (upwards).

    Parameters
    ----------
    utility, leakage : str
        Labels of the axes.
    no_leakage : float
        What guessing from public knowledge reaches; a dashed line.
    reference : float, optional
        A utility to compare with; a dotted line.

    Raises
    ------
    ConfigurationError
        If there is no point.
    """
    if not points:
        raise ConfigurationError("points: there is none to draw")
    canvas, axes = new_canvas(height=3.9)
    groups = list(dict.fromkeys(point.group for point in points))
    for place, group in enumerate(groups):
        chosen = [point for point in points if point.group == group]
        values = [point.leakage.value for point in chosen]
        axes.errorbar(
            values,
            [point.utility for point in chosen],
            xerr=[
                [max(0.0, p.leakage.value - p.leakage.low) for p in chosen],
                [max(0.0, p.leakage.high - p.leakage.value) for p in chosen],
            ],
            fmt=MARKERS[place % 7],
            color=COLOURS[place % 7],
            markersize=6,
            capsize=2,
            label=literal(group),
        )
    for point in points:
        axes.annotate(
            literal(point.mark),
            (point.leakage.value, point.utility),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize=8,
        )
    axes.axvline(no_leakage, color=GREY, linestyle="--", linewidth=1.4, label="no leakage")
    told = [f"Without leakage, dashed, the error would be {number(no_leakage)}."]
    if reference is not None:
        axes.axhline(reference, color=GREY, linestyle=":", linewidth=1.6, label=reference_label)
        told.append(f"{sentence(reference_label)}, dotted: {number(reference)}.")
    axes.set_xlabel(literal(leakage))
    axes.set_ylabel(literal(utility))
    add_legend(axes, len(groups) + 2)
    told += [
        f"{sentence(p.label)}: {utility} {number(p.utility)} at {number(p.leakage.value)}."
        for p in points
    ]
    alt = f"{utility} against {leakage}, one point a setting. {' '.join(told)}"
    return as_figure(canvas, id=id, title=title, alt=alt, caption=caption)
