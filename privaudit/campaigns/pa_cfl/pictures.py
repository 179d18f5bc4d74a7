"""Figures of an audit of PA-CFL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.planned import Planned
from privaudit.reports.figures import exposure_bars, psnr_by_k
from privaudit.reports.model import ExposureRow, Figure, Finding, Interval

__all__ = ["exposure_figures", "row_label", "sweep_figures"]

Results = Sequence[tuple[Planned, Measurement]]


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
        if item.position is None or item.headline or measurement.status != "measured":
            continue
        cell = item.cell
        found = figures.get((cell.attack.name, cell.setting, cell.label))
        if found is not None:
            lines.setdefault(item.series, {})[item.position] = found.estimate
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


def row_label(item: Planned) -> str:
    """Return the label of a gallery's row: the attack and view, and k where it varies."""
    return item.series if item.position is None else f"{item.series}, k = {100 * item.position:g} %"
