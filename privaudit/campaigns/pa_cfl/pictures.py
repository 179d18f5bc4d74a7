"""Figures and galleries of an audit of PA-CFL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.pa_cfl.plan import Planned
from privaudit.campaigns.runs import RecordedRun
from privaudit.reports.figures import exposure_bars, gallery_png, psnr_by_k
from privaudit.reports.model import (
    ExposureRow,
    Figure,
    Finding,
    Gallery,
    GalleryRow,
    Interval,
)

__all__ = ["exposure_figures", "galleries_of", "sweep_figures"]

Results = Sequence[tuple[Planned, Measurement]]

#: Targets shown in a gallery.
SHOWN = 10


def sweep_figures(described: Results, findings: Sequence[Finding]) -> list[Figure]:
    """Return attack success against k: identified records, and PSNR."""
    return [
        figure
        for metric, label, caption in (
            (
                "identification",
                "records identified",
                "Share of records whose reconstruction is nearer to them than to any other record "
                "of the run or of the auxiliary pool; bars are 95 % intervals, the dashed line is "
                "the mean auxiliary image.",
            ),
            (
                "PSNR",
                "median PSNR (dB)",
                "Likeness of reconstruction and record; higher is more alike. The dashed line is "
                "the mean auxiliary image.",
            ),
        )
        for figure in _by_k(described, findings, metric, label, caption)
    ]


def _by_k(
    described: Results, findings: Sequence[Finding], metric: str, label: str, caption: str
) -> list[Figure]:
    figures = {(f.attack, f.setting, f.coalition_label): f for f in findings if f.metric == metric}
    lines: dict[str, dict[float, Interval]] = {}
    baselines: list[float] = []
    for item, measurement in described:
        if item.k_fraction is None or item.headline or measurement.status != "measured":
            continue
        cell = item.cell
        found = figures.get((cell.attack.name, cell.setting, cell.label))
        if found is not None:
            lines.setdefault(item.series, {})[item.k_fraction] = found.estimate
            baselines.append(found.baseline.value)
    ks = sorted({k for values in lines.values() for k in values})
    whole = {
        name: [values[k] for k in ks] for name, values in lines.items() if len(values) == len(ks)
    }
    if not whole or len(ks) < 2:
        return []
    return [
        psnr_by_k(
            ks,
            whole,
            baseline=float(np.median(baselines)),
            id=f"sweep-{metric.lower()}",
            caption=caption,
            metric=label,
            title=f"{label[:1].upper()}{label[1:]} by k",
        )
    ]


def exposure_figures(rows: Sequence[ExposureRow]) -> list[Figure]:
    """Return the bars of what each coalition knows, if anything was measured."""
    return [exposure_bars(rows)] if rows else []


def galleries_of(described: Results, runs: Mapping[str, RecordedRun]) -> list[Gallery]:
    """Return one gallery a heading: the targets, and a row for each attack and view."""
    by_heading: dict[str, list[tuple[Planned, Measurement]]] = {}
    for item, measurement in described:
        if item.gallery and measurement.guesses:
            by_heading.setdefault(item.gallery, []).append((item, measurement))
    return [_gallery(heading, items) for heading, items in by_heading.items()]


def _gallery(heading: str, items: list[tuple[Planned, Measurement]]) -> Gallery:
    truth = items[0][0].cell.truth
    held = [set(m.guesses) for _, m in items]
    common = sorted(set.intersection(*held), key=lambda t: (len(t), t))[:SHOWN]
    targets = GalleryRow(
        label="the users' records",
        pngs=tuple(gallery_png(truth.get(target, "images")[0]) for target in common),
        captions=tuple(common),
    )
    rows = []
    # A row for each value of k under one another shows what k does.
    order = list(dict.fromkeys(item.series for item, _ in items))
    by_series = sorted(items, key=lambda i: (order.index(i[0].series), i[0].k_fraction or 0.0))
    for item, measurement in by_series:
        identified = measurement.triples[0].attack.per_target
        rows.append(
            GalleryRow(
                label=_row_label(item),
                pngs=tuple(gallery_png(measurement.guesses[t]) for t in common),
                captions=tuple(
                    "identified" if identified.get(t) == 1.0 else "not identified" for t in common
                ),
            )
        )
    return Gallery(
        id="gallery-" + "".join(c if c.isalnum() else "-" for c in heading.lower()),
        title=heading,
        caption=f"{_common_setting(items)}. The first {len(common)} users; a reconstruction counts "
        "as identified if it is nearer to its record than to any other of the run and of the "
        "auxiliary pool.",
        targets=targets,
        rows=tuple(rows),
    )


def _common_setting(items: list[tuple[Planned, Measurement]]) -> str:
    """Return the parts of a setting that all rows share."""
    parts = [item.cell.setting.split(", ") for item, _ in items]
    shared = [part for part in parts[0] if all(part in others for others in parts)]
    return ", ".join(shared)


def _row_label(item: Planned) -> str:
    return (
        item.series
        if item.k_fraction is None
        else f"{item.series}, k = {100 * item.k_fraction:g} %"
    )
