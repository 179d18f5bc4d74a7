"""From measured cells to the findings of a report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from privaudit.attacks.base import Attack
from privaudit.campaigns.cells import Cell, Measurement, ScoreTriple, attack_options
from privaudit.reports.model import Finding, Interval, NotRun
from privaudit.scoring.estimate import Estimate, compare, judge

__all__ = [
    "Described",
    "Subject",
    "finding_of",
    "findings_of",
    "interval",
    "not_run_of",
    "simultaneous_confidence",
]


class Described(Protocol):
    """A planned cell with the words of a report."""

    @property
    def cell(self) -> Cell:
        """What was measured."""
        ...

    @property
    def title(self) -> str:
        """What was tried, in plain words."""
        ...

    @property
    def summary(self) -> str:
        """What it means, in plain words."""
        ...

    @property
    def headline(self) -> bool:
        """Whether a verdict rests on the first metric of the cell."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What a finding is about.

    Attributes
    ----------
    key : str
        Of the cell.
    attack : Attack
    title, summary : str
        What was tried and what it means, in plain words.
    members : tuple of str
        Of the coalition.
    size : int
        Number of parties in it.
    label : str
        The coalition in words.
    setting : str
        What a reader must know of the run.
    protocol : str
        Where a report is on several.
    chosen_from : int
        Of how many cells this is the leakiest.
    note : str
        What is wrong with the recording.
    """

    key: str
    attack: Attack
    title: str
    summary: str
    members: tuple[str, ...]
    size: int
    label: str
    setting: str
    protocol: str = ""
    chosen_from: int = 1
    note: str = ""


def simultaneous_confidence(
    results: Sequence[tuple[Described, Measurement]], *, confidence: float
) -> tuple[float, int]:
    """Return the confidence of each headline figure so that all hold together, and their number.

    Bonferroni: with m headline figures each gets ``1 - (1 - confidence) / m``.
    """
    tests = sum(1 for item, m in results if item.headline and m.status == "measured")
    return 1 - (1 - confidence) / max(tests, 1), tests


def findings_of(
    results: Sequence[tuple[Described, Measurement]], *, confidence: float
) -> list[Finding]:
    """Return one finding a metric; the first metric of a headline cell is corrected.

    The other figures carry their own interval at ``confidence`` and are descriptive.
    """
    corrected, _ = simultaneous_confidence(results, confidence=confidence)
    found = []
    for item, measurement in results:
        for position, triple in enumerate(measurement.triples):
            headline = item.headline and position == 0
            level = corrected if headline else confidence
            found.append(finding_of(_subject(item), measurement, triple, level, headline=headline))
    return found


def _subject(item: Described) -> Subject:
    cell = item.cell
    return Subject(
        key=cell.key(),
        attack=cell.attack,
        title=item.title,
        summary=item.summary,
        members=tuple(sorted(cell.coalition.members)),
        size=len(cell.coalition.members),
        label=cell.label,
        setting=cell.setting,
    )


def finding_of(
    subject: Subject,
    measurement: Measurement,
    triple: ScoreTriple,
    confidence: float,
    *,
    headline: bool,
) -> Finding:
    """Return the finding on one metric of a measured cell, its interval at ``confidence``."""
    figure = compare(
        triple.attack, baseline=triple.baseline, control=triple.control, confidence=confidence
    )
    assert figure.baseline is not None
    per_target = dict(triple.attack.per_target)
    finite = {t: v for t, v in per_target.items() if math.isfinite(v)}
    pick = max if figure.higher_is_leakier else min
    worst = pick(finite, key=lambda t: finite[t]) if finite else next(iter(per_target))
    judged, reason = judge(figure)
    assert judged != "not tested"
    attack = subject.attack
    return Finding(
        id=hashlib.sha256(f"{subject.key}:{triple.name}".encode()).hexdigest()[:12],
        risk=attack.risk,
        title=subject.title,
        summary=subject.summary,
        attack=attack.name,
        attack_version=attack.version,
        coalition=subject.members,
        coalition_label=subject.label,
        coalition_size=subject.size,
        capabilities=tuple(sorted(attack.requires)),
        setting=subject.setting,
        metric=triple.name,
        estimate=interval(figure),
        baseline=interval(figure.baseline),
        control=None if figure.control is None else interval(figure.control),
        confidence=confidence,
        n=figure.n,
        failed=figure.failed,
        method=figure.method,
        verdict=judged,
        headline=headline,
        worst_target=worst,
        worst_value=per_target[worst],
        per_target=per_target,
        parameters=attack_options(attack),
        seconds=measurement.seconds,
        unit=triple.unit,
        higher_is_leakier=figure.higher_is_leakier,
        protocol=subject.protocol,
        chosen_from=subject.chosen_from,
        note=subject.note,
        reason=reason,
    )


def interval(figure: Estimate) -> Interval:
    """Return the value and interval of an estimate."""
    return Interval(value=figure.value, low=figure.low, high=figure.high)


def not_run_of(results: Sequence[tuple[Described, Measurement]]) -> list[NotRun]:
    """Return a row for each cell that gave no figure, each reason once."""
    rows = {
        (item.cell.attack.name, item.cell.label, m.reason): NotRun(
            attack=item.cell.attack.name,
            coalition_label=item.cell.label,
            status="failed" if m.status == "failed" else "not-applicable",
            reason=m.reason,
        )
        for item, m in results
        if m.status != "measured"
    }
    return list(rows.values())
