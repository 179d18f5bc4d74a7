"""The canvas on which figures are drawn, and how it becomes a report's figure."""

from __future__ import annotations

import base64
import io
import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

from privaudit.reports._format import sentence, visible
from privaudit.reports.model import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["COLOURS", "GREY", "MARKERS", "add_legend", "as_figure", "literal", "new_canvas"]

#: Okabe and Ito's colours, told apart under the common colour blindnesses, with their markers.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
GREY: Final = "#5b6570"

#: Inches and dots an inch: letters stay legible when a phone shows the figure 330 pixels wide.
_SIZE: Final = (4.6, 3.3)
_DOTS: Final = 170
#: Letters of a legend's name on one line, and the height of one in inches.
_LABEL: Final = 52
_LINE: Final = 0.2


def new_canvas(height: float = _SIZE[1]) -> tuple[Canvas, Axes]:
    """Return an empty drawing without global state, ``height`` inches high, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(_SIZE[0], height), dpi=_DOTS, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#d9dde3", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
    return canvas, axes


def as_figure(canvas: Canvas, *, id: str, title: str, alt: str, caption: str) -> Figure:
    """Return the drawing as a report's figure, in a palette of 128 colours."""
    from PIL import Image

    stream = io.BytesIO()
    canvas.savefig(stream, format="png", metadata={"Software": None}, facecolor="white")
    picture = Image.open(stream).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small = io.BytesIO()
    picture.save(small, format="PNG", optimize=True)
    png = base64.b64encode(small.getvalue()).decode()
    return Figure(id=id, title=sentence(title), alt=visible(alt), caption=caption, png=png)


def add_legend(axes: Axes, entries: int) -> None:
    """Put the legend below the plot, where it hides nothing.

    It has two columns if they fit; else one, with long names on several lines, on a canvas that is
    as much higher as the legend is.
    """
    canvas: Any = axes.figure
    handles, labels = axes.get_legend_handles_labels()
    labels = [textwrap.fill(label, _LABEL) for label in labels]
    for columns in range(min(2, entries), 0, -1):
        legend = canvas.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            fontsize=9,
            frameon=False,
        )
        extent = legend.get_window_extent(canvas.canvas.get_renderer())
        if extent.width <= canvas.bbox.width or columns == 1:
            break
        legend.remove()
    # The canvas has room for one line a name.
    room = _LINE * (1 + math.ceil(len(labels) / min(2, entries)))
    width, height = canvas.get_size_inches()
    canvas.set_size_inches(width, height + max(0.0, extent.height / canvas.dpi - room))


def literal(text: str) -> str:
    """Return a text as Matplotlib draws it literally: no formula, no hidden legend entry."""
    shown = visible(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
