"""Rules that every reporter keeps."""

from __future__ import annotations

import copy
from pathlib import Path

from privaudit._conformance.digests import require
from privaudit._conformance.sample import sample_report
from privaudit.reports import render_json
from privaudit.reports.base import Reporter
from privaudit.reports.model import AuditReport

__all__ = ["check_reporter"]

MARKUP = (".html", ".htm", ".xhtml", ".svg", ".xml")


def check_reporter(
    reporter: Reporter, report: AuditReport | None = None, *, dated: bool = False
) -> None:
    """Check that a reporter keeps the rules.

    The rules, by the names that messages start with:

    ``declared``
        It has a name, and ``file_name`` is a plain, visible name of a file.
    ``content``
        It renders bytes, and some.
    ``same-bytes``
        The same report gives the same bytes, unless the format holds a date.
    ``report-unchanged``
        The report is as before.
    ``numbers``
        Infinite values and such as are no numbers can be rendered.
    ``escaped``
        In HTML, SVG and XML, a ``<script>`` in a party's name comes out as text.

    Parameters
    ----------
    reporter : Reporter
    report : AuditReport, optional
        A further report to render; one with hostile texts and odd numbers always is.
    dated : bool
        Whether the format holds the time of its making, so that bytes may differ.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    require(bool(reporter.name), "declared", "a reporter has a name")
    name = reporter.file_name
    require(
        bool(name) and not name.startswith(".") and Path(name).name == name and "\\" not in name,
        "declared",
        f"'{reporter.name}' writes to {name!r}, which is no plain name of a file",
    )
    for each in (sample_report(), *(() if report is None else (report,))):
        before = render_json(copy.deepcopy(each))
        try:
            content = reporter.render(each)
        except Exception as error:
            raise AssertionError(
                f"[numbers] '{reporter.name}' cannot render a sound report: {error!r}"
            ) from error
        require(
            isinstance(content, bytes) and bool(content),
            "content",
            f"'{reporter.name}' rendered {type(content).__name__}, or nothing",
        )
        require(
            dated or reporter.render(each) == content,
            "same-bytes",
            f"'{reporter.name}' rendered the same report differently; say dated=True if its "
            "format holds a date",
        )
        require(
            render_json(each) == before, "report-unchanged", f"'{reporter.name}' changed the report"
        )
        if name.lower().endswith(MARKUP):
            require(
                b"<script>alert" not in content,
                "escaped",
                f"'{reporter.name}' writes a text of the report as markup",
            )
