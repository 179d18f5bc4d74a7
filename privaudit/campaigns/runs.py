"""Runs of a campaign, each recorded once in its folder and read back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaudit.attacks.base import Knowledge
from privaudit.campaigns.readers import chosen_reader
from privaudit.campaigns.simulation import (
    AnySimulationConfig,
    SimulationConfig,
    data_of,
    divide,
    federate,
    outcome_json,
    record_run,
    simulate,
    simulation_config,
)
from privaudit.datasets import DATASETS
from privaudit.datasets.base import LabelledImages
from privaudit.datasets.tables import TABLES
from privaudit.datasets.vertical import AuxiliaryRows
from privaudit.errors import ConfigurationError, CorruptRecordingError, PluginError
from privaudit.models.spec import ModelSpec
from privaudit.protocols.base import Progress
from privaudit.recording import ReadRun, read_recording
from privaudit.reports import replace_file
from privaudit.transcript import NullRecorder, Transcript, Truth

#: Largest extent of an image, and most classes, that a recording may name.
MOST_EXTENT = 100_000

__all__ = ["RecordedRun", "knowledge_of", "open_run", "outcome_only", "recorded"]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run as it lies on disk.

    Attributes
    ----------
    transcript : Transcript
    truth : Truth or None
        None if the truth was not handed over with the recording.
    auxiliary : LabelledImages or None
        Records that no user holds, for adversaries that are granted some.
    outcome : mapping
        As :func:`privaudit.campaigns.simulation.outcome_json` gives it; empty if incomplete.
    digest : str
        SHA-256 of the last line of the recording's hash chain.
    complete : bool
    dataset : str
        Name of the data set, or empty where the recording does not say.
    auxiliary_rows : AuxiliaryRows or None
        As ``auxiliary``, for protocols over columns.
    protocol : str
        Name under which the run was recorded.
    notes : tuple of str
        In which respect the recording is only part of a run.
    """

    transcript: Transcript
    truth: Truth | None
    auxiliary: LabelledImages | None
    outcome: Mapping[str, Any]
    digest: str
    complete: bool
    dataset: str = ""
    auxiliary_rows: AuxiliaryRows | None = None
    protocol: str = ""
    notes: tuple[str, ...] = ()


def open_run(
    folder: Path,
    *,
    data_root: Path | None = None,
    auxiliary: LabelledImages | AuxiliaryRows | None = None,
    reader: str = "",
) -> RecordedRun:
    """Read a recorded run: a bundle, a folder with ``run`` and maybe ``truth``, or another format.

    Parameters
    ----------
    auxiliary : LabelledImages, AuxiliaryRows or None
        Records for adversaries that are granted some. If None they are those that the simulation
        kept apart, where the recording names one of the data sets of this package.
    reader : str
        Registered reader of the format; the one that recognises it if empty.

    Raises
    ------
    CorruptRecordingError
        If there is no sound recording, or its settings are not those of a simulation.
    """
    chosen = chosen_reader(folder, reader)
    read = chosen.read(folder)
    if auxiliary is None and read.settings:
        auxiliary = _kept_apart(read.settings, read.transcript, folder, data_root)
    return RecordedRun(
        transcript=read.transcript,
        truth=chosen.truth(folder),
        auxiliary=auxiliary if isinstance(auxiliary, LabelledImages) else None,
        outcome=dict(read.outcome),
        digest=read.digest,
        complete=read.complete,
        dataset=_dataset(read.settings),
        auxiliary_rows=auxiliary if isinstance(auxiliary, AuxiliaryRows) else None,
        protocol=read.protocol,
        notes=tuple(_shortfalls(read)),
    )


def _shortfalls(read: ReadRun) -> Iterator[str]:
    """Yield in which respect a recording is only part of a run."""
    if not read.complete:
        yield f"the recording is partial: {'; '.join(read.problems) or 'its end is missing'}"
    if read.outcome.get("status", "completed") != "completed":
        reason = str(read.outcome.get("reason") or read.outcome["status"])
        done = read.outcome.get("rounds")
        rounds = "" if done is None else f", after {done} whole round{'' if done == 1 else 's'}"
        yield f"the run ended early{rounds}: {reason}"


def _dataset(settings: Mapping[str, Any]) -> str:
    federation = settings.get("federation")
    return str(federation.get("dataset", "")) if isinstance(federation, Mapping) else ""


