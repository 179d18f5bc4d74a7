"""Plots and thumbnails of a report, as base64 PNGs with a text that tells what they show.

Matplotlib is imported when a plot is drawn, through its figure objects: no global state, no
display. Every figure has a white ground, so that it reads the same in a dark report.
"""

from __future__ import annotations

import base64
import io
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.reports._canvas import (
    COLOURS,
    GREY,
    MARKERS,
    add_legend,
    as_figure,
    literal,
    new_canvas,
)
from privaudit.reports._format import SPACE, number, percent, plural, sentence, visible
from privaudit.reports.model import BudgetRow, ExposureRow, Figure, Interval, Utility

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["epsilon_by_cluster_size", "exposure_bars", "gallery_png", "lines", "psnr_by_k"]


def lines(
    utility: Utility,
    *,
    id: str,
    caption: str,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw a quantity over rounds, one line a series; a value that is not finite is a gap.

    Parameters
    ----------
    utility
        The series.
    limits
        The ends of the vertical axis; by default those of the data.
    """
    canvas, axes = new_canvas()
    told = []
    for index, series in enumerate(utility.series):
        x, y = np.asarray(series.x, dtype=float), np.asarray(series.y, dtype=float)
        shown = np.where(np.isfinite(y), y, np.nan)
        axes.plot(
            x,
            shown,
            label=literal(series.name),
            color=COLOURS[index % 7],
            marker=MARKERS[index % 7],
            markersize=4,
            linewidth=1.8,
        )
        told.append(_tell_series(series.name, x, y))
        stopped = _first_gap(x, y)
        if stopped is not None:
            axes.plot(*stopped, "x", color=COLOURS[index % 7], markersize=11, markeredgewidth=2.2)
    axes.set_xlabel(literal(utility.x_label))
    axes.set_ylabel(literal(utility.quantity))
    if limits is not None:
        axes.set_ylim(*limits)
    _whole_ticks(axes)
    add_legend(axes, len(utility.series))
    title = f"{utility.quantity} by {utility.x_label}"
    alt = f"Line chart of {utility.quantity} against {utility.x_label}. {' '.join(told)}"
    return as_figure(canvas, id=id, title=title, alt=alt, caption=caption)


def psnr_by_k(
    ks: Sequence[float],
    series: Mapping[str, Sequence[Interval]],
    *,
    baseline: float,
    id: str,
    caption: str,
    metric: str = "PSNR (dB)",
    x_label: str = "share k of coordinates in the important part",
    title: str = "Attack success by k",
) -> Figure:
    """Draw attack success against k with interval bars, and the baseline as a dashed line.

    Parameters
    ----------
    ks
        The values of k, in the order of every series.
    series
        For each attack or view, one interval a value of k.
    baseline
        What guessing from public knowledge reaches.

    Raises
    ------
    ConfigurationError
        If a series is not as long as ``ks``.
    """
    canvas, axes = new_canvas()
    positions = np.arange(len(ks), dtype=float)
    told = []
    for index, (name, intervals) in enumerate(series.items()):
        if len(intervals) != len(ks):
            raise ConfigurationError(
                f"series {name!r} has {len(intervals)} values for {len(ks)} values of k"
            )
        offset = 0.08 * (index - (len(series) - 1) / 2)
        value, low, high = (
            np.array([getattr(interval, part) for interval in intervals], dtype=float)
            for part in ("value", "low", "high")
        )
        bars = np.stack([value - low, high - value])
        axes.errorbar(
            positions + offset,
            np.where(np.isfinite(value), value, np.nan),
            yerr=np.where(np.isfinite(bars), np.clip(bars, 0, None), 0.0),
            label=literal(name),
            color=COLOURS[index % 7],
            marker=MARKERS[index % 7],
            markersize=5,
            capsize=3,
            linewidth=1.6,
        )
        points = (
            f"{_tell_interval(interval)} at k = {_plain(k)}"
            for k, interval in zip(ks, intervals, strict=True)
        )
        told.append(f"{sentence(name)}: {', '.join(points)}.")
    axes.axhline(baseline, color=GREY, linestyle="--", linewidth=1.5, label="baseline")
    axes.set_xticks(positions, [_plain(k) for k in ks])
    axes.set_xlabel(literal(x_label))
    axes.set_ylabel(literal(metric))
    add_legend(axes, len(series) + 1)
    alt = (
        f"{metric} against {x_label}, with intervals. {' '.join(told)} "
        f"The baseline, dashed, is {number(baseline)}."
    )
    return as_figure(canvas, id=id, title=title, alt=alt, caption=caption)


def epsilon_by_cluster_size(
    rows: Sequence[BudgetRow],
    *,
    rounds: int | None = None,
    id: str = "epsilon-by-cluster-size",
    caption: str = "The band holds the true budget; the dashed line is the paper's own statement.",
) -> Figure:
    """Draw the auditor's bracket on epsilon against cluster size, beside the paper's Theorem 2.

    Rows are told apart by their ``role``: ``bracket`` (shaded band), ``paper`` (dashed line) and
    ``local`` (dotted line); others are not drawn.

    Parameters
    ----------
    rounds
        Which rows to draw; by default those of the number of rounds that has the most cluster
        sizes, the least such number.

    Raises
    ------
    ConfigurationError
        If no row of the role ``bracket`` has a finite upper bound.
    """
    brackets = [row for row in rows if row.role == "bracket" and _finite(row.upper)]
    if not brackets:
        raise ConfigurationError(
            "rows: none has role 'bracket' and a finite upper bound; set BudgetRow.role"
        )
    over = _common_rounds(brackets) if rounds is None else rounds
    canvas, axes = new_canvas()
    axes.set_yscale("log")
    axes.set_xscale("log")
    told = []
    band = _by_size(brackets, over)
    if not band:
        raise ConfigurationError(f"rounds: no row of role 'bracket' has {over} rounds")
    sizes = [row.cluster_size for row in band]
    upper = [row.upper or 0.0 for row in band]
    lower = [row.lower if _finite(row.lower) and row.lower else row.upper or 0.0 for row in band]
    axes.fill_between(sizes, lower, upper, color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(sizes, upper, "o-", color=COLOURS[0], label="proven upper bound", markersize=5)
    axes.plot(sizes, lower, "v-", color=COLOURS[0], label="lower bound", markersize=5, alpha=0.75)
    told += [
        f"With {plural(n, 'user')} the bracket is {number(a, toward='below')} to "
        f"{number(b, toward='above')}."
        for n, a, b in zip(sizes, lower, upper, strict=True)
    ]
    for role, label, style in (
        ("local", "without shuffling", "^:"),
        ("paper", "paper's statement", "s--"),
    ):
        drawn = _by_size([row for row in rows if row.role == role and _finite(row.upper)], over)
        if drawn:
            values = [row.upper or 0.0 for row in drawn]
            where = [row.cluster_size for row in drawn]
            colour = COLOURS[1 if role == "paper" else 2]
            axes.plot(where, values, style, label=label, markersize=5, color=colour)
            told.append(
                f"The line {label!r} runs from {number(values[0])} to {number(values[-1])}."
            )
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("users in the cluster")
    axes.set_ylabel("privacy budget ε (log scale)")
    add_legend(axes, 4)
    period = "one round" if over == 1 else f"{over} rounds"
    alt = (
        f"Privacy budget against cluster size over {period}, on logarithmic axes. {' '.join(told)}"
    )
    title = f"Privacy budget by cluster size, over {period}"
    return as_figure(canvas, id=id, title=title, alt=alt, caption=caption)


def exposure_bars(
    rows: Sequence[ExposureRow],
    *,
    id: str = "exposure-by-coalition",
    caption: str = "Average share of a user's update; in brackets, the size of the coalition.",
) -> Figure:
    """Draw, for every coalition, the share of an update known exactly and known with noise.

    Raises
    ------
    ConfigurationError
        If there is no row.
    """
    if not rows:
        raise ConfigurationError("rows: there is no exposure to draw")
    ordered = sorted(rows, key=lambda row: row.size)
    canvas, axes = new_canvas(height=1.25 + 0.4 * len(ordered))
    positions = np.arange(len(ordered))[::-1]
    exact = np.nan_to_num([100 * row.exact_fraction for row in ordered])
    noised = np.nan_to_num([100 * row.noised_fraction for row in ordered])
    axes.barh(positions, exact, color=COLOURS[1], label="known exactly")
    axes.barh(
        positions,
        noised,
        left=exact,
        color=COLOURS[5],
        hatch="///",
        edgecolor="white",
        label="known with noise",
    )
    axes.set_yticks(
        positions, [_two_lines(literal(f"{r.coalition_label}{SPACE}({r.size})")) for r in ordered]
    )
    for position, row in zip(positions, ordered, strict=True):
        # An exact share of a few thousandths is too thin to see, and matters most.
        axes.text(103, position, percent(row.exact_fraction), va="center", fontsize=9)
    axes.text(103, len(ordered) - 0.35, "exactly", va="bottom", fontsize=9)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the update (%)")
    axes.grid(visible=False, axis="y")
    add_legend(axes, 2)
    told = (
        f"{sentence(row.coalition_label)} (size {row.size}): {percent(row.exact_fraction)} "
        f"exactly, {percent(row.noised_fraction)} with noise."
        for row in ordered
    )
    alt = f"Bar chart of the share of a user's update known to each coalition. {' '.join(told)}"
    return as_figure(canvas, id=id, title="Exposure by coalition", alt=alt, caption=caption)


def gallery_png(image: NDArray[np.floating], *, side: int = 64) -> str:
    """Return an image as a base64 PNG, enlarged without smoothing.

    Parameters
    ----------
    image
        Shape (C, H, W) with C = 1 or 3, values in [0, 1]; values outside are clipped. A pixel
        that is not finite is drawn red.
    side
        The least side of the result in pixels; the image is enlarged by the least whole factor.

    Raises
    ------
    InvalidDataError
        If the shape is another.
    """
    from PIL import Image

    if image.ndim != 3 or image.shape[0] not in {1, 3} or 0 in image.shape:
        raise InvalidDataError(
            f"an image must have the shape (1 or 3, height, width), got {image.shape}"
        )
    broken = ~np.isfinite(image).all(axis=0)
    levels = np.rint(255 * np.clip(np.nan_to_num(image), 0, 1)).astype(np.uint8)
    if broken.any():
        levels = np.repeat(levels, 3 // levels.shape[0], axis=0)
        levels[:, broken] = np.array([[213], [0], [0]], dtype=np.uint8)
    factor = max(1, math.ceil(side / max(levels.shape[1:])))
    large = levels.repeat(factor, axis=1).repeat(factor, axis=2).transpose(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(large[..., 0] if large.shape[2] == 1 else large))
    stream = io.BytesIO()
    picture.save(stream, format="PNG", optimize=True)
    return base64.b64encode(stream.getvalue()).decode()


def _two_lines(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 24, max_lines=2, placeholder=" …"))


def _plain(value: float) -> str:
    return f"{value:g}"


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _common_rounds(rows: Sequence[BudgetRow]) -> int:
    sizes = {(row.rounds, row.cluster_size) for row in rows}
    counts = Counter(rounds for rounds, _ in sizes)
    return min(counts, key=lambda rounds: (-counts[rounds], rounds))


def _by_size(rows: Sequence[BudgetRow], rounds: int) -> list[BudgetRow]:
    """Return one row a cluster size, the one with the least upper bound."""
    best: dict[int, BudgetRow] = {}
    for row in rows:
        if row.rounds == rounds and _finite(row.upper):
            held = best.get(row.cluster_size)
            if held is None or (row.upper or 0.0) < (held.upper or 0.0):
                best[row.cluster_size] = row
    return [best[size] for size in sorted(best)]


def _whole_ticks(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))


def _first_gap(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the last finite point before the first gap, where a run stopped being finite."""
    gaps = np.flatnonzero(~np.isfinite(y))
    if gaps.size == 0 or gaps[0] == 0:
        return None
    return float(x[gaps[0] - 1]), float(y[gaps[0] - 1])


def _tell_interval(interval: Interval) -> str:
    told = number(interval.value)
    if math.isfinite(interval.value) and not math.isfinite(interval.high - interval.low):
        told += f" (interval {number(interval.low)} to {number(interval.high)}, not drawn)"
    return told


def _tell_series(name: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    finite = np.flatnonzero(np.isfinite(y))
    if finite.size == 0:
        return f"{visible(name)}: no finite value."
    first, last = finite[0], finite[-1]
    text = (
        f"{sentence(name)}: from {number(float(y[first]))} at {_plain(float(x[first]))} "
        f"to {number(float(y[last]))} at {_plain(float(x[last]))}"
    )
    stopped = _first_gap(x, y)
    return f"{text}; not finite after {_plain(stopped[0])}." if stopped else f"{text}."
