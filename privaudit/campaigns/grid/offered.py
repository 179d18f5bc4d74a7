"""Engines by name: what they are told, and those that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from privaudit import plugins
from privaudit.campaigns.grid.engines import DaskEngine, Engine, PoolEngine
from privaudit.errors import ConfigurationError

__all__ = ["EngineFactory", "EngineOptions", "dask", "engine_of", "local"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a user may ask of an engine.

    Attributes
    ----------
    jobs : int
        Cells that are measured at once, where the engine starts workers itself.
    address : str
        Of workers that are there already; empty for none.
    seconds, megabytes : float or None
        Limits of a cell's time and of a worker's memory.
    logs : Path or None
        Folder for what workers write to standard error.
    """

    jobs: int = 2
    address: str = ""
    seconds: float | None = None
    megabytes: float | None = None
    logs: Path | None = None


class EngineFactory(Protocol):
    """What is registered in ``privaudit.engines``; its docstring's first line is listed."""

    def __call__(self, options: EngineOptions, /) -> Engine:
        """Return the engine.

        Raises
        ------
        ConfigurationError
            If an option is given that the engine cannot keep.
        """
        ...


def engine_of(name: str, options: EngineOptions) -> Engine:
    """Return the engine that is registered under a name.

    Raises
    ------
    PluginError
        If there is none, two distributions claim it, or it cannot be imported.
    ConfigurationError
        If it cannot keep an option.
    """
    factory: EngineFactory = plugins.load("engine", name)
    return factory(options)


def local(options: EngineOptions) -> PoolEngine:
    """Spawned processes of this machine, with limits of time and memory."""
    if options.address:
        raise ConfigurationError("--address goes with --engine dask")
    return PoolEngine(options.jobs, options.seconds, options.megabytes, options.logs)


def dask(options: EngineOptions) -> DaskEngine:
    """Workers of dask.distributed: a local cluster, or one that is there (extra 'dask')."""
    if options.seconds is not None or options.megabytes is not None:
        raise ConfigurationError(
            "--time-limit and --memory-limit go with --engine local; dask's workers have "
            "limits of their own (dask worker --memory-limit)"
        )
    return DaskEngine(options.address, options.jobs)
