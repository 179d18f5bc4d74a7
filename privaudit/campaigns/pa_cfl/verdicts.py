"""Verdicts of an audit of PA-CFL, in words, each from figures of the same report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from privaudit.campaigns.assembly import safe_bound
from privaudit.campaigns.pa_cfl.exposed import Exposed
from privaudit.campaigns.risks import capital, risk_verdict, untested
from privaudit.reports.model import BreachingCoalition, BudgetRow, Finding

__all__ = [
    "FIXED_THRESHOLD",
    "IN_WORDS",
    "MEDIAN",
    "claim_result",
    "in_words",
    "placed_alone",
    "verdicts_of",
]

#: Share of its values that the AS alone must place for "most", on which a verdict may rest.
_MOST: Final = 0.5

#: Under what condition alone bounds hold.
FIXED_THRESHOLD: Final = "For a clipping threshold fixed in advance"

#: Why no bound holds as it is stated where the threshold is the users' median.
MEDIAN: Final = (
    "The threshold of this run is the median of the users' norms, which depends on their data, so "
    "that no bound holds as it stands."
)

_RISKS = ("reconstruction", "inference", "linkability")

IN_WORDS: Mapping[str, str] = {
    "MS": "the management server alone",
    "AS": "the aggregation server alone",
    "AS + 1 user": "the aggregation server with one user",
    "MS + 1 user": "the management server with one user",
    "MS + AS": "both servers together",
    "AS + all but one of a pre-cluster": "the aggregation server with a user's whole pre-cluster",
    "MS + all but one of a pre-cluster": "the management server with a user's whole pre-cluster",
    "AS + all but one user": "the aggregation server with all other users",
    "MS + all but one user": "the management server with all other users",
    "1 user": "a single user",
    "2 users": "two users",
}


def in_words(label: str) -> str:
    """Return a coalition's label in words."""
    return IN_WORDS.get(label, label)


def verdicts_of(
    findings: Sequence[Finding], exposures: Sequence[Exposed]
) -> list[BreachingCoalition]:
    """Return the verdict of each risk, with the smallest coalition that breaches it."""
    rows = [
        _explained(
            risk_verdict(
                risk,
                findings,
                words=IN_WORDS,
                when_breached=_beyond_the_first,
                when_not=_elsewhere,
            )
        )
        for risk in _RISKS
    ]
    rows.append(
        untested(
            "singling-out",
            "No attack of this audit isolates one user or record among the others. Whether a user "
            "trained on a given record (membership) is inference, and was asked there.",
        )
    )
    if exposures:
        rows.append(_explained(_important_values(exposures, placed_alone(findings))))
        rows.append(_shuffle_undone(exposures))
    return rows


def _explained(row: BreachingCoalition) -> BreachingCoalition:
    """Return a verdict whose sentence says what k and d are, where it first names them."""
    told = re.sub(
        r"k = [\d.e-]+ % of d",
        lambda match: f"{match[0]} (of d values of an update, k are sent as important)",
        row.sentence,
        count=1,
    )
    return row.model_copy(update={"sentence": told})


def placed_alone(findings: Sequence[Finding]) -> Finding | None:
    """Return what the AS alone placed of its values in the audited setting, if it was measured.

    Users share one order of values, so that the interval over users says nothing of other
    federations; the share is what it is for this one.
    """
    tried = [
        f
        for f in findings
        if f.attack == "inversion/blind-coordinates" and f.metric == "coordinate accuracy"
    ]
    return max(tried, key=lambda f: f.estimate.value, default=None)


def _beyond_the_first(first: Finding, findings: Sequence[Finding]) -> str:
    """Say what the attack does to another model, and which others breach the risk as alone."""
    others: dict[str, Finding] = {}
    for f in findings:
        same = f.headline and f.verdict == "breached" and f.risk == first.risk
        if same and f.coalition_size == 1 and f.coalition_label != first.coalition_label:
            others.setdefault(f.coalition_label, f)
    also = "".join(
        f" {capital(in_words(label))} does so too: {f.title[:1].lower()}{f.title[1:]}, "
        f"{_figure(f)} over {f.n} targets (prior knowledge alone: {_figure(f, of='baseline')})."
        for label, f in others.items()
    )
    return f"{_on_another_model(first, findings)}{also}"


def _figure(finding: Finding, *, of: str = "estimate") -> str:
    value = (finding.estimate if of == "estimate" else finding.baseline).value
    shown = f"{value:.0%}" if finding.unit == "proportion" else f"{value:.3g} {finding.unit}"
    return f"{finding.metric} {shown}".rstrip() if of == "estimate" else shown.rstrip()


def _on_another_model(first: Finding, findings: Sequence[Finding]) -> str:
    """Return a sentence on the same attack and k against another model, if it was made."""
    k = first.setting.rpartition(", ")[2]
    for f in findings:
        same = (f.attack, f.coalition_label, f.metric) == (
            first.attack,
            first.coalition_label,
            first.metric,
        )
        if same and not f.headline and f.setting.endswith(f", {k}") and k.startswith("k = "):
            return (
                f" With the same k on the model of the training run it succeeds for "
                f"{f.estimate.value:.0%} of {f.n} targets ({f.verdict}; {f.setting})."
            )
    return ""


def _elsewhere(best_of_audited: Finding, findings: Sequence[Finding]) -> str:
    """Return a sentence on an attack that succeeded at other parameters than the audited ones."""
    others = [
        f
        for f in findings
        if f.risk == best_of_audited.risk
        and not f.headline
        # A share of values is no share of targets.
        and f.unit == "proportion"
        and f.metric != "coordinate accuracy"
        and f.metric != "energy placed rightly"
        and f.verdict == "breached"
        and f.setting.startswith("PA-CFL")
    ]
    if not others:
        return ""
    best = max(others, key=lambda f: f.estimate.value)
    return (
        f" At other parameters they did: {best.estimate.value:.0%} of {best.n} targets "
        f"({best.setting})."
    )


