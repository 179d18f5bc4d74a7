"""The JSON report: what is written is read back, and what is not a report is refused by name."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports_sample import sample_report

from privaudit.errors import ConfigurationError
from privaudit.reports import (
    SCHEMA_VERSION,
    json_schema,
    read_report,
    render_html,
    render_json,
    render_markdown,
    report_digest,
    write_report,
)
from privaudit.reports._format import interval, number, percent, visible
from privaudit.reports._opening import make_opening
from privaudit.reports.model import AuditReport, GalleryRow, UncoveredRelease

Change = Callable[[dict[str, Any]], object]


def _changed(tmp_path: Path, change: Change) -> Path:
    content = json.loads(render_json(sample_report()))
    change(content)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(content))
    return file


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    report = sample_report()
    write_report(report, tmp_path)
    read = read_report(tmp_path)
    # NaN differs from itself, so the models are compared by what they write.
    assert render_json(read) == render_json(report)
    assert read.budgets == report.budgets


def test_numbers_that_json_cannot_write_become_strings_and_come_back(tmp_path: Path) -> None:
    write_report(sample_report(), tmp_path, formats=["json"])
    text = (tmp_path / "report.json").read_text()
    json.loads(text, parse_constant=pytest.fail)
    findings = {f.id: f for f in read_report(tmp_path).findings}
    assert '"Infinity"' in text
    assert findings["F3"].worst_value == math.inf
    assert math.isnan(findings["F10"].estimate.value)


def test_the_digest_is_that_of_the_file_and_stands_in_both_other_forms(tmp_path: Path) -> None:
    html, data, markdown = write_report(sample_report(), tmp_path)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert digest == report_digest(sample_report())
    assert digest in html.read_text()
    assert digest in markdown.read_text()


def test_the_same_report_gives_the_same_bytes() -> None:
    report = sample_report()
    again = AuditReport.model_validate_json(render_json(report))
    for render in (render_html, render_markdown, render_json):
        assert render(report) == render(again)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c["findings"][0].update(estimatee=1), "findings.0.estimatee"),
        (lambda c: c["findings"][2].pop("n"), "findings.2.n"),
        (lambda c: c["verdicts"][0].update(verdict="private"), "verdicts.0.verdict"),
        (lambda c: c["system"].update(users="many"), "system.users"),
        (lambda c: c["figures"][0].update(png="https://example.org/x.png"), "figures.0.png"),
        (lambda c: c["galleries"][0]["rows"][1]["pngs"].pop(), "galleries.0.rows.1"),
        (lambda c: c["utilities"][0]["series"][0]["x"].pop(), "utilities.0.series.0"),
        (lambda c: c.pop("seed"), "seed"),
    ],
)
def test_a_bad_report_is_refused_with_the_key(tmp_path: Path, change: Change, named: str) -> None:
    file = _changed(tmp_path, change)
    with pytest.raises(ConfigurationError, match=re.escape(named)) as raised:
        read_report(file)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_misspelt_key_is_answered_with_the_right_one(tmp_path: Path) -> None:
    def misspell(content: dict[str, Any]) -> None:
        content["findngs"] = content.pop("findings")

    with pytest.raises(ConfigurationError, match="Did you mean 'findings'"):
        read_report(_changed(tmp_path, misspell))


@pytest.mark.parametrize("version", ["privaudit-report/2", None, 1])
def test_another_schema_version_is_refused_by_name(tmp_path: Path, version: object) -> None:
    file = _changed(tmp_path, lambda c: c.update(schema_version=version))
    with pytest.raises(ConfigurationError, match=SCHEMA_VERSION):
        read_report(file)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_not_a_report_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=re.escape(str(file))):
        read_report(file)


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    os.mkfifo(tmp_path / "report.json")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        read_report(tmp_path)


def test_a_missing_report_and_one_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=r"report\.json"):
        read_report(tmp_path)
    write_report(sample_report(), tmp_path, formats=["json"])
    monkeypatch.setattr("privaudit.reports._json.MAXIMUM_BYTES", 1000)
    with pytest.raises(ConfigurationError, match="at most 1000 bytes"):
        read_report(tmp_path)


def test_the_published_schema_names_every_key_and_admits_infinite_numbers() -> None:
    schema = json_schema()
    assert schema["properties"].keys() == AuditReport.model_fields.keys()
    assert "schema_version" in schema["required"]
    assert "budget_statements" not in schema["required"]
    value = schema["$defs"]["Interval"]["properties"]["value"]
    assert {"type": "number"} in value["anyOf"]
    assert {"enum": ["Infinity", "-Infinity", "NaN"]} in value["anyOf"]
    json.dumps(schema)


def test_files_are_written_whole_and_in_the_order_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = write_report(sample_report(), folder, formats=["md", "json"])
    assert [file.name for file in written] == ["report.md", "report.json"]
    assert sorted(file.name for file in folder.iterdir()) == ["report.json", "report.md"]


def test_a_failed_write_leaves_the_older_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.json").write_text("older")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(ConfigurationError, match="No space left"):
        write_report(sample_report(), tmp_path, formats=["json"])
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    assert (tmp_path / "report.json").read_text() == "older"


def test_an_unknown_format_is_answered_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'html'"):
        write_report(sample_report(), tmp_path, formats=["htm"])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file"):
        write_report(sample_report(), tmp_path / "file")


def test_captions_must_match_images() -> None:
    with pytest.raises(ValueError, match="2 captions"):
        GalleryRow(label="x", pngs=("",), captions=("a", "b"))


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_bounds_are_rounded_to_their_safe_side(value: float) -> None:
    def back(text: str) -> float:
        digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
        mantissa, _, power = text.replace("\N{NO-BREAK SPACE}", "").partition("×10")
        return float(f"{mantissa}e{power.translate(digits) or 0}")

    above, below = back(number(value, toward="above")), back(number(value, toward="below"))
    assert below <= value <= above
    assert above <= below * 1.0101


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_a_proportion_is_never_rounded_to_none_or_all(value: float) -> None:
    assert percent(value) not in {percent(0.0), percent(1.0)}


def test_values_that_are_not_finite_are_said_in_words() -> None:
    nan = math.nan
    assert interval(nan, nan, nan, "dB") == "not finite"
    assert interval(1.0, 0.5, math.inf, "dB").replace("\N{NO-BREAK SPACE}", " ") == (
        "1.00 [0.500, ∞] dB"
    )


@given(st.text())
def test_no_control_or_reordering_character_survives(text: str) -> None:
    shown = visible(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


def test_the_budget_is_told_in_words_with_the_reason_why_users_have_none() -> None:
    said = " ".join(make_opening(sample_report(), digest="").budget).replace("\xa0", " ")
    assert "no differential privacy at user level, because" in said
    assert "the values of the k largest coordinates" in said
    # 2.235 and 1.975, each rounded to its safe side; exp(2.235) = 9.346...
    assert "at most ε = 2.24 and at least 1.97 in one round" in said
    assert "at most 9.35" in said
    assert "over 100 rounds" in said
    assert "ε = 2.73 × 10⁵ in one round, outside the domain" in said


def test_given_budget_statements_replace_those_made_of_rows() -> None:
    report = sample_report().model_copy(update={"budget_statements": ("Said by the auditor.",)})
    assert make_opening(report, digest="").budget == ("Said by the auditor.",)


def test_a_report_without_breach_does_not_call_anything_safe() -> None:
    report = sample_report()
    verdicts = tuple(v.model_copy(update={"verdict": "not shown"}) for v in report.verdicts)
    opening = make_opening(report.model_copy(update={"verdicts": verdicts}), digest="")
    assert "other attacks may" in opening.summary[-1]
    assert any("It does not show that other attacks fail" in text for text in opening.limitations)


def test_an_uncovered_release_without_observers_is_still_named() -> None:
    release = UncoveredRelease(
        what="sizes", observers=(), values_per_user_and_round=1, consequence=""
    )
    report = sample_report().model_copy(update={"uncovered": (release,)})
    assert "sizes (1 value per user and round)" in " ".join(make_opening(report, digest="").budget)
