"""The first page of a report on many settings: who breaches what, and the worst figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from privaudit.reports._document import Cell, Overview, Table, cell, column
from privaudit.reports._format import integer, interval, level, listing, plural, quantity, visible
from privaudit.reports.model import AuditReport, CellCounts, Finding, NotRun

__all__ = [
    "breached_besides",
    "breached_elsewhere",
    "make_overview",
    "smallest_breach",
    "worst_affected",
]

_RISKS: Final = ("reconstruction", "inference", "linkability", "singling-out")
#: Figures on the first page; the others stand in the evidence.
MOST_WORST: Final = 8
#: Figures beyond guessing by themselves that the first page names.
MOST_LEADS: Final = 3
#: The worse of two verdicts comes first.
_ORDER: Final = ("breached", "inconclusive", "not shown")


def make_overview(report: AuditReport, cells: CellCounts) -> Overview:
    """Return verdicts by protocol and coalition, the worst figures, and what was not measured."""
    heads = [f for f in report.findings if f.headline]
    return Overview(
        verdicts=_verdicts(heads, report),
        worst=_worst(heads, report),
        missing=tuple(_missing(cells, report.not_run)),
    )


def smallest_breach(report: AuditReport) -> str:
    """Return in words which smallest coalitions breach a risk, on which protocol; empty if none."""
    breached = [f for f in report.findings if f.headline and f.verdict == "breached"]
    if not breached:
        return ""
    least = min(f.coalition_size for f in breached)
    who = dict.fromkeys(
        f"{visible(f.coalition_label)} (on {visible(f.protocol)})"
        for f in sorted(breached, key=lambda f: (f.protocol, f.coalition_label))
        if f.coalition_size == least
    )
    alone = "One party alone breaches" if least == 1 else f"{least} parties together breach"
    # Labels hold commas.
    return f"{alone} a risk: {'; '.join(who)}."


def worst_affected(finding: Finding) -> str:
    """Return the target of whom an attack learnt most, and how much."""
    if finding.unit == "proportion" and finding.worst_value in {0.0, 1.0}:
        outcome = "succeeded" if finding.worst_value == 1 else "did not succeed"
        return f"{finding.worst_target}: the attack {outcome}"
    if finding.metric.endswith("AUC"):
        # An area under a curve is of all targets; the part of a single one has no scale.
        return f"{finding.worst_target}: told apart best"
    return f"{finding.worst_target}: {quantity(finding.worst_value, finding.unit)}"


def breached_besides(finding: Finding, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return other measures of the same attack that read "breached" where its verdict does not."""
    if finding.verdict == "breached":
        return ()
    return tuple(
        f
        for f in findings
        if not f.headline
        and f.verdict == "breached"
        and (f.attack, f.coalition, f.setting, f.protocol)
        == (finding.attack, finding.coalition, finding.setting, finding.protocol)
        and f.metric != finding.metric
    )


