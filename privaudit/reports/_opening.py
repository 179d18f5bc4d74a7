"""The first page: what a privacy officer reads, in words made of the report's figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from privaudit.reports._document import Headline, Measured, Opening
from privaudit.reports._format import (
    equals,
    integer,
    level,
    listing,
    number,
    odds,
    plural,
    quantity,
    setting,
    span,
    visible,
)
from privaudit.reports._overview import make_overview, smallest_breach, worst_affected
from privaudit.reports.model import (
    AuditReport,
    BreachingCoalition,
    BudgetRow,
    Finding,
    UncoveredRelease,
)

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
    "Local": "Each user protects by itself what it sends (local model).",
    "Central": "A trusted party collects the data and protects the result (central model).",
    "Shuffle": "A shuffler between the users and the analyser is trusted (shuffle model).",
    "Federated": "Users train where their data are and send updates (federated model).",
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
        claim_result=visible(report.claim_result),
        tested=_tested(report),
        notices=_notices(report),
        headlines=tuple(_headline(verdict, report.findings) for verdict in report.verdicts),
        ranges=(
            f"Ranges in brackets: taken together over {plural(report.simultaneous_tests, 'test')}, "
            f"all hold with a confidence of {level(report.confidence)}."
        ),
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
        overview=None if report.cells is None else make_overview(report, report.cells),
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
            sentences.append(f"{kind.capitalize()}: {listing(risks)}.")
    if report.cells is not None:
        return (" ".join(sentences), *filter(None, [smallest_breach(report)]))
    breaching = [v for v in report.verdicts if v.verdict == "breached"]
    if breaching:
        least = min(breaching, key=lambda v: v.size)
        sentences.append(
            f"The smallest coalition that breaches a risk is {visible(least.coalition_label)} "
            f"({visible(least.risk)})."
        )
    elif any(v.verdict == "not shown" for v in report.verdicts):
        sentences.append("No attack that ran breached a risk; other attacks may.")
    return tuple(sentences)


def _tested(report: AuditReport) -> str:
    system = report.system
    public = "public data" if system.data_is_public else "data that are not public"
    ran = system.run_sentence or (
        f"{system.protocol} ({system.protocol_version}) was run with "
        f"{plural(system.users, 'user')} over {plural(system.rounds, 'round')}, training one "
        f"model ({system.model}, {plural(system.dimension, 'parameter')}) on "
        f"{system.dataset} ({public})."
    )
    # A sentence of the audit's own says who holds what; the general one need not fit it.
    deployment = "" if system.run_sentence else f"{_DEPLOYMENT[system.deployment_model]} "
    if report.cells is not None:
        return visible(ran)
    return visible(
        f"{ran} {deployment}"
        f"The unit of privacy is {system.privacy_unit}. "
        f"Outcome of the run: {system.outcome}."
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
    if verdict.verdict == "not tested" or not verdict.coalition_label:
        return ""
    label, size = visible(verdict.coalition_label), plural(verdict.size, "party", "parties")
    if verdict.verdict == "breached":
        return f"Smallest coalition that breaches it: {label} ({size})."
    return f"Coalition: {label} ({size})."


def _measured(finding: Finding) -> Measured:
    """Return the average, the baseline and the worst-affected party of a finding."""
    estimate, unit = finding.estimate, finding.unit
    bounds = span(estimate.low, estimate.high, unit)
    targets = plural(finding.n, "target")
    average = f"{visible(finding.metric)} {quantity(estimate.value, unit)} ({bounds}), {targets}"
    return Measured(
        title=visible(f"{finding.full_title}, {finding.coalition_label}"),
        facts=(
            ("Average", average),
            ("Guessing alone", quantity(finding.baseline.value, unit)),
            ("Verdict", finding.verdict),
            ("Worst affected", visible(worst_affected(finding))),
        ),
    )


def _not_run(report: AuditReport) -> tuple[str, ...]:
    """Return one line on the attacks that did not run; the table behind holds each."""
    if not report.not_run or report.cells is not None:
        return ()
    attacks = sorted({visible(row.attack) for row in report.not_run})
    return (
        f"{plural(len(report.not_run), 'combination')} of attack and coalition did not run "
        f"({listing(attacks)}); the reasons are in the table of attacks that did not run.",
    )


def _budget(report: AuditReport) -> tuple[str, ...]:
    """Return the budget in words, for the smallest cluster, where protection is weakest."""
    if not report.budgets and not report.uncovered:
        return ("No privacy budget was computed, because no release is randomised.",)
    sentences = _user_level(report)
    for role, speak in (("bracket", _bracket_sentences), ("paper", _paper_sentences)):
        rows = [row for row in report.budgets if row.role == role]
        if rows:
            sentences += speak(*_weakest(rows))
    return tuple(sentences)


def _weakest(rows: list[BudgetRow]) -> tuple[BudgetRow, BudgetRow | None]:
    """Return the least protected row of the fewest rounds, and that of the most, if others."""

    def weakest(rounds: int) -> BudgetRow:
        ours = [row for row in rows if row.rounds == rounds]
        return max(ours, key=lambda row: (-row.cluster_size, row.upper or 0.0))

    fewest, most = min(row.rounds for row in rows), max(row.rounds for row in rows)
    return weakest(fewest), None if most == fewest else weakest(most)


def _bracket_sentences(first: BudgetRow, last: BudgetRow | None) -> list[str]:
    sentences = [
        f"The part that is noised ({visible(first.quantity)}) costs, in the smallest cluster "
        f"({plural(first.cluster_size, 'user')}, of which {first.honest_users} honest), "
        f"{_cost(first)} Status of this bound: {visible(first.status)}."
    ]
    if last is not None:
        sentences.append(f"The same part costs {_cost(last)}")
    return sentences


def _cost(row: BudgetRow) -> str:
    if row.upper is None or not math.isfinite(row.upper):
        return f"a budget without a finite bound {_period(row)}."
    bound = f"a budget of at most {equals('ε', number(row.upper, toward='above'))}"
    if row.lower is not None:
        bound += f" and at least {number(row.lower, toward='below')}"
    domain = "" if row.domain_ok else " The theorem is used outside its domain here."
    delta = equals("δ", setting(row.delta))
    return f"{bound} {_period(row)} (at {delta}); {odds(row.upper)}.{domain}"


def _paper_sentences(first: BudgetRow, last: BudgetRow | None) -> list[str]:
    domain = "" if first.domain_ok else ", outside the domain in which that statement is proven"
    values = " and ".join(
        f"{equals('ε', number(row.lower if row.upper is None else row.upper))} {_period(row)}"
        for row in (first, last)
        if row is not None
    )
    return [
        f"The paper's own statement ({visible(first.theorem)}), evaluated for a cluster of "
        f"{plural(first.cluster_size, 'user')}, gives {values}{domain}."
    ]


def _period(row: BudgetRow) -> str:
    return "in one round" if row.rounds == 1 else f"in total over {integer(row.rounds)} rounds"


def _user_level(report: AuditReport) -> list[str]:
    if report.uncovered:
        reasons = "; ".join(map(_release, report.uncovered))
        return [
            "There is no differential privacy at user level, because the following leaves the "
            f"user without noise: {reasons}."
        ]
    rows = [row for row in report.budgets if row.role == "user" and row.upper is not None]
    return [
        f"At user level, over {plural(row.rounds, 'round')}, the budget is at most "
        f"{equals('ε', number(row.upper, toward='above'))} at {equals('δ', setting(row.delta))}."
        for row in sorted(rows, key=lambda row: (row.cluster_size, row.rounds))[:2]
    ]


def _release(release: UncoveredRelease) -> str:
    values = f"{plural(release.values_per_user_and_round, 'value')} per user and round"
    observers = [visible(observer) for observer in release.observers]
    seen = f", seen by {listing(observers)}" if observers else ""
    return f"{visible(release.what)} ({values}{seen})"
