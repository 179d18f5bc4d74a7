"""Verdicts and claims of an audit of PQ-MDS, in words, each from figures of the same report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from privaudit.campaigns.pq_mds.adversaries import LABELS
from privaudit.campaigns.pq_mds.config import UNEQUAL
from privaudit.campaigns.pq_mds.wording import WORDS
from privaudit.campaigns.risks import capital, leakiness, risk_verdict
from privaudit.reports.model import BreachingCoalition, Claim, Finding

__all__ = ["claim_result", "claims_of", "margin", "metrics_of", "verdicts_of"]

_RISKS = ("reconstruction", "inference", "linkability", "singling-out")
_ERROR = "normalised reconstruction error"
#: Adversaries from the weakest on: who takes part in nothing or knows no row comes before others.
_WEAKEST_FIRST: Final = (
    "hbc_server",
    "outsider_aux",
    "server_aux",
    "outsider_known",
    "server_known",
    "hbc_party",
    "server_plus_A",
    "codebook_insider",
)


def margin(finding: Finding) -> float:
    """Return by how much a finding exceeds its baseline, in its unit, to one decimal.

    Baselines are drawn at random: a difference below is none.
    """
    sign = 1.0 if finding.higher_is_leakier else -1.0
    return round(sign * (finding.estimate.value - finding.baseline.value), 1)


def verdicts_of(findings: Sequence[Finding]) -> tuple[BreachingCoalition, ...]:
    """Return the verdict of each risk, with the smallest coalition that breaches it."""
    return tuple(
        risk_verdict(risk, findings, words=WORDS, strength=_strength, when_breached=_others)
        for risk in _RISKS
    )


def _strength(finding: Finding) -> tuple[float, float]:
    """Return the margin, and the value to tell those of one margin apart: the leakiest counts."""
    return margin(finding), leakiness(finding)


def _others(first: Finding, findings: Sequence[Finding]) -> str:
    """Return what else breaches the risk, and the share of records that were recognised."""
    told = ""
    if first.risk == "reconstruction":
        named = [
            f
            for f in findings
            if f.metric == "identification"
            and (f.attack, f.coalition_label, f.setting)
            == (first.attack, first.coalition_label, first.setting)
        ]
        if named:
            told += (
                f" {named[0].estimate.value:.0%} of the reconstructions are nearer to their own "
                "record than to any other of the table."
            )
    more = [
        f
        for f in findings
        if f.headline and f.risk == first.risk and f.verdict == "breached" and f.id != first.id
    ]
    # The report names them all beside their figures.
    others = {f.coalition_label for f in more} - {first.coalition_label}
    if others:
        count = (
            "One other adversary breaches"
            if len(others) == 1
            else (f"{len(others)} other adversaries breach")
        )
        told += f" {count} the same risk."
    return told


def _weakness(finding: Finding) -> int:
    """Return the place of a finding's adversary among all, the weakest first."""
    places = [LABELS[preset] for preset in _WEAKEST_FIRST]
    label = finding.coalition_label
    return places.index(label) if label in places else len(places)


def claim_result(verdicts: Sequence[BreachingCoalition], findings: Sequence[Finding]) -> str:
    """Return whether the claim under test holds, and the weakest adversary that breaches a risk."""
    broken = [v for v in verdicts if v.verdict == "breached"]
    if not broken:
        return "It was not refuted by the attacks of this audit."
    risks: dict[str, list[str]] = {}
    for v in broken:
        ours = [f for f in findings if f.headline and (f.verdict, f.risk) == ("breached", v.risk)]
        weakest = min(ours, key=_weakness, default=None)
        label = "" if weakest is None else weakest.coalition_label
        risks.setdefault(WORDS.get(label, label) or v.coalition_label, []).append(v.risk)
    told = "; ".join(f"{who} is enough for {', '.join(r)}" for who, r in risks.items())
    return f"No. {capital(told)}. No release of the audited run has differential privacy."


def metrics_of(outcome: Mapping[str, Any]) -> Mapping[str, float]:
    """Return what was measured of a run's clustering in its last round."""
    metrics = outcome.get("metrics") or []
    values: Mapping[str, float] = metrics[-1]["values"] if metrics else {}
    return values


def claims_of(
    findings: Sequence[Finding],
    *,
    outcomes: Mapping[str, Mapping[str, Any]],
    references: Mapping[str, Mapping[str, Any]],
    alone: Mapping[str, float],
    unique: float,
) -> tuple[Claim, ...]:
    """Return the paper's four claims with what this audit found.

    Parameters
    ----------
    outcomes : mapping
        How each recorded run ended; the audited one is ``main``.
    references : mapping
        The same of the runs of which the clustering alone is compared, by name in the report.
    alone : mapping of str to float
        ARI of each party that clusters its own columns; empty without labels.
    unique : float
        Share of rows of the audited run whose tuple of codes no other row has.
    """
    main = metrics_of(outcomes["main"])
    return (
        _accuracy(main, metrics_of(outcomes.get("two-dimensions", {})), alone),
        _volume(main),
        _imbalance(outcomes, references),
        _leakage(findings, unique),
    )


