"""The sample report with every free text replaced by one that tries to become markup."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from reports_sample import HOSTILE, sample_report

from privaudit.reports import render_json
from privaudit.reports.model import AuditReport

#: Texts that the schema fixes, and images.
FIXED = {
    "schema_version", "risk", "verdict", "status", "deployment_model", "role", "unit", "png",
    "pngs", "value", "low", "high", "estimate", "y", "worst_value", "lower", "upper",
}  # fmt: skip


def _poisoned(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in FIXED else f"{HOSTILE}{value}"
    if isinstance(value, list):
        return [_poisoned(item, key) for item in value]
    if isinstance(value, dict):
        free = key in {"parameters", "actors", "per_target", "digests", "seconds", "tool", "noise"}
        return {
            f"{HOSTILE}{name}" if free else name: _poisoned(item, name)
            for name, item in value.items()
        }
    return value


@cache
def hostile_report() -> AuditReport:
    """Return the report, which is valid."""
    content = _poisoned(json.loads(render_json(sample_report())))
    return AuditReport.model_validate_json(json.dumps(content))
