"""Of which seeds a report tells."""

from __future__ import annotations

from collections.abc import Mapping

from privaudit.reports.model import AuditReport

__all__ = ["seeds_of"]


def seeds_of(report: AuditReport) -> tuple[int, ...]:
    """Return the seeds of the runs: the one of an audit, or all of a campaign's grid."""
    grid = report.system.parameters.get("grid") if report.cells is not None else None
    listed = grid.get("seed") if isinstance(grid, Mapping) else None
    if not isinstance(listed, list | tuple):
        return (report.seed,)
    return tuple(int(seed) for seed in listed if isinstance(seed, int)) or (report.seed,)
