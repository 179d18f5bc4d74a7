"""A gate: what a report may show before an automated check fails.

A policy limits risks, coalition sizes and budgets. A limit is *breached* only if the end of the
interval that speaks for the protocol lies beyond it, *met* only if the end that speaks against it
lies within, and *inconclusive* in between: a wide interval never passes for a safe one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privaudit.configuration import read_toml, validated
from privaudit.errors import did_you_mean
from privaudit.reports.model import AuditReport, Finding

__all__ = [
    "EpsilonLimit",
    "Policy",
    "ReportLimit",
    "RiskLimit",
    "RuleOutcome",
    "judge",
    "no_user_budget",
    "read_policy",
]

#: What a row of the budget says where a release has no mechanism to account for.
NO_THEOREM = "no theorem applies"

Outcome = Literal["met", "breached", "inconclusive", "not measured"]


class _Limits(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RiskLimit(_Limits):
    """Limits on one risk; every one that is given must hold.

    Attributes
    ----------
    verdicts : tuple of str or None
        Verdicts that are tolerated.
    smallest_coalition : int or None
        The risk may be breached only by coalitions of at least so many parties.
    maximum : float or None
        Largest tolerated share of targets for which an attack succeeds, in [0, 1]; for figures
        in per cent alone.
    maximum_advantage : float or None
        The same, over what guessing from prior knowledge reaches.
    """

    verdicts: tuple[Literal["breached", "not shown", "inconclusive", "not tested"], ...] | None = (
        None
    )
    smallest_coalition: int | None = Field(None, ge=1)
    maximum: float | None = Field(None, ge=0, le=1)
    maximum_advantage: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _limits_something(self) -> RiskLimit:
        if not self.model_fields_set:
            raise ValueError(f"limits nothing; give one of {', '.join(type(self).model_fields)}")
        return self


class EpsilonLimit(_Limits):
    """A limit on the budget.

    Attributes
    ----------
    maximum : float
    level : {"user", "bracket", "coordinate"}
        Of everything that a user releases, of the noised part alone, or of one coordinate.
    rounds : int or None
        Over how many rounds; the most that the report states if None.
    delta : float or None
        The delta that the report must state; any if None.
    """

    maximum: float = Field(gt=0, allow_inf_nan=False)
    level: Literal["user", "bracket", "coordinate"] = "user"
    rounds: int | None = Field(None, ge=1)
    delta: float | None = Field(None, gt=0, lt=1)


class ReportLimit(_Limits):
    """What the report itself must be.

    Attributes
    ----------
    complete : bool
        Whether every part of the audit must have run to its end.
    """

    complete: bool = True


class Policy(_Limits):
    """Limits that a report is held against.

    Attributes
    ----------
    risks : dict of str to RiskLimit
        By the name of the risk, as the report writes it.
    epsilon : EpsilonLimit or None
    report : ReportLimit
    """

    risks: dict[str, RiskLimit] = Field(default_factory=dict)
    epsilon: EpsilonLimit | None = None
    report: ReportLimit = ReportLimit()


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What became of one limit.

    Attributes
    ----------
    rule : str
        The key of the policy.
    outcome : {"met", "breached", "inconclusive", "not measured"}
    evidence : str
        The figure that decided, in words.
    """

    rule: str
    outcome: Outcome
    evidence: str


def read_policy(path: Path) -> Policy:
    """Read a policy from TOML.

    Raises
    ------
    ConfigurationError
        If it cannot be read, or has a key or value that is not allowed.
    """
    return validated(Policy, read_toml(path), where=str(path))


def judge(report: AuditReport, policy: Policy) -> tuple[RuleOutcome, ...]:
    """Hold a report against a policy, rule by rule."""
    outcomes: list[RuleOutcome] = []
    if policy.report.complete:
        failed = [n for n in report.not_run if n.status == "failed"]
        outcomes.append(
            RuleOutcome("report.complete", "met", "the audit ran to its end")
            if report.complete
            else RuleOutcome(
                "report.complete",
                "inconclusive",
                f"the audit is incomplete ({len(failed)} attacks failed)",
            )
        )
    for risk, limit in policy.risks.items():
        outcomes.extend(_of_risk(report, risk, limit))
    if policy.epsilon is not None:
        outcomes.append(_of_epsilon(report, policy.epsilon))
    return tuple(outcomes)


