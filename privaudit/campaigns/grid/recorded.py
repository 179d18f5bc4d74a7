"""The runs of a campaign: each is recorded once, by whichever process needs it first."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from privaudit import __version__, plugins
from privaudit.campaigns.runs import RecordedRun, recorded
from privaudit.campaigns.simulation import simulation_config
from privaudit.recording import verify

__all__ = ["digest", "ensure_run", "forget", "loaded", "run_key"]

_LOG = logging.getLogger(__name__)

MADE_AGAIN = (
    "the recording was found damaged; it was set aside, and made again of the same configuration"
)


@lru_cache(maxsize=256)
def loaded(kind: str, name: str) -> Any:
    """Return a plug-in, looked up once: it takes tens of milliseconds, and cells are many."""
    return plugins.load(kind, name)


def run_key(run: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a run's configuration and of the version of its protocol.

    Runs are reproducible byte for byte, so that this stands for the digest of their recording.
    """
    protocol = loaded("protocol", run["protocol"])
    return digest(
        {"privaudit": __version__, "protocol_version": protocol.version, "run": dict(run)}
    )


def digest(value: Any) -> str:
    """Return the SHA-256 of JSON values."""
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def ensure_run(run: Mapping[str, Any], folder: Path, *, data_root: Path | None) -> RecordedRun:
    """Return a run of the campaign, recording it unless ``folder`` holds it undamaged.

    Several processes may want the same run: each records it into a folder of its own, and the
    first to be done moves it into place. A recording that is damaged is set aside, told in the
    log, and made again: nothing is ever measured on it.
    """
    text = json.dumps(dict(run), sort_keys=True)
    return _sound_run(text, folder / run_key(run)[:32], data_root)


@lru_cache(maxsize=4)
def _sound_run(text: str, target: Path, data_root: Path | None) -> RecordedRun:
    config = simulation_config(json.loads(text), where="campaign")
    if target.is_dir():
        # A process reads every byte of a run once before it measures on it.
        problem = _problem(target)
        if problem:
            aside = target.with_name(f".damaged-{target.name}-{secrets.token_hex(4)}")
            told = "%s is damaged (%s); it is set aside as %s and made again"
            _LOG.warning(told, target, problem, aside.name)
            _moved(target, aside)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        own = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            recorded(config, own, data_root=data_root)
            _moved(own, target)
        finally:
            shutil.rmtree(own, ignore_errors=True)
    run = recorded(config, target, data_root=data_root)
    # On disk, so that every process that measures on the new recording knows of it.
    if any(target.parent.glob(f".damaged-{target.name}-*")):
        run = replace(run, notes=(*run.notes, MADE_AGAIN))
    return run


def forget() -> None:
    """Forget the runs that this process has read."""
    _sound_run.cache_clear()


def _problem(target: Path) -> str:
    """Return the first thing that is wrong with a run and its truth, or an empty text."""
    for part in ("run", "truth"):
        if not (target / part).is_dir():
            return f"it has no {part}"
        for problem in verify(target / part):
            # A run that diverged has values that are not finite, and is sound.
            if problem.severity != "warning":
                return str(problem)
    return ""


def _moved(source: Path, target: Path) -> None:
    """Rename a folder, unless another process was first: its recording has the same bytes."""
    try:
        source.rename(target)
    except OSError:
        if source.is_dir() and not target.is_dir():
            raise
