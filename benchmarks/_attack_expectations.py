"""The rules by which the attacks are judged, and the table.

Numbers are those of the specification: what its prototypes measured, and what it accepts. They
were written down before the package's own figures were seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from _attack_measures import Sample, Samples
from _attack_specification import EXPECTATIONS, Expectation, Judgement

from privaudit.scoring.estimate import Scores, estimate

#: The rules, printed above the table.
RULES: Mapping[Judgement, str] = {
    "accept": "reached if our value is at least (at most, where lower is leakier) what is accepted",
    "match": "the specification accepts no number but measured one: reached if ours is as good; "
    "'not reached, within error' if only our 95 % interval holds it",
    "control": "must not work: within chance if our value is at most what is accepted; for labels "
    "if our interval holds one in ten",
    "report": "no number to compare with",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table, as it is printed and as JSON."""

    dataset: str
    key: str
    condition: str
    measured: str
    threshold: float | None
    judgement: Judgement
    value: float
    low: float | None
    high: float | None
    n: int
    failed: int
    statistic: str
    verdict: str


def summarised(sample: Sample) -> tuple[float, float | None, float | None, int, int]:
    """Return value, ends of the 95 % interval, number and failures of a pooled sample."""
    values = np.array(list(sample.values.values()))
    failed = int((~np.isfinite(values)).sum())
    if sample.statistic == "minimum":
        least = float(values.min()) if not failed else float("-inf")
        return least, None, None, len(values), failed
    scores = Scores("", sample.statistic, sample.values, sample.higher)
    found = estimate(scores, confidence=0.95)
    several = len(values) > 1
    return (
        found.value,
        found.low if several else None,
        found.high if several else None,
        found.n,
        found.failed,
    )


def rows(dataset: str, samples: Samples) -> list[Row]:
    """Judge every expectation for which there is a sample."""
    found = []
    for expectation in EXPECTATIONS:
        sample = samples.get(expectation.key)
        if sample is None:
            continue
        value, low, high, n, failed = summarised(sample)
        threshold = (expectation.threshold or {}).get(dataset)
        verdict = judged(expectation, sample, value, low, high, threshold)
        found.append(
            Row(
                dataset=dataset,
                key=expectation.key,
                condition=expectation.condition,
                measured=expectation.measured.get(dataset, "–"),
                threshold=threshold,
                judgement=expectation.judgement if threshold is not None else "report",
                value=value,
                low=low,
                high=high,
                n=n,
                failed=failed,
                statistic=sample.statistic,
                verdict=verdict,
            )
        )
    return found


def judged(
    expectation: Expectation,
    sample: Sample,
    value: float,
    low: float | None,
    high: float | None,
    threshold: float | None,
) -> str:
    """Apply the rule of an expectation."""
    if threshold is None:
        return "–"
    if expectation.judgement == "control":
        if expectation.key.endswith("labels"):
            within = low is not None and high is not None and low <= threshold
        else:
            within = value <= threshold
        return "within chance" if within else "BEYOND CHANCE"
    sign = 1.0 if sample.higher else -1.0
    if sign * value >= sign * threshold - 1e-9:
        return "reached"
    if expectation.judgement == "match" and low is not None and high is not None:
        best = high if sample.higher else low
        if sign * best >= sign * threshold:
            return "not reached, within error"
    return "not reached"


def table(found: Sequence[Row]) -> list[str]:
    """Return a Markdown table."""
    lines = [
        "| condition | prototype | accepted | here | 95 % | n | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        interval = "–" if row.low is None else f"{number(row.low)} to {number(row.high)}"
        accepted = "–"
        if row.threshold is not None:
            # A number that is only to be matched is already in the column before.
            accepted = "–" if row.judgement == "match" else number(row.threshold)
        told = f"{row.n}" + (f" ({row.failed} failed)" if row.failed else "")
        lines.append(
            f"| {row.condition} | {row.measured} | {accepted} | {number(row.value)} | {interval} "
            f"| {told} | {row.verdict} |"
        )
    return lines


def number(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return f"{value:.1f}" if abs(value) >= 3 else f"{value:.2f}"
