"""Reports for machines: SARIF 2.1.0 for code scanning, JUnit XML for test dashboards."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree

from privaudit.reports._format import visible
from privaudit.reports.model import AuditReport, Finding, NotRun

__all__ = ["render_junit", "render_sarif"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"breached": "error", "inconclusive": "warning", "not shown": "none"}
_KINDS: Final = {"breached": "fail", "inconclusive": "review", "not shown": "pass"}
#: Characters that XML 1.0 does not allow, however they are escaped.
_NOT_XML: Final = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _fingerprint(report: AuditReport, *parts: str) -> str:
    """Return a digest that stays the same from run to run, whatever the figures are."""
    text = "\x1f".join((report.system.protocol, report.system.dataset, *parts))
    return hashlib.sha256(text.encode()).hexdigest()


def _sentence(f: Finding) -> str:
    share = f.unit == "proportion"

    def written(value: float) -> str:
        return f"{value:.1%}" if share else f"{value:.3g} {f.unit}".rstrip()

    return (
        f"{f.full_title}, by {f.coalition_label}: {f.metric} {written(f.estimate.value)} "
        f"[{written(f.estimate.low)}, {written(f.estimate.high)}] over {f.n} targets, guessing "
        f"alone {written(f.baseline.value)}. {f.summary}"
    )


def render_sarif(report: AuditReport) -> str:
    """Return the headline findings, and the attacks that did not run, as SARIF 2.1.0.

    A rule is an attack; its id does not change between versions. Fingerprints name protocol, data,
    attack, coalition, metric and setting, so that a finding is recognised in the next run.
    """
    headlines = [f for f in report.findings if f.headline]
    rules: dict[str, dict[str, Any]] = {}
    for f in headlines:
        rules.setdefault(f.attack, _rule(f.attack, f.risk))
    for row in report.not_run:
        rules.setdefault(row.attack, _rule(row.attack, "not run"))
    order = {name: index for index, name in enumerate(rules)}
    results = [_result(report, f, order[f.attack]) for f in headlines]
    results += [_unfinished(report, row, order[row.attack]) for row in report.not_run]
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "privaudit",
                        "semanticVersion": str(report.tool.get("version", "")),
                        "rules": list(rules.values()),
                    }
                },
                "automationDetails": {
                    "id": f"privaudit/{report.system.protocol}/{report.system.dataset}"
                },
                "invocations": [{"executionSuccessful": report.complete}],
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rule(attack: str, risk: str) -> dict[str, Any]:
    return {
        "id": f"privaudit/{attack}",
        "name": "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", attack)),
        "shortDescription": {"text": f"Attack {attack} ({risk})"},
        "properties": {"tags": ["privacy", risk]},
    }


def _result(report: AuditReport, f: Finding, rule: int) -> dict[str, Any]:
    return {
        "ruleId": f"privaudit/{f.attack}",
        "ruleIndex": rule,
        "kind": _KINDS[f.verdict],
        "level": _LEVELS[f.verdict],
        "message": {"text": visible(_sentence(f))},
        "locations": [_location(f.coalition_label)],
        "partialFingerprints": {
            "privauditFinding/v1": _fingerprint(
                report, f.attack, f.coalition_label, f.metric, f.setting
            )
        },
        "properties": {"risk": f.risk, "verdict": f.verdict, "coalitionSize": f.coalition_size},
    }


def _unfinished(report: AuditReport, row: NotRun, rule: int) -> dict[str, Any]:
    failed = row.status == "failed"
    return {
        "ruleId": f"privaudit/{row.attack}",
        "ruleIndex": rule,
        "kind": "review" if failed else "notApplicable",
        "level": "warning" if failed else "none",
        "message": {"text": visible(f"{row.attack} by {row.who}: {row.reason}")},
        "locations": [_location(row.who)],
        "partialFingerprints": {
            "privauditFinding/v1": _fingerprint(report, row.attack, row.who, row.reason)
        },
    }


def _location(coalition: str) -> dict[str, Any]:
    return {
        "physicalLocation": {"artifactLocation": {"uri": "report.json"}},
        "logicalLocations": [{"name": visible(coalition), "kind": "coalition"}],
    }


def render_junit(report: AuditReport) -> str:
    """Return the headline findings as JUnit XML: a suite a risk, a case a figure.

    A breached risk is a failure, an inconclusive or inapplicable one is skipped with the reason,
    and an attack that failed is an error.
    """
    suites: dict[str, list[ElementTree.Element]] = {}
    for f in report.findings:
        if f.headline:
            suites.setdefault(f.risk, []).append(_case(f))
    for row in report.not_run:
        suites.setdefault("attacks that did not run", []).append(_not_run_case(row))
    root = ElementTree.Element("testsuites", {"name": _xml(report.title)})
    for name, cases in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", dict(_counts(name, cases)))
        suite.extend(cases)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", visible(text))


def _counts(name: str, cases: list[ElementTree.Element]) -> Iterator[tuple[str, str]]:
    yield "name", _xml(name)
    yield "tests", str(len(cases))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        yield attribute, str(sum(case.find(tag) is not None for case in cases))


def _case(f: Finding) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _xml(f"{f.risk}.{f.attack}"),
            "name": _xml(f"{f.title} by {f.coalition_label}: {f.metric} ({f.setting})"),
            "time": f"{f.seconds:.3f}",
        },
    )
    if f.verdict == "breached":
        failure = ElementTree.SubElement(case, "failure", {"message": "the risk is breached"})
        failure.text = _xml(_sentence(f))
    elif f.verdict == "inconclusive":
        ElementTree.SubElement(case, "skipped", {"message": _xml(f"inconclusive: {_sentence(f)}")})
    return case


def _not_run_case(row: NotRun) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {"classname": _xml(row.attack), "name": _xml(f"{row.attack} by {row.who}")},
    )
    tag = "error" if row.status == "failed" else "skipped"
    ElementTree.SubElement(case, tag, {"message": _xml(row.reason)})
    return case
