"""Two reports side by side: what leaks more, what leaks less, and what cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from privaudit.reports._seeds import seeds_of
from privaudit.reports.model import AuditReport, BudgetRow, Finding
from privaudit.reports.policy import no_user_budget

__all__ = ["Change", "changed_settings", "compare_reports"]

Judgement = Literal["leaks more", "leaks less", "not told apart", "only before", "only after"]


@dataclass(frozen=True, slots=True)
class Change:
    """One figure in both reports, or in one of them.

    Attributes
    ----------
    what : str
        Attack, coalition and metric; a risk; or a budget.
    before, after : str
        The figures with their intervals, in words; empty where there is none.
    judgement : str
        ``"leaks more"`` and ``"leaks less"`` need intervals that do not overlap, or for a verdict
        a change between breached and not shown. All else is ``"not told apart"``.
    settings_differ : bool
        Whether the two were measured under other settings.
    """

    kind: Literal["verdict", "figure", "budget"]
    what: str
    before: str
    after: str
    judgement: Judgement
    settings_differ: bool = False


def compare_reports(before: AuditReport, after: AuditReport) -> tuple[Change, ...]:
    """Compare verdicts, headline figures and budgets of two reports.

    Headline figures are matched by attack, coalition, metric and title, in the order of the
    reports where several match. Their intervals are those of the reports, each of which holds
    together with its own; a difference is told only where they do not overlap.
    """
    return (
        *_verdicts(before, after),
        *_figures(before, after),
        *_budgets(before, after),
    )


def changed_settings(before: AuditReport, after: AuditReport) -> dict[str, tuple[Any, Any]]:
    """Return, by name, what was set otherwise in two reports: (before, after), ``None`` if absent.

    Protocol, data set, the parameters of the audited run, the seed, and the tool's version. Two
    seeds are two federations: intervals hold for the one that was measured, and do not say how
    much another would differ.
    """
    first, second = _settings(before), _settings(after)
    names = dict.fromkeys((*first, *second))
    return {
        name: (first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    }


def _settings(report: AuditReport) -> dict[str, Any]:
    system = report.system
    found: dict[str, Any] = {
        "protocol": system.protocol,
        "protocol version": system.protocol_version,
        "dataset": system.dataset,
        "seed": report.seed,
        "privaudit": report.tool.get("version"),
    }
    for name, value in system.parameters.items():
        inner = value if isinstance(value, Mapping) else {"": value}
        found |= {f"{name}.{key}".rstrip("."): entry for key, entry in inner.items()}
    # A campaign's own seed is that of a grid without seeds.
    seeds = seeds_of(report)
    found["seed"] = seeds[0] if len(seeds) == 1 else ", ".join(map(str, seeds))
    for name in ("federation.dataset", "grid.seed"):
        found.pop(name, None)
    return found


def _verdicts(before: AuditReport, after: AuditReport) -> Iterator[Change]:
    rank = {"not shown": 0, "breached": 1}
    first = {v.risk: v for v in before.verdicts}
    second = {v.risk: v for v in after.verdicts}
    for risk in dict.fromkeys((*first, *second)):
        a, b = first.get(risk), second.get(risk)
        judgement: Judgement = "not told apart"
        if a is None or b is None:
            judgement = "only after" if a is None else "only before"
        elif a.verdict in rank and b.verdict in rank and a.verdict != b.verdict:
            judgement = "leaks more" if rank[b.verdict] > rank[a.verdict] else "leaks less"
        elif a.verdict == b.verdict == "breached" and a.size != b.size:
            judgement = "leaks more" if b.size < a.size else "leaks less"
        yield Change("verdict", risk, _verdict(a), _verdict(b), judgement)


def _verdict(row: object) -> str:
    if row is None:
        return ""
    verdict, size = getattr(row, "verdict", ""), getattr(row, "size", 0)
    return f"{verdict} (coalition of {size})" if verdict == "breached" else str(verdict)


def _figures(before: AuditReport, after: AuditReport) -> Iterator[Change]:
    first, second = _by_identity(before.findings), _by_identity(after.findings)
    for key in dict.fromkeys((*first, *second)):
        a, b = first.get(key), second.get(key)
        what = f"{key[0]} by {key[1]}: {key[2]}"
        if a is None or b is None:
            judgement: Judgement = "only after" if a is None else "only before"
            yield Change("figure", what, _figure(a), _figure(b), judgement)
            continue
        more, less = (
            (b.estimate.low > a.estimate.high, b.estimate.high < a.estimate.low)
            if a.higher_is_leakier
            else (b.estimate.high < a.estimate.low, b.estimate.low > a.estimate.high)
        )
        judgement = "leaks more" if more else "leaks less" if less else "not told apart"
        differ = (a.setting, a.parameters, a.attack_version) != (
            b.setting,
            b.parameters,
            b.attack_version,
        )
        yield Change("figure", what, _figure(a), _figure(b), judgement, differ)


def _by_identity(findings: Sequence[Finding]) -> dict[tuple[str, str, str, str, int], Finding]:
    found: dict[tuple[str, str, str, str, int], Finding] = {}
    seen: dict[tuple[str, str, str, str], int] = {}
    for f in findings:
        if f.headline:
            name = (f.attack, f.coalition_label, f.metric, f.title)
            seen[name] = seen.get(name, -1) + 1
            found[(*name, seen[name])] = f
    return found


def _figure(f: Finding | None) -> str:
    if f is None:
        return ""
    scale, unit = (100.0, " %") if f.unit == "proportion" else (1.0, f" {f.unit}".rstrip())
    value, low, high = (scale * x for x in (f.estimate.value, f.estimate.low, f.estimate.high))
    return f"{value:.3g}{unit} [{low:.3g}, {high:.3g}], n = {f.n}"


def _budgets(before: AuditReport, after: AuditReport) -> Iterator[Change]:
    first, second = _weakest(before.budgets), _weakest(after.budgets)
    none = no_user_budget(before), no_user_budget(after)
    keys = dict.fromkeys((*first, *second))
    if any(none) and not any(role == "user" for role, _, _ in keys):
        keys[("user", 0, 0.0)] = None
    for key in keys:
        role, rounds, delta = key
        # Where a release is without noise, the rows at user level are those of variants.
        reasons = none if role == "user" else ("", "")
        a, b = _bounds(first.get(key), reasons[0]), _bounds(second.get(key), reasons[1])
        over = f", {rounds} round{'' if rounds == 1 else 's'}, δ = {delta:g}" if rounds else ""
        if a is None or b is None:
            judgement: Judgement = "only after" if a is None else "only before"
        elif b[0] > a[1]:
            judgement = "leaks more"
        elif b[1] < a[0]:
            judgement = "leaks less"
        else:
            judgement = "not told apart"
        yield Change(
            "budget",
            f"epsilon, {role}{over}",
            _budget(a, reasons[0]),
            _budget(b, reasons[1]),
            judgement,
        )


def _bounds(row: BudgetRow | None, reason: str) -> tuple[float, float] | None:
    """Return both bounds of a budget; infinite for a ``reason`` why there is none."""
    if reason:
        return math.inf, math.inf
    return None if row is None else (_lower(row), _upper(row))


def _weakest(rows: Sequence[BudgetRow]) -> dict[tuple[str, int, float], BudgetRow]:
    """Return the least protected row by role, rounds and delta."""
    weakest: dict[tuple[str, int, float], BudgetRow] = {}
    for row in rows:
        if row.role not in ("bracket", "coordinate", "user"):
            continue
        key = (row.role, row.rounds, row.delta)
        if key not in weakest or _upper(row) > _upper(weakest[key]):
            weakest[key] = row
    return weakest


def _upper(row: BudgetRow) -> float:
    return math.inf if row.upper is None else row.upper


def _lower(row: BudgetRow) -> float:
    return 0.0 if row.lower is None else row.lower


def _budget(bounds: tuple[float, float] | None, reason: str) -> str:
    if reason:
        return f"none ({reason})"
    return "" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}"
