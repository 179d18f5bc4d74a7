"""What a report says of a cell: who attacked, in words and by number, and in which setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from privaudit.attacks.indices import PRESETS
from privaudit.campaigns.coalitions import parts_of
from privaudit.campaigns.findings import Subject
from privaudit.campaigns.grid.recorded import loaded
from privaudit.campaigns.grid.store import Row
from privaudit.campaigns.pq_mds.adversaries import LABELS
from privaudit.configuration import constructed
from privaudit.docstrings import summary_line

__all__ = [
    "axis_key",
    "axis_name",
    "axis_value",
    "coalition_size",
    "label_of",
    "setting_of",
    "subject_of",
]

#: Symbols of the papers for the parameters that have one.
_SYMBOLS: Final = MappingProxyType(
    {
        "parameters.epsilon0": "ε₀",
        "parameters.top_k_fraction": "k / d",
        "parameters.top_k": "k",
        "federation.alpha": "label skew α",
    }
)


def label_of(row: Row) -> str:
    """Return who attacked: a coalition as it is written, or a threat model in words."""
    spec = row.specification
    return spec.coalition or LABELS.get(spec.threat_model, spec.threat_model)


def coalition_size(row: Row) -> int:
    """Return the number of parties that attacked together."""
    spec = row.specification
    if spec.threat_model:
        # A stranger to whom the uploads leaked is one party too.
        return len(PRESETS[spec.threat_model].principal.split(" and "))
    total = 0
    for part in parts_of(spec.coalition):
        first = part.split(" ")[0]
        total += int(first) if first.isdigit() else 1
    return total


def axis_key(run: Mapping[str, Any], axis: str) -> str:
    """Return the parameter that an axis sets in a run; empty for its protocol and seed."""
    # The axis of one protocol alone carries its name.
    return axis.partition(".")[2].removeprefix(f"{run['protocol']}.")


def axis_value(row: Row, axis: str) -> Any:
    """Return the value of a cell on an axis of the grid, or an option of its attack."""
    spec = row.specification
    section, _, name = axis.partition(".")
    if section == "options":
        value = spec.options.get(name)
    elif name:
        value = spec.run[section].get(axis_key(spec.run, axis))
    else:
        value = spec.run[section]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def axis_name(axis: str) -> str:
    """Return an axis in words."""
    return _SYMBOLS.get(axis, axis.rpartition(".")[2].replace("_", " "))


def setting_of(row: Row, grid: Sequence[str]) -> str:
    """Return what tells the cell's setting from those of others: axes, seed, options."""
    spec = row.specification
    axes = [a for a in grid if a not in ("protocol", "seed") and axis_value(row, a) is not None]
    values = [f"{axis_name(a)} = {axis_value(row, a)}" for a in axes]
    options = [f"{key.replace('_', ' ')} = {value}" for key, value in spec.options.items()]
    withheld = [f"without {name}" for name in spec.withhold]
    return ", ".join((*values, *options, *withheld, f"seed {spec.run['seed']}"))


def subject_of(row: Row, *, grid: Sequence[str], among: int) -> Subject:
    """Return what a finding on a cell is about.

    Parameters
    ----------
    among : int
        Of how many cells this is the leakiest; 0 if it was not chosen.
    """
    spec = row.specification
    kind: Any = loaded("attack", spec.attack)
    return Subject(
        key=row.key,
        attack=constructed(kind, spec.options, where=f"attack '{spec.attack}'"),
        title=f"{spec.attack} on {spec.run['protocol']}",
        summary=summary_line(kind) or spec.attack,
        # The words of a threat model hold commas that join nobody.
        members=tuple(
            parts_of(spec.coalition)
            if spec.coalition
            else (part.strip() for part in label_of(row).split("+"))
        ),
        size=coalition_size(row),
        label=label_of(row),
        setting=setting_of(row, grid),
        protocol=str(spec.run["protocol"]),
        chosen_from=max(among, 1),
        note=row.note,
    )
