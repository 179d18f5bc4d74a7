"""The formats that come with the package, as they are registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privaudit.reports._html import render_html
from privaudit.reports._json import render_json
from privaudit.reports._machine import render_junit, render_sarif
from privaudit.reports._markdown import render_markdown
from privaudit.reports._pdf import render_pdf
from privaudit.reports.model import AuditReport

__all__ = ["HTML", "JSON", "PDF", "SARIF", "JUnit", "Markdown"]


@dataclass(frozen=True, slots=True)
class HTML:
    """One self-contained file for people: page one to decide by, the evidence behind it."""

    name: ClassVar[str] = "html"
    file_name: ClassVar[str] = "report.html"

    def render(self, report: AuditReport) -> bytes:
        """Return the document."""
        return render_html(report).encode()


@dataclass(frozen=True, slots=True)
class JSON:
    """Everything, for programs, in a versioned schema; the form that is read back."""

    name: ClassVar[str] = "json"
    file_name: ClassVar[str] = "report.json"

    def render(self, report: AuditReport) -> bytes:
        """Return the object."""
        return render_json(report).encode()


@dataclass(frozen=True, slots=True)
class Markdown:
    """The same text as the HTML, without images, for reviews and issues."""

    name: ClassVar[str] = "md"
    file_name: ClassVar[str] = "report.md"

    def render(self, report: AuditReport) -> bytes:
        """Return the text."""
        return render_markdown(report).encode()


@dataclass(frozen=True, slots=True)
class SARIF:
    """SARIF 2.1.0 for code scanning, with stable rule ids and fingerprints."""

    name: ClassVar[str] = "sarif"
    file_name: ClassVar[str] = "report.sarif"

    def render(self, report: AuditReport) -> bytes:
        """Return the log."""
        return render_sarif(report).encode()


@dataclass(frozen=True, slots=True)
class JUnit:
    """JUnit XML for test dashboards: a suite a risk, a case a figure."""

    name: ClassVar[str] = "junit"
    file_name: ClassVar[str] = "report.junit.xml"

    def render(self, report: AuditReport) -> bytes:
        """Return the document."""
        return render_junit(report).encode()


@dataclass(frozen=True, slots=True)
class PDF:
    """The HTML as Chromium prints it; needs Chromium or Google Chrome."""

    name: ClassVar[str] = "pdf"
    file_name: ClassVar[str] = "report.pdf"

    def render(self, report: AuditReport) -> bytes:
        """Return the document; its date makes it differ from run to run."""
        return render_pdf(report)
