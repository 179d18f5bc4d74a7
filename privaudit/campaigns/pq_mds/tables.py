"""Tables and figures of an audit of PQ-MDS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from privaudit.attacks.indices import PRESETS
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.pq_mds.adversaries import LABELS
from privaudit.campaigns.pq_mds.audit import AuditResult
from privaudit.campaigns.pq_mds.budgets import person_epsilon
from privaudit.campaigns.pq_mds.config import Setting
from privaudit.campaigns.pq_mds.verdicts import metrics_of
from privaudit.campaigns.runs import RecordedRun
from privaudit.leakage import (
    CodeLeakage,
    held_out_cells,
    leakage_by_party,
    quantisation_floor,
)
from privaudit.protocols.pq_mds import kinds
from privaudit.protocols.pq_mds.quality import clustering_quality
from privaudit.protocols.pq_mds.server import cluster
from privaudit.reports.model import Figure, Finding, MeasuredTable
from privaudit.reports.tradeoff import Point, tradeoff
from privaudit.transcript import Truth

__all__ = [
    "adversaries",
    "alone",
    "formal_leakage",
    "matrix",
    "settings_table",
    "tradeoff_figure",
    "unique_share",
]

_ERROR = "normalised reconstruction error"
Table = npt.NDArray[np.float64]


def _codes(run: RecordedRun) -> dict[str, npt.NDArray[np.integer]]:
    truth = run.truth or Truth()
    return {
        party: np.asarray(truth.get(party, "codes/round-1"))
        for party in run.transcript.ids(kinds.DATA_PARTY_ROLE)
    }


def unique_share(run: RecordedRun) -> float:
    """Return the share of rows whose tuple of true codes, over all parties, no other row has."""
    return leakage_by_party(_codes(run))["jointly"].anonymity.unique


def alone(run: RecordedRun, *, clusters: int, seed: int) -> Mapping[str, float]:
    """Return the ARI of each party that clusters its own columns; empty without labels."""
    truth = run.truth or Truth()
    labels = truth.targets[kinds.ROWS].get("labels")
    if labels is None:
        return {}
    found = {}
    for party in run.transcript.ids(kinds.DATA_PARTY_ROLE):
        own = cluster(
            np.asarray(truth.get(party, "features")),
            clusters,
            initialisations=10,
            rng=np.random.default_rng([seed, 31]),
        )
        found[party] = clustering_quality(own.labels, labels)["ari"]
    return found


def formal_leakage(result: AuditResult) -> MeasuredTable:
    """Return what codes give away in bits and anonymity sets, by party and jointly."""
    rows = []
    for name, setting in result.settings.items():
        if setting.group in ("no defence", "single columns"):
            continue
        run = result.runs[name]
        noisy = setting.group == "private"
        for party, leak in leakage_by_party(_codes(run)).items():
            if party != "jointly" and setting.group not in ("audited", "table", "coarse"):
                continue
            floor, held = _errors(run, None if party == "jointly" else party)
            rows.append(_leakage_row(setting.words, party, leak, floor, held, noisy=noisy))
    return MeasuredTable(
        id="formal-leakage",
        title="Formal leakage of the codes",
        caption="In bits a row; * is the most that so many rows can show. Unique rows: nobody "
        "else has these codes. Errors of the best reconstruction: with the true codewords, and "
        "with other rows of the same codes. Descriptions, not guarantees.",
        columns=(
            "Setting",
            "Party",
            "Entropy",
            "#Over subspaces",
            "#At most",
            "#Min-entropy leakage",
            "#Unique rows",
            "#Below five",
            "#Least set",
            "#Error, codewords",
            "#Error, same tuple",
        ),
        rows=tuple(rows),
    )


def _leakage_row(
    words: str, party: str, leak: CodeLeakage, floor: float, held: float, *, noisy: bool
) -> tuple[str | int | float | None, ...]:
    return (
        words + (" (before randomisation)" if noisy else ""),
        party,
        f"{leak.entropy:.2f}{'*' if leak.saturated else ''}",
        leak.marginal_entropy,
        leak.capacity,
        leak.min_entropy_leakage,
        leak.anonymity.unique,
        leak.anonymity.below_five,
        leak.anonymity.minimum,
        floor,
        held,
    )


def _errors(run: RecordedRun, party: str | None) -> tuple[float, float]:
    """Return the errors of the true codewords, and of held-out means of equal tuples."""
    truth = run.truth or Truth()
    parties = run.transcript.ids(kinds.DATA_PARTY_ROLE) if party is None else (party,)
    records, decoded, codes = [], [], []
    for name in parties:
        own = np.asarray(truth.get(name, "codes/round-1"))
        centres = np.asarray(run.transcript.secrets[name]["centres/round-1"], dtype=np.float64)
        layout = np.asarray(truth.get(name, "layout"))
        records.append(np.asarray(truth.get(name, "features"), dtype=np.float64))
        decoded.append(centres[own[:, layout], np.arange(len(layout))])
        codes.append(own)
    every = np.concatenate(records, axis=1)
    floor = quantisation_floor(every, np.concatenate(decoded, axis=1)).error
    held = held_out_cells(every, np.concatenate(codes, axis=1), rng=np.random.default_rng(0)).error
    return floor, held


def _figure_of(findings: Sequence[Finding], words: str, attack: str, metric: str) -> Finding | None:
    for f in findings:
        if f.attack != attack or not f.metric.startswith(metric):
            continue
        if f.setting == words or f.setting.startswith(f"{words}, "):
            return f
    return None


def settings_table(result: AuditResult, findings: Sequence[Finding]) -> MeasuredTable:
    """Return quality, volume and leakage of every setting and reference beside one another."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for name, setting in result.settings.items():
        if name == "single-columns":
            continue
        words = "the audited run" if name == "main" else setting.words
        rows.append(
            _setting_row(
                words,
                metrics_of(result.runs[name].outcome),
                [
                    _figure_of(findings, words, attack, metric)
                    for attack, metric in (
                        ("indices/known-sample", _ERROR),
                        ("indices/auxiliary-alignment", _ERROR),
                        ("indices/record-linking", "top-1"),
                        ("indices/membership", "membership AUC"),
                    )
                ],
                person_epsilon(result.runs[name], delta=result.config.delta),
            )
        )
    for name, outcome in result.references.items():
        rows.append(_setting_row(f"reference: {name}", metrics_of(outcome), [None] * 4, None))
    main = metrics_of(result.runs["main"].outcome)
    if "central_ari" in main:
        rows.append(
            (
                "reference: k-means on pooled columns",
                main["central_ari"],
                1.0,
                main["raw_bytes_per_row"],
                None,
                None,
                None,
                None,
                None,
            )
        )
    return MeasuredTable(
        id="settings",
        title="Quality and leakage by setting",
        caption="ARI against labels, and against k-means on pooled columns. Errors of rebuilt "
        "records: 0 perfect, 1 the average record. Membership: AUC, 0.5 is a coin toss. ε of one "
        "person over all parties; empty: none, or not measured. Breast cancer is another table.",
        columns=(
            "Setting",
            "#ARI, labels",
            "#ARI, pooled",
            "#Bytes a row",
            "#Error, rows known",
            "#Error, similar records",
            "#Recognised",
            "#Membership",
            "#ε",
        ),
        rows=tuple(rows),
    )


