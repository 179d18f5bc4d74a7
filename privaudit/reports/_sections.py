"""The part for researchers: every figure with its interval, baseline, control and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from privaudit.reports._appendix import parameters, per_target, provenance, sorted_findings
from privaudit.reports._document import Cell, Section, Table, cell, column, condensed
from privaudit.reports._format import (
    duration,
    integer,
    interval,
    level,
    number,
    percent,
    sentence,
    setting,
    short_integer,
    visible,
)
from privaudit.reports.model import AuditReport, BudgetRow, Finding, Interval, Series, Utility

__all__ = ["make_sections"]

_ROLES = ("bracket", "paper", "local", "coordinate", "user", "other")


def make_sections(report: AuditReport, *, digest: str) -> tuple[Section, ...]:
    """Return the sections behind the first page; one without content is left out."""
    makers: tuple[Callable[[AuditReport], Section], ...] = (
        _findings,
        _galleries,
        _figures,
        _exposure,
        _measured_tables,
        _budgets,
        _uncovered,
        _utilities,
        _claims,
        _not_run,
        per_target,
        parameters,
    )
    sections = [make(report) for make in makers]
    sections.append(provenance(report, digest=digest))
    return tuple(section for section in sections if _has_content(section))


def _has_content(section: Section) -> bool:
    return any(
        (
            section.paragraphs,
            section.tables,
            section.figures,
            section.galleries,
            section.details,
            section.code,
        )
    )


def _interval(value: Interval | None, unit: str) -> Cell:
    if value is None:
        return cell("none")
    return cell(interval(value.value, value.low, value.high, unit), value.value)


def _joined(items: Iterable[str]) -> str:
    return ", ".join(visible(item) for item in items) or "none"


def _findings(report: AuditReport) -> Section:
    if not report.findings:
        return Section("findings", "Findings", ("No attack produced a figure.",))
    ordered = sorted_findings(report)
    # All metrics of an attack that a verdict rests on stand with it.
    judged = {(f.attack, f.coalition, f.setting) for f in ordered if f.headline}
    first = [f for f in ordered if (f.attack, f.coalition, f.setting) in judged]
    others = [f for f in ordered if (f.attack, f.coalition, f.setting) not in judged]
    folded: tuple[Table, ...] = ()
    if others:
        folded = (
            _results(others, "descriptive-results", "Results of the other figures"),
            _conditions(others, "descriptive-conditions", "Conditions of the other figures"),
        )
    return Section(
        "findings",
        "Findings",
        paragraphs=(
            "Every figure stands beside a baseline, which guesses from public knowledge alone, "
            "and, where there is one, a control, which runs the same attack on messages exchanged "
            "among their senders and must do no better than chance. A target on which an attack "
            "failed is counted as failed and never dropped. "
            f"{integer(report.simultaneous_tests)} tests were made together; the joint confidence "
            f"is {level(report.confidence)}. Figures that no verdict rests on (other metrics, "
            "sweeps, undefended references) carry their own interval, uncorrected"
            + (f"; {integer(len(others))} of them are folded below." if others else "."),
        ),
        tables=(
            _results(
                first or others,
                "findings-results",
                "Results: value [low, high], beside baseline and control",
            ),
            _conditions(
                first or others,
                "findings-conditions",
                "Conditions: who attacked, with what, and how the interval was made",
            ),
        ),
        details=folded if first else (),
    )


def _results(findings: Iterable[Finding], table_id: str, caption: str) -> Table:
    rows = tuple(
        (
            cell(visible(f.id), code=True),
            cell(f.verdict, mark=f.verdict),
            cell(f.risk),
            cell(visible(f.full_title)),
            cell(f"{visible(f.coalition_label)} ({f.coalition_size})", f.coalition_size),
            cell(visible(f.metric)),
            _interval(f.estimate, f.unit),
            _interval(f.baseline, f.unit),
            _interval(f.control, f.unit),
            cell(f"{integer(f.n)} ({integer(f.failed)})", f.n),
        )
        for f in findings
    )
    names = "Finding,Verdict,Risk,Attack,Coalition (size),Metric,#Value,#Baseline,#Control"
    return Table(table_id, caption, column((*names.split(","), "#n (failed)")), rows)


def _conditions(findings: Iterable[Finding], table_id: str, caption: str) -> Table:
    rows = tuple(
        (
            cell(visible(f.id), code=True),
            cell(f"{visible(f.attack)} {visible(f.attack_version)}"),
            cell(_joined(f.coalition)),
            cell(_joined(f.capabilities)),
            cell(visible(f.setting)),
            cell(visible(f.method)),
            cell(level(f.confidence), f.confidence),
            cell("higher" if f.higher_is_leakier else "lower"),
            cell(duration(f.seconds), f.seconds),
            cell(visible(f.note)),
        )
        for f in findings
    )
    names = "Finding,Attack and version,Coalition,Capabilities,Setting,Interval by,#Confidence"
    last = ("Leakier if", "#Time", "Recording")
    return condensed(
        Table(table_id, caption, column((*names.split(","), *last)), rows),
        constant=("Confidence", "Leakier if", "Setting", "Capabilities"),
    )


def _exposure(report: AuditReport) -> Section:
    rows = tuple(
        (
            cell(visible(row.coalition_label)),
            cell(integer(row.size), row.size),
            cell(integer(row.targets), row.targets),
            cell(percent(row.exact_fraction), row.exact_fraction),
            cell(percent(row.worst_exact_fraction), row.worst_exact_fraction),
            cell(percent(row.exact_verified), row.exact_verified),
            cell(percent(row.noised_fraction), row.noised_fraction),
            cell(percent(row.attributed_verified), row.attributed_verified),
            cell(integer(row.unplaced_values), row.unplaced_values),
            cell(
                f"{integer(row.anonymity_minimum)} / {short_integer(row.anonymity_median)}",
                row.anonymity_minimum,
            ),
            cell(visible(row.note)),
        )
        for row in report.exposure
    )
    if not rows:
        return Section("exposure", "Exposure")
    table = Table(
        "exposure-table",
        "Share of a user's update that a coalition comes to know",
        column(
            (
                "Coalition",
                "#Size",
                "#Targets",
                "#Exact",
                "#Exact, worst user",
                "#Exact and verified",
                "#Noised",
                "#Attributed and verified",
                "#Values without a place",
                "#Anonymity set (min / median)",
                "Note",
            )
        ),
        rows,
    )
    text = (
        "Shares are of the update's coordinates, averaged over the targets. Exact: the value is "
        "known without noise at its place. Noised: the value is known with the protocol's noise. "
        "Verified: the share of the claimed values that the truth confirms. The anonymity set is "
        "the number of users among whom a noised value cannot be told apart."
    )
    return Section("exposure", "Exposure by coalition", (text,), (condensed(table, constant=()),))


def _budgets(report: AuditReport) -> Section:
    def row_of(row: BudgetRow) -> tuple[Cell, ...]:
        return (
            cell(visible(row.quantity)),
            cell(integer(row.cluster_size), row.cluster_size),
            cell(integer(row.honest_users), row.honest_users),
            cell(integer(row.clusters), row.clusters),
            cell(integer(row.rounds), row.rounds),
            cell(setting(row.epsilon0), row.epsilon0),
            cell(setting(row.delta), row.delta),
            cell(integer(row.dimension), row.dimension),
            cell(number(row.lower, toward="below"), row.lower),
            cell(number(row.upper, toward="above"), row.upper),
            cell(visible(row.theorem)),
            cell(visible(row.status)),
            cell("yes") if row.domain_ok else cell("no, outside", mark="outside"),
            cell(visible(row.note)),
        )

    if not report.budgets:
        return Section("budget", "Privacy budget")
    ordered = sorted(
        report.budgets,
        key=lambda row: (row.cluster_size, _ROLES.index(row.role), row.rounds),
    )
    names = (
        "Quantity",
        "#Cluster size",
        "#Honest users",
        "#Clusters",
        "#Rounds",
        "#ε₀",
        "#δ",
        "#Dimension",
        "#ε at least",
        "#ε at most",
        "Theorem",
        "Status",
        "In its domain",
        "Note",
    )
    text = (
        "Lower and upper bounds on ε at the given δ, for one user's contribution. A row outside "
        "the domain of its theorem is printed to compare with the claim and proves nothing. An "
        "empirical lower bound below a proven upper bound is no proof of tightness; one above it "
        "would be an error."
    )
    table = Table(
        "budget-table",
        "Budget by cluster size: the auditor's bracket beside the paper's own statement",
        column(names),
        tuple(row_of(row) for row in ordered),
    )
    slim = condensed(table, constant=("ε₀", "δ", "Dimension", "Clusters"))
    return Section("budget", "Privacy budget by cluster size", (text,), (slim,))


def _measured_tables(report: AuditReport) -> Section:
    tables = tuple(
        Table(
            f"measured-{index}",
            visible(f"{table.title}. {table.caption}"),
            column(visible(name) for name in table.columns),
            tuple(tuple(_measured_cell(value) for value in row) for row in table.rows),
        )
        for index, table in enumerate(report.tables, start=1)
    )
    return Section("measured", "Further measurements", tables=tables)


def _measured_cell(value: str | int | float | None) -> Cell:
    if isinstance(value, str):
        return cell(visible(value))
    if isinstance(value, int):
        return cell(integer(value), value)
    return cell(number(value), value)


def _uncovered(report: AuditReport) -> Section:
    rows = tuple(
        (
            cell(visible(release.what)),
            cell(_joined(release.observers)),
            cell(integer(release.values_per_user_and_round), release.values_per_user_and_round),
            cell(visible(release.consequence)),
        )
        for release in report.uncovered
    )
    names = ("Release", "Seen by", "#Values per user and round", "Consequence")
    caption = "What users release without differential privacy"
    tables = (Table("uncovered-table", caption, column(names), rows),) if rows else ()
    return Section("uncovered", "Releases that no budget covers", tables=tables)


def _figures(report: AuditReport) -> Section:
    return Section("figures", "Figures", figures=report.figures)


def _galleries(report: AuditReport) -> Section:
    withheld = (
        "Reconstructions are not shown, because the data are not public and a report is itself "
        "a release."
    )
    hidden = not report.galleries and not report.system.data_is_public
    paragraphs = (withheld,) if hidden else ()
    return Section("gallery", "Reconstructions", paragraphs, galleries=report.galleries)


def _utilities(report: AuditReport) -> Section:
    tables = tuple(
        _utility_table(f"utility-{index}", utility)
        for index, utility in enumerate(report.utilities, start=1)
    )
    return Section("utility", "Utility over rounds", tables=tables)


def _utility_table(table_id: str, utility: Utility) -> Table:
    points = sorted({x for series in utility.series for x in series.x})

    def value_at(series: Series, x: float) -> Cell:
        at = dict(zip(series.x, series.y, strict=True))
        return cell(number(at[x]), at[x]) if x in at else cell("–")

    rows = tuple(
        (cell(short_integer(x), x), *(value_at(series, x) for series in utility.series))
        for x in points
    )
    names = (f"#{visible(utility.x_label)}", *(f"#{visible(s.name)}" for s in utility.series))
    return Table(table_id, sentence(utility.quantity), column(names), rows)


def _claims(report: AuditReport) -> Section:
    rows = tuple(
        (
            cell(visible(claim.statement)),
            cell(visible(claim.source)),
            cell(claim.verdict, mark=claim.verdict),
            cell(visible(claim.evidence)),
        )
        for claim in report.claims
    )
    names = ("Statement", "Source", "Verdict", "Evidence")
    caption = "Statements of the paper, and what this audit found"
    tables = (Table("claims-table", caption, column(names), rows),) if rows else ()
    return Section("claims", "The paper's claims, with evidence", tables=tables)


def _not_run(report: AuditReport) -> Section:
    rows = tuple(
        (
            cell(visible(row.attack), code=True),
            cell(visible(row.who)),
            cell(row.status, mark=row.status),
            cell(visible(row.reason)),
            cell(integer(row.cells) if report.cells else "", row.cells),
        )
        for row in report.not_run
    )
    names = ("Attack", "Coalition", "Status", "Reason", "#Cells")
    caption = "Attacks that did not run, with the reason"
    table = condensed(Table("not-run-table", caption, column(names), rows), constant=())
    tables = (table,) if rows else ()
    return Section("not-run", "Attacks that did not run", tables=tables)
