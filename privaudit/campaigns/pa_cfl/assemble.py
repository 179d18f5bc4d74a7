"""The report of an audit of PA-CFL, from what was simulated and measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from privaudit.accounting import budget, what_if_rows
from privaudit.campaigns.assembly import (
    as_row,
    fitted_parameters,
    run_warnings,
    series_of,
    tool_facts,
    uncovered_rows,
)
from privaudit.campaigns.findings import findings_of, not_run_of, simultaneous_confidence
from privaudit.campaigns.galleries import galleries_of
from privaudit.campaigns.pa_cfl.audit import AuditResult
from privaudit.campaigns.pa_cfl.claims import claims_of
from privaudit.campaigns.pa_cfl.config import default_parameters
from privaudit.campaigns.pa_cfl.empirical import crossings, empirical_rows
from privaudit.campaigns.pa_cfl.pictures import exposure_figures, row_label, sweep_figures
from privaudit.campaigns.pa_cfl.verdicts import IN_WORDS, MEDIAN, claim_result, verdicts_of
from privaudit.campaigns.pa_cfl.wording import (
    ACTORS,
    CLAIM,
    LIMITATIONS,
    NOT_TESTED,
    TRUST,
    UNIT,
    recommendations,
)
from privaudit.ledger import LaplaceVector
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig
from privaudit.reports.figures import epsilon_by_cluster_size, lines
from privaudit.reports.model import (
    AuditReport,
    BudgetRow,
    Figure,
    Gallery,
    Series,
    SystemUnderTest,
    Utility,
)

__all__ = ["assemble"]


def assemble(result: AuditResult, *, command: str, device: str) -> AuditReport:
    """Return the report of an audit.

    Parameters
    ----------
    command : str
        Command line that repeats the audit.
    device : str
        On what the attacks ran.
    """
    config = result.config
    described = result.results
    _, tests = simultaneous_confidence(described, confidence=config.confidence)
    findings = findings_of(described, confidence=config.confidence)
    events = PACFL().events(result.main.transcript)
    spent = budget(events, delta=config.delta)
    fixed = all(
        event.mechanism.clip_source == "fixed"
        for event in events
        if isinstance(event.mechanism, LaplaceVector)
    )
    budgets = tuple(as_row(BudgetRow, row) for row in spent.rows)
    what_if = tuple(as_row(BudgetRow, row) for row in what_if_rows(events, delta=config.delta))
    shown = empirical_rows(budgets, seed=config.seed, confidence=config.confidence)
    utilities = _utilities(result)
    exposures = [e.row for e in result.exposures]
    verdicts = tuple(verdicts_of(findings, result.exposures))
    figures: list[Figure] = [
        lines(
            utilities[0],
            id="accuracy",
            caption="Mean over the users of the accuracy on each user's own test set. A line that "
            "ends early is a run that diverged.",
            limits=(0.0, 1.0),
        )
    ]
    figures += sweep_figures(described, findings)
    if any(row.role == "bracket" for row in budgets):
        figures.append(epsilon_by_cluster_size(budgets, rounds=1))
    figures += exposure_figures(exposures)
    return AuditReport(
        title=f"Leakage report: PA-CFL on {config.federation.dataset}",
        tool=tool_facts(device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=config.seed,
        complete=all(m.status != "failed" for _, m in described),
        system=_system(result),
        verdicts=verdicts,
        claim_result=claim_result(verdicts, budgets, findings=findings, fixed_threshold=fixed),
        coalition_words=dict(IN_WORDS),
        budget_condition=(
            "" if fixed else f"These bounds hold only for a threshold fixed in advance. {MEDIAN}"
        ),
        findings=tuple(findings),
        not_run=tuple(not_run_of(described) + result.not_run),
        exposure=tuple(exposures),
        budgets=(*budgets, *shown, *what_if),
        uncovered=uncovered_rows(
            spent.uncovered,
            parties=result.main.transcript.ids("user"),
            word="every user",
        ),
        claims=tuple(
            claims_of(
                findings=findings,
                exposures=result.exposures,
                budgets=budgets,
                outcomes=result.outcomes,
                partitions=result.partitions,
                epsilon0=config.protocol().epsilon0,
                dataset=config.federation.dataset,
            )
        ),
        utilities=utilities,
        figures=tuple(figures),
        galleries=_galleries(result),
        tables=() if result.figure is None else (result.figure.table,),
        trust_assumptions=TRUST,
        not_tested=NOT_TESTED,
        recommendations=tuple(recommendations(findings, result.exposures, budgets)),
        limitations=(
            *LIMITATIONS,
            *fitted_parameters(
                default_parameters(config.federation.dataset),
                config.parameters,
                PACFLConfig,
                config.federation.dataset,
            ),
        ),
        warnings=(*crossings(budgets, shown), *run_warnings(result.outcomes), *spent.flags),
        confidence=config.confidence,
        simultaneous_tests=tests,
        reproduce=(command,),
        digests={name: run.digest for name, run in result.runs.items()},
        seconds=result.seconds,
    )


def _galleries(result: AuditResult) -> tuple[Gallery, ...]:
    """Return what attacks made of records; nothing of records that are not public."""
    if not result.config.public:
        return ()
    first = () if result.figure is None else (result.figure.gallery,)
    return (*first, *galleries_of(result.results, row_label=row_label))


def _system(result: AuditResult) -> SystemUnderTest:
    config, main = result.config, result.main
    model: Any = main.transcript.public["model"]
    rounds = int(main.outcome.get("rounds", 0))
    status = main.outcome.get("status", "incomplete")
    outcome = (
        f"completed {rounds} rounds" if status == "completed" else str(main.outcome.get("reason"))
    )
    known = config.federation.dataset
    return SystemUnderTest(
        protocol="pa-cfl",
        protocol_version=PACFL.version,
        claim_under_test=CLAIM,
        privacy_unit=UNIT,
        dataset=known,
        data_is_public=config.public,
        users=len(main.transcript.ids("user")),
        rounds=rounds,
        model=str(model["name"]),
        dimension=int(model["dimension"]),
        parameters={
            **config.protocol().model_dump(mode="json"),
            "federation": config.federation.model_dump(mode="json"),
        },
        actors=dict(ACTORS),
        deployment_model="Shuffle",
        outcome=outcome,
    )


def _utilities(result: AuditResult) -> tuple[Utility, ...]:
    series = [
        series_of(name, outcome, "accuracy")
        for name, outcome in result.outcomes.items()
        if outcome.get("metrics")
    ]
    utilities = [Utility(quantity="accuracy", x_label="round", series=tuple(series))]
    clustered = [
        series_of(f"{name}, {label}", outcome, key)
        for name, outcome in result.outcomes.items()
        for key, label in (("pre_ari", "pre-clusters"), ("final_ari", "fine clusters"))
        if outcome.get("metrics") and key in outcome["metrics"][0]["values"]
    ]
    if clustered:
        utilities.append(
            Utility(
                quantity="adjusted Rand index against the known groups",
                x_label="round",
                series=tuple(clustered),
            )
        )
    if result.partitions:
        utilities.append(
            Utility(
                quantity="adjusted Rand index of round 1 by similarity",
                x_label="round",
                series=tuple(
                    Series(name=name, x=(1.0,), y=(value,))
                    for name, value in result.partitions.items()
                ),
            )
        )
    return tuple(utilities)
