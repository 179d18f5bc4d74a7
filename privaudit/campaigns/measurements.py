"""What a cell gave, and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from privaudit.scoring.estimate import Scores

__all__ = [
    "Measurement",
    "ScoreTriple",
    "Status",
    "measurement_from_json",
    "measurement_to_json",
]

Status = Literal["measured", "not-applicable", "failed"]


@dataclass(frozen=True, slots=True)
class ScoreTriple:
    """One metric of one cell: the attack's scores, the baseline's, and the control's."""

    name: str
    unit: str
    attack: Scores
    baseline: Scores
    control: Scores | None


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """What a cell gave. One that could not run says why."""

    status: Status
    reason: str
    triples: tuple[ScoreTriple, ...]
    diagnostics: Mapping[str, float]
    seconds: float
    guesses: Mapping[str, np.ndarray] = field(default_factory=dict)


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement without its guesses as JSON values; numbers not finite become None."""
    return {
        "status": measurement.status,
        "reason": measurement.reason,
        "triples": [
            {
                "name": t.name,
                "unit": t.unit,
                "attack": _scores_to_json(t.attack),
                "baseline": _scores_to_json(t.baseline),
                "control": _scores_to_json(t.control),
            }
            for t in measurement.triples
        ],
        "diagnostics": {k: _finite(v) for k, v in measurement.diagnostics.items()},
        "seconds": measurement.seconds,
    }


def measurement_from_json(value: Mapping[str, Any]) -> Measurement:
    """Read a measurement back.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is not one.
    """
    triples = []
    for t in value["triples"]:
        attack, baseline = _scores_from_json(t["attack"]), _scores_from_json(t["baseline"])
        if attack is None or baseline is None:
            raise ValueError("a stored measurement lacks scores")
        triples.append(
            ScoreTriple(t["name"], t["unit"], attack, baseline, _scores_from_json(t["control"]))
        )
    numbers = {k: float("nan") if v is None else v for k, v in value["diagnostics"].items()}
    return Measurement(value["status"], value["reason"], tuple(triples), numbers, value["seconds"])


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None


def _scores_to_json(scores: Scores | None) -> Any:
    if scores is None:
        return None
    return {
        **asdict(scores),
        "per_target": {target: _finite(v) for target, v in scores.per_target.items()},
    }


def _scores_from_json(value: Any) -> Scores | None:
    if value is None:
        return None
    per_target = {
        target: float("nan") if v is None else float(v) for target, v in value["per_target"].items()
    }
    return Scores(**{**value, "per_target": per_target})
