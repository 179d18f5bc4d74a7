"""The content of a leakage report: one versioned schema behind every format."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

__all__ = [
    "SCHEMA_VERSION",
    "AuditReport",
    "BreachingCoalition",
    "BudgetRow",
    "Claim",
    "ExposureRow",
    "Figure",
    "Finding",
    "Gallery",
    "GalleryRow",
    "Interval",
    "NotRun",
    "Series",
    "SystemUnderTest",
    "UncoveredRelease",
    "Utility",
]

SCHEMA_VERSION = "privaudit-report/1"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Interval(_Model):
    """A value with its interval."""

    value: float
    low: float
    high: float


class SystemUnderTest(_Model):
    """What was audited."""

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


class Finding(_Model):
    """One measured figure of one attack by one coalition, with its verdict."""

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


class NotRun(_Model):
    """An attack that could not run, with the reason."""

    attack: str
    coalition_label: str
    status: Literal["not-applicable", "failed", "not tested"]
    reason: str


class BreachingCoalition(_Model):
    """The smallest coalition by which a risk was shown, in words."""

    risk: str
    verdict: Literal["breached", "not shown", "inconclusive", "not tested"]
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
    """The privacy budget of one cluster size, claim and bounds side by side."""

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


class UncoveredRelease(_Model):
    """Something released without differential privacy."""

    what: str
    observers: tuple[str, ...]
    values_per_user_and_round: int
    consequence: str


class Claim(_Model):
    """A statement of the paper, and whether it was reproduced."""

    statement: str
    source: str
    verdict: Literal["reproduced", "not reproduced", "partly reproduced", "not tested"]
    evidence: str


class Series(_Model):
    """A line of a utility or clustering figure."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Utility(_Model):
    """A quantity over rounds, for several protocols or settings side by side."""

    quantity: str
    x_label: str
    series: tuple[Series, ...]


class Figure(_Model):
    """A plot: ``png`` is base64; ``alt`` tells what it shows without seeing it."""

    id: str
    title: str
    alt: str
    caption: str
    png: str


class GalleryRow(_Model):
    """Reconstructions by one attack and view: one base64 PNG a target."""

    label: str
    pngs: tuple[str, ...]
    captions: tuple[str, ...]


class Gallery(_Model):
    """Targets and what attacks made of them."""

    id: str
    title: str
    caption: str
    targets: GalleryRow
    rows: tuple[GalleryRow, ...]


class AuditReport(_Model):
    """A whole report; the first page is made of the verdicts, the rest stands behind it."""

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
