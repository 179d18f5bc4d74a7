"""The audit of PA-CFL: simulate, record, attack, account; :mod:`assemble` writes it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from privaudit.campaigns.auditing import Steps, measure_planned, on_round
from privaudit.campaigns.batches import Batch
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.pa_cfl.config import AuditConfig
from privaudit.campaigns.pa_cfl.exposed import Exposed, exposed
from privaudit.campaigns.pa_cfl.figure10 import ExposureFigure, exposure_figure
from privaudit.campaigns.pa_cfl.partitions import partition_scores
from privaudit.campaigns.pa_cfl.plan import plan_figure, plan_probe, plan_undefended
from privaudit.campaigns.pa_cfl.training import plan_membership, plan_training
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.runs import RecordedRun, outcome_only, recorded
from privaudit.campaigns.simulation import SimulationConfig, federate
from privaudit.errors import ConfigurationError
from privaudit.models import ModelSpec, default_model, parameter_count
from privaudit.protocols.pa_cfl import PACFLConfig
from privaudit.reports import replace_file
from privaudit.reports.model import NotRun

__all__ = ["AuditResult", "check_inputs", "run_audit"]


@dataclass(slots=True, eq=False)
class AuditResult:
    """Everything that was simulated and measured.

    Attributes
    ----------
    main : RecordedRun
        PA-CFL at the audited parameters.
    outcomes : dict of str to mapping
        Outcome of each training run, by its name in the report.
    partitions : dict of str to float
        Adjusted Rand index of the first round's partition, by similarity.
    results : list of (Planned, Measurement)
    exposures : list of Exposed
    not_run : list of NotRun
    runs : dict of str to RecordedRun
        Every recorded run by name.
    figure : ExposureFigure or None
        Figure 10, if it was asked for; ``out/exposures.png`` holds it as one picture.
    seconds : dict of str to float
        Wall-clock time of each stage.
    """

    config: AuditConfig
    main: RecordedRun
    outcomes: dict[str, Mapping[str, Any]]
    partitions: dict[str, float]
    results: list[tuple[Planned, Measurement]]
    exposures: list[Exposed]
    not_run: list[NotRun]
    runs: dict[str, RecordedRun] = field(default_factory=dict)
    figure: ExposureFigure | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def check_inputs(config: AuditConfig, *, data_root: Path | None = None) -> None:
    """Find what is wrong with the parameters or the data before anything is written.

    Raises
    ------
    ConfigurationError, InvalidDataError, DatasetNotFoundError
        If a parameter is wrong, the data cannot be read, or do not suffice for so many users; or
        if a figure would show records that are not public.
    """
    if config.figures and not config.public:
        raise ConfigurationError(
            f"figure '{config.figures[0]}' shows users' records, and those of "
            f"'{config.federation.dataset}' are not public: a report is a release too. Leave the "
            "figure out, or use a public data set"
        )
    fractions = (config.protocol().top_k_fraction, *config.probe_fractions)
    probes = [config.probe(fraction=f, paper_model=i == 0) for i, f in enumerate(fractions)]
    dimensions: dict[str, int] = {}
    for run in (config.run(), config.membership(protected=True), *probes):
        federation = run.federation.model_dump_json()
        if federation not in dimensions:
            data = federate(run.federation, seed=config.seed, data_root=data_root)
            name = run.parameters.get("model", "auto")
            spec = (
                default_model(data.image_shape, data.classes)
                if name == "auto"
                else ModelSpec(name, data.image_shape, data.classes)
            )
            dimensions[federation] = parameter_count(spec)
        PACFLConfig.model_validate(run.parameters).k(dimensions[federation])


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
    config.protocol()
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    main, reference, outcomes = _training(config, out, data_root, steps)
    seconds["simulation"] = time.perf_counter() - started
    started = time.perf_counter()
    wanted = {**_probes(config), **_membership(config), **_figure(config)}
    probes, batches = _recorded(wanted, out, data_root, steps)
    for name, run, simulated, headline in (
        ("pa-cfl", main, config.run(), True),
        ("pa-cfl-reference", reference, config.reference(), False),
    ):
        epsilon0 = simulated.parameters.get("epsilon0", config.protocol().epsilon0)
        setting = f"PA-CFL, ε₀ = {epsilon0:g}, {len(run.transcript.ids('user'))} users"
        batches.append(
            Batch(
                out / "runs" / name,
                simulated,
                partial(_training_plan, headline=headline, setting=setting, seed=config.seed),
            )
        )

    measured = measure_planned(batches, out, jobs=jobs, data_root=data_root, steps=steps)
    seconds["attacks"] = time.perf_counter() - started
    started = time.perf_counter()
    exposures, not_run = exposed(main, seed=config.seed)
    seconds["collusion"] = time.perf_counter() - started
    figure = None
    if "exposures" in config.figures:
        figure = exposure_figure(
            measured,
            probe=probes["probe-paper-model"],
            undefended=probes.get(FIGURE_RUN, probes["probe-fedavg"]),
            fraction=config.protocol().top_k_fraction,
        )
        if figure is not None:
            replace_file(out / "exposures.png", figure.png)
            steps("figure", 1, 1, str(out / "exposures.png"))
    return AuditResult(
        config=config,
        main=main,
        outcomes=outcomes,
        partitions=partition_scores(main),
        results=measured,
        exposures=exposures,
        not_run=not_run,
        runs={"pa-cfl": main, "pa-cfl-reference": reference, **probes},
        figure=figure,
        seconds=seconds,
    )


def _training(
    config: AuditConfig, out: Path, data_root: Path | None, steps: Steps
) -> tuple[RecordedRun, RecordedRun, dict[str, Mapping[str, Any]]]:
    """Run PA-CFL as audited (recorded), a reference that trains (recorded), and the comparison."""
    audited = config.protocol().epsilon0

    def record(name: str, run: SimulationConfig) -> RecordedRun:
        stage = f"simulate {name}"
        return recorded(
            run, out / "runs" / name, data_root=data_root, progress=on_round(steps, stage)
        )

    main = record("pa-cfl", config.run())
    outcomes: dict[str, Mapping[str, Any]] = {f"PA-CFL, ε₀ = {audited:g}": main.outcome}
    compared = {
        f"PA-CFL, ε₀ = {e:g}": config.run(epsilon0=e) for e in config.sweep_epsilon0 if e != audited
    }
    compared["PA-CFL* (no protection)"] = config.run(protection=False)
    compared["PA-CFL*, similarity rbo"] = config.run(
        protection=False, similarity="rbo", sequence_order="rank"
    )
    compared["FedAvg"] = config.fedavg()
    for position, (name, run) in enumerate(compared.items(), start=1):
        outcomes[name] = outcome_only(
            run,
            out / "outcomes" / f"{position:02d}.json",
            data_root=data_root,
            progress=on_round(steps, f"compare {name}"),
        )
    reference = record(
        "pa-cfl-reference",
        config.reference(),
    )
    return main, reference, outcomes


_Wanted = dict[str, tuple[SimulationConfig, Callable[[RecordedRun], list[Planned]]]]

#: Name of the undefended run of the figure, where no other run is what it needs.
FIGURE_RUN = "probe-fedavg-paper-model"


def _probes(config: AuditConfig) -> _Wanted:
    """Return the single-record runs, and what is to be measured on each."""
    wanted: _Wanted = {}
    seed, headline_fraction = config.seed, config.protocol().top_k_fraction
    paper = config.probe(fraction=headline_fraction, paper_model=True)
    wanted["probe-paper-model"] = (
        paper,
        partial(_probe_plan, fraction=headline_fraction, headline=True, seed=seed),
    )
    wanted["probe-fedavg"] = (
        config.probe(fraction=None),
        partial(_undefended_plan, fractions=config.probe_fractions, seed=seed),
    )
    for fraction in config.probe_fractions:
        run = config.probe(fraction=fraction)
        if run != paper:
            wanted[f"probe-k-{fraction:g}"] = (
                run,
                partial(_probe_plan, fraction=fraction, headline=False, seed=seed),
            )
    return wanted


def _membership(config: AuditConfig) -> _Wanted:
    """Return the runs on which membership is asked: PA-CFL, and undefended."""
    return {
        name: (
            config.membership(protected=protected),
            partial(
                _membership_plan,
                protected=protected,
                records=config.membership_records,
                seed=config.seed,
            ),
        )
        for name, protected in (("membership", True), ("membership-fedavg", False))
    }


def _figure(config: AuditConfig) -> _Wanted:
    """Return what the figure of exposures needs besides, if it is asked for."""
    if "exposures" not in config.figures:
        return {}
    run = config.probe(fraction=None, paper_model=True)
    shared = run == config.probe(fraction=None)
    plan = partial(
        _figure_plan,
        fraction=config.protocol().top_k_fraction,
        # Cells of the undefended run that every audit measures are not measured twice.
        fractions=config.probe_fractions if shared else (),
        seed=config.seed,
    )
    return {FIGURE_RUN: (run, plan)}


def _recorded(
    wanted: _Wanted, out: Path, data_root: Path | None, steps: Steps
) -> tuple[dict[str, RecordedRun], list[Batch]]:
    """Record runs of one round, each configuration once."""
    runs: dict[str, RecordedRun] = {}
    batches: list[Batch] = []
    folders: dict[str, Path] = {}
    for position, (name, (run, plan)) in enumerate(wanted.items(), start=1):
        folder = folders.setdefault(run.model_dump_json(), out / "runs" / name)
        if folder.name == name:
            runs[name] = recorded(run, folder, data_root=data_root)
        steps("simulate runs of one round", position, len(wanted), name)
        batches.append(Batch(folder, run, plan))
    return runs, batches


def _probe_plan(run: RecordedRun, *, fraction: float, headline: bool, seed: int) -> list[Planned]:
    return list(plan_probe(run, fraction=fraction, headline=headline, seed=seed))


def _undefended_plan(run: RecordedRun, *, fractions: tuple[float, ...], seed: int) -> list[Planned]:
    return list(plan_undefended(run, fractions=fractions, seed=seed))


def _training_plan(run: RecordedRun, *, headline: bool, setting: str, seed: int) -> list[Planned]:
    return list(plan_training(run, headline=headline, setting=setting, seed=seed))


def _membership_plan(
    run: RecordedRun, *, protected: bool, records: int, seed: int
) -> list[Planned]:
    model: Any = run.transcript.public["model"]
    setting = (
        f"{'PA-CFL' if protected else 'FedAvg'}, {len(run.transcript.ids('user'))} users of "
        f"{records} records, one gradient a user, {model['name']} with {model['dimension']:,} "
        "parameters"
    )
    return list(plan_membership(run, protected=protected, setting=setting, seed=seed))


def _figure_plan(
    run: RecordedRun, *, fraction: float, fractions: tuple[float, ...], seed: int
) -> list[Planned]:
    return list(plan_figure(run, fraction=fraction, fractions=fractions, seed=seed))
