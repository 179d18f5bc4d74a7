"""Cells one after the other in this process: slow, and simple to debug."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privaudit.campaigns.grid import execute
from privaudit.campaigns.grid.engines import Task
from privaudit.campaigns.grid.offered import EngineOptions
from privaudit.errors import ConfigurationError

__all__ = ["SerialEngine", "serial"]


class SerialEngine:
    """Measures cells in this process."""

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each result as it is there; a cell that raises is a failed one."""
        for key, specification in tasks:
            try:
                result = execute(specification.to_json(), runs=runs, data_root=data_root)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                result = {
                    "status": "failed",
                    "reason": reason,
                    "triples": [],
                    "diagnostics": {},
                    "seconds": 0.0,
                }
            yield key, result


def serial(options: EngineOptions) -> SerialEngine:
    """One cell after the other in this process, without limits."""
    if options.address or options.seconds is not None or options.megabytes is not None:
        raise ConfigurationError("the engine 'example-serial' has no workers, and no limits")
    return SerialEngine()
