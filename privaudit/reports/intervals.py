"""Figures with their intervals, over coalitions or along an axis of a campaign's grid."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

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
from privaudit.reports._format import number, sentence, visible
from privaudit.reports.model import Figure, Interval

__all__ = ["MOST_SERIES", "interval_chart"]

#: As many as there are colours that can be told apart.
MOST_SERIES: Final = len(COLOURS)
_WRAP: Final = 22
_SHORT: Final = 20


def interval_chart(
    places: Sequence[str],
    series: Mapping[str, Sequence[Interval | None]],
    *,
    baseline: Sequence[float],
    id: str,
    title: str,
    caption: str,
    quantity: str,
    axis: str,
    upright: bool,
) -> Figure:
    """Draw values with their intervals, and beside each what guessing reaches.

    Parameters
    ----------
    places : sequence of str
        What stands along the axis: coalitions, or the values of a parameter in their order.
    series : mapping
        For each name one interval a place; ``None`` where there is none.
    baseline : sequence of float
        What guessing reaches at each place.
    upright : bool
        Places from left to right, joined by lines, for an axis of numbers; otherwise places one
        under another, where their names have room.

    Raises
    ------
    ConfigurationError
        If there is nothing to draw, too many series, or a series of another length.
    """
    if not 1 <= len(series) <= MOST_SERIES:
        raise ConfigurationError(f"figure '{title}': {len(series)} series, at most {MOST_SERIES}")
    for name, values in series.items():
        if not len(values) == len(baseline) == len(places):
            raise ConfigurationError(f"figure '{title}': '{name}' has {len(values)} values")
    # Names of coalitions are long: two columns of a legend have room for short ones only.
    columns = 1 if max(map(len, series)) > _SHORT else 2
    legend = 0.2 * math.ceil((len(series) + 1) / columns)
    canvas, axes = new_canvas(2.7 + legend if upright else 0.9 + legend + 0.48 * len(places))
    where = np.arange(len(places), dtype=float)
    told = []
    for index, (name, values) in enumerate(series.items()):
        shift = (0.1 if upright else 0.16) * (index - (len(series) - 1) / 2)
        middle, low, high = (
            np.array([math.nan if v is None else getattr(v, part) for v in values])
            for part in ("value", "low", "high")
        )
        bars = np.nan_to_num(np.clip(np.stack([middle - low, high - middle]), 0, None))
        style: dict[str, Any] = {
            "label": literal(name),
            "color": COLOURS[index],
            "marker": MARKERS[index],
            "markersize": 5,
            "capsize": 3,
            "linewidth": 1.6,
        }
        if upright:
            axes.errorbar(where + shift, middle, yerr=bars, **style)
        else:
            axes.errorbar(middle, where + shift, xerr=bars, linestyle="none", **style)
        points = (
            f"{number(v.value)} ({number(v.low)} to {number(v.high)}) at {place}"
            for place, v in zip(places, values, strict=True)
            if v is not None
        )
        told.append(f"{sentence(name)}: {', '.join(points)}.")
    names = [literal(place) for place in places]
    across: dict[str, Any] = {"color": GREY, "linewidth": 2.2, "label": "guessing", "zorder": 1}
    if upright:
        axes.hlines(baseline, where - 0.3, where + 0.3, **across)
        axes.set_xticks(where, names)
        axes.set_xlabel(literal(axis))
        axes.set_ylabel("\n".join(textwrap.wrap(literal(quantity), _WRAP + 8)))
    else:
        axes.vlines(baseline, where - 0.3, where + 0.3, **across)
        wrapped = ["\n".join(textwrap.wrap(name, _WRAP)) for name in names]
        axes.set_yticks(where, wrapped)
        axes.set_ylim(len(places) - 0.5, -0.5)
        axes.set_xlabel(literal(quantity))
    add_legend(axes, columns)
    guessed = ", ".join(
        f"{number(b)} at {place}" for place, b in zip(places, baseline, strict=True)
    )
    alt = f"{quantity} by {axis}, with intervals. {' '.join(told)} Guessing reaches {guessed}."
    return as_figure(canvas, id=id, title=title, alt=alt, caption=visible(caption))
