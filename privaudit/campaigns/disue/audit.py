"""The audit of DisUE: simulate, record, attack; :mod:`assemble` writes it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from privaudit.campaigns.auditing import Steps, measure_planned, on_round
from privaudit.campaigns.batches import Batch
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.disue.config import AuditConfig
from privaudit.campaigns.disue.plan import (
    plan_active,
    plan_defences,
    plan_large,
    plan_linking,
    plan_main,
    plan_probe,
    plan_variant,
)
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.runs import RecordedRun, outcome_only, recorded
from privaudit.campaigns.simulation import SimulationConfig, federate
from privaudit.models import ModelSpec, default_model, parameter_count
from privaudit.protocols.disue import DisUEConfig
from privaudit.protocols.disue.similarity import check_sizes

__all__ = ["AuditResult", "check_inputs", "run_audit"]

Plan = Callable[[RecordedRun], Sequence[Planned]]


@dataclass(slots=True, eq=False)
class AuditResult:
    """Everything that was simulated and measured.

    Attributes
    ----------
    runs : dict of str to RecordedRun
        ``main`` is the audited one, ``relay`` and its like are the variants.
    outcomes : dict of str to mapping
        Outcome of each training run, by its name in the report; the audited one first.
    results : list of (Planned, Measurement)
    seconds : dict of str to float
        Wall-clock time of each stage.
    """

    config: AuditConfig
    runs: dict[str, RecordedRun]
    outcomes: dict[str, Mapping[str, Any]]
    results: list[tuple[Planned, Measurement]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def check_inputs(config: AuditConfig, *, data_root: Path | None = None) -> None:
    """Find what is wrong with the parameters or the data before anything is written.

    Raises
    ------
    ConfigurationError, InvalidDataError, DatasetNotFoundError
        If a parameter is wrong, the data cannot be read, or do not suffice for so many users.
    """
    config.protocol()
    for run in (config.run(), *_wanted(config).values()):
        checked = DisUEConfig.model_validate(run.parameters)
        data = federate(run.federation, seed=config.seed, data_root=data_root)
        spec = (
            default_model(data.image_shape, data.classes)
            if checked.model == "auto"
            else ModelSpec(checked.model, data.image_shape, data.classes)
        )
        check_sizes(checked, dimension=parameter_count(spec))


def _wanted(config: AuditConfig) -> dict[str, SimulationConfig]:
    wanted = {variant: config.variant(variant) for variant in config.variants}
    wanted["probe"] = config.probe()
    if config.large_model_users >= 2:
        wanted["large"] = config.probe(large=True)
    return wanted


def run_audit(
    config: AuditConfig,
    out: Path,
    *,
    data_root: Path | None = None,
    jobs: int = 2,
    steps: Steps,
) -> AuditResult:
    """Do everything that the folder does not hold already.

    Runs lie in ``out/runs``, measured cells in ``out/cells``; both are found again by content, so
    the same call resumes after an interruption.
    """
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    configs = {"main": config.run(), **_wanted(config)}
    runs: dict[str, RecordedRun] = {}
    for name, simulated in configs.items():
        runs[name] = recorded(
            simulated,
            out / "runs" / name,
            data_root=data_root,
            progress=on_round(steps, f"simulate {name}"),
        )
    outcomes: dict[str, Mapping[str, Any]] = {"DisUE": runs["main"].outcome}
    for position, (name, compared) in enumerate(config.compared().items(), start=1):
        outcomes[name] = outcome_only(
            compared,
            out / "outcomes" / f"{position:02d}.json",
            data_root=data_root,
            progress=on_round(steps, f"compare {name}"),
        )
    seconds["simulation"] = time.perf_counter() - started
    started = time.perf_counter()
    batches = [
        Batch(out / "runs" / name, configs[name], plan)
        for name, plans in _plans(config).items()
        for plan in plans
    ]
    results = measure_planned(batches, out, jobs=jobs, data_root=data_root, steps=steps)
    seconds["attacks"] = time.perf_counter() - started
    return AuditResult(config, runs, outcomes, results, seconds)


def _plans(config: AuditConfig) -> dict[str, list[Plan]]:
    """Return what is to be measured on each run, as calls that worker processes can repeat."""
    seed = config.seed
    plans: dict[str, list[Plan]] = {"main": [partial(_listed, plan=plan_main, seed=seed)]}
    for variant in config.variants:
        plans[variant] = [partial(_of_variant, variant=variant, seed=seed)]
    if "relay" in plans:
        plans["relay"] += [
            partial(_listed, plan=plan_active, seed=seed),
            partial(_listed, plan=plan_linking, seed=seed),
            partial(_listed, plan=plan_defences, seed=seed),
        ]
    plans["probe"] = [partial(_listed, plan=plan_probe, seed=seed)]
    if config.large_model_users >= 2:
        plans["large"] = [partial(_listed, plan=plan_large, seed=seed)]
    return plans


def _listed(run: RecordedRun, *, plan: Callable[..., Any], seed: int) -> list[Planned]:
    return list(plan(run, seed=seed))


def _of_variant(run: RecordedRun, *, variant: str, seed: int) -> list[Planned]:
    return list(plan_variant(run, variant=variant, seed=seed))
