"""Epsilon against cluster size, drawn into a PNG or SVG file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from privaudit.errors import ConfigurationError

__all__ = ["Curve", "plot_bytes"]

#: Okabe and Ito's colours, told apart under the common colour blindnesses.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: An axis is logarithmic when its values spread over more than this factor.
_SPREAD: Final = 8.0

Point = tuple[int, float | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """A bracket over cluster sizes, and bounds beside it.

    Attributes
    ----------
    label : str
        The parameters that tell the curve from others; empty for a single one.
    upper, lower : tuple of (cluster size, epsilon)
    dashed : mapping of str to points
        What a paper claims: its Theorem 2, or bounds of the literature.
    dotted : mapping of str to points
        Bounds without shuffling.
    """

    label: str
    upper: tuple[Point, ...]
    lower: tuple[Point, ...]
    dashed: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    dotted: dict[str, tuple[Point, ...]] = field(default_factory=dict)


def _finite(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    kept = sorted((n, e) for n, e in points if e is not None and math.isfinite(e) and e > 0)
    return [n for n, _ in kept], [e for _, e in kept]


def plot_bytes(curves: Sequence[Curve], *, title: str, format: str) -> bytes:
    """Draw the curves: bracket shaded, claims of papers dashed, local bounds dotted.

    Parameters
    ----------
    format : {"png", "svg"}

    Raises
    ------
    ConfigurationError
        If there are more curves than colours, or nothing finite and positive to draw.
    """
    if len(curves) > len(_COLOURS):
        raise ConfigurationError(
            f"--plot: {len(curves)} combinations of parameters are too many for one plot; allowed "
            f"are {len(_COLOURS)}: give fewer values of the options other than --cluster-size"
        )
    if not any(_finite(curve.upper)[0] for curve in curves):
        raise ConfigurationError("--plot: no row has a finite upper bound > 0; nothing to draw")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#d9dde3", linewidth=0.7)
    sizes: set[int] = set()
    heights: list[float] = []
    for number, curve in enumerate(curves):
        colour = _COLOURS[number]
        named = f"{curve.label}: " if curve.label else ""
        x, high = _finite(curve.upper)
        found = dict(zip(*_finite(curve.lower), strict=True))
        low = [min(found.get(n, e), e) for n, e in zip(x, high, strict=True)]
        axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(x, high, "o-", color=colour, markersize=4, label=f"{named}upper bound")
        axes.plot(x, low, "v-", color=colour, markersize=4, alpha=0.6, label=f"{named}lower bound")
        sizes.update(x)
        heights += [*low, *high]
        others = [(name, points, "--") for name, points in curve.dashed.items()]
        others += [(name, points, ":") for name, points in curve.dotted.items()]
        for place, (name, points, style) in enumerate(others, start=1):
            own = colour if len(curves) > 1 else _COLOURS[place % len(_COLOURS)]
            where, values = _finite(points)
            if where:
                mark = "s" if style == "--" else "^"
                axes.plot(
                    where, values, mark + style, color=own, markersize=4, label=f"{named}{name}"
                )
                heights += values
                sizes.update(where)
    _scale(axes, sorted(sizes), heights)
    axes.set_xlabel("honest users in the cluster")
    axes.set_ylabel("privacy budget ε")
    axes.set_title(title, loc="left", fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    stream = io.BytesIO()
    # No date, no random identifiers: the same command gives the same bytes.
    metadata = {"Date": None} if format == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "privaudit"}):
        figure.savefig(stream, format=format, metadata=metadata, facecolor="white")
    return stream.getvalue()


def _scale(axes: object, sizes: Sequence[int], heights: Sequence[float]) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    assert isinstance(axes, Axes)
    if sizes[-1] > _SPREAD * sizes[0]:
        axes.set_xscale("log")
    if max(heights) > _SPREAD * min(heights):
        axes.set_yscale("log")
    if len(sizes) <= 10:
        axes.set_xticks(list(sizes), [f"{n:,}" for n in sizes])
        axes.xaxis.minorticks_off()
    elif axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    else:
        # Cluster sizes are read as numbers, not as powers of ten.
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
