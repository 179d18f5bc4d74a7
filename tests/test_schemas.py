"""The published JSON Schemas are those of this version, and what it writes keeps them."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from reports_hostile import hostile_report
from reports_sample import sample_report

from privaudit.campaigns.grid import CellSpec, Row
from privaudit.campaigns.grid.definition import read_campaign
from privaudit.campaigns.grid.table import flat_rows
from privaudit.campaigns.measurements import Measurement, ScoreTriple, measurement_to_json
from privaudit.campaigns.schemas import SCHEMAS, schema_text
from privaudit.cli import main
from privaudit.reports import SCHEMA_VERSION, render_json
from privaudit.scoring.estimate import Scores

REPOSITORY = Path(__file__).parents[1]
PUBLISHED = REPOSITORY / "docs" / "schema"
SAMPLES = sorted(REPOSITORY.glob("reports/**/report.json"))


def validator(name: str) -> Any:
    schema = json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_published_schema_is_the_one_of_the_code(name: str) -> None:
    text = (PUBLISHED / f"{name}.json").read_text(encoding="utf-8")
    assert text == schema_text(name), "run `make schema`"


def test_nothing_else_is_published_and_versions_agree() -> None:
    assert {p.stem for p in PUBLISHED.glob("*.json")} == set(SCHEMAS)
    assert f"urn:{SCHEMA_VERSION.replace('/', ':')}" == validator("report-1").schema["$id"]


@pytest.mark.parametrize("file", SAMPLES, ids=lambda p: p.parent.name)
def test_a_sample_report_keeps_the_published_schema(file: Path) -> None:
    validator("report-1").validate(json.loads(file.read_text(encoding="utf-8")))


def test_there_are_sample_reports() -> None:
    assert len(SAMPLES) >= 4


@pytest.mark.parametrize("report", [sample_report, hostile_report])
def test_reports_with_odd_numbers_and_texts_keep_it_too(report: Any) -> None:
    validator("report-1").validate(json.loads(render_json(report())))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.pop("schema_version"),
        lambda r: r.update(schema_version="privaudit-report/2"),
        lambda r: r.update(verdict="breached"),
        lambda r: r["findings"][0].update(verdict="fine"),
        lambda r: r["findings"][0]["estimate"].update(low="small"),
    ],
    ids=["no version", "another version", "unknown key", "unknown verdict", "a word for a number"],
)
def test_what_read_report_refuses_the_schema_refuses(spoil: Any) -> None:
    report = json.loads(render_json(sample_report()))
    spoil(report)
    with pytest.raises(jsonschema.ValidationError):
        validator("report-1").validate(report)


def test_examples_of_campaigns_keep_the_schema_and_a_slip_does_not() -> None:
    found = [
        p for p in (REPOSITORY / "examples").glob("*.toml") if "[[attack]]" in p.read_text("utf-8")
    ]
    assert found
    for file in found:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        validator("campaign-1").validate(content)
        # What is stored beside the results is the resolved form of the same.
        validator("campaign-1").validate(read_campaign(file).model_dump(mode="json"))
        with pytest.raises(jsonschema.ValidationError):
            validator("campaign-1").validate({**content, "gird": {}})


def rows() -> list[Row]:
    """A cell of each status."""
    scores = Scores("accuracy", "proportion", {f"user-{i}": float(i % 2) for i in range(20)})
    triple = ScoreTriple("accuracy", "proportion", scores, scores, None)
    result = measurement_to_json(Measurement("measured", "", (triple, triple), {}, 1.0))
    run = {
        "protocol": "fedavg",
        "seed": 0,
        "parameters": {"rounds": 1, "learning_rate": None},
        "federation": {"users": 20, "iid": True},
    }
    spec = CellSpec(run, "toy/a", {"round": 1}, "server")
    unmet = {**result, "triples": []}
    return [
        Row("a" * 64, spec, "measured", "", result, 1.5),
        Row("b" * 64, spec, "not-applicable", "it lacks something", unmet, 0.1),
        Row("c" * 64, spec, "failed", "its worker died", None, None),
        Row("d" * 64, spec, "pending", "", None, None),
    ]


def test_results_of_a_campaign_keep_the_schema() -> None:
    flat = json.loads(json.dumps(flat_rows(rows())))
    assert {row["status"] for row in flat} == {"measured", "not-applicable", "failed", "pending"}
    validator("results-1").validate({"rows": flat})
    for spoiled in (
        [{**flat[0], "n": 0}],
        [{k: v for k, v in flat[0].items() if k != "baseline"}],
        [{**copy.deepcopy(flat[-1]), "value": 1.0}],
        [{**flat[0], "colour": "red"}],
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator("results-1").validate({"rows": spoiled})


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def test_the_command_prints_one_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(["schema", "report-1"]) == 0
    assert capsys.readouterr().out == schema_text("report-1")
    assert ended(["schema", "-o", str(tmp_path / "new")]) == 0
    assert {p.stem for p in (tmp_path / "new").iterdir()} == set(SCHEMAS)
    assert ended(["schema"]) == 2
    assert ended(["schema", "reprot-1"]) == 2
    assert "Did you mean 'report-1'?" in capsys.readouterr().err
