"""The audit of PA-CFL as one call."""

from __future__ import annotations

import time
from pathlib import Path

from privaudit.campaigns.auditing import Steps
from privaudit.campaigns.pa_cfl.assemble import assemble
from privaudit.campaigns.pa_cfl.audit import run_audit
from privaudit.campaigns.pa_cfl.config import AuditConfig
from privaudit.reports.model import AuditReport

__all__ = ["perform"]


def perform(
    config: AuditConfig,
    out: Path,
    *,
    data_root: Path | None,
    jobs: int,
    steps: Steps,
    command: str,
    device: str,
) -> AuditReport:
    """Do what the folder does not hold; see :class:`privaudit.campaigns.auditing.ProtocolAudit`."""
    started = time.perf_counter()
    result = run_audit(config, out, data_root=data_root, jobs=jobs, steps=steps)
    steps("report", 0, 1)
    result.seconds["total before the report"] = time.perf_counter() - started
    return assemble(result, command=command, device=device)
