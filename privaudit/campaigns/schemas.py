"""The JSON Schemas that are published for programs which read what privaudit writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from pydantic.json_schema import GenerateJsonSchema

from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.measurements import Status
from privaudit.reports import json_schema
from privaudit.scoring.estimate import Verdict

__all__ = ["SCHEMAS", "campaign_schema", "results_schema", "schema_text"]

_SCALAR: Final = {"type": ["boolean", "integer", "number", "string"]}
_NUMBER: Final = {"type": ["number", "null"]}
_TEXT: Final = {"type": "string"}


def campaign_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a campaign's file, and of ``campaign.json``."""
    schema = Campaign.model_json_schema()
    schema["$schema"] = GenerateJsonSchema.schema_dialect
    schema["$id"] = "urn:privaudit-campaign:1"
    return schema


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema of what ``privaudit results DIR --json`` prints.

    A row is a metric of a cell that was measured; of another cell it has no figures.
    """
    figures = {
        "metric": _TEXT,
        "unit": _TEXT,
        **{end: {"type": "number"} for end in ("value", "low", "high")},
        **dict.fromkeys(("baseline", "control"), _NUMBER),
        "n": {"type": "integer", "minimum": 1},
        "failed_targets": {"type": "integer", "minimum": 0},
        "verdict": {"enum": [v for v in get_args(Verdict) if v != "not tested"]},
    }
    head = {
        "key": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "protocol": _TEXT,
        "seed": {"type": "integer", "minimum": 0},
        "attack": _TEXT,
        "by": _TEXT,
    }
    tail = {
        "status": {"enum": [*get_args(Status), "pending"]},
        "reason": _TEXT,
        "note": {"type": ["string", "null"]},
        "seconds": _NUMBER,
        "log": {"type": ["string", "null"]},
    }
    row = {
        "type": "object",
        "properties": {**head, **figures, **tail},
        "patternProperties": {r"^(parameters|federation|options)\.": _SCALAR},
        "additionalProperties": False,
        "required": [*head, "status", "reason", "seconds"],
        "if": {"properties": {"status": {"const": "measured"}}},
        "then": {"required": list(figures)},
        "else": {"not": {"anyOf": [{"required": [name]} for name in figures]}},
    }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:privaudit-results:1",
        "title": "Results",
        "description": "What `privaudit results DIR --json` prints: one row a metric of a cell.",
        "type": "object",
        "properties": {"rows": {"type": "array", "items": row}},
        "required": ["rows"],
        "additionalProperties": False,
    }


#: Schemas by the name of their file; the number is that of the version.
SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "report-1": json_schema,
    "campaign-1": campaign_schema,
    "results-1": results_schema,
}


def schema_text(name: str) -> str:
    """Return a schema as its file holds it."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
