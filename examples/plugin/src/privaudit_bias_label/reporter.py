"""The figures of a report as a table for spreadsheets."""

from __future__ import annotations

import csv
import io
from typing import ClassVar

from privaudit.reports import AuditReport

__all__ = ["FiguresTable"]


class FiguresTable:
    """One line a figure, in CSV."""

    name: ClassVar[str] = "example-csv"
    file_name: ClassVar[str] = "figures.csv"

    def render(self, report: AuditReport) -> bytes:
        """Return the table."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("attack", "coalition", "metric", "value", "low", "high", "verdict"))
        for f in report.findings:
            e = f.estimate
            writer.writerow(
                (
                    f.attack,
                    _inert(f.coalition_label),
                    _inert(f.metric),
                    e.value,
                    e.low,
                    e.high,
                    f.verdict,
                )
            )
        return stream.getvalue().encode()


def _inert(text: str) -> str:
    """Keep a spreadsheet from taking a text, which may be a stranger's, for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
