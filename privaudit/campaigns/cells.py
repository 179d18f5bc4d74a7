"""One attack on one view, as a cell: a pure function of its specification, stored by content."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from privaudit import __version__
from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.attacks.control import NothingToDerangeError, deranged
from privaudit.campaigns.fingerprints import fingerprint
from privaudit.campaigns.measurements import (
    Measurement,
    ScoreTriple,
    Status,
    measurement_from_json,
    measurement_to_json,
)
from privaudit.errors import PrivauditError, UnmetRequirementsError
from privaudit.reports import replace_file
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Coalition, Transcript, Truth, View

__all__ = [
    "Cell",
    "CellStore",
    "Control",
    "Measurement",
    "ScoreTriple",
    "Scorer",
    "attack_options",
    "measure",
]

Scorer = Callable[[Guesses, Truth], Scores]

_LOG = logging.getLogger(__name__)


class Control(Protocol):
    """The control experiment: makes the view in which whose message is whose is wrong."""

    def __call__(self, view: View, *, kinds: Iterable[str], rng: np.random.Generator) -> View:
        """Return the view with the payloads of some kinds exchanged."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What is to be measured.

    Attributes
    ----------
    attack : Attack
    coalition : Coalition
    label : str
        The coalition in words, for example ``"AS + 1 user"``.
    transcript : Transcript
    digest : str
        Digest of the recording that the transcript was read from, and of what was done to it.
    truth : Truth
        Goes to the scorers only.
    knowledge : Knowledge
    scorers : tuple of (name, Scorer, unit)
        The first gives the headline figure.
    setting : str
        What a reader must know of the run, for example ``"k = 0.25 % of d"``.
    keep_guesses : bool
        Whether the guesses are stored too (for galleries).
    control : Control
        By default payloads are exchanged among senders; a module-level function or a partial of
        one with plain numbers, whose name and numbers enter the key.
    targets : frozenset of str or None
        The targets that are scored and stored; all that the attack guesses if None.
    """

    attack: Attack
    coalition: Coalition
    label: str
    transcript: Transcript
    digest: str
    truth: Truth
    knowledge: Knowledge
    scorers: tuple[tuple[str, Scorer, str], ...]
    setting: str = ""
    keep_guesses: bool = False
    seed: int = 0
    control: Control = deranged
    targets: frozenset[str] | None = None

    def key(self) -> str:
        """Return the SHA-256 of everything that the result depends on."""
        specification = {
            "privaudit": __version__,
            "attack": [self.attack.name, self.attack.version, attack_options(self.attack)],
            "coalition": sorted(self.coalition.members),
            "capabilities": sorted(self.coalition.capabilities),
            "view": self.digest,
            "knowledge": fingerprint(self.knowledge),
            "scorers": [name for name, _, _ in self.scorers],
            "guesses": self.keep_guesses,
            "seed": self.seed,
            "control": _named(self.control),
            "targets": None if self.targets is None else sorted(self.targets),
        }
        text = json.dumps(specification, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def _named(control: Control) -> list[Any]:
    """Return the name and settings of a control experiment as JSON values."""
    if isinstance(control, partial):
        return [control.func.__qualname__, dict(control.keywords)]
    return [getattr(control, "__qualname__", type(control).__qualname__)]


def attack_options(attack: Attack) -> dict[str, Any]:
    """Return the hyper-parameters of an attack as JSON values."""
    if is_dataclass(attack) and not isinstance(attack, type):
        options: dict[str, Any] = json.loads(json.dumps(asdict(attack), default=str))
        return options
    return {}


def measure(cell: Cell) -> Measurement:
    """Run attack, baseline and control, and score each.

    An attack whose requirements are not met is "not-applicable", one that raises is "failed";
    both carry the reason, so that they become rows of the report. Where no control is possible the
    figure has none, and the diagnostics say so.
    """
    started = time.perf_counter()

    def ended(status: Status, reason: str) -> Measurement:
        return Measurement(status, reason, (), {}, time.perf_counter() - started)

    try:
        view = cell.transcript.view(cell.coalition)
        view.require(cell.attack.requires, attack=cell.attack.name)
        streams = np.random.default_rng([cell.seed, 3]).spawn(4)
        knowledge = cell.knowledge
        guesses = _of_targets(cell, cell.attack.run(view, knowledge=knowledge, rng=streams[0]))
        prior = _of_targets(cell, cell.attack.baseline(view, knowledge=knowledge, rng=streams[1]))
        control = _control(cell, view, streams[2], streams[3])
        if cell.scorers and not guesses.target_ids:
            return ended("not-applicable", f"'{cell.label}' leaves nobody to attack")
        triples, missing = _summarisable(
            tuple(
                ScoreTriple(
                    name,
                    unit,
                    scorer(guesses, cell.truth),
                    scorer(prior, cell.truth),
                    None if control is None else scorer(control, cell.truth),
                )
                for name, scorer, unit in cell.scorers
            )
        )
        if cell.scorers and cell.scorers[0][0] in missing:
            return ended("failed", f"the {cell.scorers[0][0]} of every target is not finite")
    except UnmetRequirementsError as error:
        return ended("not-applicable", str(error))
    except PrivauditError as error:
        return ended("failed", str(error))
    except Exception as error:
        # The boundary of a campaign: whatever a (perhaps third-party) attack raises becomes a row
        # of the report that names it, and the other cells go on. Its trace goes to the log.
        _LOG.info("%s by %s failed", cell.attack.name, cell.label, exc_info=True)
        return ended("failed", f"{type(error).__name__}: {error}")
    kept = dict(zip(guesses.target_ids, guesses.values, strict=True)) if cell.keep_guesses else {}
    return Measurement(
        "measured",
        "",
        triples,
        {
            **guesses.diagnostics,
            **({"without-control": 1.0} if control is None else {}),
            **{f"not-finite/{name}": 1.0 for name in missing},
        },
        time.perf_counter() - started,
        kept,
    )


def _summarisable(
    triples: tuple[ScoreTriple, ...],
) -> tuple[tuple[ScoreTriple, ...], tuple[str, ...]]:
    """Return the metrics of which a figure can be made, and the names of the others.

    A mean of scores none of which is finite is no figure; a control of that kind is none.
    """

    def sound(scores: Scores | None) -> bool:
        return scores is not None and (
            scores.statistic == "proportion"
            or bool(np.isfinite(list(scores.per_target.values())).any())
        )

    kept = tuple(
        replace(t, control=t.control if sound(t.control) else None)
        for t in triples
        if sound(t.attack) and sound(t.baseline)
    )
    names = {t.name for t in kept}
    return kept, tuple(t.name for t in triples if t.name not in names)


def _control(
    cell: Cell, view: View, treatment: np.random.Generator, rng: np.random.Generator
) -> Guesses | None:
    """Return what the attack guesses when whose message is whose is wrong.

    None where there is nothing to exchange, a single message for one, or where the attack does not
    run on what was exchanged: then it certainly does not succeed there.
    """
    try:
        swapped = cell.control(view, kinds=cell.attack.reads, rng=treatment)
        return _of_targets(cell, cell.attack.run(swapped, knowledge=cell.knowledge, rng=rng))
    except (NothingToDerangeError, UnmetRequirementsError):
        return None


def _of_targets(cell: Cell, guesses: Guesses) -> Guesses:
    """Return the guesses of the targets that the cell names."""
    if cell.targets is None:
        return guesses
    kept = [i for i, target in enumerate(guesses.target_ids) if target in cell.targets]
    return Guesses(
        tuple(guesses.target_ids[i] for i in kept),
        tuple(guesses.values[i] for i in kept),
        guesses.scores[kept],
        guesses.diagnostics,
    )


class CellStore:
    """Finished cells in a folder, written atomically; none is computed twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, cell: Cell) -> Measurement | None:
        """Return the stored measurement of a cell, or None if there is none that can be read."""
        path = self.folder / f"{cell.key()}.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            guesses = load_file(path.with_suffix(".safetensors")) if value["guesses"] else {}
            return replace(measurement_from_json(value), guesses=guesses)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):
            # A cell that cannot be read is a cell to compute: its file is replaced.
            return None

    def put(self, cell: Cell, measurement: Measurement) -> None:
        """Store a measurement; one that failed is not kept, so that it is tried again."""
        if measurement.status == "failed":
            return
        path = self.folder / f"{cell.key()}.json"
        if measurement.guesses:
            arrays = {name: np.ascontiguousarray(a) for name, a in measurement.guesses.items()}
            replace_file(path.with_suffix(".safetensors"), save(arrays))
        value = {**measurement_to_json(measurement), "guesses": bool(measurement.guesses)}
        replace_file(path, json.dumps(value).encode())

    def measured(
        self, cells: Sequence[Cell], *, done: Callable[[int, int, Cell, Measurement], None]
    ) -> tuple[Measurement, ...]:
        """Return the measurements of all cells, computing those that are not stored."""
        results = []
        for position, cell in enumerate(cells, start=1):
            measurement = self.get(cell)
            if measurement is None:
                measurement = measure(cell)
                self.put(cell, measurement)
            results.append(measurement)
            done(position, len(cells), cell, measurement)
        return tuple(results)
