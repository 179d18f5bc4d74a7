"""The first page: what a privacy officer reads, in words made of the report's figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

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
    sentence,
    setting,
    span,
    visible,
)
from privaudit.reports._overview import (
    breached_besides,
    breached_elsewhere,
    make_overview,
    smallest_breach,
    worst_affected,
)
from privaudit.reports._seeds import seeds_of
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
#: Names of measures that do not speak for themselves.
_METRICS: Final = {
    "coordinate accuracy": "values put at their coordinates",
    "energy known without noise": "share of the squared update",
    "identification": "recognised among other records",
    "membership AUC": "0.5 is guessing, 1 never wrong",
    "PSNR": "likeness of images",
    "SSIM": "likeness of images, 1 is equal",
    "total variation, best naming": "distance from the true shares, 0 is exact",
}
#: In the byline so many seeds are listed at most.
_MOST_SEEDS: Final = 8
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
        byline=visible(f"Leakage report by {tool}, made {report.created}, {_seeds(report)}"),
        summary=_summary(report),
        claim=visible(system.claim_under_test),
        claim_result=visible(report.claim_result),
        tested=_tested(report),
        notices=_notices(report),
        headlines=tuple(_headline(verdict, report) for verdict in report.verdicts),
        ranges=_ranges(report),
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
        sentences.append(_smallest_of_all(breaching, report))
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


def _ranges(report: AuditReport) -> str:
    return (
        f"Ranges in brackets: taken together over {plural(report.simultaneous_tests, 'test')}, "
        f"all hold with a confidence of {level(report.confidence)}. Each verdict rests on one "
        "measure of its attack, chosen in advance. What guessing alone reaches was measured on the "
        "same targets: 0 % means that it hit none of them, and its range what it may reach on "
        "others."
    )


def _headline(verdict: BreachingCoalition, report: AuditReport) -> Headline:
    ours = [f for f in report.findings if f.headline and f.risk == verdict.risk]
    return Headline(
        risk=visible(verdict.risk),
        question=_QUESTIONS.get(verdict.risk, ""),
        verdict=verdict.verdict,
        sentence=visible(verdict.sentence),
        coalition=_coalition(verdict, report),
        measured=tuple(_measured(f, report) for f in ours),
    )


def _in_words(label: str, report: AuditReport) -> str:
    return report.coalition_words.get(label, label)


def _equally_small(verdict: BreachingCoalition, report: AuditReport) -> tuple[str, ...]:
    """Return all coalitions as small as that of a breached risk that breach it too, it first."""
    names = dict.fromkeys(
        _in_words(f.coalition_label, report)
        for f in report.findings
        if f.headline
        and f.verdict == "breached"
        and f.risk == verdict.risk
        and f.coalition_size == verdict.size
    )
    # Otherwise the verdict rests on something else than findings, or has other words for them.
    others = names if verdict.coalition_label in names else ()
    return tuple(dict.fromkeys((verdict.coalition_label, *others)))


def _smallest_of_all(breaching: Sequence[BreachingCoalition], report: AuditReport) -> str:
    """Return the smallest coalitions that breach a risk, each with the risks."""
    least = min(v.size for v in breaching)
    risks: dict[str, list[str]] = {}
    for verdict in breaching:
        if verdict.size == least:
            for name in _equally_small(verdict, report):
                risks.setdefault(visible(name), []).append(visible(verdict.risk))
    told = [f"{name} ({', '.join(breached)})" for name, breached in risks.items()]
    if len(told) == 1:
        return f"The smallest coalition that breaches a risk is {told[0]}."
    each = "one party alone" if least == 1 else f"{integer(least)} parties"
    return f"The smallest coalitions that breach a risk are {each}: {'; '.join(told)}."


def _coalition(verdict: BreachingCoalition, report: AuditReport) -> str:
    if verdict.verdict == "not tested" or not verdict.coalition_label:
        return ""
    label, size = visible(verdict.coalition_label), plural(verdict.size, "party", "parties")
    if verdict.verdict == "breached":
        names = [visible(name) for name in _equally_small(verdict, report)]
        if len(names) > 1:
            return f"Smallest coalitions that breach it ({size} each): {'; '.join(names)}."
        return f"Smallest coalition that breaches it: {label} ({size})."
    return f"Coalition: {label} ({size})."


def _measured(finding: Finding, report: AuditReport) -> Measured:
    """Return the average, the baseline and the worst-affected party of a finding."""
    targets = plural(finding.n, "target")
    lower = "" if finding.higher_is_leakier else "; the lower, the worse"
    gloss = _METRICS.get(finding.metric)
    metric = visible(f"{finding.metric} ({gloss})" if gloss else finding.metric)
    average = f"{metric} {_ranged(finding)}, {targets}{lower}"
    facts = [
        ("Average", average),
        ("Guessing alone", _ranged(finding, of="baseline")),
        ("Verdict", finding.verdict),
        ("Worst affected", visible(worst_affected(finding))),
    ]
    if finding.reason:
        facts.append(("Why inconclusive", sentence(finding.reason)))
    told = [_besides(f) for f in breached_besides(finding, report.findings)]
    if told:
        facts.append(("Besides", f"{'; '.join(told)}; no verdict rests on this"))
    if (other := breached_elsewhere(finding, report.findings)) is not None:
        facts.append(
            (
                "In another setting",
                f"{_besides(other)} ({visible(other.setting)}); no verdict rests on this",
            )
        )
    who = _in_words(finding.coalition_label, report)
    return Measured(title=visible(f"{finding.full_title}: {who}"), facts=tuple(facts))


def _ranged(finding: Finding, *, of: Literal["estimate", "baseline"] = "estimate") -> str:
    value = finding.estimate if of == "estimate" else finding.baseline
    bounds = span(value.low, value.high, finding.unit)
    return f"{quantity(value.value, finding.unit)} ({bounds})"


def _besides(finding: Finding) -> str:
    return (
        f"{visible(finding.metric)} {_ranged(finding)} against "
        f"{_ranged(finding, of='baseline')} is beyond guessing by itself, at "
        f"{level(finding.confidence)} confidence"
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


def _seeds(report: AuditReport) -> str:
    seeds = seeds_of(report)
    told = ", ".join(map(str, seeds[:_MOST_SEEDS]))
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    return f"seed{'' if len(seeds) == 1 else 's'} {told}{more}"


def _budget(report: AuditReport) -> tuple[str, ...]:
    """Return the budget in words, for the smallest cluster, where protection is weakest."""
    if not report.budgets and not report.uncovered:
        return ("No privacy budget was computed: this report states none of any release.",)
    sentences = _user_level(report)
    for role, speak in (("bracket", _bracket_sentences), ("paper", _paper_sentences)):
        rows = [row for row in report.budgets if row.role == role]
        if rows:
            sentences += speak(*_weakest(rows))
        if rows and role == "bracket" and report.budget_condition:
            sentences.append(visible(report.budget_condition))
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
        "The part that is noised costs, in the smallest cluster "
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