def _of_risk(report: AuditReport, risk: str, limit: RiskLimit) -> Iterator[RuleOutcome]:
    key = f"risks.{risk}"
    rows = [v for v in report.verdicts if v.risk == risk]
    figures = [f for f in report.findings if f.headline and f.risk == risk]
    if not rows or all(v.verdict == "not tested" for v in rows):
        known = ", ".join(v.risk for v in report.verdicts if v.verdict != "not tested") or "none"
        if limit.verdicts is not None and rows and "not tested" in limit.verdicts:
            yield RuleOutcome(f"{key}.verdicts", "met", "not tested, which the policy tolerates")
        else:
            risks = [v.risk for v in report.verdicts]
            told = (
                f"this report did not test it; it measured: {known}"
                if risk in risks
                else f"the report measured: {known}.{did_you_mean(risk, risks)}"
            )
            yield RuleOutcome(key, "not measured", told)
        return
    row = rows[0]
    if limit.verdicts is not None:
        tolerated = row.verdict in limit.verdicts
        against: Outcome = "inconclusive" if row.verdict == "inconclusive" else "breached"
        yield RuleOutcome(
            f"{key}.verdicts", "met" if tolerated else against, f"verdict: {row.verdict}"
        )
    if limit.smallest_coalition is not None:
        yield _coalition(f"{key}.smallest_coalition", row.verdict, row.size, limit)
    for name, advantage in (("maximum", False), ("maximum_advantage", True)):
        bound = getattr(limit, name)
        if bound is not None:
            yield _success(f"{key}.{name}", figures, bound, advantage=advantage)


def _coalition(rule: str, verdict: str, size: int, limit: RiskLimit) -> RuleOutcome:
    assert limit.smallest_coalition is not None
    if verdict == "breached":
        enough = size >= limit.smallest_coalition
        parties = "party" if size == 1 else "parties"
        return RuleOutcome(
            rule, "met" if enough else "breached", f"breached by a coalition of {size} {parties}"
        )
    if verdict == "inconclusive":
        return RuleOutcome(rule, "inconclusive", "whether a coalition breaches it is open")
    return RuleOutcome(rule, "met", "no coalition that was tried breaches it")


def _success(rule: str, figures: list[Finding], bound: float, *, advantage: bool) -> RuleOutcome:
    shares = [f for f in figures if f.unit == "proportion" and f.higher_is_leakier]
    if not shares:
        return RuleOutcome(rule, "not measured", "no headline figure of this risk is a share")

    def ends(f: Finding) -> tuple[float, float]:
        if not advantage:
            return f.estimate.low, f.estimate.high
        # The smallest and the largest difference that both intervals allow.
        return f.estimate.low - f.baseline.high, f.estimate.high - f.baseline.low

    def told(f: Finding) -> str:
        return _told(f, ends(f), bound, advantage=advantage)

    worst = max(shares, key=lambda f: ends(f)[0])
    widest = max(shares, key=lambda f: ends(f)[1])
    if ends(worst)[0] > bound:
        return RuleOutcome(rule, "breached", told(worst))
    if ends(widest)[1] <= bound:
        return RuleOutcome(rule, "met", told(widest))
    return RuleOutcome(rule, "inconclusive", told(widest))


def _told(f: Finding, ends: tuple[float, float], bound: float, *, advantage: bool) -> str:
    figure = f"advantage over guessing of {f.metric}" if advantage else f.metric
    return (
        f"{f.attack} by {f.coalition_label}, {figure}: {ends[0]:.1%} to {ends[1]:.1%} of "
        f"{f.n} targets, tolerated {bound:.1%}"
    )


def no_user_budget(report: AuditReport) -> str:
    """Return why nothing bounds all that a user of the audited run releases, or nothing.

    Budgets of variants, of which each releases less than the audited run, do not speak for it.
    """
    if report.uncovered:
        return f"{report.uncovered[0].what} leaves without noise"
    # The rows of an audit may be those of a variant; those of a campaign are all of its runs.
    rows = () if report.cells is None else report.budgets
    if any(b.role == "user" and b.theorem == NO_THEOREM for b in rows):
        return "part of what a user sends leaves without noise"
    return ""


def _of_epsilon(report: AuditReport, limit: EpsilonLimit) -> RuleOutcome:
    rule = "epsilon.maximum"
    if limit.level == "user" and (reason := no_user_budget(report)):
        return RuleOutcome(rule, "breached", f"no finite budget at user level: {reason}")
    rows = [
        b
        for b in report.budgets
        if b.role == limit.level and (limit.delta is None or math.isclose(b.delta, limit.delta))
    ]
    most = max((b.rounds for b in rows), default=0)
    rows = [b for b in rows if b.rounds == (limit.rounds or most)]
    if not rows:
        return RuleOutcome(
            rule,
            "not measured",
            f"the report states no budget of level {limit.level} for this delta and number of "
            "rounds",
        )
    upper = max(math.inf if b.upper is None else b.upper for b in rows)
    lower = max(0.0 if b.lower is None else b.lower for b in rows)
    period = "1 round" if rows[0].rounds == 1 else f"{rows[0].rounds} rounds"
    told = f"between {lower:.4g} and {upper:.4g} over {period}, tolerated {limit.maximum:g}"
    if lower > limit.maximum:
        return RuleOutcome(rule, "breached", told)
    return RuleOutcome(rule, "met" if upper <= limit.maximum else "inconclusive", told)
