"""Verdicts and claims of an audit of DisUE, in words, each from figures of the same report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from privaudit.campaigns.disue.wording import WORDS
from privaudit.campaigns.risks import risk_verdict, untested
from privaudit.campaigns.runs import RecordedRun
from privaudit.protocols.disue import kinds
from privaudit.reports.model import BreachingCoalition, Claim, Finding

__all__ = ["claim_result", "claims_of", "smallest_by_variant", "verdicts_of"]

_RISKS = ("reconstruction", "inference", "linkability")


def verdicts_of(findings: Sequence[Finding]) -> tuple[BreachingCoalition, ...]:
    """Return the verdict of each risk, with the smallest coalition that breaches it."""
    return (
        *(risk_verdict(risk, findings, words=WORDS) for risk in _RISKS),
        untested(
            "singling-out",
            "No attack of this audit isolates one client or record among the others. Whether a "
            "record took part in training (membership) would be inference, and was not asked.",
        ),
    )


def claim_result(verdicts: Sequence[BreachingCoalition]) -> str:
    """Return whether the claim under test holds, from the verdicts of the report."""
    broken = [v for v in verdicts if v.verdict == "breached"]
    open_risks = [v.risk for v in verdicts if v.verdict == "inconclusive"]
    if not broken and open_risks:
        return (
            f"Undecided: the attacks on {', '.join(open_risks)} had too few targets to tell. Audit "
            "more clients."
        )
    if not broken:
        return "It was not refuted by the attacks of this audit."
    by_coalition: dict[str, list[str]] = {}
    for v in sorted(broken, key=lambda v: v.size):
        by_coalition.setdefault(v.coalition_label, []).append(v.risk)
    enough = "; ".join(f"{label} for {', '.join(risks)}" for label, risks in by_coalition.items())
    return f"No. Enough are: {enough}. No differential privacy is claimed, and none holds."


def smallest_by_variant(findings: Sequence[Finding]) -> list[tuple[str, str, int | None, str]]:
    """Return, for each way of computing similarities, who reads clients' models.

    Returns
    -------
    list of (variant, coalition in words, size, evidence)
        The smallest coalition that breaches; None as size where none that was tried does.
    """
    rows: list[tuple[str, str, int | None, str]] = []
    by_variant: dict[str, list[Finding]] = {}
    for f in findings:
        if f.title.startswith("Clients' models under '") and f.metric == "models recovered exactly":
            by_variant.setdefault(f.title.split("'")[2], []).append(f)
    for variant, found in by_variant.items():
        breached = [f for f in found if f.verdict == "breached"]
        least = min((f.coalition_size for f in breached), default=None)
        if least is None:
            rows.append((variant, "none that was tried", None, ""))
            continue
        for f in breached:
            if f.coalition_size == least:
                rows.append(
                    (
                        variant,
                        WORDS.get(f.coalition_label, f.coalition_label),
                        least,
                        f"{f.estimate.value:.0%} of {f.n} models exactly",
                    )
                )
    return rows


def claims_of(
    findings: Sequence[Finding],
    *,
    run: RecordedRun,
    relayed: RecordedRun | None,
    outcomes: Mapping[str, Mapping[str, Any]],
    audited: str,
    dataset: str,
) -> tuple[Claim, ...]:
    """Return the paper's claims with what this audit found.

    Parameters
    ----------
    run : RecordedRun
        The audited run.
    relayed : RecordedRun or None
        The run whose similarities the server relays.
    outcomes : mapping
        How each run ended, by its name in the report.
    audited : str
        The name of the audited run among them.
    """
    return tuple(
        claim
        for claim in (
            _server_sees_similarities(relayed or run),
            _server_receives_models(run),
            *_encryption(findings, relayed or run),
            _reidentification(findings),
            _counts(run, findings),
            _hyperparameters(run),
            _accuracy(outcomes, audited, dataset),
        )
        if claim is not None
    )


def _to_server(run: RecordedRun) -> Counter[str]:
    return Counter(m.kind for m in run.transcript.messages if m.receiver == kinds.SERVER)


def _server_sees_similarities(run: RecordedRun) -> Claim | None:
    values = sum(
        m.specs["cosines"].shape[0]
        for m in run.transcript.messages
        if m.kind == kinds.SIMILARITY_VALUES and m.receiver == kinds.SERVER
    )
    if not values:
        return None
    return Claim(
        statement="The protocol prevents server access to raw similarity values.",
        source="section 4.3",
        verdict="does not hold",
        evidence=(
            f"The server clusters on the similarity matrix (Algorithm 1, lines 9 to 15), so it "
            f"received all {values:,} cosines of the run as plain numbers."
        ),
    )


def _server_receives_models(run: RecordedRun) -> Claim | None:
    sent = _to_server(run)
    models = sent[kinds.PARAMETERS]
    if not models:
        return None
    return Claim(
        statement="Clients upload encrypted parameters to the server.",
        source="section 4.4, Algorithm 1, lines 6 and 7",
        verdict="does not hold",
        evidence=(
            f"The server averages and distils from the models (lines 16 to 21), so they were sent "
            f"in the clear too: {models:,} of them. Under secure aggregation, an option here, it "
            "gets sums over clusters, and the model of any client that is alone in its cluster."
        ),
    )


def _encryption(findings: Sequence[Finding], run: RecordedRun) -> Iterator[Claim]:
    broken = [
        f
        for f in findings
        if f.attack == "cryptanalysis/pcsc-ratio" and f.metric == "models recovered exactly"
    ]
    if not broken:
        return
    server = [f for f in broken if f.coalition_label == "server"]
    peers = [f for f in broken if f.coalition_label == "1 client"]
    largest = max(broken, key=lambda f: _dimension(f.setting))
    told = "; ".join(
        f"{WORDS[group[0].coalition_label]} read {sum(f.estimate.value * f.n for f in group):.0f} "
        f"of {sum(f.n for f in group)} models exactly"
        for group in (server, peers)
        if group
    )
    yield Claim(
        statement="PCSC ensures security against parameter leakage during similarity computation.",
        source="section 4 and 4.3",
        # A vector recovered exactly, value by value, is proof by itself.
        verdict="does not hold" if any(f.estimate.value > 0 for f in broken) else "not tested",
        evidence=(
            f"Over the runs of this audit {told}. {largest.n} models "
            f"({largest.setting.rsplit(', ', 1)[1]}) took {largest.seconds:.1f} s with the control "
            "experiment. Every choice of sizes that decodes can be broken "
            "(docs/attacks/cryptanalysis.md)."
        ),
    )
    sizes = [
        (m.specs["ciphertexts"].nbytes, m.specs["ciphertexts"].shape[0] - 2)
        for m in run.transcript.messages
        if m.kind == kinds.SIMILARITY_CHALLENGE
    ]
    if sizes:
        size, values = sizes[0]
        yield Claim(
            statement="The similarity encryption is lightweight.",
            source="section 1 and 4.3",
            verdict="not reproduced",
            evidence=(
                f"A client's ciphertexts took {size / (4 * values):.1f} times the bytes of its "
                "float32 model. Homomorphic encryption (CKKS) is timed beside it by "
                "benchmarks/pcsc.py."
            ),
        )


def _dimension(setting: str) -> int:
    digits = setting.rsplit(", ", 1)[-1].removesuffix(" parameters").replace(",", "")
    return int(digits) if digits.isdigit() else 0


def _reidentification(findings: Sequence[Finding]) -> Claim | None:
    tried = [
        f for f in findings if f.attack == "reidentification/similarity-linking" and f.headline
    ]
    if not tried:
        return None
    f = tried[0]
    # Too few clients to tell are no confirmation of the claim.
    decided: Mapping[str, Literal["reproduced", "not reproduced"]] = {
        "breached": "not reproduced",
        "not shown": "reproduced",
    }
    return Claim(
        statement=(
            "The encrypted similarity computation addresses the risk of re-identification that "
            "exposed similarities bring."
        ),
        source="section 1 (challenge C3) and 4.3",
        verdict=decided.get(f.verdict, "not tested"),
        evidence=(
            f"From the similarities alone, {f.estimate.value:.0%} of {f.n} pseudonymous clients "
            f"were recognised (matching at random: {f.baseline.value:.0%}; {f.setting})."
        ),
    )


def _counts(run: RecordedRun, findings: Sequence[Finding]) -> Claim | None:
    sent = _to_server(run)[kinds.CLASS_COUNTS]
    if not sent:
        return None
    found = [f for f in findings if f.attack == "inference/class-counts"]
    told = "" if not found else f", exactly for {found[0].n} clients"
    return Claim(
        statement="Category statistics guide sampling and weighting (equations 5 and 6).",
        source="section 4.2",
        verdict="does not hold" if sent else "not tested",
        evidence=(
            f"They work, and they are a release that the paper does not mention: class counts were "
            f"sent to the server in the clear {sent:,} times{told}."
        ),
    )


def _hyperparameters(run: RecordedRun) -> Claim | None:
    configuration: Any = run.transcript.public.get("configuration", {})
    if configuration.get("clustering") != "affinity-propagation":
        return None
    return Claim(
        statement="Clustering eliminates hyper-parameters through message passing.",
        source="section 4.1",
        verdict="does not hold",
        evidence=(
            "Affinity propagation has a preference and a damping factor, which decide the number "
            "of clusters; the paper names neither. The median similarity and 0.5 were used here."
        ),
    )


def _last_accuracy(outcome: Mapping[str, Any]) -> float | None:
    metrics = outcome.get("metrics") or []
    if outcome.get("status") != "completed" or not metrics:
        return None
    value = metrics[-1]["values"].get("accuracy")
    return None if value is None else float(value)


def _accuracy(
    outcomes: Mapping[str, Mapping[str, Any]], audited: str, dataset: str
) -> Claim | None:
    own = _last_accuracy(outcomes.get(audited, {}))
    plain = {
        name: value
        for name, outcome in outcomes.items()
        if name != audited and (value := _last_accuracy(outcome)) is not None
    }
    if own is None or not plain:
        return None
    listed = "; ".join(f"{name}: {value:.1%}" for name, value in plain.items())
    better = all(own > value for value in plain.values())
    return Claim(
        statement="Distillation from the cluster models makes a better global model.",
        source="section 5.2, table 1 (SVHN, CIFAR-10, CIFAR-100)",
        verdict="reproduced" if better else "not reproduced",
        evidence=(
            f"On {dataset}, one seed, other data and networks than the paper's: DisUE {own:.1%}; "
            f"{listed} (mean over the clients of the accuracy on their own test sets)."
        ),
    )
