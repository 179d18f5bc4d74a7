"""The report of an audit of DisUE, from what was simulated and measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from privaudit.accounting import budget
from privaudit.campaigns.assembly import (
    fitted_parameters,
    run_warnings,
    series_of,
    tool_facts,
    uncovered_rows,
)
from privaudit.campaigns.disue.audit import AuditResult
from privaudit.campaigns.disue.config import default_parameters
from privaudit.campaigns.disue.verdicts import (
    claim_result,
    claims_of,
    smallest_by_variant,
    verdicts_of,
)
from privaudit.campaigns.disue.wording import (
    ACTORS,
    CLAIM,
    LIMITATIONS,
    NOT_TESTED,
    TRUST,
    UNIT,
    WORDS,
    recommendations,
)
from privaudit.campaigns.findings import findings_of, not_run_of, simultaneous_confidence
from privaudit.campaigns.galleries import galleries_of
from privaudit.protocols.disue import DisUE
from privaudit.protocols.disue.config import DisUEConfig
from privaudit.reports.figures import lines
from privaudit.reports.model import (
    AuditReport,
    Finding,
    MeasuredTable,
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
    config, described, main = result.config, result.results, result.runs["main"]
    _, tests = simultaneous_confidence(described, confidence=config.confidence)
    findings = findings_of(described, confidence=config.confidence)
    spent = budget(DisUE().events(main.transcript), delta=1e-5)
    verdicts = verdicts_of(findings)
    accuracy = Utility(
        quantity="accuracy",
        x_label="round",
        series=tuple(
            series_of(name, outcome, "accuracy")
            for name, outcome in result.outcomes.items()
            if outcome.get("metrics")
        ),
    )
    return AuditReport(
        title=f"Leakage report: DisUE on {config.federation.dataset}",
        tool=tool_facts(device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=config.seed,
        complete=all(m.status != "failed" for _, m in described),
        system=_system(result),
        verdicts=verdicts,
        findings=tuple(findings),
        not_run=tuple(not_run_of(described)),
        exposure=(),
        budgets=(),
        uncovered=uncovered_rows(
            spent.uncovered, parties=main.transcript.ids("user"), word="every client"
        ),
        claims=claims_of(
            findings,
            run=main,
            relayed=result.runs.get("relay"),
            outcomes=result.outcomes,
            audited="DisUE",
            dataset=config.federation.dataset,
        ),
        utilities=(accuracy,),
        figures=(
            lines(
                accuracy,
                id="accuracy",
                caption="Mean over the clients of the accuracy on each client's own test set.",
                limits=(0.0, 1.0),
            ),
        ),
        galleries=tuple(galleries_of(described, row_label=lambda item: item.series)),
        trust_assumptions=TRUST,
        not_tested=NOT_TESTED,
        recommendations=tuple(recommendations(findings)),
        limitations=(
            *LIMITATIONS,
            *fitted_parameters(
                default_parameters(config.federation.dataset),
                config.parameters,
                DisUEConfig,
                config.federation.dataset,
            ),
        ),
        warnings=tuple(run_warnings(result.outcomes)),
        confidence=config.confidence,
        simultaneous_tests=tests,
        reproduce=(command,),
        digests={name: run.digest for name, run in result.runs.items()},
        seconds=result.seconds,
        budget_statements=(
            "DisUE claims no differential privacy, and no release of it is randomised: no privacy "
            "budget is finite. The releases of each round are listed below.",
        ),
        claim_result=claim_result(verdicts),
        coalition_words=dict(WORDS),
        tables=(_variants(findings), *_defences(findings), _releases(result)),
    )


def _variants(findings: Sequence[Finding]) -> MeasuredTable:
    return MeasuredTable(
        id="variants",
        title="Who reads clients' models",
        caption="The smallest coalition that recovers models exactly, by the way in which "
        "similarities are computed; with encryption the models themselves are aggregated securely.",
        columns=("Similarities", "Smallest coalition", "#Parties", "Evidence"),
        rows=tuple(smallest_by_variant(findings)),
    )


def _defences(findings: Sequence[Finding]) -> list[MeasuredTable]:
    rows = [
        (
            f.setting.rsplit(", ", 1)[1],
            f.estimate.value,
            f.estimate.low,
            f.estimate.high,
            f.baseline.value,
            f.n,
        )
        for f in findings
        if f.title.startswith("Linking when the server is told")
    ]
    if not rows:
        return []
    return [
        MeasuredTable(
            id="defences",
            title="Linking by what the server is told",
            caption="Share of pseudonymous clients recognised. None of these is a defence while "
            "the server can read models or ciphertexts.",
            columns=(
                "The server is told",
                "#Recognised",
                "#Interval from",
                "#Interval to",
                "#At random",
                "#Clients",
            ),
            rows=tuple(rows),
        )
    ]


def _releases(result: AuditResult) -> MeasuredTable:
    """Return what each round released, from the ledger."""
    rows = []
    for event in DisUE().events(result.runs["main"].transcript):
        mechanism: Any = event.mechanism
        clients = set(result.runs["main"].transcript.ids("user"))
        others = [o for o in event.observers if o not in clients]
        seen = ", ".join((*others, "clients") if clients & set(event.observers) else others)
        rows.append((event.round, mechanism.what, mechanism.dimension, len(event.subjects), seen))
    return MeasuredTable(
        id="releases",
        title="Releases of each round",
        caption="From the messages of the audited run; none has differential privacy.",
        columns=("#Round", "Release", "#Values", "#Clients", "Seen by"),
        rows=tuple(rows),
    )


def _system(result: AuditResult) -> SystemUnderTest:
    config, main = result.config, result.runs["main"]
    model: Any = main.transcript.public["model"]
    rounds = int(main.outcome.get("rounds", 0))
    status = main.outcome.get("status", "incomplete")
    known = config.federation.dataset
    return SystemUnderTest(
        protocol="disue",
        protocol_version=DisUE.version,
        claim_under_test=CLAIM,
        privacy_unit=UNIT,
        dataset=known,
        data_is_public=not known.endswith(".npz"),
        users=len(main.transcript.ids("user")),
        rounds=rounds,
        model=str(model["name"]),
        dimension=int(model["dimension"]),
        parameters={
            **config.protocol().model_dump(mode="json"),
            "federation": config.federation.model_dump(mode="json"),
        },
        actors=dict(ACTORS),
        deployment_model="Federated",
        outcome=(
            f"completed {rounds} rounds"
            if status == "completed"
            else str(main.outcome.get("reason", status))
        ),
    )