def breached_elsewhere(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the strongest breach by the same attack and measure in another setting, if any."""
    if finding.verdict == "breached":
        return None
    tried = [
        f
        for f in findings
        if not f.headline
        and f.verdict == "breached"
        and f.setting != finding.setting
        and (f.attack, f.coalition_label, f.metric, f.protocol)
        == (finding.attack, finding.coalition_label, finding.metric, finding.protocol)
    ]
    return max(tried, key=_lead, default=None)


def _by_themselves(heads: Sequence[Finding], report: AuditReport) -> str:
    """Say which figures breach by themselves where the verdict of their risk does not."""
    breached = {(f.protocol, f.coalition, f.risk) for f in heads if f.verdict == "breached"}
    groups: dict[tuple[str, tuple[str, ...], str], list[Finding]] = {}
    for f in report.findings:
        key = f.protocol, f.coalition, f.risk
        if not f.headline and f.verdict == "breached" and key not in breached:
            groups.setdefault(key, []).append(f)
    told = []
    for (protocol, _, risk), found in groups.items():
        f = max(found, key=_lead)
        told.append(
            f"{risk} by {f.coalition_label} on {protocol} ({f.attack}: {f.metric} "
            f"{interval(f.estimate.value, f.estimate.low, f.estimate.high, f.unit)} against "
            f"{quantity(f.baseline.value, f.unit)}, n = {integer(f.n)})"
        )
    if not told:
        return ""
    left = len(told) - MOST_LEADS
    more = f"; {integer(left)} more among the findings" if left > 0 else ""
    return visible(
        f" Beyond guessing at {level(report.confidence)} confidence without that correction, or by "
        f"another measure: {'; '.join(told[:MOST_LEADS])}{more}. This is a reason to look closer, "
        "and no verdict."
    )


def _lead(f: Finding) -> float:
    """Return by how much an interval lies beyond that of guessing, in parts of its own width."""
    gap = (
        f.estimate.low - f.baseline.high
        if f.higher_is_leakier
        else f.baseline.low - f.estimate.high
    )
    return gap / max(f.estimate.high - f.estimate.low, 1e-12)


def _verdicts(heads: Sequence[Finding], report: AuditReport) -> Table:
    """Return a row a protocol and coalition, a column a risk that some attack asks about."""
    asked = [risk for risk in _RISKS if any(f.risk == risk for f in heads)]
    sizes = {(f.protocol, f.coalition_label): f.coalition_size for f in heads}
    absent = {(row.protocol, row.coalition_label) for row in report.not_run}
    rows = []
    for protocol, label in sorted(
        {*sizes, *absent}, key=lambda who: (who[0], sizes.get(who, math.inf), who[1])
    ):
        ours = [f for f in heads if (f.protocol, f.coalition_label) == (protocol, label)]
        size = sizes.get((protocol, label))
        measured = sum(f.chosen_from for f in ours)
        missed = sum(
            row.cells
            for row in report.not_run
            if (row.protocol, row.coalition_label) == (protocol, label)
        )
        rows.append(
            (
                cell(visible(protocol)),
                cell(visible(label) if size is None else f"{visible(label)} ({size})", size),
                *(_judged([f for f in ours if f.risk == risk]) for risk in asked),
                cell(integer(measured), measured),
                cell(integer(missed), missed),
            )
        )
    unasked = [risk for risk in _RISKS if risk not in asked]
    untested = f" Not tested at all: {listing(unasked)}." if unasked else ""
    names = ("Protocol", "Who attacks (parties)", *map(str.capitalize, asked), "#Measured")
    return Table(
        "overview-verdicts",
        "Verdict by protocol and coalition",
        column((*names, "#Not measured")),
        tuple(rows),
        note="Each verdict is the worst of the cells that the last columns count, by the first "
        "measure of each attack, its interval corrected as below. A dash: not measured."
        f"{untested}{_by_themselves(heads, report)}",
        cards=True,
    )


def _judged(findings: Sequence[Finding]) -> Cell:
    if not findings:
        return cell("–")
    worst = min((f.verdict for f in findings), key=_ORDER.index)
    return cell(worst, float(_ORDER.index(worst)), mark=worst)


def _worst(heads: Sequence[Finding], report: AuditReport) -> Table:
    """Return for each protocol and risk the strongest figure of the smallest coalition."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for f in heads:
        if f.verdict != "not shown":
            groups.setdefault((f.protocol, f.risk), []).append(f)
    chosen = sorted(
        (min(g, key=_place) for g in groups.values()),
        key=lambda f: (*_place(f)[:2], _RISKS.index(f.risk), f.protocol),
    )
    rows = tuple(
        (
            cell(f.verdict, float(_ORDER.index(f.verdict)), mark=f.verdict),
            cell(f.risk),
            cell(visible(f"{_phrase(f.summary)} ({f.protocol}, {f.coalition_label})")),
            cell(visible(_measured(f)), f.estimate.value),
            cell(
                interval(f.baseline.value, f.baseline.low, f.baseline.high, f.unit),
                f.baseline.value,
            ),
            cell(integer(f.n) if not f.failed else f"{integer(f.n)} ({f.failed} failed)", f.n),
            cell(integer(f.chosen_from), f.chosen_from),
        )
        for f in chosen[:MOST_WORST]
    )
    left = len(chosen) - MOST_WORST
    more = f" {integer(left)} more stand among the findings." if left > 0 else ""
    tests = report.simultaneous_tests
    names = (
        "Verdict", "Risk", "What was done (protocol, by whom)", "Measured [low, high]",
        "#Guessing alone", "#n", "#Worst of",
    )  # fmt: skip
    alike = len({f.verdict for f in chosen}) == 1
    told = f"All {chosen[0].verdict}. " if alike else ""
    table = Table(
        "overview-worst",
        "Worst measured figures: of each protocol and risk, that of the smallest coalition",
        column(names),
        rows,
        note=(
            f"{told}Each is the worst of as many cells as the last column says, its interval "
            f"corrected for that: those of all {plural(tests, 'cell')} hold together with "
            f"{level(report.confidence)} confidence (Bonferroni: {_each(report)} each, "
            f"sharing out the error). The value itself is on average too high.{more}"
        ),
        cards=True,
    )
    if alike:
        table = replace(table, columns=table.columns[1:], rows=tuple(r[1:] for r in table.rows))
    return table


def _each(report: AuditReport) -> str:
    """Return the confidence of one interval so that those of all tests hold together."""
    return level(1 - (1 - report.confidence) / max(report.simultaneous_tests, 1))


def _place(f: Finding) -> tuple[int, int, bool, float]:
    """Return where a figure stands: breaches, small coalitions, shares, high values first."""
    value = f.estimate.value if f.higher_is_leakier else -f.estimate.value
    return _ORDER.index(f.verdict), f.coalition_size, f.unit != "proportion", -value


def _measured(f: Finding) -> str:
    """Return the figure; of a share it goes without saying how well an attack did at its best."""
    figure = interval(f.estimate.value, f.estimate.low, f.estimate.high, f.unit)
    worst = "" if f.unit == "proportion" else f"; worst: {worst_affected(f)}"
    return f"{f.metric} {figure}{worst}"


def _phrase(sentence: str) -> str:
    return sentence.strip().removesuffix(".")


def _missing(cells: CellCounts, not_run: Iterable[NotRun]) -> Iterable[tuple[str, str]]:
    """Yield what was not measured, each with the anchor of the section that says why."""
    total = cells.measured + cells.not_applicable + cells.failed + cells.pending
    rows = tuple(not_run)
    failed = "" if cells.failed + cells.pending else "; none failed"
    yield f"{integer(cells.measured)} of {plural(total, 'cell')} were measured{failed}.", ""
    for count, word, status in (
        (cells.failed + cells.pending, "Failed or missing", "failed"),
        (cells.not_applicable, "Not applicable", "not-applicable"),
    ):
        ours = [row for row in rows if row.status == status]
        named = listing(sorted({visible(row.attack) for row in ours}))
        if count:
            yield f"{word}: {plural(count, 'cell')} ({named}).", "not-run"