def _kept_apart(
    settings: Mapping[str, Any], transcript: Transcript, folder: Path, data_root: Path | None
) -> LabelledImages | AuxiliaryRows | None:
    """Make the simulation's partition again, as far as a stranger's settings may be followed."""
    try:
        config = simulation_config(settings, where=str(folder))
        if not isinstance(config, SimulationConfig):
            # As below: a name of this package's, and no more rows and parties than it has.
            if config.federation.dataset not in (*DATASETS, *TABLES):
                return None
            return divide(config.federation, seed=config.seed, data_root=data_root).auxiliary
    except PluginError:
        # A protocol that is not installed here: how it divides its data is not known.
        return None
    except ConfigurationError as error:
        raise CorruptRecordingError(f"{error} (key 'settings')") from None
    federation = config.federation
    # A recording may come from a stranger: it does not get to name files of this machine, nor to
    # ask for more users than it has.
    if federation.dataset not in DATASETS or federation.users != len(transcript.ids("user")):
        return None
    return federate(federation, seed=config.seed, data_root=data_root).auxiliary


def recorded(
    config: AnySimulationConfig,
    folder: Path,
    *,
    data_root: Path | None = None,
    progress: Progress | None = None,
) -> RecordedRun:
    """Return the run of a configuration, recording it unless the folder holds it complete."""
    if (folder / "run" / "manifest.json").is_file():
        try:
            recording = read_recording(folder / "run")
            same = dict(recording.manifest.settings) == config.model_dump(mode="json")
            if same and recording.complete:
                return _own(config, folder, data_root)
        except CorruptRecordingError:
            # A damaged recording of our own is made again.
            shutil.rmtree(folder)
    record_run(config, folder, data_root=data_root, force=True, progress=progress)
    return _own(config, folder, data_root)


def _own(config: AnySimulationConfig, folder: Path, data_root: Path | None) -> RecordedRun:
    data = data_of(config, data_root=data_root)
    return open_run(folder, auxiliary=data.auxiliary)


def outcome_only(
    config: AnySimulationConfig,
    file: Path,
    *,
    data_root: Path | None = None,
    progress: Progress | None = None,
) -> Mapping[str, Any]:
    """Return the outcome of a run of which no message is kept; stored in ``file``."""
    settings = config.model_dump(mode="json")
    if file.is_file():
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored["settings"] == settings:
                outcome: Mapping[str, Any] = stored["outcome"]
                return outcome
        except (ValueError, KeyError, TypeError):
            # A file that cannot be read is a run to make: it is replaced.
            file.unlink()
    data = data_of(config, data_root=data_root)
    ended = simulate(config, data, recorder=NullRecorder(), progress=progress)
    value = outcome_json(ended)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps({"settings": settings, "outcome": value}).encode())
    return value


def _model_spec(model: Any) -> ModelSpec:
    """Read the public facts of a model; a recording may come from a stranger."""
    facts: dict[str, Any] = dict(model) if isinstance(model, Mapping) else {}
    name, shape, classes = (facts.get(key) for key in ("name", "input_shape", "classes"))
    numbers = [*shape, classes] if isinstance(shape, list | tuple) else []
    sound = len(numbers) == 4 and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 < n <= MOST_EXTENT for n in numbers
    )
    if not isinstance(name, str) or not sound:
        raise CorruptRecordingError(
            f"the recording's public fact 'model' is {model!r:.200}; expected are name (a text), "
            f"input_shape (three integers) and classes (an integer), all from 1 to {MOST_EXTENT}"
        )
    return ModelSpec(name, (numbers[0], numbers[1], numbers[2]), numbers[3])


def knowledge_of(run: RecordedRun) -> Knowledge:
    """Return what an adversary may be declared to know of a run in round 1.

    The architecture and the initial parameters are public in the protocols here; auxiliary records
    are used only by attacks whose coalition is granted them.

    Raises
    ------
    CorruptRecordingError
        If what the recording makes public of the model is not a name, a shape and classes.
    """
    model = run.transcript.public.get("model")
    spec = None if model is None else _model_spec(model)
    arrays = run.transcript.public_arrays
    parameters = arrays.get("initial-parameters")
    stated = model.get("dimension") if isinstance(model, Mapping) else None
    if stated is not None and (
        type(stated) is not int
        or stated < 1
        or (parameters is not None and stated != parameters.size)
    ):
        held = "" if parameters is None else f"; 'initial-parameters' holds {parameters.size:,}"
        raise CorruptRecordingError(
            f"the recording's public fact 'model' states dimension = {stated!r:.40}, which is not "
            f"the number of its parameters{held}"
        )
    return Knowledge(model=spec, parameters=parameters, auxiliary=run.auxiliary)