def _setting_row(
    words: str,
    values: Mapping[str, float],
    found: Sequence[Finding | None],
    epsilon: float | None,
) -> tuple[str | int | float | None, ...]:
    return (
        words,
        values.get("ari"),
        values.get("agreement_ari"),
        values.get("bytes_per_row"),
        *(None if f is None else f.estimate.value for f in found),
        epsilon,
    )


def matrix(
    results: Sequence[tuple[Planned, Measurement]], findings: Sequence[Finding]
) -> MeasuredTable:
    """Return the headline metric of every attack under every threat model on the audited run."""
    main = [f for f in findings if f.setting.startswith("the audited run")]
    attacks = list(dict.fromkeys(i.cell.attack.name for i, _ in results))
    rows = []
    for attack in attacks:
        first: dict[str, Finding] = {}
        for f in main:
            if f.attack == attack:
                first.setdefault(f.coalition_label, f)
        if not first:
            continue
        metric = next(iter(first.values())).metric
        cells: list[str | None] = []
        for label in LABELS.values():
            cells.append(_with_baseline(first[label]) if label in first else None)
        rows.append((attack.removeprefix("indices/"), metric, *cells))
    return MeasuredTable(
        id="threat-models",
        title="Every attack under every threat model",
        caption="On the audited run, in brackets what prior knowledge alone reaches; empty where "
        "the attack needs what the adversary lacks. Columns are never averaged.",
        columns=("Attack", "Metric", *LABELS.values()),
        rows=tuple(rows),
    )


def adversaries() -> MeasuredTable:
    """Return the threat models in words."""
    return MeasuredTable(
        id="adversaries",
        title="Threat models",
        caption="Who the adversary is and what it knows besides what the protocol gives it.",
        columns=("Short", "Adversary"),
        rows=tuple((LABELS[name], model.description) for name, model in PRESETS.items()),
    )


def _with_baseline(finding: Finding) -> str:
    value, base = finding.estimate.value, finding.baseline.value
    if finding.unit == "proportion":
        return f"{value:.0%} ({base:.0%})"
    return f"{value:.2f} ({base:.2f})"


def tradeoff_figure(result: AuditResult, findings: Sequence[Finding]) -> list[Figure]:
    """Return quality against leakage, one point a setting of the audited data."""
    points, baseline = [], 1.0
    quality = "ARI against the labels" if result.data.labels is not None else "ARI, pooled k-means"
    key = "ari" if result.data.labels is not None else "agreement_ari"
    for name, setting in result.settings.items():
        if setting.group in ("table", "single columns"):
            continue
        words = "the audited run" if name == "main" else setting.words
        found = _figure_of(findings, words, "indices/known-sample", _ERROR)
        values = metrics_of(result.runs[name].outcome)
        if found is None or key not in values:
            continue
        if name == "main":
            baseline = found.baseline.value
        group = {
            "no defence": "ranks, SMACOF",
            "partition": "other parties",
            "setting": "other codes",
        }.get(setting.group, setting.group)
        mark = _mark(setting)
        points.append(Point(setting.words, mark, group, values[key], found.estimate))
    nothing = metrics_of(result.references.get("no data (random codes)", {})).get(key)
    if not points:
        return []
    return [
        tradeoff(
            points,
            id="quality-and-leakage",
            title="Quality of the clustering against leakage",
            caption="A server that knows some rows rebuilds the others; further left is a better "
            "copy. Above is a better clustering. A useful protection would lie top right. Dotted: "
            "a clustering of random codes, without any data.",
            utility=quality,
            leakage="error of rebuilt records (0 perfect, 1 average)",
            no_leakage=baseline,
            reference=nothing,
            reference_label="random codes",
        )
    ]


def _mark(setting: Setting) -> str:
    """Return what stands beside a point: codes and budget of a code."""
    given = setting.simulation.parameters
    codes = {1: "1 code", 2: "2 codes"}.get(given.get("subspaces", 0), "")
    if setting.group == "setting":
        return codes
    if setting.group != "private":
        return ""
    return f"ε {given['epsilon0']:g}" + ("" if codes else ", all codes")
