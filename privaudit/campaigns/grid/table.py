"""The results of a campaign as one flat table: a row a metric of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privaudit.campaigns.grid.store import Row
from privaudit.campaigns.measurements import measurement_from_json
from privaudit.configuration import parse_assignment
from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.scoring.estimate import compare, verdict

__all__ = ["exported", "flat_rows", "never_found", "selected", "varying"]

Flat = dict[str, Any]

#: Of a column, so many values are told at most.
MOST_LISTED = 12
#: Columns that a listing always has, in this order.
_FIRST = ("protocol", "attack", "by")
_FIGURES = ("metric", "value", "low", "high", "baseline", "control", "n", "verdict", "status")
#: Columns that differ from run to run of the same campaign.
_OF_THE_RUN = ("seconds", "log")


def flat_rows(rows: Sequence[Row], *, confidence: float = 0.95) -> list[Flat]:
    """Return one row a metric; a cell without a figure has one row, with its status and reason.

    Parameters of the run are columns ``parameters.KEY`` and ``federation.KEY``, options of the
    attack ``options.KEY``; each interval has the given confidence by itself.
    """
    return [flat for row in rows for flat in _flat(row, confidence)]


def _flat(row: Row, confidence: float) -> list[Flat]:
    spec = row.specification
    head: Flat = {
        "key": row.key[:12],
        "protocol": spec.run["protocol"],
        "seed": spec.run["seed"],
        "attack": spec.attack,
        "by": spec.coalition or spec.threat_model,
        **_spread("parameters", spec.run["parameters"]),
        **_spread("federation", spec.run["federation"]),
        **_spread("options", spec.options),
    }
    tail: Flat = {
        "status": row.status,
        "reason": row.reason,
        "note": row.note or None,
        "seconds": row.seconds,
        "log": row.log or None,
    }
    if row.result is None or row.status != "measured":
        return [{**head, **tail}]
    flat = []
    for t in measurement_from_json({**row.result, "seconds": 0.0}).triples:
        figure = compare(t.attack, baseline=t.baseline, control=t.control, confidence=confidence)
        flat.append(
            {
                **head,
                "metric": t.name,
                "unit": t.unit,
                "value": figure.value,
                "low": figure.low,
                "high": figure.high,
                "baseline": None if figure.baseline is None else figure.baseline.value,
                "control": None if figure.control is None else figure.control.value,
                "n": figure.n,
                "failed_targets": figure.failed,
                "verdict": verdict(figure),
                **tail,
            }
        )
    return flat


def _spread(section: str, values: Mapping[str, Any]) -> Flat:
    return {
        f"{section}.{key}": value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in values.items()
        if value is not None
    }


def selected(rows: Sequence[Flat], *, where: Sequence[str], sort: str) -> list[Flat]:
    """Return the rows that agree with all conditions ``COLUMN=VALUE``, sorted by a column.

    Raises
    ------
    ConfigurationError
        If a column is unknown; it names the nearest.
    """
    known = {name for row in rows for name in row}

    def checked(name: str) -> str:
        if rows and name not in known:
            raise ConfigurationError(
                f"no column is named '{name}'; there are {', '.join(sorted(known))}."
                f"{did_you_mean(name, known)}"
            )
        return name

    kept = list(rows)
    for text in where:
        name, value = parse_assignment(text)
        checked(name)
        kept = [row for row in kept if _agrees(row.get(name), value)]
    if sort:
        name, descending = sort.removeprefix("-"), sort.startswith("-")
        checked(name)
        present = [row for row in kept if row.get(name) is not None]
        absent = [row for row in kept if row.get(name) is None]
        numbers = all(isinstance(row[name], int | float) for row in present)
        present.sort(key=lambda r: r[name] if numbers else str(r[name]), reverse=descending)
        kept = present + absent
    return kept


def _agrees(found: Any, value: Any) -> bool:
    return bool(found == value or str(found) == str(value))


def never_found(rows: Sequence[Flat], *, where: Sequence[str]) -> list[str]:
    """Tell each condition ``COLUMN=VALUE`` that no row meets, with what its column holds."""
    told = []
    for text in where if rows else ():
        name, value = parse_assignment(text)
        occurring = {str(row[name]): None for row in rows if row.get(name) is not None}
        if any(_agrees(row.get(name), value) for row in rows):
            continue
        listed = sorted(occurring)
        if not listed:
            what = "the column is empty"
        elif len(listed) <= MOST_LISTED:
            what = f"there are {', '.join(listed)}"
        else:
            what = f"there are {len(listed):,} values, among them {', '.join(listed[:3])}"
        told.append(
            f"--where {text}: no row has {name} = {value}; {what}."
            f"{did_you_mean(str(value), occurring, cutoff=0.3)}"
        )
    return told


def exported(rows: Sequence[Flat]) -> list[str]:
    """Return the columns of an export: all but those that differ from run to run.

    So that the same campaign gives the same file, byte for byte, wherever and however often it was
    interrupted.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in _OF_THE_RUN]


def varying(rows: Sequence[Flat]) -> list[str]:
    """Return the columns worth listing: who and what, settings that vary, figures, or why none."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    settings = [
        name
        for name in names
        if ("." in name or name == "seed") and len({repr(row.get(name)) for row in rows}) > 1
    ]
    figures = [name for name in _FIGURES if name in names]
    why = [name for name in ("reason", "note", "log") if any(row.get(name) for row in rows)]
    return [*(n for n in _FIRST if n in names), *settings, *figures, *why]
