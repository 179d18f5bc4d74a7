"""The report of an audit of PQ-MDS, from what was simulated and measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from privaudit.accounting import budget
from privaudit.campaigns.assembly import run_warnings, tool_facts, uncovered_rows
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.findings import findings_of, not_run_of, simultaneous_confidence
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.pq_mds import tables
from privaudit.campaigns.pq_mds.audit import AuditResult
from privaudit.campaigns.pq_mds.budgets import budget_rows, budget_statements, reference_table
from privaudit.campaigns.pq_mds.config import AuditConfig
from privaudit.campaigns.pq_mds.examples import examples_table, pictures
from privaudit.campaigns.pq_mds.verdicts import claim_result, claims_of, metrics_of, verdicts_of
from privaudit.campaigns.pq_mds.wording import (
    ACTORS,
    CLAIM,
    LIMITATIONS,
    NOT_TESTED,
    TRUST,
    UNIT,
    WORDS,
    recommendations,
)
from privaudit.protocols.pq_mds import PQMDS, kinds
from privaudit.reports.model import AuditReport, NotRun, SystemUnderTest

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
    spent = budget(PQMDS().events(main.transcript), delta=config.delta)
    verdicts = verdicts_of(findings)
    outcomes = {name: run.outcome for name, run in result.runs.items()}
    clusters = main.transcript.public["configuration"]["clusters"]  # type: ignore[call-overload,index]
    return AuditReport(
        title=f"Leakage report: PQ-MDS on {_dataset(config)}",
        tool=tool_facts(device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=config.seed,
        complete=all(m.status != "failed" for _, m in described),
        system=_system(result),
        verdicts=verdicts,
        findings=tuple(findings),
        not_run=(*result.not_planned, *_not_run(described)),
        exposure=(),
        budgets=tuple(budget_rows(result)),
        uncovered=uncovered_rows(
            spent.uncovered,
            parties=main.transcript.ids(kinds.DATA_PARTY_ROLE),
            word="every party",
        ),
        claims=claims_of(
            findings,
            outcomes=outcomes,
            references=result.references,
            alone=tables.alone(main, clusters=int(clusters), seed=config.seed),  # type: ignore[arg-type]
            unique=tables.unique_share(main),
        ),
        utilities=(),
        figures=tuple(tables.tradeoff_figure(result, findings)),
        galleries=tuple(pictures(result)),
        trust_assumptions=TRUST,
        not_tested=NOT_TESTED,
        recommendations=tuple(recommendations(findings)),
        limitations=LIMITATIONS,
        warnings=tuple(run_warnings({"the audited run": main.outcome})),
        confidence=config.confidence,
        simultaneous_tests=tests,
        reproduce=(command,),
        digests={name: run.digest for name, run in result.runs.items()},
        seconds=result.seconds,
        budget_statements=budget_statements(result),
        claim_result=claim_result(verdicts, findings),
        coalition_words=dict(WORDS),
        tables=(
            tables.matrix(described, findings),
            tables.adversaries(),
            tables.settings_table(result, findings),
            tables.formal_leakage(result),
            *examples_table(result),
            reference_table(delta=config.delta),
        ),
    )


def _not_run(described: Sequence[tuple[Planned, Measurement]]) -> list[NotRun]:
    """Return the cells that gave no figure; threat models that lack the same share a row."""
    lacking: dict[tuple[str, str], list[str]] = {}
    others = []
    for item, measurement in described:
        cell = item.cell
        missing = sorted(cell.attack.requires - cell.coalition.capabilities)
        if measurement.status == "not-applicable" and missing:
            labels = lacking.setdefault((cell.attack.name, ", ".join(missing)), [])
            if cell.label not in labels:
                labels.append(cell.label)
        else:
            others.append((item, measurement))
    rows = [
        NotRun(
            attack=attack,
            coalition_label="; ".join(labels),
            status="not-applicable",
            reason=f"the attack needs {missing}, which this threat model does not grant",
        )
        for (attack, missing), labels in lacking.items()
    ]
    return [*rows, *not_run_of(others)]


def _dataset(config: AuditConfig) -> str:
    """Return the data in words: a file's name, without its folder."""
    name = config.federation.dataset
    return name if config.public else Path(name).name


def _system(result: AuditResult) -> SystemUnderTest:
    config, main, data = result.config, result.runs["main"], result.data
    public = "public data" if config.public else "data that are not public"
    widths = [len(party.columns) for party in data.parties]
    rows = int(metrics_of(main.outcome).get("rows", len(data)))
    subspaces = main.transcript.public["subspaces"]
    held = ", ".join(map(str, widths[:-1])) + f" and {widths[-1]}"
    status = main.outcome.get("status", "incomplete")
    rounds = int(main.outcome.get("rounds", 0))
    clusters = config.protocol().clusters or data.classes or 10
    return SystemUnderTest(
        protocol="pq-mds",
        protocol_version=PQMDS.version,
        claim_under_test=CLAIM,
        privacy_unit=UNIT,
        dataset=_dataset(config),
        data_is_public=config.public,
        users=len(data.parties),
        rounds=rounds,
        model=f"k-means, {clusters} clusters",
        dimension=sum(widths),
        parameters={
            **config.protocol().model_dump(mode="json"),
            "federation": config.federation.model_dump(mode="json"),
            "known_rows": result.numbers.known,
            "persons": result.numbers.persons,
        },
        actors=dict(ACTORS),
        deployment_model="Federated",
        outcome=(
            f"completed {rounds} round{'' if rounds == 1 else 's'}"
            if status == "completed"
            else str(main.outcome.get("reason", status))
        ),
        run_sentence=(
            f"PQ-MDS ({PQMDS.version}) clustered {rows} rows of {_dataset(config)} ({public}) into "
            f"{clusters} clusters. {len(data.parties)} parties hold {held} of the {sum(widths)} "
            f"columns of every row, keep them, and upload {_listed(subspaces)} indices a row, each "
            f"one of at most {config.protocol().codewords} values. {len(data.auxiliary)} more rows "
            "are held by no party and stand for similar records that an adversary may have."
        ),
    )


def _listed(values: object) -> str:
    numbers = [str(v) for v in values] if isinstance(values, Sequence) else [str(values)]
    return numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
