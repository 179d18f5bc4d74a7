"""Leakage reports: one model of the content, written as JSON, HTML and Markdown."""

from privaudit.reports._html import render_html
from privaudit.reports._json import json_schema, read_report, render_json, report_digest
from privaudit.reports._markdown import render_markdown
from privaudit.reports._write import FORMATS, replace_file, write_report
from privaudit.reports.model import SCHEMA_VERSION, AuditReport

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "AuditReport",
    "json_schema",
    "read_report",
    "render_html",
    "render_json",
    "render_markdown",
    "replace_file",
    "report_digest",
    "write_report",
]
