"""The content of a leakage report: one versioned schema behind every format."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    JsonValue,
    WithJsonSchema,
    model_validator,
)

__all__ = [
    "SCHEMA_VERSION",
    "AuditReport",
    "BreachingCoalition",
    "BudgetRow",
    "CellCounts",
    "Claim",
    "ExposureRow",
    "Figure",
    "Finding",
    "Gallery",
    "GalleryRow",
    "Interval",
    "MeasuredTable",
    "NotRun",
    "Series",
    "SystemUnderTest",
    "UncoveredRelease",
    "Utility",
    "Verdict",
]

SCHEMA_VERSION = "privaudit-report/1"

Verdict = Literal["breached", "not shown", "inconclusive", "not tested"]

#: The eight bytes with which a PNG begins, in base64 (the last character depends on what follows).
_PNG_START = "iVBORw0KGg"


def _is_png(text: str) -> str:
    if not text.startswith(_PNG_START) or not re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", text):
        raise ValueError("must be a PNG in base64, without the 'data:' prefix")
    return text


def _is_png_or_empty(text: str) -> str:
    return text and _is_png(text)


_PNG_SCHEMA = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
Png = Annotated[str, AfterValidator(_is_png), WithJsonSchema(_PNG_SCHEMA)]
PngOrNothing = Annotated[str, AfterValidator(_is_png_or_empty), WithJsonSchema(_PNG_SCHEMA)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Interval(_Model):
    """A value with its interval."""

    value: float
    low: float
    high: float


class SystemUnderTest(_Model):
    """What was audited.

    ``run_sentence`` says in words what ran on what; empty, it is made of the other fields.
    """

    protocol: str
    protocol_version: str
    claim_under_test: str
    privacy_unit: str
    dataset: str
    data_is_public: bool
    users: int
    rounds: int
    model: str
    dimension: int
    parameters: dict[str, JsonValue]
    actors: dict[str, str]
    deployment_model: Literal["Local", "Central", "Shuffle", "Federated"]
    outcome: str
    run_sentence: str = ""


class Finding(_Model):
    """One measured figure of one attack by one coalition, with its verdict.

    ``unit`` is that of the estimate, the baseline, the control and the figures of the targets:
    ``"proportion"`` is shown in per cent, anything else (``"dB"``) is written behind the number.
    ``per_target`` and ``worst_value`` are in the same unit; in a proportion they are 0 or 1.

    ``protocol`` names the protocol where a report is on several, ``chosen_from`` says of how many
    cells of a campaign this is the worst (the leakiest of those that breach, or of all),
    ``note`` what is wrong with the recording that it was measured on, and ``reason`` why the
    verdict is inconclusive, if it is.
    """

    id: str
    risk: Literal["reconstruction", "inference", "linkability", "singling-out"]
    title: str
    summary: str
    attack: str
    attack_version: str
    coalition: tuple[str, ...]
    coalition_label: str
    coalition_size: int
    capabilities: tuple[str, ...]
    setting: str
    metric: str
    estimate: Interval
    baseline: Interval
    control: Interval | None
    confidence: float
    n: int
    failed: int
    method: str
    verdict: Literal["breached", "not shown", "inconclusive"]
    headline: bool
    worst_target: str
    worst_value: float
    per_target: dict[str, float]
    parameters: dict[str, JsonValue]
    seconds: float
    unit: str = ""
    higher_is_leakier: bool = True
    protocol: str = ""
    chosen_from: int = 1
    note: str = ""
    reason: str = ""

    @property
    def full_title(self) -> str:
        """The title, with the number of cells of which this is the worst."""
        chosen = f", worst of {self.chosen_from} cells" if self.chosen_from > 1 else ""
        return f"{self.title}{chosen}"


class NotRun(_Model):
    """An attack that could not run, with the reason.

    In a campaign, ``cells`` says how many ended like this, on runs of ``protocol``.
    """

    attack: str
    coalition_label: str
    status: Literal["not-applicable", "failed", "not tested"]
    reason: str
    cells: int = 1
    protocol: str = ""

    @property
    def who(self) -> str:
        """The coalition, and the protocol where a report is on several."""
        return (
            f"{self.coalition_label}, on {self.protocol}"
            if self.protocol
            else (self.coalition_label)
        )


class CellCounts(_Model):
    """How the cells of a campaign ended, and on how many runs."""

    runs: int
    measured: int
    not_applicable: int
    failed: int
    pending: int


class BreachingCoalition(_Model):
    """The smallest coalition by which a risk was shown, in words."""

    risk: str
    verdict: Verdict
    coalition_label: str
    size: int
    sentence: str


class ExposureRow(_Model):
    """What becomes known of a user's update to a coalition, verified against the truth.

    Fractions are of the update's coordinates, averaged over the targets; ``worst_*`` is the
    worst-off target. The anonymity set is the number of users among whom a noised value cannot
    be told apart.
    """

    coalition_label: str
    size: int
    targets: int
    exact_fraction: float
    worst_exact_fraction: float
    exact_verified: float
    noised_fraction: float
    unplaced_values: int
    anonymity_minimum: int
    anonymity_median: float
    attributed_verified: float
    note: str


class BudgetRow(_Model):
    """One quantity of the privacy budget of one cluster size over some rounds.

    ``role`` says what the row is for; the words of the first page and the figure are made of it:
    ``"bracket"`` is what the auditor proved for the noised part (lower and upper), ``"local"`` the
    bound without any amplification, ``"paper"`` the paper's own formula evaluated, ``"coordinate"``
    the budget of a single coordinate, ``"user"`` the budget of all that a user releases.
    """

    cluster_size: int
    honest_users: int
    clusters: int
    rounds: int
    epsilon0: float
    delta: float
    dimension: int
    quantity: str
    lower: float | None
    upper: float | None
    theorem: str
    status: str
    domain_ok: bool
    note: str
    role: Literal["bracket", "local", "paper", "coordinate", "user", "other"] = "other"


class UncoveredRelease(_Model):
    """Something released without differential privacy."""

    what: str
    observers: tuple[str, ...]
    values_per_user_and_round: int
    consequence: str


class Claim(_Model):
    """A statement of the paper, and whether it was reproduced.

    ``"does not hold"`` is for a statement that the protocol's own messages contradict, whatever
    the measurement.
    """

    statement: str
    source: str
    verdict: Literal[
        "reproduced", "not reproduced", "partly reproduced", "does not hold", "not tested"
    ]
    evidence: str


class Series(_Model):
    """A line of a utility or clustering figure; ``nan`` in ``y`` is a gap (a diverged run)."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} values and y has {len(self.y)}")
        return self


