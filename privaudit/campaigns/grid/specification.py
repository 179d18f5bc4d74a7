"""One cell of a campaign as data, and the pure function that measures it.

A cell's specification says everything that its result depends on, so that any process of any
machine can measure it, in any order, and get the same bytes.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from privaudit.attacks.base import Attack
from privaudit.attacks.indices import PRESETS
from privaudit.campaigns.cells import Cell, Measurement, measure
from privaudit.campaigns.coalitions import granted_without, members_of
from privaudit.campaigns.grid.kept import pictures_of, rebuilds_images
from privaudit.campaigns.grid.recorded import digest, ensure_run, loaded, run_key
from privaudit.campaigns.measurements import Status, measurement_to_json
from privaudit.campaigns.pq_mds.adversaries import Numbers, adversary_cell, fitting_numbers
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.single import single_cell
from privaudit.configuration import constructed
from privaudit.errors import (
    ConfigurationError,
    PrivauditError,
    UnmetRequirementsError,
    did_you_mean,
)
from privaudit.transcript import Coalition

__all__ = ["CellSpec", "excluded_by", "execute"]

_LOG = logging.getLogger(__name__)
_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

#: Under a threat model that grants them: rows whose records are known, and persons looked for.
KNOWN_ROWS: Final = 100
PERSONS: Final = 200


@dataclass(frozen=True, slots=True)
class CellSpec:
    """What is to be measured, as JSON values.

    Attributes
    ----------
    run : mapping
        The run's configuration, as :func:`privaudit.campaigns.simulation.simulation_config` reads
        it.
    attack : str
    options : mapping
    coalition : str
        Parties joined by ``+``; ``N users`` are the first N.
    withhold : tuple of str
        Capabilities that are not granted.
    threat_model : str
        For attacks on vertical runs: the preset that says who attacks and what it knows.
    """

    run: Mapping[str, Any]
    attack: str
    options: Mapping[str, Any] = field(default_factory=dict)
    coalition: str = ""
    withhold: tuple[str, ...] = ()
    threat_model: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the specification as JSON values."""
        return {
            "run": dict(self.run),
            "attack": self.attack,
            "options": dict(self.options),
            "coalition": self.coalition,
            "withhold": list(self.withhold),
            "threat_model": self.threat_model,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellSpec:
        """Read a specification back."""
        return cls(
            run=value["run"],
            attack=value["attack"],
            options=value["options"],
            coalition=value["coalition"],
            withhold=tuple(value["withhold"]),
            threat_model=value["threat_model"],
        )

    def key(self) -> str:
        """Return the SHA-256 of the specification and of the versions of what it names."""
        attack = loaded("attack", self.attack)
        specification = {
            **self.to_json(),
            "run": run_key(self.run),
            "attack_version": attack.version,
        }
        return digest(specification)


def execute(
    specification: Mapping[str, Any], *, runs: Path, data_root: Path | None = None
) -> dict[str, Any]:
    """Measure a cell and return the result as JSON values; the function that engines call.

    Whatever goes wrong in the cell becomes a result, the same on every engine.

    Returns
    -------
    dict
        ``status``, ``reason``, ``triples`` (attack, baseline and control of each metric),
        ``diagnostics``, and ``pictures`` where images were rebuilt; the same for the same
        specification. ``seconds`` is apart, in that it is not, and so is ``note``, which says what
        is wrong with the recording (it is partial, or was damaged and made again). The status is
        ``"pending"`` where the disk is full or read-only: then no other cell can be measured
        either, and none has failed.
    """
    spec = CellSpec.from_json(specification)
    try:
        run = ensure_run(spec.run, runs, data_root=data_root)
        cell = _cell(spec, run)
        measured = measure(cell)
        pictures = pictures_of(measured.guesses, cell.truth)
        return {
            **measurement_to_json(measured),
            **({"pictures": pictures} if pictures else {}),
            **({"note": "; ".join(run.notes)} if run.notes else {}),
        }
    except UnmetRequirementsError as error:
        return _ended("not-applicable", str(error))
    except Exception as error:
        if _disk_full(error):
            return {**_ended("failed", str(error)), "status": "pending"}
        known = isinstance(error, PrivauditError)
        _LOG.info("%s failed", spec.attack, exc_info=not known)
        return _ended("failed", str(error) if known else f"{type(error).__name__}: {error}")


def _ended(status: Status, reason: str) -> dict[str, Any]:
    return measurement_to_json(Measurement(status, reason, (), {}, 0.0))


def _disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__cause__
    return False


def excluded_by(entries: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
    """Return whether a point of a grid agrees with all keys of an entry, as a function of it.

    A point is looked up once for all entries of the same keys, of which there may be very many.
    """
    excluded: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
    for entry in entries:
        excluded.setdefault(tuple(entry), set()).add(tuple(entry.values()))

    def left_out(point: Mapping[str, Any]) -> bool:
        return any(tuple(point[k] for k in keys) in values for keys, values in excluded.items())

    return left_out


def _adversary(spec: CellSpec, run: RecordedRun, attack: Attack, seed: int) -> Cell:
    """Return the cell of an attack on columns of the same rows, under a named threat model."""
    if spec.threat_model not in PRESETS:
        raise ConfigurationError(
            f"threat_model '{spec.threat_model}' is not one of {', '.join(PRESETS)}."
            f"{did_you_mean(spec.threat_model, PRESETS)}"
        )
    rows = len(run.transcript.public_arrays["rows"])
    known, persons = fitting_numbers(rows, known=KNOWN_ROWS, persons=PERSONS)
    numbers = Numbers(known, persons, rows, None, 0, seed)
    return adversary_cell(run, attack, spec.threat_model, numbers, setting="")


def _cell(spec: CellSpec, run: RecordedRun) -> Cell:
    kind = loaded("attack", spec.attack)
    attack = constructed(kind, spec.options, where=f"attack '{spec.attack}'")
    granted = granted_without(spec.withhold)
    seed = int(spec.run["seed"])
    if spec.threat_model:
        return _adversary(spec, run, attack, seed)
    members = members_of(spec.coalition, run.transcript)
    coalition = Coalition(frozenset(members), granted)
    keep = rebuilds_images(attack, run)
    return single_cell(run, attack, coalition, label=spec.coalition, seed=seed, keep=keep)
