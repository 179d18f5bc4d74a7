"""The verdict on one risk, in words, from the headline findings of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from privaudit.reports.model import BreachingCoalition, Finding

__all__ = ["article", "capital", "ended", "leakiness", "risk_verdict", "untested"]

Remark = Callable[[Finding, Sequence[Finding]], str]


def _silent(finding: Finding, findings: Sequence[Finding]) -> str:
    return ""


def risk_verdict(
    risk: str,
    findings: Sequence[Finding],
    *,
    words: Mapping[str, str],
    when_breached: Remark = _silent,
    when_not: Remark = _silent,
    strength: Callable[[Finding], tuple[float, ...]] | None = None,
) -> BreachingCoalition:
    """Return the verdict on a risk, with the smallest coalition that breaches it.

    Parameters
    ----------
    words : mapping
        From the label of a coalition to its words; a label without words stands for itself.
    when_breached, when_not : callable
        Give a sentence, with a leading space, to add behind the one on the best finding.
    strength : callable, optional
        By which the best finding is chosen among proportions (or all, where there are none); by
        default its value.
    """
    judged = [f for f in findings if f.headline and f.risk == risk]
    if not judged:
        return untested(
            risk, "No attack on this risk could run; the list of attacks not run says why."
        )

    def named(finding: Finding) -> str:
        return words.get(finding.coalition_label, finding.coalition_label)

    breached = [f for f in judged if f.verdict == "breached"]
    if breached:
        least = min(f.coalition_size for f in breached)
        first = _best([f for f in breached if f.coalition_size == least], strength)
        sentence = (
            f"{capital(named(first))} {_success(first)} {ended(first.summary)}"
            f"{_setting(first)}{when_breached(first, findings)}"
        )
        return _of(risk, "breached", first, named(first), sentence)
    verdict = "inconclusive" if any(f.verdict == "inconclusive" for f in judged) else "not shown"
    tried = ", ".join(sorted({named(f) for f in judged}))
    first = _best(judged, strength)
    best = (
        f"{_value(first)} of {first.n} targets"
        if _counts(first)
        else f"{article(first.metric)} {first.metric} of {_value(first)} over {first.n} targets"
    )
    sentence = (
        f"The attacks tried ({tried}) did not do better than prior knowledge beyond doubt: at "
        f"best {best}, where prior knowledge alone reaches {_baseline(first)}."
        f"{_open(judged, first)} Stronger attacks may.{when_not(first, findings)}"
    )
    return _of(risk, verdict, first, named(first), sentence)


def untested(risk: str, sentence: str) -> BreachingCoalition:
    """Return the row of a risk that no attack asked about."""
    return BreachingCoalition(
        risk=risk, verdict="not tested", coalition_label="", size=0, sentence=sentence
    )


def capital(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def ended(text: str) -> str:
    """Return a text with a full stop at its end, unless it has one."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def article(noun: str) -> str:
    """Return the indefinite article of a noun, by the letter or abbreviation it begins with."""
    word = noun.split(" ")[0]
    # Abbreviations are spelt: an SSIM, a PSNR.
    vowels = "AEFHILMNORSX" if word.isupper() else "AEIOUaeio"
    return "an" if noun[:1] in tuple(vowels) else "a"


def _setting(finding: Finding) -> str:
    return f" Setting: {finding.setting}." if finding.setting else ""


def _open(judged: Sequence[Finding], first: Finding) -> str:
    """Return why the verdict is open, by the best finding or else by the first that is."""
    told = next((f for f in (first, *judged) if f.verdict == "inconclusive" and f.reason), None)
    if told is None:
        return ""
    which = "" if told is first else f" by {told.coalition_label} ({told.title})"
    return f" Inconclusive{which}: {told.reason}."


def _of(
    risk: str, verdict: str, finding: Finding, coalition: str, sentence: str
) -> BreachingCoalition:
    return BreachingCoalition.model_validate(
        {
            "risk": risk,
            "verdict": verdict,
            "coalition_label": coalition,
            "size": finding.coalition_size,
            "sentence": sentence,
        }
    )


def _best(
    findings: Sequence[Finding], strength: Callable[[Finding], tuple[float, ...]] | None
) -> Finding:
    """Return the strongest finding; proportions come first, being comparable with one another."""
    shares = [f for f in findings if f.unit == "proportion"]
    return max(
        shares or findings,
        key=strength or (lambda f: (leakiness(f),)),
    )


def leakiness(finding: Finding) -> float:
    """Return the value of a finding, the greater the leakier."""
    value = finding.estimate.value
    return value if finding.higher_is_leakier else -value


def _counts(finding: Finding) -> bool:
    """Whether a proportion is of targets, and not the mean of what was reached on each."""
    values = finding.per_target.values()
    return finding.unit == "proportion" and all(value in (0, 1) for value in values)


def _success(finding: Finding) -> str:
    if _counts(finding):
        return (
            f"succeeds for {_value(finding)} of {finding.n} targets (chance and prior knowledge "
            f"alone: {_baseline(finding)})."
        )
    return (
        f"reaches {article(finding.metric)} {finding.metric} of {_value(finding)} over "
        f"{finding.n} targets (prior knowledge alone: {_baseline(finding)}"
        f"{'' if finding.higher_is_leakier else '; the lower, the worse'})."
    )


def _value(finding: Finding) -> str:
    return _written(finding, finding.estimate.value)


def _baseline(finding: Finding) -> str:
    b = finding.baseline
    if not (math.isfinite(b.low) and math.isfinite(b.high)) or b.low == b.high:
        return _written(finding, b.value)
    low, high = (_written(finding, end) for end in (b.low, b.high))
    return f"{_written(finding, b.value)}, range {low} to {high}"


def _written(finding: Finding, value: float) -> str:
    if finding.unit == "proportion":
        return f"{value:.0%}"
    return f"{value:.3g} {finding.unit}".rstrip()
