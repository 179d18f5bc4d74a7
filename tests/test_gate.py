"""Policies, comparisons, and the reports for machines."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports_hostile import hostile_report
from reports_sample import HOSTILE, sample_report

from privaudit.cli import main
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.reports import AuditReport, read_report, write_report
from privaudit.reports._machine import render_junit, render_sarif
from privaudit.reports._opening import make_opening
from privaudit.reports.compare import changed_settings, compare_reports
from privaudit.reports.model import CellCounts, Interval
from privaudit.reports.policy import Policy, judge, no_user_budget, read_policy


def policy(**values: Any) -> Policy:
    return validated(Policy, {"report": {"complete": False}, **values}, where="test")


def with_share(low: float, high: float, *, guessing: float = 0.0) -> AuditReport:
    """The sample report with one headline figure of reconstruction, a share."""
    report = sample_report()
    template = next(f for f in report.findings if f.unit == "proportion")
    finding = template.model_copy(
        update={
            "risk": "reconstruction",
            "headline": True,
            "estimate": Interval(value=(low + high) / 2, low=low, high=high),
            "baseline": Interval(value=guessing, low=guessing, high=guessing),
        }
    )
    return report.model_copy(update={"findings": (finding,)})


def outcome(report: AuditReport, **values: Any) -> str:
    (only,) = judge(report, policy(**values))
    return only.outcome


@settings(deadline=None)
@given(
    low=st.floats(0, 1), width=st.floats(0, 1), limit=st.floats(0, 1), guessing=st.floats(0, 0.5)
)
def test_a_limit_is_decided_by_the_end_of_the_interval_that_speaks_against_it(
    low: float, width: float, limit: float, guessing: float
) -> None:
    high = min(1.0, low + width)
    report = with_share(low, high, guessing=guessing)
    expected = "breached" if low > limit else "met" if high <= limit else "inconclusive"
    assert outcome(report, risks={"reconstruction": {"maximum": limit}}) == expected
    over = "breached" if low - guessing > limit else "met"
    if high - guessing > limit >= low - guessing:
        over = "inconclusive"
    assert outcome(report, risks={"reconstruction": {"maximum_advantage": limit}}) == over


def test_verdicts_and_coalitions_are_limited() -> None:
    report = sample_report()  # reconstruction is breached by a coalition of two
    risk = "reconstruction"
    assert outcome(report, risks={risk: {"verdicts": ["not shown"]}}) == "breached"
    assert outcome(report, risks={risk: {"verdicts": ["breached"]}}) == "met"
    assert outcome(report, risks={risk: {"smallest_coalition": 2}}) == "met"
    assert outcome(report, risks={risk: {"smallest_coalition": 3}}) == "breached"
    # Linkability is inconclusive in the sample: no limit on it is met, none is breached.
    assert outcome(report, risks={"linkability": {"smallest_coalition": 9}}) == "inconclusive"
    assert outcome(report, risks={"linkability": {"verdicts": ["not shown"]}}) == "inconclusive"


def test_what_was_not_measured_is_never_met() -> None:
    report = sample_report()
    for risk in ("singling-out", "reconstructoin"):
        assert outcome(report, risks={risk: {"maximum": 1.0}}) == "not measured"
    policy = Policy.model_validate({"risks": {"reconstructoin": {"maximum": 1.0}}})
    assert "Did you mean 'reconstruction'?" in judge(report, policy)[-1].evidence
    assert outcome(report, risks={"singling-out": {"verdicts": ["not tested"]}}) == "met"
    assert outcome(report, epsilon={"maximum": 99, "level": "bracket", "rounds": 77}) == (
        "not measured"
    )


def test_a_budget_is_held_against_its_proper_end() -> None:
    report = sample_report()
    row = next(b for b in report.budgets if b.role == "bracket")
    report = report.model_copy(
        update={"budgets": (row.model_copy(update={"lower": 2.0, "upper": 3.0}),)}
    )
    lower, upper = 2.0, 3.0

    def at(maximum: float) -> str:
        return outcome(report, epsilon={"maximum": maximum, "level": "bracket"})

    assert at(upper) == "met"
    assert at((upper + lower) / 2) == "inconclusive"
    assert at(lower * 0.99) == "breached"


def test_at_user_level_an_unprotected_release_has_no_finite_budget() -> None:
    assert sample_report().uncovered
    assert outcome(sample_report(), epsilon={"maximum": 1e9}) == "breached"


def test_an_incomplete_report_is_never_met() -> None:
    report = sample_report()
    assert not report.complete
    assert [o.outcome for o in judge(report, Policy())] == ["inconclusive"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[risks.linkability]\n", "limits nothing"),
        ("[risks.linkability]\nmaxmum = 0.1\n", "Did you mean 'maximum'"),
        ("[risks.linkability]\nmaximum = 20\n", "less than or equal to 1"),
        ("[epsilon]\nmaximum = 0\n", "greater than 0"),
        ("[epsilon]\nmaximum = 1\nlevel = 'usr'\n", "'user', 'bracket' or 'coordinate'"),
        ("[risk.linkability]\nmaximum = 0.1\n", "Did you mean 'risks'"),
        ("risks = 1\n", "risks = 1"),
        ("not toml", "not valid TOML"),
    ],
)
def test_a_wrong_policy_is_refused_by_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_policy(file)


def run(*arguments: str) -> int:
    try:
        main(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


@pytest.fixture
def report_folder(tmp_path: Path) -> Path:
    write_report(sample_report(), tmp_path / "report", formats=("json",))
    return tmp_path / "report"


@pytest.mark.parametrize(
    ("text", "strict", "code"),
    [
        ("[report]\ncomplete = false\n[risks.reconstruction]\nsmallest_coalition = 2\n", True, 0),
        ("[report]\ncomplete = false\n[risks.reconstruction]\nsmallest_coalition = 3\n", False, 1),
        ("[report]\ncomplete = false\n[risks.linkability]\nsmallest_coalition = 3\n", False, 0),
        ("[report]\ncomplete = false\n[risks.linkability]\nsmallest_coalition = 3\n", True, 3),
        ("[report]\ncomplete = false\n[risks.singling-out]\nmaximum = 0.5\n", False, 3),
        ("[risks.reconstruction]\nmaxmum = 3\n", False, 2),
    ],
)
def test_the_gate_ends_with_the_code_of_the_outcome(
    report_folder: Path, tmp_path: Path, text: str, strict: bool, code: int
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    options = ("--strict",) if strict else ()
    assert run("check", str(report_folder), "--policy", str(file), "--json", *options) == code


def test_a_report_compared_with_itself_shows_no_change(
    report_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", str(report_folder), str(report_folder), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert {c["judgement"] for c in shown["changes"]} == {"not told apart"}
    assert {c["kind"] for c in shown["changes"]} == {"verdict", "figure", "budget"}


def test_only_intervals_that_do_not_overlap_tell_two_figures_apart() -> None:
    def judged(a: tuple[float, float], b: tuple[float, float]) -> str:
        changes = compare_reports(with_share(*a), with_share(*b))
        (figure,) = [c for c in changes if c.kind == "figure"]
        return figure.judgement

    assert judged((0.1, 0.3), (0.31, 0.5)) == "leaks more"
    assert judged((0.31, 0.5), (0.1, 0.3)) == "leaks less"
    assert judged((0.1, 0.3), (0.3, 0.5)) == "not told apart"


def test_a_figure_of_one_report_alone_is_shown_as_such() -> None:
    empty = sample_report().model_copy(update={"findings": ()})
    kinds = {c.judgement for c in compare_reports(empty, with_share(0, 1)) if c.kind == "figure"}
    assert kinds == {"only after"}


def test_what_was_set_otherwise_is_listed_with_the_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample_report()
    parameters = {**before.system.parameters, "epsilon0": 77.0, "new": "x"}
    system = before.system.model_copy(update={"parameters": parameters})
    after = before.model_copy(update={"system": system, "seed": before.seed + 1})
    changed = changed_settings(before, after)
    assert set(changed) == {"epsilon0", "new", "seed"}
    assert changed["seed"] == (before.seed, before.seed + 1)
    assert changed_settings(before, before) == {}
    for name, report in (("a", before), ("b", after)):
        write_report(report, tmp_path / name)
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert not ended.value.code
    out = capsys.readouterr().out
    assert "set otherwise: " in out
    assert "new: - -> x" in out
    assert "Two seeds are two federations" in out


def test_sarif_names_each_headline_figure_with_a_lasting_fingerprint() -> None:
    report = sample_report()
    run_, again = (
        json.loads(render_sarif(r))["runs"][0]
        for r in (report, report.model_copy(update={"seed": 99, "created": "later"}))
    )
    headlines = [f for f in report.findings if f.headline]
    assert len(run_["results"]) == len(headlines) + len(report.not_run)
    rules = [r["id"] for r in run_["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    prints = []
    for result in run_["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert (result["level"] == "error") == (result["kind"] == "fail")
        prints.append(result["partialFingerprints"]["privauditFinding/v1"])
    assert len(prints) == len(set(prints))
    assert prints == [r["partialFingerprints"]["privauditFinding/v1"] for r in again["results"]]


def test_junit_counts_what_it_lists() -> None:
    report = sample_report()
    root = ElementTree.fromstring(render_junit(report))
    for suite in root:
        cases = list(suite)
        assert int(suite.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(c.find(tag) is not None for c in cases)
    breached = [f for f in report.findings if f.headline and f.verdict == "breached"]
    assert sum(1 for _ in root.iter("failure")) == len(breached) > 0
    failed = [n for n in report.not_run if n.status == "failed"]
    assert sum(1 for _ in root.iter("error")) == len(failed)


def test_hostile_names_stay_names_in_the_reports_for_machines() -> None:
    report = hostile_report()
    text = render_junit(report)
    root = ElementTree.fromstring(text)
    assert root.attrib["name"].startswith("<script>")
    assert "\x1b" not in text
    sarif = render_sarif(report)
    assert "\x1b" not in sarif
    assert HOSTILE.split("|")[0] in json.loads(sarif)["runs"][0]["results"][0]["message"]["text"]


def test_the_formats_for_machines_are_written_beside_the_others(report_folder: Path) -> None:
    files = write_report(read_report(report_folder), report_folder, formats=("sarif", "junit"))
    assert [f.name for f in files] == ["report.sarif", "report.junit.xml"]
    assert all(f.is_file() for f in files)


def test_an_advantage_is_told_as_one() -> None:
    report = with_share(0.4, 0.6, guessing=0.1)
    told = {
        name: judge(report, policy(risks={"reconstruction": {name: 0.0}}))[0].evidence
        for name in ("maximum", "maximum_advantage")
    }
    metric = report.findings[0].metric
    assert f", advantage over guessing of {metric}: 30.0% to 50.0% of" in told["maximum_advantage"]
    assert f", {metric}: 40.0% to 60.0% of" in told["maximum"]


def with_user_budget(upper: float, *, uncovered: bool) -> AuditReport:
    report = sample_report()
    row = report.budgets[0].model_copy(
        update={"role": "user", "rounds": 1, "delta": 1e-5, "lower": None, "upper": upper}
    )
    releases = report.uncovered[:1] if uncovered else ()
    return report.model_copy(update={"budgets": (row,), "uncovered": releases})


def test_the_budget_of_a_variant_is_not_that_of_a_run_without_noise() -> None:
    covered, bare = (with_user_budget(18.19, uncovered=u) for u in (False, True))
    reason = f"none ({bare.uncovered[0].what} leaves without noise)"

    def budgets(*reports: AuditReport) -> list[tuple[str, str, str, str]]:
        changes = [c for c in compare_reports(*reports) if c.kind == "budget"]
        return [(c.what, c.before, c.after, c.judgement) for c in changes]

    what = "epsilon, user, 1 round, δ = 1e-05"
    assert budgets(bare, bare) == [(what, reason, reason, "not told apart")]
    assert budgets(bare, covered) == [(what, reason, "0 to 18.19", "leaks less")]
    assert budgets(covered, bare) == [(what, "0 to 18.19", reason, "leaks more")]
    without = bare.model_copy(update={"budgets": ()})
    assert budgets(without, without) == [("epsilon, user", reason, reason, "not told apart")]
    # The check decides alike.
    assert no_user_budget(bare) in judge(bare, policy(epsilon={"maximum": 99}))[0].evidence
    assert no_user_budget(covered) == ""


def test_a_campaign_with_a_release_without_noise_has_no_budget_at_user_level() -> None:
    report = with_user_budget(math.inf, uncovered=False)
    row = report.budgets[0].model_copy(update={"theorem": "no theorem applies"})
    cells = CellCounts(runs=1, measured=1, not_applicable=0, failed=0, pending=0)
    report = report.model_copy(update={"budgets": (row,), "cells": cells})
    assert outcome(report, epsilon={"maximum": 1e9}) == "breached"
    (budget,) = [c for c in compare_reports(report, report) if c.kind == "budget"]
    assert budget.before.startswith("none (")


def test_many_settings_are_listed_one_a_line_and_not_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample_report()
    parameters = {**before.system.parameters, "empty": "", **{f"new{i}": i for i in range(11)}}
    system = before.system.model_copy(update={"parameters": parameters})
    after = before.model_copy(update={"system": system})
    for name, report in (("a", before), ("b", after)):
        write_report(report, tmp_path / name, formats=("json",))
    assert run("compare", str(tmp_path / "a"), str(tmp_path / "b")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "set otherwise:"
    assert lines[1:10] == [
        "  empty: - -> -", *(f"  new{i}: - -> {i}" for i in range(7)),
        "  and 4 more (--json lists them)",
    ]  # fmt: skip


def test_seeds_of_a_grid_are_all_told() -> None:
    report = sample_report()
    cells = CellCounts(runs=1, measured=1, not_applicable=0, failed=0, pending=0)

    def campaign(*seeds: int) -> AuditReport:
        grid: dict[str, Any] = {"seed": list(seeds)} if seeds else {}
        system = report.system.model_copy(update={"parameters": {"seed": 0, "grid": grid}})
        return report.model_copy(update={"system": system, "cells": cells, "seed": 0})

    def byline(*seeds: int) -> str:
        return make_opening(campaign(*seeds), digest="").byline

    assert byline().endswith(", seed 0")
    assert byline(3).endswith(", seed 3")
    assert byline(0, 1).endswith(", seeds 0, 1")
    assert byline(*range(10)).endswith(", seeds 0, 1, 2, 3, 4, 5, 6, 7 and 2 more")
    assert changed_settings(campaign(0), campaign(0, 1)) == {"seed": (0, "0, 1")}
    assert changed_settings(campaign(), campaign(0)) == {}


@pytest.mark.parametrize("command", ["report", "check", "compare"])
@pytest.mark.parametrize("named", ["unfinished", "unfinished/report.json"])
def test_an_unfinished_campaign_is_told_as_one(
    command: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "campaign.sqlite").write_bytes(b"")
    (tmp_path / "policy.toml").write_text("")
    folder = str(tmp_path / named)
    arguments = {"check": ("--policy", str(tmp_path / "policy.toml")), "compare": (folder,)}
    assert run(command, folder, *arguments.get(command, ())) == 2
    told = capsys.readouterr().err
    assert "unfinished campaign; run the same command again: privaudit run CAMPAIGN.toml -o" in told
    assert told.count("\n") == 1