def _accuracy(
    main: Mapping[str, float], wider: Mapping[str, float], alone: Mapping[str, float]
) -> Claim:
    agreed = main.get("agreement_ari")
    evidence = ""
    verdict = "not tested"
    if "ari" in main and "central_ari" in main:
        lost = main["central_ari"] - main["ari"]
        verdict = "reproduced" if lost <= 0.02 else "partly reproduced"
        best = max(alone.values(), default=None)
        if lost > 0.05 or (best is not None and best > main["ari"]):
            verdict = "not reproduced"
        evidence = (
            f"Against the labels, ARI {main['ari']:.3f} where k-means on the pooled columns has "
            f"{main['central_ari']:.3f}"
        )
        if best is not None:
            evidence += f" and the best party alone {best:.3f}"
        if "ari" in wider:
            evidence += f"; with a second dimension {wider['ari']:.3f}"
        evidence += ". "
    if agreed is not None:
        evidence += (
            f"Agreement with the partition of pooled k-means: ARI {agreed:.3f}, which is another "
            "question than quality against labels. One seed."
        )
        if verdict == "not tested":
            verdict = "reproduced" if agreed >= 0.9 else "not reproduced"
    return Claim.model_validate(
        {
            "statement": "Clustering is as accurate as k-means on the pooled data.",
            "source": "abstract; contributions",
            "verdict": verdict,
            "evidence": evidence or "The run measured no quality of its clustering.",
        }
    )


def _volume(main: Mapping[str, float]) -> Claim:
    sent, raw = main.get("bytes_per_row"), main.get("raw_bytes_per_row")
    if not sent or not raw:
        return Claim(
            statement="Less data are sent.",
            source="abstract",
            verdict="not tested",
            evidence="The run measured no volume.",
        )
    return Claim(
        statement="Less data are sent, in one round.",
        source="abstract; contributions",
        verdict="reproduced" if sent < raw else "not reproduced",
        evidence=(
            f"{sent:.0f} bytes a row were uploaded where the columns themselves take {raw:.0f} "
            f"({raw / sent:.1f} times as much), in one round. Few bytes are no protection: what "
            "is left still tells rows apart."
        ),
    )


def _imbalance(
    outcomes: Mapping[str, Mapping[str, Any]], references: Mapping[str, Mapping[str, Any]]
) -> Claim:
    told = []
    for words, values in (
        ("subspaces in proportion to columns", metrics_of(outcomes.get("unequal", {}))),
        *(
            (name.removeprefix(UNEQUAL), metrics_of(outcome))
            for name, outcome in references.items()
            if name.startswith(UNEQUAL)
        ),
    ):
        shares = [v for k, v in values.items() if k.startswith("influence_share/")]
        if shares and "ari" in values:
            told.append(f"{words} {min(shares):.0%}, ARI {values['ari']:.3f}")
    if len(told) < 2:
        return Claim(
            statement="The bias of parties of unequal size is mitigated.",
            source="contributions",
            verdict="not tested",
            evidence="No run with parties of unequal width was made on these data.",
        )
    return Claim(
        statement="The bias of parties of unequal size is mitigated.",
        source="contributions",
        verdict="partly reproduced",
        evidence=(
            "Share of the smaller party (8 columns against 56) in the variance that the server "
            f"clusters: {'; '.join(told)}. The number of subspaces and the scaling decide it, not "
            "the protocol as such; more weight for a small party helps only where its columns "
            "tell the groups apart."
        ),
    )


def _leakage(findings: Sequence[Finding], unique: float) -> Claim:
    def first(attack: str, preset: str) -> Finding | None:
        chosen = (
            f
            for f in findings
            if (f.attack, f.coalition_label) == (attack, LABELS[preset])
            and f.setting.startswith("the audited run")
        )
        return next(chosen, None)

    told = []
    codes = first("indices/code-recovery", "hbc_server")
    if codes is not None:
        told.append(
            f"the server reads the codes of {codes.estimate.value:.0%} of {codes.n} subspaces off "
            "the indices, without any knowledge"
        )
    told.append(f"{unique:.0%} of the rows have codes that no other row has")
    known = first("indices/known-sample", "server_known")
    if known is not None:
        told.append(
            f"knowing some rows, it rebuilds the others with an error of "
            f"{known.estimate.value:.2f} ({known.baseline.value:.2f} for the average record)"
        )
    similar = first("indices/auxiliary-alignment", "server_aux")
    if similar is not None:
        told.append(f"knowing none, with an error of {similar.estimate.value:.2f}")
    broken = any(f.headline and f.verdict == "breached" for f in findings)
    return Claim(
        statement=(
            "The risk of data distribution leakage is fundamentally eliminated; product "
            "quantisation inherently injects noise."
        ),
        source="abstract; contributions",
        verdict="does not hold" if broken else "not reproduced",
        evidence=(
            f"{capital('; '.join(told))}. Nothing is random in what is uploaded, so that no "
            "privacy budget is finite: quantisation rounds, it adds no noise."
        ),
    )
