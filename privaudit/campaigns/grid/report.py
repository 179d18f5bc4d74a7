"""The report of a campaign: every cell's figures, with the selection of the best corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privaudit.campaigns.assembly import tool_facts
from privaudit.campaigns.cells import Measurement, ScoreTriple
from privaudit.campaigns.findings import finding_of
from privaudit.campaigns.grid.budgets import budget_words, run_budgets
from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.grid.galleries import campaign_galleries
from privaudit.campaigns.grid.pictures import MOST_FIGURES, Measured, campaign_figures, leak
from privaudit.campaigns.grid.recorded import loaded, run_key
from privaudit.campaigns.grid.store import Row, Store
from privaudit.campaigns.grid.subjects import label_of, subject_of
from privaudit.campaigns.measurements import measurement_from_json
from privaudit.campaigns.risks import risk_verdict, untested
from privaudit.reports.model import AuditReport, Finding, NotRun, SystemUnderTest

__all__ = ["campaign_report"]

_RISKS = ("reconstruction", "inference", "linkability", "singling-out")


def campaign_report(campaign: Campaign, folder: Path) -> AuditReport:
    """Return the report of what a campaign's folder holds.

    The headline figures are the leakiest cell of each attack by each coalition on each protocol.
    They are the best of many, so that their intervals are corrected for the number of all cells
    that were measured, not only for the number of headlines (Bonferroni).
    """
    with Store(folder, readonly=True) as store:
        rows = store.rows()
    measured = [
        (row, measurement_from_json({**row.result, "seconds": row.seconds or 0.0}))
        for row in rows
        if row.status == "measured" and row.result is not None
    ]
    tests = max(1, len(measured))
    heads = _headlines(measured)
    findings = [
        _finding(campaign, row, m, triple, tests=tests, among=heads.get(row.key, 0) * (not place))
        for row, m in measured
        for place, triple in enumerate(m.triples)
    ]
    verdicts = tuple(
        risk_verdict(risk, findings, words={})
        if any(f.risk == risk for f in findings)
        else untested(risk, "No attack of this campaign asks this.")
        for risk in _RISKS
    )
    failed = [row for row in rows if row.status in ("failed", "pending")]
    runs = {run_key(row.specification.run): row.specification.run for row in rows}
    budgets = run_budgets(list(runs.values()), folder / "runs", delta=campaign.delta)
    grid = tuple(campaign.grid)
    figures = [*budgets.figures, *campaign_figures(grid, measured)]
    return AuditReport(
        title=f"Leakage report: campaign {campaign.name}",
        tool=tool_facts("CPU, one thread a process"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=campaign.seed,
        complete=not failed,
        system=_system(campaign, rows, runs),
        verdicts=verdicts,
        findings=tuple(findings),
        not_run=_not_run(rows),
        exposure=(),
        budgets=budgets.rows,
        uncovered=(),
        claims=(),
        utilities=(),
        figures=tuple(figures[:MOST_FIGURES]),
        galleries=tuple(campaign_galleries(grid, measured)),
        trust_assumptions=(
            "Those of each protocol; the pages on the protocols list them.",
            "All parties follow the protocol; none alters its messages.",
        ),
        not_tested=("What the campaign does not name: other attacks, coalitions, and settings.",),
        recommendations=("Audit the settings of the worst cells by themselves: privaudit audit.",),
        limitations=(
            "An attack that fails here shows that this attack failed, not that the data are safe.",
            f"Each headline is chosen: the leakiest of the cells of its attack, coalition and "
            f"protocol, {tests} cells in all. Its interval holds together with those of all "
            f"{tests} (Bonferroni), so that its ends bear the choice; its value does not, and is "
            "on average too high. A run of the chosen setting with another seed shows by how much.",
            "Figures and folded tables are descriptive: their intervals are each by itself.",
        ),
        warnings=tuple(_warnings(len(failed), len(rows), len(figures))),
        confidence=campaign.confidence,
        simultaneous_tests=tests,
        reproduce=("privaudit run campaign.toml -o FOLDER",),
        digests={f"run {key[:12]}": key for key in sorted(runs)},
        seconds={"cells": sum(row.seconds or 0.0 for row in rows)},
        budget_statements=budget_words(budgets.rows)
        or (
            "No run of this campaign has a budget that is accounted for here; the audits of the "
            "protocols and privaudit epsilon tell more.",
        ),
        claim_result="",
    )


def _finding(
    campaign: Campaign, row: Row, m: Measurement, triple: ScoreTriple, *, tests: int, among: int
) -> Finding:
    """Return the finding on a metric of a cell; a headline is the leakiest ``among`` some."""
    alone = campaign.confidence
    found = finding_of(
        subject_of(row, grid=tuple(campaign.grid), among=among),
        m,
        triple,
        1 - (1 - alone) / tests if among else alone,
        headline=among > 0,
    )
    # Hundreds of cells by dozens of targets: those that no verdict rests on stay in the results.
    return found if among else found.model_copy(update={"per_target": {}, "parameters": {}})


def _warnings(failed: int, cells: int, figures: int) -> Iterator[str]:
    if failed:
        yield (
            f"{failed} of {cells} cells failed or are missing: privaudit results FOLDER --where "
            "status=failed"
        )
    if figures > MOST_FIGURES:
        yield (
            f"{figures - MOST_FIGURES} of {figures} figures are left out; privaudit results "
            "FOLDER --csv exports everything"
        )


def _group(row: Row) -> tuple[str, str, str]:
    spec = row.specification
    return spec.run["protocol"], spec.attack, label_of(row)


def _headlines(measured: Sequence[Measured]) -> dict[str, int]:
    """Return the leakiest cell of each protocol, attack and coalition, and of how many it is."""
    groups: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    for row, m in measured:
        if m.triples:
            groups.setdefault(_group(row), []).append((leak(m.triples[0]), row.key))
    # Of cells that leak alike the first.
    return {max(cells, key=lambda c: c[0])[1]: len(cells) for cells in groups.values()}


def _not_run(rows: Sequence[Row]) -> tuple[NotRun, ...]:
    found = {}
    for row in rows:
        if row.status == "measured":
            continue
        spec = row.specification
        who = label_of(row)
        status = "failed" if row.status in ("failed", "pending") else "not-applicable"
        reason = row.reason or "it was not measured yet"
        found[spec.attack, who, reason] = NotRun.model_validate(
            {
                "attack": spec.attack,
                "coalition_label": f"{who}, on {spec.run['protocol']}",
                "status": status,
                "reason": reason,
            }
        )
    return tuple(found.values())


def _system(
    campaign: Campaign, rows: Sequence[Row], runs: Mapping[str, Mapping[str, Any]]
) -> SystemUnderTest:
    protocols = sorted({str(run["protocol"]) for run in runs.values()})
    datasets = sorted({str(run["federation"]["dataset"]) for run in runs.values()})
    users = max((int(run["federation"].get("users") or 0) for run in runs.values()), default=0)
    axes = ", ".join(f"{key} ({len(values)})" for key, values in campaign.grid.items()) or "none"
    return SystemUnderTest(
        protocol=", ".join(f"{p} {loaded('protocol', p).version}" for p in protocols),
        protocol_version="",
        claim_under_test="Those of the protocols; a campaign compares how much they leak.",
        privacy_unit="as each protocol states it",
        dataset=", ".join(datasets),
        data_is_public=not any(d.endswith((".npz", ".csv", ".parquet", ".gz")) for d in datasets),
        users=users,
        rounds=0,
        model="",
        dimension=0,
        parameters=campaign.model_dump(mode="json"),
        actors={},
        deployment_model="Federated",
        outcome=f"{sum(r.status == 'measured' for r in rows)} of {len(rows)} cells measured",
        run_sentence=(
            f"A campaign of {len(rows)} cells on {len(runs)} runs of {' and '.join(protocols)} "
            f"({', '.join(datasets)}); axes of the grid: {axes}."
        ),
    )
