"""A figure over two axes of a campaign's grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privaudit.errors import ConfigurationError
from privaudit.reports._canvas import as_figure, literal, new_canvas
from privaudit.reports._format import number, visible
from privaudit.reports.model import Figure

__all__ = ["heat_map"]

#: Luminance at which white and black are read equally well.
_MIDDLE = 0.179


def heat_map(
    values: Sequence[Sequence[float | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_axis: str,
    column_axis: str,
    id: str,
    title: str,
    quantity: str,
) -> Figure:
    """Draw a table of values as colours, with each value written in its cell.

    Parameters
    ----------
    values
        One row of numbers a row; ``None`` is a cell without a value, drawn empty.
    rows, columns
        What stands at the axes.

    Raises
    ------
    ConfigurationError
        If there is no value, or the table is not as large as its axes say.
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ConfigurationError(
            f"heat map '{title}': {len(rows)} x {len(columns)} values expected"
        )
    table = np.array([[np.nan if v is None else v for v in row] for row in values], dtype=float)
    if not np.isfinite(table).any():
        raise ConfigurationError(f"heat map '{title}': there is no value to draw")
    canvas, axes = new_canvas(height=1.6 + 0.42 * len(rows))
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    shades = axes.imshow(
        np.ma.masked_invalid(table), cmap="cividis", aspect="auto", vmin=low, vmax=high
    )
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            shown = number(value) if np.isfinite(value) else "–"
            dark = (
                np.isfinite(value)
                and _luminance([float(c) for c in shades.to_rgba(value)]) < _MIDDLE
            )
            axes.text(
                j,
                i,
                shown,
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize=9,
            )
    axes.set_xticks(range(len(columns)), [literal(c) for c in columns])
    axes.set_yticks(range(len(rows)), [literal(r) for r in rows])
    axes.set_xlabel(literal(column_axis))
    axes.set_ylabel(literal(row_axis))
    axes.grid(visible=False)
    told = "; ".join(
        f"{row_axis} {r}: "
        + ", ".join(f"{column_axis} {c} {number(values[i][j])}" for j, c in enumerate(columns))
        for i, r in enumerate(rows)
    )
    return as_figure(
        canvas,
        id=id,
        title=title,
        alt=f"Heat map of {quantity} over {row_axis} and {column_axis}. {told}.",
        caption=visible(f"{quantity}, mean over seeds and over axes that are not shown."),
    )


def _luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of WCAG 2 of a colour in sRGB."""
    red, green, blue = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
