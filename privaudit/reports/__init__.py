"""Leakage reports: one model of the content, written as JSON, HTML, Markdown and others."""

from privaudit.reports._html import render_html
from privaudit.reports._json import json_schema, read_report, render_json, report_digest
from privaudit.reports._markdown import render_markdown
from privaudit.reports._pdf import find_browser
from privaudit.reports._write import replace_file, write_report
from privaudit.reports.base import Reporter
from privaudit.reports.model import SCHEMA_VERSION, AuditReport

__all__ = [
    "SCHEMA_VERSION",
    "AuditReport",
    "Reporter",
    "find_browser",
    "json_schema",
    "read_report",
    "render_html",
    "render_json",
    "render_markdown",
    "replace_file",
    "report_digest",
    "write_report",
]
