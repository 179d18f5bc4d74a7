"""Rows of pictures with their scores under each and a text beside each row, as one PNG."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privaudit.errors import ConfigurationError
from privaudit.reports._canvas import literal

__all__ = ["PictureRow", "picture_grid"]

#: Inches: a picture, the columns beside the pictures, and what stands over and under the rows.
_SIDE: Final = 0.78
_GAP: Final = 0.06
_LEFT: Final = 1.75
_RIGHT: Final = 3.3
_CAPTION: Final = 0.34
_HEAD: Final = 0.5
_LINE: Final = 0.15
_DOTS: Final = 130


@dataclass(frozen=True, slots=True, eq=False)
class PictureRow:
    """A row of pictures.

    Attributes
    ----------
    label : str
        What they are, on the left.
    text : tuple of str
        Lines on the right; long ones are wrapped.
    images : tuple of ndarray of float or None
        Shape (channels, height, width), values in [0, 1]; None where there is none.
    captions : tuple of str
        Under each picture, or none.
    """

    label: str
    text: tuple[str, ...]
    images: tuple[NDArray[np.floating] | None, ...]
    captions: tuple[str, ...] = ()


def picture_grid(rows: Sequence[PictureRow], *, title: str, note: str) -> bytes:
    """Return the rows as a PNG, pictures of one column under one another.

    Parameters
    ----------
    rows : sequence of PictureRow
    title, note : str
        Over and under the rows.

    Raises
    ------
    ConfigurationError
        If there is no row, or rows differ in their number of pictures.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    widths = {len(row.images) for row in rows}
    if len(widths) != 1 or widths == {0}:
        raise ConfigurationError(
            f"rows: all must have the same number of pictures, got {sorted(widths) or 'no row'}"
        )
    columns = widths.pop()
    step, height = _SIDE + _GAP, _SIDE + _CAPTION
    wide = _LEFT + columns * step + _RIGHT
    under = textwrap.wrap(literal(note), int(wide * 14.5))
    tall = _HEAD + len(rows) * height + _LINE * (len(under) + 1)
    canvas = Canvas(figsize=(wide, tall), dpi=_DOTS)
    FigureCanvasAgg(canvas)
    canvas.text(0.1 / wide, 1 - 0.14 / tall, literal(title), fontsize=12, weight="bold", va="top")
    canvas.text(
        0.1 / wide,
        0.08 / tall,
        "\n".join(under),
        fontsize=8,
        va="bottom",
        color="#3a424c",
    )
    for index, row in enumerate(rows):
        top = tall - _HEAD - index * height
        middle = (top - _SIDE / 2) / tall
        label = "\n".join(textwrap.wrap(literal(row.label), 21))
        canvas.text(0.1 / wide, middle, label, fontsize=9.5, va="center")
        lines = [wrapped for line in row.text for wrapped in textwrap.wrap(literal(line), 52)]
        beside = (_LEFT + columns * step + 0.12) / wide
        canvas.text(beside, (top + 0.02) / tall, "\n".join(lines), fontsize=8.2, va="top")
        for column, image in enumerate(row.images):
            left = _LEFT + column * step
            axes = canvas.add_axes((left / wide, (top - _SIDE) / tall, _SIDE / wide, _SIDE / tall))
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color("#c5cbd3")
            if image is None:
                axes.text(0.5, 0.5, "none", ha="center", va="center", fontsize=8)
            else:
                shown = np.clip(np.nan_to_num(image), 0, 1).transpose(1, 2, 0)
                axes.imshow(shown.repeat(3 // shown.shape[2], axis=2), interpolation="nearest")
            if row.captions:
                place = (left + _SIDE / 2) / wide, (top - _SIDE - 0.04) / tall
                canvas.text(
                    *place, literal(row.captions[column]), fontsize=6.8, ha="center", va="top"
                )
    stream = io.BytesIO()
    canvas.savefig(stream, format="png", metadata={"Software": None}, facecolor="white")
    return stream.getvalue()