def claim_result(
    verdicts: Sequence[BreachingCoalition],
    budgets: Sequence[BudgetRow],
    *,
    findings: Sequence[Finding],
    fixed_threshold: bool,
) -> str:
    """Return whether the claim under test holds, from the verdicts and budgets of the report.

    Parameters
    ----------
    findings : sequence of Finding
        Which tell whether another coalition as small as that of a verdict breaches the risk too.
    fixed_threshold : bool
        Whether values were clipped at a threshold fixed in advance, for which alone bounds hold.
    """
    broken = [v for v in verdicts if v.verdict == "breached"]
    noised = _noised(budgets, fixed_threshold=fixed_threshold)
    if broken:
        least = min(v.size for v in broken)
        risks: dict[str, list[str]] = {}
        for v in broken:
            if v.size == least:
                alike = (
                    in_words(f.coalition_label)
                    for f in findings
                    if f.headline and (f.verdict, f.risk) == ("breached", v.risk)
                    if f.coalition_size == least
                )
                for label in dict.fromkeys((v.coalition_label, *alike)):
                    risks.setdefault(label, []).append(v.risk)
        told = [f"{label} breaches it in this audit ({', '.join(r)})" for label, r in risks.items()]
        return f"Not as stated: {'; '.join(told)}.{noised}"
    if any(v.verdict == "inconclusive" for v in verdicts):
        return f"Open: some figures are inconclusive.{noised}"
    return f"It was not refuted by the attacks of this audit.{noised}"


def _noised(budgets: Sequence[BudgetRow], *, fixed_threshold: bool) -> str:
    """Return the budget of the noised part, in one round and in total, with its condition."""
    shuffled, unshuffled = _bounds(budgets, "bracket"), _bounds(budgets, "local")
    if not shuffled:
        return ""
    delta = next(b.delta for b in budgets if b.role == "bracket")
    against = (
        f"; against the management server, which sees reports unshuffled, {unshuffled}"
        if unshuffled
        else ""
    )
    part = "the budget of the less important part alone, everything else being given,"
    told = f"{shuffled} (ε at δ = {delta:g}){against}"
    if fixed_threshold:
        return f" T{part[1:]} is {told}."
    return f" {FIXED_THRESHOLD}, {part} would be {told}. {MEDIAN}"


def _bounds(budgets: Sequence[BudgetRow], role: str) -> str:
    """Return the worst bounds of a role in one round and over all, in words; empty if none."""
    worst: dict[int, float] = {}
    for b in budgets:
        if b.role == role and b.upper is not None and math.isfinite(b.upper):
            worst[b.rounds] = max(b.upper, worst.get(b.rounds, 0.0))
    ends = dict.fromkeys((min(worst), max(worst))) if worst else {}
    return " and ".join(
        f"at most {safe_bound(worst[rounds], toward='above')} "
        + ("in one round" if rounds == 1 else f"in total over {rounds} rounds")
        for rounds in ends
    )


def _important_values(exposures: Sequence[Exposed], alone: Finding | None) -> BreachingCoalition:
    risk = "exposure of the important update values"
    placed = [e for e in exposures if e.row.exact_fraction > 0]
    pooled = ""
    if placed:
        first = placed[0].row
        pooled = (
            f"{capital(in_words(first.coalition_label))} knows every important value of every "
            f"other user exactly and at its coordinate ({first.worst_exact_fraction:.2%} of the "
            f"update; {first.exact_verified:.0%} of the claimed values were checked to be right)."
        )
    if alone is not None and alone.verdict == "breached" and alone.estimate.value >= _MOST:
        return BreachingCoalition(
            risk=risk,
            verdict="breached",
            coalition_label=in_words(alone.coalition_label),
            size=alone.coalition_size,
            sentence=(
                f"{capital(in_words(alone.coalition_label))}, which knows the values and not their "
                f"coordinates, places {alone.estimate.value:.0%} of them rightly (by rank alone "
                f"{alone.baseline.value:.1%}). Setting: {alone.setting}; one federation, whose "
                f"users share one order. {pooled}"
            ).rstrip(),
        )
    if not placed:
        return BreachingCoalition(
            risk=risk,
            verdict="not shown",
            coalition_label="",
            size=0,
            sentence="No coalition that was tried places most important values at their "
            "coordinates.",
        )
    return BreachingCoalition(
        risk=risk,
        verdict="breached",
        coalition_label=in_words(placed[0].row.coalition_label),
        size=placed[0].row.size,
        sentence=pooled,
    )


def _shuffle_undone(exposures: Sequence[Exposed]) -> BreachingCoalition:
    risk = "loss of the anonymity that shuffling gives"
    undone = [
        e for e in exposures if e.attributed_fraction > 0 and e.row.coalition_label.startswith("AS")
    ]
    if not undone:
        return BreachingCoalition(
            risk=risk,
            verdict="not shown",
            coalition_label="",
            size=0,
            sentence="No coalition with the aggregation server attributes noised values to a user.",
        )
    first = undone[0]
    return BreachingCoalition(
        risk=risk,
        verdict="breached",
        coalition_label=in_words(first.row.coalition_label),
        size=first.row.size,
        sentence=(
            f"{capital(in_words(first.row.coalition_label))} attributes noised reports to their "
            f"user ({first.attributed_fraction:.0%} of the coordinates of the worst-off user). "
            "The management server, which shuffles, could always do so."
        ),
    )
