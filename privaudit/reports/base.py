"""What every reporter is: a file's name, and the bytes that a report becomes."""

from __future__ import annotations

from typing import ClassVar, Protocol

from privaudit.reports.model import AuditReport

__all__ = ["Reporter"]


class Reporter(Protocol):
    """A format of reports, made without arguments and registered in ``privaudit.reporters``.

    Attributes
    ----------
    name : str
        Registered name, as in ``--format``.
    file_name : str
        Name of the file that is written into the report's folder.
    """

    name: ClassVar[str]
    file_name: ClassVar[str]

    def render(self, report: AuditReport) -> bytes:
        """Return the content of the file, the same for the same report.

        Texts of a report may come from strangers (names of parties, reasons of errors): what the
        format gives a meaning to must be escaped.
        """
        ...
