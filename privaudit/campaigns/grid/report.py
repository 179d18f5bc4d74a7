"""The report of a campaign: every cell's figures, with the selection of the best corrected."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from privaudit import plugins
from privaudit.campaigns.assembly import tool_facts
from privaudit.campaigns.cells import Measurement, ScoreTriple
from privaudit.campaigns.findings import interval
from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.grid.recorded import run_key
from privaudit.campaigns.grid.store import Row, Store
from privaudit.campaigns.measurements import measurement_from_json
from privaudit.campaigns.risks import risk_verdict, untested
from privaudit.configuration import constructed
from privaudit.reports.figures import psnr_by_k
from privaudit.reports.heatmap import heat_map
from privaudit.reports.model import AuditReport, Figure, Finding, Interval, NotRun, SystemUnderTest
from privaudit.scoring.estimate import compare, verdict

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
    corrected = 1 - (1 - campaign.confidence) / tests
    heads = _headlines(measured)
    findings = [
        _finding(row, m, triple, corrected if head else campaign.confidence, headline=head)
        for row, m in measured
        for position, triple in enumerate(m.triples)
        for head in (position == 0 and row.key in heads,)
    ]
    verdicts = tuple(
        risk_verdict(risk, findings, words={})
        if any(f.risk == risk for f in findings)
        else untested(risk, "No attack of this campaign asks this.")
        for risk in _RISKS
    )
    failed = [row for row in rows if row.status in ("failed", "pending")]
    return AuditReport(
        title=f"Leakage report: campaign {campaign.name}",
        tool=tool_facts("CPU, one thread a process"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=campaign.seed,
        complete=not failed,
        system=_system(campaign, rows),
        verdicts=verdicts,
        findings=tuple(findings),
        not_run=_not_run(rows),
        exposure=(),
        budgets=(),
        uncovered=(),
        claims=(),
        utilities=(),
        figures=tuple(_heat_maps(campaign, measured)),
        galleries=(),
        trust_assumptions=(
            "Those of each protocol; the pages on the protocols list them.",
            "All parties follow the protocol; none alters its messages.",
        ),
        not_tested=("What the campaign does not name: other attacks, coalitions, and settings.",),
        recommendations=("Audit the settings of the worst cells by themselves: privaudit audit.",),
        limitations=(
            "An attack that fails here shows that this attack failed, not that the data are safe.",
            "Each headline is the leakiest of the cells of its attack, coalition and protocol; its "
            f"interval is corrected for all {tests} cells that were measured.",
        ),
        warnings=tuple(
            f"{len(failed)} of {len(rows)} cells failed or are missing: privaudit results FOLDER "
            "--where status=failed"
            for _ in range(bool(failed))
        ),
        confidence=campaign.confidence,
        simultaneous_tests=tests,
        reproduce=("privaudit run campaign.toml -o FOLDER",),
        digests={
            f"run {key[:12]}": key for key in sorted({run_key(r.specification.run) for r in rows})
        },
        seconds={"cells": sum(row.seconds or 0.0 for row in rows)},
        budget_statements=(
            "A campaign measures attacks; budgets are in the audits of each protocol and in "
            "privaudit epsilon.",
        ),
        claim_result="",
    )


def _group(row: Row) -> tuple[str, str, str]:
    spec = row.specification
    return spec.run["protocol"], spec.attack, spec.coalition or spec.threat_model


def _leak(triple: ScoreTriple) -> float:
    values = compare(triple.attack, baseline=triple.baseline, control=None, confidence=0.95)
    assert values.baseline is not None
    sign = 1.0 if values.higher_is_leakier else -1.0
    return sign * (values.value - values.baseline.value)


def _headlines(measured: Sequence[tuple[Row, Measurement]]) -> set[str]:
    """Return the keys of the leakiest cell of each protocol, attack and coalition."""
    best: dict[tuple[str, str, str], tuple[float, str]] = {}
    for row, m in measured:
        if m.triples:
            leak = _leak(m.triples[0])
            if _group(row) not in best or leak > best[_group(row)][0]:
                best[_group(row)] = leak, row.key
    return {key for _, key in best.values()}


def _setting(row: Row) -> str:
    run = row.specification.run
    parts = [
        f"{key} = {value}"
        for section in ("parameters", "federation")
        for key, value in run[section].items()
        if value is not None
    ]
    return ", ".join((str(run["protocol"]), f"seed {run['seed']}", *parts))


def _finding(
    row: Row, m: Measurement, triple: ScoreTriple, confidence: float, *, headline: bool
) -> Finding:
    spec = row.specification
    attack: Any = plugins.load("attack", spec.attack)
    figure = compare(
        triple.attack, baseline=triple.baseline, control=triple.control, confidence=confidence
    )
    assert figure.baseline is not None
    per_target = dict(triple.attack.per_target)
    finite = {t: v for t, v in per_target.items() if v == v}
    pick = max if figure.higher_is_leakier else min
    worst = pick(finite, key=lambda t: finite[t]) if finite else next(iter(per_target))
    who = spec.coalition or spec.threat_model
    judged = verdict(figure)
    assert judged != "not tested"
    summary = (attack.__doc__ or "").strip().splitlines()[0]
    return Finding(
        id=hashlib.sha256(f"{row.key}:{triple.name}".encode()).hexdigest()[:12],
        risk=attack.risk,
        title=f"{spec.attack} on {spec.run['protocol']}",
        summary=summary,
        attack=spec.attack,
        attack_version=attack.version,
        coalition=tuple(p.strip() for p in who.split("+")),
        coalition_label=who,
        coalition_size=_size(who),
        capabilities=tuple(sorted(attack.requires)),
        setting=_setting(row),
        metric=triple.name,
        estimate=interval(figure),
        baseline=interval(figure.baseline),
        control=None if figure.control is None else interval(figure.control),
        confidence=confidence,
        n=figure.n,
        failed=figure.failed,
        method=figure.method,
        verdict=judged,
        headline=headline,
        worst_target=worst,
        worst_value=per_target[worst],
        per_target=per_target,
        parameters={
            k: v if isinstance(v, bool | int | float | str) else str(v)
            for k, v in _options(attack, spec.options).items()
        },
        seconds=m.seconds,
        unit=triple.unit,
        higher_is_leakier=figure.higher_is_leakier,
    )


def _options(attack: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    from privaudit.campaigns.cells import attack_options

    return attack_options(constructed(attack, options, where="options"))


def _size(who: str) -> int:
    total = 0
    for part in who.split("+"):
        first = part.strip().split(" ")[0]
        total += int(first) if first.isdigit() else 1
    return total


def _not_run(rows: Sequence[Row]) -> tuple[NotRun, ...]:
    found = {}
    for row in rows:
        if row.status == "measured":
            continue
        spec = row.specification
        who = spec.coalition or spec.threat_model
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


def _system(campaign: Campaign, rows: Sequence[Row]) -> SystemUnderTest:
    runs = {run_key(row.specification.run): row.specification.run for row in rows}
    protocols = sorted({str(run["protocol"]) for run in runs.values()})
    datasets = sorted({str(run["federation"]["dataset"]) for run in runs.values()})
    users = max((int(run["federation"].get("users") or 0) for run in runs.values()), default=0)
    axes = ", ".join(f"{key} ({len(values)})" for key, values in campaign.grid.items()) or "none"
    return SystemUnderTest(
        protocol=" and ".join(protocols),
        protocol_version="; ".join(plugins.load("protocol", p).version for p in protocols),
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


def _heat_maps(campaign: Campaign, measured: Sequence[tuple[Row, Measurement]]) -> list[Figure]:
    """Return, for each protocol, attack and coalition, the first metric over two axes."""
    groups: dict[tuple[str, str, str], list[tuple[Row, Measurement]]] = {}
    for row, m in measured:
        if m.triples:
            groups.setdefault(_group(row), []).append((row, m))
    figures = []
    for number, (group, cells) in enumerate(groups.items(), start=1):
        axes = _two_axes(campaign, cells)
        if len(axes) == 2:
            figures.append(_heat_map(number, group, cells, axes))
        elif len(axes) == 1 and all(_is_number(_value(row, axes[0])) for row, _ in cells):
            figures.append(_curve(number, group, cells, axes[0]))
    return figures


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _curve(
    number: int, group: tuple[str, str, str], cells: Sequence[tuple[Row, Measurement]], axis: str
) -> Figure:
    """Draw the first metric along the one axis that varies, one line a seed."""
    seeds = sorted({int(row.specification.run["seed"]) for row, _ in cells})
    positions = sorted({float(_value(row, axis)) for row, _ in cells})
    series: dict[str, list[Interval]] = {}
    baselines = []
    for seed in seeds:
        found = {}
        for row, m in cells:
            if row.specification.run["seed"] == seed:
                t = m.triples[0]
                figure = compare(t.attack, baseline=t.baseline, control=None, confidence=0.95)
                assert figure.baseline is not None
                baselines.append(figure.baseline.value)
                found[float(_value(row, axis))] = interval(figure)
        if len(found) == len(positions):
            series[f"seed {seed}"] = [found[x] for x in positions]
    protocol, attack, who = group
    first = cells[0][1].triples[0]
    return psnr_by_k(
        positions,
        series,
        baseline=float(np.median(baselines)),
        id=f"curve-{number}",
        caption="Bars are 95 % intervals of each point by itself; the dashed line is guessing.",
        metric=f"{first.name}{f' ({first.unit})' if first.unit else ''}",
        x_label=axis,
        title=f"{attack} by {who} on {protocol}",
    )


def _value(row: Row, axis: str) -> Any:
    run = row.specification.run
    section, _, name = axis.partition(".")
    return run[section].get(name) if name else run[section]


def _two_axes(campaign: Campaign, cells: Sequence[tuple[Row, Measurement]]) -> list[str]:
    """Return the two axes, seeds aside, with the most values among some cells."""
    counts = {
        axis: len({repr(_value(row, axis)) for row, _ in cells})
        for axis in campaign.grid
        if axis not in ("protocol", "seed")
    }
    several = [axis for axis, n in counts.items() if n > 1]
    return sorted(several, key=lambda a: -counts[a])[:2]


def _heat_map(
    number: int,
    group: tuple[str, str, str],
    cells: Sequence[tuple[Row, Measurement]],
    axes: Sequence[str],
) -> Figure:
    columns, rows = (
        sorted({_value(row, axis) for row, _ in cells}, key=lambda v: (str(type(v)), v))
        for axis in axes
    )
    table: dict[tuple[Any, Any], list[float]] = {}
    for row, m in cells:
        t = m.triples[0]
        figure = compare(t.attack, baseline=t.baseline, control=None, confidence=0.95)
        table.setdefault((_value(row, axes[1]), _value(row, axes[0])), []).append(figure.value)
    protocol, attack, who = group
    first = cells[0][1].triples[0]
    return heat_map(
        [[_mean(table.get((r, c))) for c in columns] for r in rows],
        rows=[str(r) for r in rows],
        columns=[str(c) for c in columns],
        row_axis=axes[1],
        column_axis=axes[0],
        id=f"heat-map-{number}",
        title=f"{attack} by {who} on {protocol}",
        quantity=f"{first.name}{f' ({first.unit})' if first.unit else ''}",
    )


def _mean(values: Sequence[float] | None) -> float | None:
    return None if not values else sum(values) / len(values)
