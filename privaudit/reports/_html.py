"""The HTML form of a report: one file that asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from privaudit.reports._json import report_digest
from privaudit.reports._opening import VERDICT_WORDS, make_opening
from privaudit.reports._sections import make_sections
from privaudit.reports.model import AuditReport

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render_html"]


def render_html(report: AuditReport) -> str:
    """Return ``report`` as one HTML document.

    Every text of the report is escaped. The document allows itself no connection at all: its
    content security policy admits images that are part of it, and the one style sheet and the one
    script whose digests it names.
    """
    from markupsafe import Markup

    digest = report_digest(report)
    style, script = _asset("report.css"), _asset("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src '{_source_digest(style)}'",
            f"script-src '{_source_digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            opening=make_opening(report, digest=digest),
            sections=make_sections(report, digest=digest),
            digest=digest,
            words=VERDICT_WORDS,
            policy=policy,
            style=Markup(style),  # our own files, not a report's content
            script=Markup(script),
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from privaudit.reports._format import visible

    environment = Environment(
        loader=PackageLoader("privaudit.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["visible"] = visible
    return environment


@cache
def _asset(name: str) -> str:
    return (resources.files("privaudit.reports") / "templates" / name).read_text(encoding="utf-8")


def _source_digest(text: str) -> str:
    """Return the digest by which a content security policy names an inline element."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
