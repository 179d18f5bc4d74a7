"""Runs of a campaign, each recorded once in its folder and read back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaudit.attacks.base import Knowledge
from privaudit.campaigns.simulation import (
    SimulationConfig,
    federate,
    outcome_json,
    record_run,
    simulate,
)
from privaudit.datasets.base import LabelledImages
from privaudit.errors import CorruptRecordingError
from privaudit.models.spec import ModelSpec
from privaudit.protocols.base import Progress
from privaudit.recording import read_recording, read_truth
from privaudit.transcript import NullRecorder, Transcript, Truth

__all__ = ["RecordedRun", "knowledge_of", "open_run", "outcome_only", "recorded"]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run as it lies on disk.

    Attributes
    ----------
    name : str
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
    """

    name: str
    transcript: Transcript
    truth: Truth | None
    auxiliary: LabelledImages | None
    outcome: Mapping[str, Any]
    digest: str
    complete: bool


def open_run(folder: Path, *, data_root: Path | None = None, name: str = "") -> RecordedRun:
    """Read a recorded run: ``folder`` is a bundle, or holds ``run`` and perhaps ``truth``.

    Auxiliary records are taken from the same partition as the users' when the recording says by
    which settings it was simulated.

    Raises
    ------
    CorruptRecordingError
        If there is no sound recording.
    """
    bundle = folder if (folder / "manifest.json").is_file() else folder / "run"
    recording = read_recording(bundle)
    manifest = recording.manifest
    beside = bundle.parent / "truth"
    truth = read_truth(beside) if beside.is_dir() else None
    auxiliary = None
    if manifest.settings:
        config = SimulationConfig.model_validate(dict(manifest.settings))
        auxiliary = federate(config.federation, seed=config.seed, data_root=data_root).auxiliary
    return RecordedRun(
        name=name or folder.name,
        transcript=recording.transcript,
        truth=truth,
        auxiliary=auxiliary,
        outcome=dict(manifest.outcome or {}),
        digest=manifest.head_hash or "incomplete",
        complete=recording.complete,
    )


def recorded(
    config: SimulationConfig,
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
                return open_run(folder, data_root=data_root)
        except CorruptRecordingError:
            # A damaged recording of our own is made again.
            shutil.rmtree(folder)
    record_run(config, folder, data_root=data_root, force=True, progress=progress)
    return open_run(folder, data_root=data_root)


def outcome_only(
    config: SimulationConfig,
    file: Path,
    *,
    data_root: Path | None = None,
    progress: Progress | None = None,
) -> Mapping[str, Any]:
    """Return the outcome of a run of which no message is kept; stored in ``file``."""
    settings = config.model_dump(mode="json")
    if file.is_file():
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["settings"] == settings:
            outcome: Mapping[str, Any] = stored["outcome"]
            return outcome
    data = federate(config.federation, seed=config.seed, data_root=data_root)
    ended = simulate(config, data, recorder=NullRecorder(), progress=progress)
    value = outcome_json(ended)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"settings": settings, "outcome": value}), encoding="utf-8")
    return value


def knowledge_of(run: RecordedRun) -> Knowledge:
    """Return what an adversary may be declared to know of a run in round 1.

    The architecture and the initial parameters are public in the protocols here; auxiliary records
    are used only by attacks whose coalition is granted them.
    """
    public = run.transcript.public
    model = public.get("model")
    spec = None
    if isinstance(model, Mapping):
        shape: Any = model["input_shape"]
        spec = ModelSpec(
            str(model["name"]),
            (int(shape[0]), int(shape[1]), int(shape[2])),
            int(str(model["classes"])),
        )
    arrays = run.transcript.public_arrays
    parameters = arrays.get("initial-parameters")
    return Knowledge(model=spec, parameters=parameters, auxiliary=run.auxiliary)
