"""What the audits of all protocols share: the seam, the output folder, and the attack stage."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from pydantic import BaseModel

from privaudit.campaigns.batches import Batch, measure_batches
from privaudit.campaigns.cells import Cell, CellStore, Measurement
from privaudit.campaigns.folders import AUDIT, refuse_file
from privaudit.campaigns.planned import Planned
from privaudit.errors import ConfigurationError, OutputExistsError, did_you_mean
from privaudit.protocols.base import Progress, RoundMetrics
from privaudit.reports import replace_file
from privaudit.reports.model import AuditReport

__all__ = [
    "AUDITS",
    "AuditOutcome",
    "ProtocolAudit",
    "Steps",
    "audit_of",
    "claim_folder",
    "measure_planned",
    "on_round",
    "perform",
]


class Steps(Protocol):
    """Told of each step done in a stage of the work."""

    def __call__(self, stage: str, done: int, total: int, detail: str = "") -> None:
        """Report that ``done`` of ``total`` steps of a stage are done."""
        ...


class AuditOutcome(Protocol):
    """Everything that was simulated and measured in an audit."""

    @property
    def seconds(self) -> dict[str, float]:
        """Wall-clock time of each stage."""
        ...


class ProtocolAudit(Protocol):
    """The audit of one protocol: a module that has these names."""

    #: The configuration of the audit, a frozen pydantic model.
    Config: type[BaseModel]

    def check_inputs(self, config: Any, *, data_root: Path | None = None) -> None:
        """Raise what is wrong with the parameters or the data before anything is written."""
        ...

    def run_audit(
        self, config: Any, out: Path, *, data_root: Path | None, jobs: int, steps: Steps
    ) -> AuditOutcome:
        """Simulate, record and attack what the folder does not hold."""
        ...

    def assemble(self, result: Any, *, command: str, device: str) -> AuditReport:
        """Account what was measured, and return the report.

        ``command`` repeats the audit; ``device`` is on what the attacks ran.
        """
        ...


#: Protocol names and the modules that audit them, imported when asked for.
AUDITS: MappingProxyType[str, str] = MappingProxyType(
    {
        "pa-cfl": "privaudit.campaigns.pa_cfl",
        "disue": "privaudit.campaigns.disue",
        "pq-mds": "privaudit.campaigns.pq_mds",
    }
)


def audit_of(protocol: str) -> ProtocolAudit:
    """Return the audit of a protocol.

    Raises
    ------
    ConfigurationError
        If there is none.
    """
    if protocol not in AUDITS:
        raise ConfigurationError(
            f"no audit is known for '{protocol}'; allowed are {', '.join(AUDITS)}. To attack "
            f"a recorded run: privaudit attack RUN_DIR.{did_you_mean(protocol, tuple(AUDITS))}"
        )
    return cast(ProtocolAudit, import_module(AUDITS[protocol]))


def perform(
    audited: ProtocolAudit,
    config: BaseModel,
    out: Path,
    *,
    data_root: Path | None,
    jobs: int,
    steps: Steps,
    command: str,
    device: str,
) -> AuditReport:
    """Do what the folder does not hold of an audit, and return its report."""
    started = time.perf_counter()
    result = audited.run_audit(config, out, data_root=data_root, jobs=jobs, steps=steps)
    steps("report", 0, 1)
    result.seconds["total before the report"] = time.perf_counter() - started
    return audited.assemble(result, command=command, device=device)


def claim_folder(protocol: str, config: BaseModel, out: Path, *, force: bool) -> None:
    """Take an output folder: a new or empty one, or one of an audit with the same configuration.

    Raises
    ------
    OutputExistsError
        If it holds something else and ``force`` is not given.
    """
    file = out / AUDIT
    settings = {"protocol": protocol, **config.model_dump(mode="json")}
    text = json.dumps(settings, indent=2, sort_keys=True)
    refuse_file(out)
    held = sorted(p.name for p in out.iterdir()) if out.is_dir() else []
    if held and not force:
        if AUDIT not in held:
            raise OutputExistsError(
                f"{out} is not empty (it holds {', '.join(held[:5])}) and holds no audit; name "
                "another folder, or add --force to write into it"
            )
        if file.read_bytes() != text.encode():
            raise OutputExistsError(
                f"{out} holds an audit with another configuration ({file}); name another folder, "
                "or add --force to replace it"
            )
    out.mkdir(parents=True, exist_ok=True)
    replace_file(file, text.encode())


def measure_planned(
    batches: Sequence[Batch], out: Path, *, jobs: int, data_root: Path | None, steps: Steps
) -> list[tuple[Planned, Measurement]]:
    """Measure every planned cell that ``out/cells`` does not hold; return all, as planned."""

    def done(position: int, total: int, cell: Cell, measurement: Measurement) -> None:
        shown = f"{cell.attack.name} by {cell.label}: {measurement.status}"
        if measurement.status == "failed":
            shown += f" ({measurement.reason})"
        steps("attacks", position, total, shown)

    measured = measure_batches(
        batches, store=CellStore(out / "cells"), jobs=jobs, data_root=data_root, done=done
    )
    results = []
    for item, measurement in measured:
        assert isinstance(item, Planned)
        results.append((item, measurement))
    return results


def on_round(steps: Steps, stage: str) -> Progress:
    """Return a listener that tells of each round of a run as a step."""

    def report(done: int, total: int, metrics: RoundMetrics) -> None:
        accuracy = metrics.values.get("accuracy")
        steps(stage, done, total, "" if accuracy is None else f"accuracy {accuracy:.1%}")

    return report
