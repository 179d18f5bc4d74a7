"""The JSON form of a report: the one that is read back, and whose digest the others print."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.reports.model import SCHEMA_VERSION, AuditReport

__all__ = ["json_schema", "read_report", "render_json", "report_digest"]

#: A report of the largest audit is a few MiB; a larger file is not one.
MAXIMUM_BYTES: Final = 64 * 1024 * 1024


class _Schema(GenerateJsonSchema):
    """Say that a number may be one of the strings which stand for what JSON cannot write."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        number = super().float_schema(schema)
        return {"anyOf": [number, {"enum": ["Infinity", "-Infinity", "NaN"]}]}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``report.json``.

    Examples
    --------
    >>> json_schema()["title"]
    'AuditReport'
    """
    schema = AuditReport.model_json_schema(schema_generator=_Schema)
    schema["required"] = ["schema_version", *schema["required"]]
    schema["$schema"] = GenerateJsonSchema.schema_dialect
    schema["$id"] = f"urn:{SCHEMA_VERSION.replace('/', ':')}"
    return schema


def render_json(report: AuditReport) -> str:
    """Return ``report`` as JSON; numbers that are not finite become strings (``"Infinity"``)."""
    return report.model_dump_json(indent=2) + "\n"


def report_digest(report: AuditReport) -> str:
    """Return the SHA-256 of ``report.json``, as ``sha256sum report.json`` prints it."""
    return hashlib.sha256(render_json(report).encode()).hexdigest()


def read_report(path: Path) -> AuditReport:
    """Read and check a ``report.json``.

    Parameters
    ----------
    path
        The file, or the folder that holds a ``report.json``.

    Raises
    ------
    ConfigurationError
        If there is no such file, it is too large, it is not JSON, it is of another schema
        version, or a key is missing, unknown, or of the wrong type; the message names the key.
    """
    file = path / "report.json" if path.is_dir() else path
    text = _read_text(file)
    _check_version(file, text)
    try:
        return AuditReport.model_validate_json(text)
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {_explain(error)}") from error


def _read_text(file: Path) -> str:
    try:
        if file.exists() and not file.is_file():
            raise ConfigurationError(f"{file}: not a report: not a regular file")
        size = file.stat().st_size
        if size > MAXIMUM_BYTES:
            raise ConfigurationError(
                f"{file}: {size} bytes; a report has at most {MAXIMUM_BYTES} bytes"
            )
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{file}: cannot be read ({error.strerror}); give a report.json or its folder"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not a report: not UTF-8 text") from error


def _check_version(file: Path, text: str) -> None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, or an integer of thousands of digits
        raise ConfigurationError(f"{file}: not a report: not JSON ({error})") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise ConfigurationError(
            f"{file}: schema_version is {version!r}; this version of privaudit reads "
            f"{SCHEMA_VERSION!r}. Make the report again, or read it with the version that wrote it"
        )


def _explain(error: ValidationError) -> str:
    """Return the first problem with its key, and how many more there are.

    An unknown key comes first: it is often the cause of a missing one.
    """
    problems = error.errors(include_url=False)
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    key = ".".join(str(part) for part in first["loc"]) or "the report"
    hint = ""
    if first["type"] == "extra_forbidden":
        parent = first["loc"][:-1]
        missing = [
            str(problem["loc"][-1])
            for problem in problems
            if problem["type"] == "missing" and problem["loc"][:-1] == parent
        ]
        hint = did_you_mean(str(first["loc"][-1]), missing)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{key}: {first['msg']}.{hint}{more}"
