"""The first page: what a privacy officer reads, in words made of the report's figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from privaudit.reports._document import Headline, Opening
from privaudit.reports._format import (
    integer,
    number,
    odds,
    percent,
    plural,
    quantity,
    visible,
)
from privaudit.reports.model import AuditReport, BreachingCoalition, BudgetRow, Finding

__all__ = ["STANDING_LIMITATION", "VERDICT_WORDS", "make_opening"]

#: Printed on every first page, whatever the audit found.
STANDING_LIMITATION: Final = (
    "This report is evidence about the attacks that were run, on the data and settings named in "
    "it. It does not show that other attacks fail, and it does not assess conformity with any "
    "law or standard."
)
RETEST: Final = (
    "Repeat the audit when the protocol, the model, a parameter, the data, or the set of parties "
    "changes."
)
#: What each verdict says, and what it does not.
VERDICT_WORDS: Final = {
    "breached": "An attack did better than guessing from public knowledge, beyond chance.",
    "not shown": "The attacks that ran did no better than guessing. Others may.",
    "inconclusive": "Too few targets, or too wide an interval, to tell.",
    "not tested": "No attack on this risk ran.",
}
_QUESTIONS: Final = {
    "reconstruction": "Can somebody rebuild a user's data or update?",
    "inference": "Can somebody learn a property of a user's data?",
    "linkability": "Can somebody tell which contributions come from the same user?",
    "singling-out": "Can somebody isolate one user among the others?",
}
_ORDER: Final = ("breached", "inconclusive", "not shown", "not tested")
_DEPLOYMENT: Final = {
    "Local": "each user protects what it sends (local model)",
    "Central": "a trusted party collects the data and protects the result (central model)",
    "Shuffle": "a shuffler between the users and the analyser is trusted (shuffle model)",
    "Federated": "users train where the data are and send updates (federated model)",
}


def make_opening(report: AuditReport, *, digest: str) -> Opening:
    """Return the first page of ``report``, whose JSON form has the SHA-256 ``digest``."""
    system = report.system
    tool = f"{report.tool.get('name', 'privaudit')} {report.tool.get('version', '')}".strip()
    return Opening(
        title=visible(report.title),
        byline=visible(f"Leakage report by {tool}, made {report.created}, seed {report.seed}"),
        summary=_summary(report),
        claim=visible(system.claim_under_test),
        tested=_tested(report),
        notices=_notices(report),
        headlines=tuple(_headline(verdict, report.findings) for verdict in report.verdicts),
        budget=_texts(report.budget_statements) or _budget(report),
        claims=tuple((claim.verdict, visible(claim.statement)) for claim in report.claims),
        trust=_texts(report.trust_assumptions),
        not_tested=_texts(report.not_tested) + _not_run(report),
        recommendations=(*_texts(report.recommendations), RETEST),
        limitations=(*_texts(report.limitations), STANDING_LIMITATION),
        sign_off=(
            ("System", visible(f"{system.protocol} {system.protocol_version}")),
            ("SHA-256 of report.json", digest),
            ("Read by (name, role)", ""),
            ("Decision", ""),
            ("Date and signature", ""),
        ),
    )


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(visible(text) for text in texts)


def _summary(report: AuditReport) -> tuple[str, ...]:
    """Return one sentence a kind of verdict, the worst first."""
    counts = Counter(verdict.verdict for verdict in report.verdicts)
    if not counts:
        return ("No risk was tested.",)
    sentences = []
    for kind in _ORDER:
        risks = [visible(v.risk) for v in report.verdicts if v.verdict == kind]
        if risks:
            sentences.append(f"{kind.capitalize()}: {_listing(risks)}.")
    breaching = [v for v in report.verdicts if v.verdict == "breached"]
    if breaching:
        least = min(breaching, key=lambda v: v.size)
        sentences.append(
            f"The smallest coalition that breaches a risk is {visible(least.coalition_label)} "
            f"({plural(least.size, 'party', 'parties')}; {visible(least.risk)})."
        )
    return tuple(sentences)


def _listing(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _tested(report: AuditReport) -> str:
    system = report.system
    public = "public" if system.data_is_public else "not public"
    deployment = _DEPLOYMENT[system.deployment_model]
    return visible(
        f"{system.protocol} {system.protocol_version}, with {plural(system.users, 'user')} over "
        f"{plural(system.rounds, 'round')}, training {system.model} "
        f"({integer(system.dimension)} parameters) on {system.dataset} (data {public}). "
        f"Of the usual arrangements, here {deployment}. The unit of privacy is: "
        f"{system.privacy_unit}. Outcome of the run: {system.outcome}."
    )


def _notices(report: AuditReport) -> tuple[str, ...]:
    incomplete = (
        "This report is incomplete: part of the audit did not run to its end. "
        "What is missing here says nothing about the risk."
    )
    return (() if report.complete else (incomplete,)) + _texts(report.warnings)


def _headline(verdict: BreachingCoalition, findings: tuple[Finding, ...]) -> Headline:
    ours = [f for f in findings if f.headline and f.risk == verdict.risk]
    return Headline(
        risk=visible(verdict.risk),
        question=_QUESTIONS.get(verdict.risk, ""),
        verdict=verdict.verdict,
        sentence=visible(verdict.sentence),
        coalition=_coalition(verdict),
        measured=tuple(_measured(f) for f in ours),
    )


def _coalition(verdict: BreachingCoalition) -> str:
    if verdict.verdict == "not tested":
        return ""
    label, size = visible(verdict.coalition_label), plural(verdict.size, "party", "parties")
    if verdict.verdict == "breached":
        return f"Smallest coalition that breaches it: {label} ({size})."
    return f"Strongest coalition tried: {label} ({size})."


def _measured(finding: Finding) -> str:
    """Return the average, the baseline and the worst-affected party of a finding in one line."""
    low, high = finding.estimate.low, finding.estimate.high
    average = quantity(finding.estimate.value, finding.unit)
    baseline = quantity(finding.baseline.value, finding.unit)
    bounds = f"{quantity(low, finding.unit)} to {quantity(high, finding.unit)}"
    return visible(
        f"{finding.title}, {finding.coalition_label}: {finding.metric} {average} on average "
        f"({percent(finding.confidence)} interval {bounds}, {plural(finding.n, 'target')}), "
        f"against {baseline} for guessing from public knowledge. "
        f"Worst affected: {_worst(finding)}."
    )


def _worst(finding: Finding) -> str:
    if finding.unit == "proportion" and finding.worst_value in {0.0, 1.0}:
        outcome = "succeeded" if finding.worst_value == 1 else "did not succeed"
        return f"{finding.worst_target} (the attack {outcome})"
    return f"{finding.worst_target} ({quantity(finding.worst_value, finding.unit)})"


def _not_run(report: AuditReport) -> tuple[str, ...]:
    """Return one line on the attacks that did not run; the table behind holds each."""
    if not report.not_run:
        return ()
    attacks = sorted({visible(row.attack) for row in report.not_run})
    return (
        f"{plural(len(report.not_run), 'combination')} of attack and coalition did not run "
        f"({_listing(attacks)}); the reasons are in the table of attacks that did not run.",
    )


def _budget(report: AuditReport) -> tuple[str, ...]:
    """Return the budget in words, for the smallest cluster, where protection is weakest."""
    if not report.budgets and not report.uncovered:
        return ("No privacy budget was computed, because no release is randomised.",)
    sentences: list[str] = []
    for role in ("bracket", "paper"):
        rows = [row for row in report.budgets if row.role == role]
        if rows:
            smallest = min(row.cluster_size for row in rows)
            at_smallest = [row for row in rows if row.cluster_size == smallest]
            first = min(at_smallest, key=lambda row: row.rounds)
            last = max(at_smallest, key=lambda row: row.rounds)
            speak = _bracket_sentence if role == "bracket" else _paper_sentence
            sentences += [speak(row) for row in dict.fromkeys((first, last))]
    sentences += _user_level(report)
    return tuple(sentences)


def _bracket_sentence(row: BudgetRow) -> str:
    if row.upper is None or not math.isfinite(row.upper):
        bound = "has no finite bound"
    else:
        bound = f"costs a budget of at most ε = {number(row.upper)}"
        if row.lower is not None:
            bound += f" (and at least {number(row.lower)})"
        bound += f" at δ = {number(row.delta)}: {odds(row.upper)}"
    return (
        f"In the smallest cluster ({plural(row.cluster_size, 'user')}, {row.honest_users} honest), "
        f"{_period(row)} {bound}. This covers {visible(row.quantity)} only."
    )


def _paper_sentence(row: BudgetRow) -> str:
    domain = "" if row.domain_ok else ", outside the domain in which that statement is proven"
    value = row.upper if row.upper is not None else row.lower
    return (
        f"The paper's own statement ({visible(row.theorem)}), evaluated for the same cluster over "
        f"{plural(row.rounds, 'round')}, gives ε = {number(value)}{domain}."
    )


def _period(row: BudgetRow) -> str:
    return "one round" if row.rounds == 1 else f"the total of {integer(row.rounds)} rounds"


def _user_level(report: AuditReport) -> list[str]:
    if report.uncovered:
        reasons = "; ".join(
            f"{visible(release.what)} ({plural(release.values_per_user_and_round, 'value')} per "
            f"user and round, seen by {_listing([visible(o) for o in release.observers] or ['?'])})"
            for release in report.uncovered
        )
        return [
            "There is no differential privacy at user level, because the following leaves the "
            f"user without noise: {reasons}."
        ]
    rows = [row for row in report.budgets if row.role == "user" and row.upper is not None]
    return [
        f"At user level, over {plural(row.rounds, 'round')}, the budget is at most "
        f"ε = {number(row.upper)} at δ = {number(row.delta)}."
        for row in sorted(rows, key=lambda row: (row.cluster_size, row.rounds))[:2]
    ]
