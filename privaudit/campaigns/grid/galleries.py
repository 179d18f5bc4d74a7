"""Galleries of a campaign: records, and what the leakiest cells made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from privaudit.campaigns.grid.pictures import Measured, leak
from privaudit.campaigns.grid.store import Row
from privaudit.campaigns.grid.subjects import label_of, setting_of
from privaudit.reports.model import Gallery, GalleryRow

__all__ = ["campaign_galleries"]

#: Rows of a gallery, and galleries of a report.
_ROWS: Final = 8
_GALLERIES: Final = 8


def campaign_galleries(grid: Sequence[str], measured: Sequence[Measured]) -> list[Gallery]:
    """Return one gallery for each attack on each protocol: its leakiest cells on the same records.

    Parameters
    ----------
    grid : sequence of str
        The campaign's axes.
    """
    groups: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], list[Measured]]] = {}
    for row, m in measured:
        pictures = [] if row.result is None else row.result.get("pictures", [])
        if pictures and m.triples:
            spec = row.specification
            records = tuple((p["target"], p["record"]) for p in pictures)
            held = groups.setdefault((str(spec.run["protocol"]), spec.attack), {})
            held.setdefault(records, []).append((row, m))
    galleries = []
    for number, ((protocol, attack), held) in enumerate(groups.items()):
        # Other seeds have other records; the records that most cells are about are shown.
        records, cells = max(held.items(), key=lambda item: len(item[1]))
        ordered = sorted(cells, key=lambda item: -leak(item[1].triples[0]))[:_ROWS]
        seed = ordered[0][0].specification.run["seed"]
        galleries.append(
            Gallery(
                id=f"gallery-{number}",
                title=f"{attack} on {protocol}",
                caption=f"The first {len(records)} targets with seed {seed}; the "
                f"{len(ordered)} leakiest of {len(cells)} cells on them, the leakiest first.",
                targets=GalleryRow(
                    label="the users' records",
                    pngs=tuple(png for _, png in records),
                    captions=tuple(target for target, _ in records),
                ),
                rows=tuple(_row(row, grid) for row, _ in ordered),
            )
        )
    return galleries[:_GALLERIES]


def _row(row: Row, grid: Sequence[str]) -> GalleryRow:
    setting = setting_of(row, grid).rpartition(", seed ")[0]
    label = label_of(row)
    assert row.result is not None
    return GalleryRow(
        label=f"{label}, {setting}" if setting else label,
        pngs=tuple(p["guess"] for p in row.result["pictures"]),
        captions=(),
    )
