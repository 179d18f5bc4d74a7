"""Errors that a person can act on.

Every error that privaudit raises on purpose derives from :class:`PrivauditError` and carries the
exit code with which the command line ends. The message names what was wrong, what is allowed, and
what to do; the command line prints it on one line, without a traceback unless ``--debug`` is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AlignmentError",
    "ConfigurationError",
    "CorruptRecordingError",
    "DatasetNotFoundError",
    "ExternalToolError",
    "InvalidDataError",
    "OutputExistsError",
    "PluginError",
    "PrivauditError",
    "PrivauditWarning",
    "UnmetRequirementsError",
    "did_you_mean",
]


class PrivauditWarning(UserWarning):
    """A condition that a user should know of and that does not stop the work."""


class PrivauditError(Exception):
    """Base of all errors raised on purpose; ``exit_code`` is that of the command line."""

    exit_code: int = 2


class ConfigurationError(PrivauditError, ValueError):
    """A parameter, key, or combination of parameters is not allowed."""


class InvalidDataError(PrivauditError, ValueError):
    """Data that were read are not usable: wrong shape, not finite, empty."""


class AlignmentError(InvalidDataError):
    """Rows of vertically divided data do not line up: other ids, another order, or an id twice."""


class DatasetNotFoundError(PrivauditError, FileNotFoundError):
    """A data set was asked for and is not under the data root."""


class CorruptRecordingError(PrivauditError):
    """A recording is damaged, hostile, or not in a format that can be read."""


class OutputExistsError(PrivauditError, FileExistsError):
    """The output folder holds something already."""


class PluginError(PrivauditError, LookupError):
    """A protocol, attack, or other plug-in is unknown, ambiguous, or broken."""


class ExternalToolError(PrivauditError, RuntimeError):
    """A program that was asked to help failed or did not end; nothing was written."""

    exit_code = 3


class UnmetRequirementsError(PrivauditError):
    """An attack needs capabilities that the coalition does not have in this transcript."""


def did_you_mean(name: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest of ``choices``, or an empty string.

    Parameters
    ----------
    cutoff : float
        Likeness, from 0 to 1, below which no choice is near.

    Examples
    --------
    >>> did_you_mean("fedagv", ["fedavg", "pa-cfl"])
    " Did you mean 'fedavg'?"
    >>> did_you_mean("zzz", ["fedavg", "pa-cfl"])
    ''
    """
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return f" Did you mean '{close[0]}'?" if close else ""
