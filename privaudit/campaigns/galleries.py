"""Galleries: the targets as they are, and what each attack made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.planned import Planned
from privaudit.reports.figures import gallery_png
from privaudit.reports.model import Gallery, GalleryRow
from privaudit.transcript import Array, Truth

__all__ = ["SHOWN", "first_image", "galleries_of"]

#: Targets shown in a gallery.
SHOWN = 10


def first_image(truth: Truth, target: str) -> Array:
    """Return the only (or first) image of a user, shape (channels, height, width)."""
    image: Array = truth.get(target, "images")[0]
    return image


def galleries_of(
    described: Sequence[tuple[Planned, Measurement]],
    *,
    row_label: Callable[[Planned], str],
    image: Callable[[Truth, str], Array] = first_image,
    targets: str = "the users' records",
) -> list[Gallery]:
    """Return one gallery a heading: the targets, and a row for each attack and view.

    Parameters
    ----------
    row_label : callable
        The label of a planned cell's row.
    image : callable
        Gives a target's image from the truth.
    targets : str
        Label of the row of targets.
    """
    by_heading: dict[str, list[tuple[Planned, Measurement]]] = {}
    for item, measurement in described:
        if item.gallery and measurement.guesses:
            by_heading.setdefault(item.gallery, []).append((item, measurement))
    return [
        _gallery(heading, items, row_label, image, targets) for heading, items in by_heading.items()
    ]


def _gallery(
    heading: str,
    items: list[tuple[Planned, Measurement]],
    row_label: Callable[[Planned], str],
    image: Callable[[Truth, str], Array],
    label: str,
) -> Gallery:
    truth = items[0][0].cell.truth
    held = [set(m.guesses) for _, m in items]
    common = sorted(set.intersection(*held), key=lambda t: (len(t), t))[:SHOWN]
    targets = GalleryRow(
        label=label,
        pngs=tuple(gallery_png(image(truth, target)) for target in common),
        captions=tuple(common),
    )
    rows = []
    # A row for each position on the axis under one another shows what the axis does.
    order = list(dict.fromkeys(item.series for item, _ in items))
    by_series = sorted(items, key=lambda i: (order.index(i[0].series), i[0].position or 0.0))
    for item, measurement in by_series:
        rows.append(
            GalleryRow(
                label=row_label(item),
                pngs=tuple(gallery_png(measurement.guesses[t]) for t in common),
                captions=_captions(measurement, common),
            )
        )
    identified = any("identif" in row.captions[0] for row in rows if row.captions)
    explained = (
        " A reconstruction counts as identified if it is nearer to its record than to any other "
        "of the run and of the auxiliary pool."
    )
    return Gallery(
        id="gallery-" + "".join(c if c.isalnum() else "-" for c in heading.lower()),
        title=heading,
        caption=f"{_common_setting(items)}. The first {len(common)} targets."
        f"{explained if identified else ''}",
        targets=targets,
        rows=tuple(rows),
    )


def _captions(measurement: Measurement, targets: Sequence[str]) -> tuple[str, ...]:
    """Return whether each target was identified, where the headline metric says so."""
    first = measurement.triples[0]
    if first.name != "identification":
        return ()
    scores = first.attack.per_target
    return tuple("identified" if scores.get(t) == 1.0 else "not identified" for t in targets)


def _common_setting(items: list[tuple[Planned, Measurement]]) -> str:
    """Return the parts of a setting that all rows share."""
    parts = [item.cell.setting.split(", ") for item, _ in items]
    shared = [part for part in parts[0] if all(part in others for others in parts)]
    return ", ".join(shared)
