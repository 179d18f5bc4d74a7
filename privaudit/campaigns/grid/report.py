"""The report of a campaign: every cell's figures, with the selection of the best corrected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from privaudit.campaigns.assembly import tool_facts
from privaudit.campaigns.cells import Measurement, ScoreTriple
from privaudit.campaigns.findings import finding_of
from privaudit.campaigns.grid.budgets import run_budgets
from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.grid.galleries import campaign_galleries
from privaudit.campaigns.grid.pictures import MOST_FIGURES, Measured, campaign_figures, leak
from privaudit.campaigns.grid.recorded import loaded, run_key
from privaudit.campaigns.grid.store import Row, Store
from privaudit.campaigns.grid.subjects import axis_name, label_of, subject_of
from privaudit.campaigns.grid.trust import trust_of
from privaudit.campaigns.measurements import measurement_from_json
from privaudit.campaigns.risks import risk_verdict, untested
from privaudit.reports.model import AuditReport, CellCounts, Finding, NotRun, SystemUnderTest
from privaudit.scoring.estimate import compare, verdict

__all__ = ["campaign_report"]

_RISKS = ("reconstruction", "inference", "linkability", "singling-out")


#: What symbols stand for, where a report names one first.
_MEANINGS: Final = MappingProxyType(
    {
        "parameters.epsilon0": "the budget of one noised value",
        "parameters.top_k_fraction": "the share of an update sent as important",
        "parameters.top_k": "values of an update sent as important",
        "federation.alpha": "the lower, the more users differ",
    }
)


def campaign_report(campaign: Campaign, folder: Path) -> AuditReport:
    """Return the report of what a campaign's folder holds.

    The headline figures are the leakiest cell of each attack by each coalition on each protocol,
    among those that breach a risk where some do. They are the best of many, so that their
    intervals are corrected for the number of all cells that were measured, not only for the number
    of headlines (Bonferroni).
    """
    with Store(folder, readonly=True) as store:
        rows = store.rows()
    measured = [
        (row, measurement_from_json({**row.result, "seconds": row.seconds or 0.0}))
        for row in rows
        if row.status == "measured" and row.result is not None
    ]
    tests = max(1, len(measured))
    heads = _headlines(measured, _corrected(campaign, tests))
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
    runs = {run_key(row.specification.run): row.specification.run for row in rows}
    budgets = run_budgets(list(runs.values()), folder / "runs", delta=campaign.delta)
    grid = tuple(campaign.grid)
    figures = [*budgets.figures, *campaign_figures(grid, measured)]
    counts = _counts(rows, len(runs))
    missing = counts.failed + counts.pending
    return AuditReport(
        title=f"Leakage report, campaign: {campaign.name}",
        tool=tool_facts("CPU, one thread a process"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=campaign.seed,
        complete=not missing,
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
        trust_assumptions=trust_of(str(run["protocol"]) for run in runs.values()),
        not_tested=("What the campaign does not name: other attacks, coalitions, and settings.",),
        recommendations=("Audit the settings of the worst cells by themselves: privaudit audit.",),
        limitations=(
            "An attack that fails here shows that this attack failed, not that the data are safe.",
            f"Each headline is chosen: the leakiest of the cells of its attack, coalition and "
            f"protocol (of those that breach, where some do), {tests} cells in all. Its interval "
            f"holds together with those of all {tests} (Bonferroni), so that its ends bear the "
            "choice; its value does not, and is on average too high. A run of the chosen setting "
            "with another seed shows by how much.",
            "Figures and folded tables are descriptive: their intervals are each by itself.",
            *(f"Budget: {flag}" for flag in budgets.flags),
        ),
        warnings=tuple(_warnings(rows, missing, len(figures))),
        confidence=campaign.confidence,
        simultaneous_tests=tests,
        reproduce=("privaudit run campaign.toml -o FOLDER",),
        digests={f"run {key[:12]}": key for key in sorted(runs)},
        seconds={"cells": sum(row.seconds or 0.0 for row in rows)},
        budget_statements=budgets.words
        or (
            "No run of this campaign has a budget that is accounted for here; the audits of the "
            "protocols and privaudit epsilon tell more.",
        ),
        claim_result="",
        cells=counts,
    )


def _counts(rows: Sequence[Row], runs: int) -> CellCounts:
    states = Counter(row.status for row in rows)
    return CellCounts(
        runs=runs,
        measured=states["measured"],
        not_applicable=states["not-applicable"],
        failed=states["failed"],
        pending=states["pending"],
    )


def _corrected(campaign: Campaign, tests: int) -> float:
    """Return the confidence of each interval so that all hold together."""
    return 1 - (1 - campaign.confidence) / tests


def _finding(
    campaign: Campaign, row: Row, m: Measurement, triple: ScoreTriple, *, tests: int, among: int
) -> Finding:
    """Return the finding on a metric of a cell; a headline is the leakiest ``among`` some."""
    confidence = _corrected(campaign, tests) if among else campaign.confidence
    found = finding_of(
        subject_of(row, grid=tuple(campaign.grid), among=among),
        m,
        triple,
        confidence,
        headline=among > 0,
    )
    # Hundreds of cells by dozens of targets: those that no verdict rests on stay in the results.
    return found if among else found.model_copy(update={"per_target": {}, "parameters": {}})


def _warnings(rows: Sequence[Row], missing: int, figures: int) -> Iterator[str]:
    if missing:
        yield (
            f"{missing} of {len(rows)} cells failed or are missing: privaudit results FOLDER "
            "--where status=failed"
        )
    notes = Counter(row.note for row in rows if row.note)
    for note, count in notes.items():
        cells = "1 cell was" if count == 1 else f"{count} cells were"
        yield f"{cells} measured on recordings of which this is to be known: {note}."
    if figures > MOST_FIGURES:
        yield (
            f"{figures - MOST_FIGURES} of {figures} figures are left out; privaudit results "
            "FOLDER --csv exports everything"
        )


def _group(row: Row) -> tuple[str, str, str]:
    spec = row.specification
    return spec.run["protocol"], spec.attack, label_of(row)


def _headlines(measured: Sequence[Measured], confidence: float) -> dict[str, int]:
    """Return the leakiest cell of each protocol, attack and coalition, and of how many it is.

    Cells that breach at the corrected ``confidence`` come first: all intervals hold together, so
    that a breach is one whether or not another cell's value, known less exactly, is higher.
    """
    groups: dict[tuple[str, str, str], list[tuple[bool, float, str]]] = {}
    for row, m in measured:
        if m.triples:
            t = m.triples[0]
            figure = compare(
                t.attack, baseline=t.baseline, control=t.control, confidence=confidence
            )
            place = (verdict(figure) == "breached", leak(t), row.key)
            groups.setdefault(_group(row), []).append(place)
    # Of cells that leak alike the first.
    return {max(cells, key=lambda c: c[:2])[2]: len(cells) for cells in groups.values()}


def _not_run(rows: Sequence[Row]) -> tuple[NotRun, ...]:
    alike: Counter[tuple[str, str, str, str, str]] = Counter()
    for row in rows:
        if row.status == "measured":
            continue
        spec = row.specification
        status = "failed" if row.status in ("failed", "pending") else "not-applicable"
        reason = row.reason or "it was not measured yet"
        alike[spec.attack, label_of(row), spec.run["protocol"], status, reason] += 1
    return tuple(
        NotRun.model_validate(
            {
                "attack": attack,
                "coalition_label": who,
                "status": status,
                "reason": reason,
                "cells": count,
                "protocol": protocol,
            }
        )
        for (attack, who, protocol, status, reason), count in alike.items()
    )


def _explained(axis: str) -> str:
    """Return an axis in words, a symbol with what it stands for."""
    meaning = _MEANINGS.get(axis)
    return f"{axis_name(axis)}, {meaning}" if meaning else axis_name(axis)


def _system(
    campaign: Campaign, rows: Sequence[Row], runs: Mapping[str, Mapping[str, Any]]
) -> SystemUnderTest:
    protocols = sorted({str(run["protocol"]) for run in runs.values()})
    datasets = sorted({str(run["federation"]["dataset"]) for run in runs.values()})
    users = max((int(run["federation"].get("users") or 0) for run in runs.values()), default=0)
    axes = ", ".join(
        f"{_explained(k)} ({len(v)} value{'' if len(v) == 1 else 's'})"
        for k, v in campaign.grid.items()
    )
    return SystemUnderTest(
        protocol=", ".join(f"{p} {loaded('protocol', p).version}" for p in protocols),
        protocol_version="",
        claim_under_test="",
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
            f"A grid of {len(rows)} cells. A cell is one measurement: one attack by one coalition "
            f"(parties that pool what they see) on one of {len(runs)} runs of "
            f"{', '.join(protocols)} on {', '.join(datasets)}. What varies besides attack and "
            f"coalition: {axes or 'nothing'}."
        ),
    )
