"""Parts of a report that every audit makes alike."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from privaudit import __version__
from privaudit.reports.model import Series, UncoveredRelease

__all__ = [
    "as_row",
    "fitted_parameters",
    "run_warnings",
    "safe_bound",
    "series_of",
    "tool_facts",
    "uncovered_rows",
]

_Row = TypeVar("_Row", bound=BaseModel)

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "numba",
    "dp-accounting",
    "gmpy2",
    "python-flint",
)


def tool_facts(device: str) -> dict[str, Any]:
    """Return versions and environment; a package that is not installed says so."""
    return {
        "name": "privaudit",
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "device": device,
        **{package: _version(package) for package in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def as_row(kind: type[_Row], row: object) -> _Row:
    """Return a row of the report with the fields of a record of the same names."""
    return kind(**{name: getattr(row, name) for name in kind.model_fields})


def uncovered_rows(
    releases: Iterable[object], *, parties: Iterable[str], word: str
) -> tuple[UncoveredRelease, ...]:
    """Return the releases without differential privacy.

    Parameters
    ----------
    parties : iterable of str
        Parties that are named together where all of them observe a release.
    word : str
        What they are called then, for example ``"every user"``.
    """
    everyone = set(parties)
    rows = []
    for release in releases:
        row = as_row(UncoveredRelease, release)
        if everyone and everyone <= set(row.observers):
            others = tuple(o for o in row.observers if o not in everyone)
            row = row.model_copy(update={"observers": (*others, word)})
        rows.append(row)
    return tuple(rows)


def series_of(name: str, outcome: Mapping[str, Any], key: str) -> Series:
    """Return what was measured of a run in each round."""
    points = [(float(m["round"]), m["values"].get(key)) for m in outcome["metrics"]]
    kept = [(x, y) for x, y in points if y is not None]
    return Series(name=name, x=tuple(x for x, _ in kept), y=tuple(y for _, y in kept))


def run_warnings(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what each run warned of, and which diverged."""
    told = [f"{name}: {w}" for name, o in outcomes.items() for w in o.get("warnings", [])]
    told += [
        f"{name} {outcome['reason']}"
        for name, outcome in outcomes.items()
        if outcome.get("status") == "diverged"
    ]
    return told


def fitted_parameters(
    fitted: Mapping[str, Any], given: Mapping[str, Any], protocol: type[BaseModel], dataset: str
) -> tuple[str, ...]:
    """Return a sentence on the parameters that the audit itself chose for a data set, if any.

    Parameters
    ----------
    fitted : mapping
        What the audit takes for this data set.
    given : mapping
        What was asked for, which goes before.
    protocol : type
        The protocol's parameters, for its own defaults.
    """
    fields = protocol.model_fields
    chosen = [
        f"{name} = {value} (by default {fields[name].default})"
        for name, value in fitted.items()
        # How many rounds are run is a matter of time, not of what suits the data.
        if name not in given and name != "rounds" and value != fields[name].default
    ]
    if not chosen:
        return ()
    return (
        f"The protocol's default parameters do not suit {dataset}; nothing else being asked for, "
        f"the audit took {', '.join(chosen)}. Other values can change what breaches a risk.",
    )


def safe_bound(bound: float, *, toward: Literal["above", "below"]) -> str:
    """Return a bound with three digits, rounded to its safe side.

    Examples
    --------
    >>> safe_bound(4.8951, toward="above"), safe_bound(2.949, toward="below")
    ('4.9', '2.94')
    """
    rounding = ROUND_CEILING if toward == "above" else ROUND_FLOOR
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(repr(bound))):g}"
