"""From a configuration to a recorded run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privaudit import plugins
from privaudit.configuration import validated
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.columns import Split, split_vertically
from privaudit.datasets.partition import partition, single_record_users
from privaudit.datasets.tables import TableOptions, load_table
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import ConfigurationError, OutputExistsError, PrivauditError
from privaudit.protocols.base import (
    AnyProtocol,
    FederatedProtocol,
    Progress,
    RunOutcome,
    runs_on_columns,
)
from privaudit.recording import BundleRecorder
from privaudit.transcript import Recorder

__all__ = [
    "AnySimulationConfig",
    "FederationConfig",
    "SimulationConfig",
    "VerticalConfig",
    "VerticalSimulationConfig",
    "configured_protocol",
    "data_of",
    "divide",
    "federate",
    "record_run",
    "simulate",
    "simulation_config",
]


class FederationConfig(BaseModel):
    """Which data the users hold.

    Attributes
    ----------
    dataset : str
        A name that ``privaudit list datasets`` shows, or the path of an ``.npz`` file.
    users : int
    partition : {"clustered", "dirichlet", "iid", "single-record"}
        ``clustered``: groups of users that share label pairs (the paper's Non-IID Set-2);
        ``dirichlet``: label skew alpha (Set-1); ``single-record``: one record a user, as in
        experiments with gradient inversion.
    records_per_user : int or None
        As many as the data give if None.
    alpha : float
    groups : int or None
        Groups of ``clustered``; if None the paper's five, or fewer so that each has two users.
    auxiliary_records : int
        Records kept apart for adversaries that are granted auxiliary data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = "digits"
    users: int = Field(20, ge=2)
    partition: Literal["clustered", "dirichlet", "iid", "single-record"] = "clustered"
    records_per_user: int | None = Field(None, ge=1)
    alpha: float = Field(0.5, gt=0, allow_inf_nan=False)
    groups: int | None = Field(None, ge=1)
    auxiliary_records: int = Field(300, ge=10)


class SimulationConfig(BaseModel):
    """A run: protocol, its parameters, the federation, and the seed of everything random."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: str = "pa-cfl"
    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: FederationConfig = FederationConfig()
    seed: int = Field(0, ge=0)


class VerticalConfig(BaseModel):
    """Which columns the parties of a vertical federation hold.

    Attributes
    ----------
    dataset : str
        An image set, ``breast-cancer``, ``wine``, or the path of a ``.csv``, ``.csv.gz``,
        ``.parquet`` or ``.npz`` file; see :func:`privaudit.datasets.tables.load_table`.
    split : {"contiguous", "random", "halves", "quarters", "groups"}
        See :mod:`privaudit.datasets.columns`.
    parties : int or None
        As many as the groups; otherwise four for ``quarters`` and two for all others if None.
    widths : tuple of int or None
    groups : mapping or None
        Each party's columns, by name or pattern, for ``groups``.
    rows : int or None
        All rows that are not auxiliary if None.
    auxiliary_rows : int or None
        Rows kept apart for adversaries that are granted auxiliary data; 300, and at most a fifth
        of the rows, if None.
    label, categorical, drop, encoding, missing, missing_values, scaling
        How a file becomes numbers; see :class:`privaudit.datasets.tables.TableOptions`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = "digits"
    split: Split = "contiguous"
    parties: int | None = Field(None, ge=1)
    widths: tuple[int, ...] | None = None
    groups: dict[str, tuple[str, ...]] | None = None
    rows: int | None = Field(None, ge=1)
    auxiliary_rows: int | None = Field(None, ge=0)
    label: str | None = None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    encoding: Literal["one-hot", "ordinal"] = "one-hot"
    missing: Literal["error", "drop-rows", "impute"] = "error"
    missing_values: tuple[str, ...] = ("?",)
    scaling: Literal["none", "standard", "min-max"] = "none"

    def table_options(self) -> TableOptions:
        """Return how a file becomes numbers."""
        return TableOptions(
            label=self.label,
            categorical=self.categorical,
            drop=self.drop,
            encoding=self.encoding,
            missing=self.missing,
            missing_values=self.missing_values,
            scaling=self.scaling,
        )


class VerticalSimulationConfig(BaseModel):
    """A run of a protocol over parties who hold columns of the same rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: str = "pq-mds"
    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: VerticalConfig = VerticalConfig()
    seed: int = Field(0, ge=0)


AnySimulationConfig: TypeAlias = SimulationConfig | VerticalSimulationConfig


def simulation_config(values: Mapping[str, Any], *, where: str) -> AnySimulationConfig:
    """Return the configuration of a run, of the kind that its protocol declares.

    Raises
    ------
    PluginError
        If no protocol has the name.
    ConfigurationError
        If a key or value is wrong.
    """
    name = str(values.get("protocol", SimulationConfig().protocol))
    if runs_on_columns(plugins.load("protocol", name)):
        return validated(VerticalSimulationConfig, values, where=where)
    return validated(SimulationConfig, values, where=where)


def configured_protocol(name: str, parameters: dict[str, Any]) -> AnyProtocol:
    """Return the protocol of a name with its parameters checked.

    Raises
    ------
    PluginError
        If no protocol has the name.
    ConfigurationError
        If a parameter is unknown or out of range.
    """
    kind = plugins.load("protocol", name)
    config = validated(kind.Config, parameters, where=f"parameters of protocol '{name}'")
    protocol: AnyProtocol = kind(config)
    return protocol


def federate(
    config: FederationConfig, *, seed: int, data_root: Path | None = None
) -> FederatedData:
    """Load the data set and spread it over the users."""
    dataset = load_dataset(config.dataset, data_root=data_root, seed=seed)
    rng = np.random.default_rng([seed, 1])
    if config.partition == "single-record":
        return single_record_users(
            dataset, users=config.users, auxiliary_records=config.auxiliary_records, rng=rng
        )
    return partition(
        dataset,
        users=config.users,
        scheme=config.partition,
        records_per_user=config.records_per_user,
        alpha=config.alpha,
        groups=config.groups or max(1, min(5, config.users // 2)),
        auxiliary_records=config.auxiliary_records,
        rng=rng,
    )


def divide(config: VerticalConfig, *, seed: int, data_root: Path | None = None) -> VerticalData:
    """Load the table and spread its columns over the parties."""
    table = load_table(
        config.dataset, options=config.table_options(), data_root=data_root, seed=seed
    )
    return split_vertically(
        table,
        split=config.split,
        parties=config.parties or (4 if config.split == "quarters" else 2),
        widths=config.widths,
        groups=config.groups,
        rows=config.rows,
        auxiliary_rows=config.auxiliary_rows,
        rng=np.random.default_rng([seed, 1]),
    )


def data_of(
    config: AnySimulationConfig, *, data_root: Path | None = None
) -> FederatedData | VerticalData:
    """Return the data of a run, as its federation describes them."""
    if isinstance(config, VerticalSimulationConfig):
        return divide(config.federation, seed=config.seed, data_root=data_root)
    return federate(config.federation, seed=config.seed, data_root=data_root)


def simulate(
    config: AnySimulationConfig,
    data: FederatedData | VerticalData,
    *,
    recorder: Recorder,
    progress: Progress | None = None,
) -> RunOutcome:
    """Run the configured protocol over the data, giving every message to the recorder.

    Raises
    ------
    ConfigurationError
        If the protocol runs on data of the other kind, or a parameter is wrong.
    """
    protocol = configured_protocol(config.protocol, config.parameters)
    return _run(protocol, data, seed=config.seed, recorder=recorder, progress=progress)


def _run(
    protocol: AnyProtocol,
    data: FederatedData | VerticalData,
    *,
    seed: int,
    recorder: Recorder,
    progress: Progress | None,
) -> RunOutcome:
    rng = np.random.default_rng([seed, 2])
    if runs_on_columns(protocol):
        if isinstance(data, VerticalData):
            return protocol.run(data, rng=rng, recorder=recorder, progress=progress)
    elif isinstance(data, FederatedData):
        horizontal: FederatedProtocol = cast(FederatedProtocol, protocol)
        return horizontal.run(data, rng=rng, recorder=recorder, progress=progress)
    raise ConfigurationError(
        f"protocol '{protocol.name}' does not run on {type(data).__name__}: protocols over columns "
        "take VerticalData, others FederatedData"
    )


def record_run(
    config: AnySimulationConfig,
    folder: Path,
    *,
    data_root: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> RunOutcome:
    """Run and record: the bundle goes to ``folder/run``, the truth to ``folder/truth``.

    The same configuration gives the same bytes. If the run is interrupted, the bundle is readable
    and says that it is incomplete. A run that is refused before its first message leaves nothing.

    Raises
    ------
    OutputExistsError
        If the folder is a file, or holds anything and ``force`` is not given.
    """
    # Everything that can be wrong with the input is found before a file is written.
    protocol = configured_protocol(config.protocol, config.parameters)
    data = data_of(config, data_root=data_root)
    _check_folder(folder, force=force)
    settings = config.model_dump(mode="json")
    recorder = BundleRecorder(
        folder / "run",
        protocol=config.protocol,
        truth=folder / "truth",
        settings=settings,
        force=force,
    )
    try:
        with recorder:
            outcome = _run(protocol, data, seed=config.seed, recorder=recorder, progress=progress)
            recorder.finish(outcome_json(outcome))
    except PrivauditError:
        # What fits neither model nor data (k, for one) shows only when the protocol has both.
        _discard_unless_begun(folder)
        raise
    return outcome


def _check_folder(folder: Path, *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputExistsError(f"{folder} is a file; name a folder that is empty or new")
    held = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in held if name not in ("run", "truth")]
    if foreign and not force:
        raise OutputExistsError(
            f"{folder} is not empty (it holds {', '.join(foreign[:5])}); name another folder, or "
            "add --force to write into it"
        )


def _discard_unless_begun(folder: Path) -> None:
    """Remove a recording, made by this process, that holds no message."""
    events = folder / "run" / "events.jsonl"
    if events.is_file() and events.stat().st_size == 0:
        shutil.rmtree(folder / "run")
        shutil.rmtree(folder / "truth")
        if not any(folder.iterdir()):
            folder.rmdir()


def outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    """Return an outcome as JSON values; numbers that are not finite become None."""
    return {
        "status": outcome.status,
        "rounds": outcome.rounds,
        "reason": outcome.reason,
        "warnings": list(outcome.warnings),
        "metrics": [
            {
                "round": m.round,
                "values": {k: v if np.isfinite(v) else None for k, v in m.values.items()},
            }
            for m in outcome.metrics
        ],
    }
