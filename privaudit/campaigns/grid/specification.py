"""One cell of a campaign as data, and the pure function that measures it.

A cell's specification says everything that its result depends on, so that any process of any
machine can measure it, in any order, and get the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from privaudit import __version__, plugins
from privaudit.attacks.base import Attack
from privaudit.attacks.indices import PRESETS
from privaudit.campaigns.cells import Cell, Measurement, measure
from privaudit.campaigns.measurements import measurement_to_json
from privaudit.campaigns.pq_mds.adversaries import Numbers, adversary_cell, fitting_numbers
from privaudit.campaigns.runs import RecordedRun, recorded
from privaudit.campaigns.simulation import simulation_config
from privaudit.campaigns.single import single_cell
from privaudit.configuration import constructed
from privaudit.errors import ConfigurationError, UnmetRequirementsError, did_you_mean
from privaudit.transcript import Capability, Coalition, PartyId, Transcript

__all__ = ["CellSpec", "ensure_run", "execute", "members_of", "run_key"]

#: Under a threat model that grants them: rows whose records are known, and persons looked for.
KNOWN_ROWS: Final = 100
PERSONS: Final = 200

_COUNTED: Final = re.compile(r"(\d+) (users?|parties|party)")


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
        attack = plugins.load("attack", self.attack)
        specification = {
            **self.to_json(),
            "run": run_key(self.run),
            "attack_version": attack.version,
        }
        return _digest(specification)


def run_key(run: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a run's configuration and of the version of its protocol.

    Runs are reproducible byte for byte, so that this stands for the digest of their recording.
    """
    protocol = plugins.load("protocol", run["protocol"])
    return _digest(
        {"privaudit": __version__, "protocol_version": protocol.version, "run": dict(run)}
    )


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def members_of(coalition: str, transcript: Transcript) -> tuple[PartyId, ...]:
    """Return the parties that the text of a coalition names.

    Raises
    ------
    ConfigurationError
        If it names nobody, or more users than there are. Whether a name is that of a party is
        checked when the view is made.
    """
    members: list[PartyId] = []
    for part in (p.strip() for p in re.split(r"[+,]", coalition)):
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            members.append(part)
            continue
        users, wanted = transcript.ids("user"), int(counted[1])
        if not 1 <= wanted <= len(users):
            raise ConfigurationError(f"coalition '{coalition}': the run has {len(users)} users")
        members += users[:wanted]
    if not all(members) or not members:
        raise ConfigurationError(
            f"coalition '{coalition}' names nobody; write parties joined by +, for example "
            "'management-server + 1 user'"
        )
    return tuple(dict.fromkeys(members))


@lru_cache(maxsize=4)
def _cached_run(config: str, folder: Path, data_root: Path | None) -> RecordedRun:
    return recorded(
        simulation_config(json.loads(config), where="campaign"), folder, data_root=data_root
    )


def ensure_run(run: Mapping[str, Any], folder: Path, *, data_root: Path | None) -> RecordedRun:
    """Return a run of the campaign, recording it unless ``folder`` holds it.

    Several processes may want the same run: each records it into a folder of its own, and the
    first to be done moves it into place.
    """
    target = folder / run_key(run)[:32]
    text = json.dumps(dict(run), sort_keys=True)
    if not (target / "run" / "manifest.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            recorded(simulation_config(run, where="campaign"), own, data_root=data_root)
            try:
                own.rename(target)
            except OSError:
                # Another process was first; its recording has the same bytes.
                if not (target / "run" / "manifest.json").is_file():
                    raise
        finally:
            shutil.rmtree(own, ignore_errors=True)
    return _cached_run(text, target, data_root)


def execute(
    specification: Mapping[str, Any], *, runs: Path, data_root: Path | None = None
) -> dict[str, Any]:
    """Measure a cell and return the result as JSON values; the function that engines call.

    Returns
    -------
    dict
        ``status``, ``reason``, ``triples`` (attack, baseline and control of each metric),
        ``diagnostics``; the same for the same specification. ``seconds`` is apart, in that it is
        not.
    """
    spec = CellSpec.from_json(specification)
    try:
        cell = _cell(spec, ensure_run(spec.run, runs, data_root=data_root))
    except UnmetRequirementsError as error:
        return measurement_to_json(Measurement("not-applicable", str(error), (), {}, 0.0))
    return measurement_to_json(measure(cell))


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
    kind = plugins.load("attack", spec.attack)
    attack = constructed(kind, spec.options, where=f"attack '{spec.attack}'")
    granted = frozenset(Capability) - {Capability(name) for name in spec.withhold}
    seed = int(spec.run["seed"])
    if spec.threat_model:
        return _adversary(spec, run, attack, seed)
    members = members_of(spec.coalition, run.transcript)
    coalition = Coalition(frozenset(members), granted)
    return single_cell(run, attack, coalition, label=spec.coalition, seed=seed)
