"""The end of a report: figures of each target, parameters, digests, times, commands."""

from __future__ import annotations

from collections.abc import Iterable

from privaudit.reports._document import Section, Table, cell, column
from privaudit.reports._format import duration, flatten, quantity, visible
from privaudit.reports.model import AuditReport, Finding

__all__ = ["parameters", "per_target", "provenance", "sorted_findings"]

_RISKS = ("reconstruction", "inference", "linkability", "singling-out")


def sorted_findings(report: AuditReport) -> list[Finding]:
    """Return the findings by risk, those of smaller coalitions first."""
    return sorted(report.findings, key=lambda f: (_RISKS.index(f.risk), f.coalition_size))


def per_target(report: AuditReport) -> Section:
    """Return one folded table of targets a finding."""
    ordered = sorted_findings(report)
    tables = tuple(
        Table(
            f"per-target-{index}",
            visible(f"{f.id}: {f.title}, {f.coalition_label}"),
            column(("Target", f"#{visible(f.metric)}")),
            tuple(
                (cell(visible(target), code=True), cell(quantity(value, f.unit), value))
                for target, value in f.per_target.items()
            ),
            note=visible(f.summary),
        )
        for index, f in enumerate(ordered, start=1)
        if f.per_target
    )
    return Section("per-target", "Figures of each target", details=tables)


def _pairs(table_id: str, caption: str, pairs: Iterable[tuple[str, str]]) -> Table:
    rows = tuple((cell(name, code=True), cell(text)) for name, text in pairs)
    return Table(table_id, caption, column(("Name", "Value")), rows)


def parameters(report: AuditReport) -> Section:
    """Return the parameters of the run, its parties, and those of each attack."""
    system = report.system
    run = flatten(system.parameters)
    actors = [(visible(actor), visible(role)) for actor, role in system.actors.items()]
    tables = [
        _pairs("parameters-run", "Parameters of the run", run),
        _pairs("parameters-actors", "Parties and what they do", actors),
    ]
    details = [
        _pairs(
            f"parameters-attack-{index}",
            visible(f"{f.id}: parameters of {f.attack} {f.attack_version}"),
            flatten(f.parameters),
        )
        for index, f in enumerate(sorted_findings(report), start=1)
        if f.parameters
    ]
    kept = tuple(table for table in tables if table.rows)
    return Section("parameters", "Parameters", tables=kept, details=tuple(details))


def provenance(report: AuditReport, *, digest: str) -> Section:
    """Return what it takes to make the report again and to check that it is the same."""
    digests = [("report.json", digest)]
    digests += [(visible(name), visible(value)) for name, value in report.digests.items()]
    seconds = tuple(
        (cell(visible(name)), cell(duration(value), value))
        for name, value in report.seconds.items()
    )
    tables = [_pairs("digests", "SHA-256 digests", digests)]
    if report.tool:
        tables.append(_pairs("environment", "Tool and environment", flatten(report.tool)))
    if seconds:
        caption = "Wall time of each part"
        tables.append(Table("wall-time", caption, column(("Part", "#Time")), seconds))
    return Section(
        "provenance",
        "How to reproduce this report",
        tables=tuple(tables),
        code=tuple(visible(command) for command in report.reproduce),
    )