class Utility(_Model):
    """A quantity over rounds, for several protocols or settings side by side."""

    quantity: str
    x_label: str
    series: tuple[Series, ...]


class MeasuredTable(_Model):
    """A table of measurements that no other part of the report holds.

    Columns whose name begins with ``#`` hold numbers; ``None`` is a cell without a value.
    """

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]

    @model_validator(mode="after")
    def _as_wide_as_its_head(self) -> Self:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} cells under {len(self.columns)} columns")
        return self


class Figure(_Model):
    """A plot: ``png`` is base64; ``alt`` tells what it shows without seeing it."""

    id: str
    title: str
    alt: str
    caption: str
    png: Png


class GalleryRow(_Model):
    """Reconstructions by one attack and view: one base64 PNG a target, ``""`` where it failed.

    ``captions`` are as many as the images, or none.
    """

    label: str
    pngs: tuple[PngOrNothing, ...]
    captions: tuple[str, ...]

    @model_validator(mode="after")
    def _captions_match(self) -> Self:
        if self.captions and len(self.captions) != len(self.pngs):
            raise ValueError(f"{len(self.pngs)} pngs and {len(self.captions)} captions")
        return self


class Gallery(_Model):
    """Targets and what attacks made of them."""

    id: str
    title: str
    caption: str
    targets: GalleryRow
    rows: tuple[GalleryRow, ...]

    @model_validator(mode="after")
    def _rows_match_targets(self) -> Self:
        expected = len(self.targets.pngs)
        for row in self.rows:
            if len(row.pngs) != expected:
                raise ValueError(f"row {row.label!r}: {len(row.pngs)} pngs for {expected} targets")
        return self


class AuditReport(_Model):
    """A whole report; the first page is made of the verdicts, the rest stands behind it.

    ``budget_statements`` are the sentences on the budget for the first page; when there are none,
    they are made of the budget rows by their ``role``. ``claim_result`` says whether the claim
    under test holds, from figures of the same report. ``coalition_words`` says labels of coalitions
    in words, for the first page, and ``budget_condition`` under what condition alone the bounds on
    the budget hold. A report with ``cells`` is that of a campaign: its first page
    compares coalitions and names the worst figures instead of all.
    """

    schema_version: Literal["privaudit-report/1"] = "privaudit-report/1"
    title: str
    tool: dict[str, JsonValue]
    created: str
    seed: int
    complete: bool
    system: SystemUnderTest
    verdicts: tuple[BreachingCoalition, ...]
    findings: tuple[Finding, ...]
    not_run: tuple[NotRun, ...]
    exposure: tuple[ExposureRow, ...]
    budgets: tuple[BudgetRow, ...]
    uncovered: tuple[UncoveredRelease, ...]
    claims: tuple[Claim, ...]
    utilities: tuple[Utility, ...]
    figures: tuple[Figure, ...]
    galleries: tuple[Gallery, ...]
    trust_assumptions: tuple[str, ...]
    not_tested: tuple[str, ...]
    recommendations: tuple[str, ...]
    limitations: tuple[str, ...]
    warnings: tuple[str, ...]
    confidence: float
    simultaneous_tests: int
    reproduce: tuple[str, ...]
    digests: dict[str, str]
    seconds: dict[str, float]
    budget_statements: tuple[str, ...] = ()
    claim_result: str = ""
    tables: tuple[MeasuredTable, ...] = ()
    cells: CellCounts | None = None
    coalition_words: dict[str, str] = {}
    budget_condition: str = ""
