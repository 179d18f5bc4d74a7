"""The audit of PQ-MDS: simulate, record, attack; :mod:`assemble` writes it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from privaudit.campaigns.auditing import Steps, measure_planned, on_round
from privaudit.campaigns.batches import Batch
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.pq_mds.adversaries import Numbers, fitting_numbers
from privaudit.campaigns.pq_mds.config import AuditConfig, Setting
from privaudit.campaigns.pq_mds.plan import (
    not_planned_main,
    plan_main,
    plan_setting,
    plan_single_columns,
)
from privaudit.campaigns.records import grid_columns
from privaudit.campaigns.runs import RecordedRun, outcome_only, recorded
from privaudit.campaigns.simulation import VerticalSimulationConfig, divide
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import ConfigurationError
from privaudit.protocols.pq_mds import PQMDSConfig
from privaudit.reports.model import NotRun
from privaudit.transcript import Truth

__all__ = ["AuditResult", "check_inputs", "run_audit"]

Plan = Callable[[RecordedRun], Sequence[Planned]]

#: Codewords of the run in which each column is a subspace, and most columns of such a run.
GRID_LEVELS, MOST_SINGLE = 17, 256
#: Reconstructed records in the report.
EXAMPLES = 10


@dataclass(slots=True, eq=False)
class AuditResult:
    """Everything that was simulated and measured.

    Attributes
    ----------
    config : AuditConfig
    data : VerticalData
        Of the audited run.
    settings : dict of str to Setting
        What was recorded and attacked; ``main`` is the audited run.
    runs : dict of str to RecordedRun
        By the same names.
    references : dict of str to mapping
        Outcomes of runs of which the clustering alone is compared.
    numbers : Numbers
        What adversaries of the audited run know.
    column_names : dict of str to tuple of str
        Of the audited run and of the embedded table, in the order of the whole table.
    not_planned : list of NotRun
    results : list of (Planned, Measurement)
    seconds : dict of str to float
        Wall-clock time of each stage.
    """

    config: AuditConfig
    data: VerticalData
    settings: dict[str, Setting]
    numbers: Numbers
    runs: dict[str, RecordedRun] = field(default_factory=dict)
    references: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    column_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_planned: list[NotRun] = field(default_factory=list)
    results: list[tuple[Planned, Measurement]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def check_inputs(config: AuditConfig, *, data_root: Path | None = None) -> None:
    """Find what is wrong with the parameters or the data before anything is written.

    Raises
    ------
    ConfigurationError, InvalidDataError, DatasetNotFoundError
        If a parameter is wrong, the data cannot be read, or do not suffice.
    """
    config.protocol()
    found: dict[str, VerticalData] = {}
    for setting in config.settings().values():
        simulation = setting.simulation
        checked = PQMDSConfig.model_validate(simulation.parameters)
        key = simulation.federation.model_dump_json()
        if key not in found:
            found[key] = divide(simulation.federation, seed=config.seed, data_root=data_root)
        data = found[key]
        _check_rows(config, data)
        checked.subspaces_of(
            tuple(p.party for p in data.parties), tuple(len(p.columns) for p in data.parties)
        )
        clusters = checked.clusters or data.classes or 10
        if clusters > len(data):
            raise ConfigurationError(
                f"clusters must be at most the number of rows, {len(data)}; got {clusters}"
            )


def _check_rows(config: AuditConfig, data: VerticalData) -> None:
    if len(data.parties) < 2:
        raise ConfigurationError(
            "an audit of PQ-MDS needs two parties or more: with one nothing is federated"
        )
    fitting_numbers(len(data), known=config.known_rows, persons=config.persons)


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
    started = time.perf_counter()
    data = divide(config.federation, seed=config.seed, data_root=data_root)
    result = AuditResult(config, data, config.settings(), _numbers(config, data))
    for name, setting in result.settings.items():
        result.runs[name] = _recorded(name, setting.simulation, out, data_root, steps)
    result.column_names["main"] = _names(data)
    if "table" in result.settings:
        beside = result.settings["table"].simulation.federation
        result.column_names["table"] = _names(divide(beside, seed=config.seed))
    result.not_planned += not_planned_main()
    single = _single_columns(result)
    if isinstance(single, NotRun):
        result.not_planned.append(single)
    else:
        words = f"each column a subspace of {GRID_LEVELS} codewords"
        result.settings["single-columns"] = Setting(
            words=words, group="single columns", simulation=single
        )
        result.runs["single-columns"] = _recorded("single-columns", single, out, data_root, steps)
    for position, (name, compared) in enumerate(config.references().items(), start=1):
        result.references[name] = outcome_only(
            compared,
            out / "outcomes" / f"{position:02d}.json",
            data_root=data_root,
            progress=on_round(steps, f"compare {name}"),
        )
    result.seconds["simulation"] = time.perf_counter() - started
    started = time.perf_counter()
    batches = [
        Batch(out / "runs" / name, setting.simulation, _plan(result, name, setting))
        for name, setting in result.settings.items()
    ]
    result.results = measure_planned(batches, out, jobs=jobs, data_root=data_root, steps=steps)
    result.seconds["attacks"] = time.perf_counter() - started
    return result


def _names(data: VerticalData) -> tuple[str, ...]:
    held = {
        int(position): column.name
        for party in data.parties
        for position, column in zip(party.positions, party.columns, strict=True)
    }
    return tuple(held[position] for position in sorted(held))


def _recorded(
    name: str,
    simulation: VerticalSimulationConfig,
    out: Path,
    data_root: Path | None,
    steps: Steps,
) -> RecordedRun:
    return recorded(
        simulation,
        out / "runs" / name,
        data_root=data_root,
        progress=on_round(steps, f"simulate {name}"),
    )


def _numbers(config: AuditConfig, data: VerticalData) -> Numbers:
    known, persons = fitting_numbers(len(data), known=config.known_rows, persons=config.persons)
    return Numbers(
        known=known,
        persons=persons,
        targets=config.targets,
        image_shape=data.image_shape,
        examples=EXAMPLES if config.shows_examples else 0,
        seed=config.seed,
    )


def _plan(result: AuditResult, name: str, setting: Setting) -> Plan:
    """Return what is to be measured on a run, as a call that worker processes can repeat."""
    rows = len((result.runs[name].truth or Truth()).get("rows", "ids"))
    most = result.numbers
    known, persons = fitting_numbers(rows, known=most.known, persons=most.persons)
    shape = None if setting.group == "table" else most.image_shape
    numbers = replace(most, known=known, persons=persons, image_shape=shape)
    if name == "main":
        return partial(plan_main, numbers=numbers, words="the audited run")
    if name == "single-columns":
        return partial(plan_single_columns, numbers=numbers, words=setting.words)
    words = f"{setting.words}, {numbers.known} known rows"
    return partial(plan_setting, numbers=numbers, words=words, group=setting.group)


def _single_columns(result: AuditResult) -> VerticalSimulationConfig | NotRun:
    """Return the run in which each column is a subspace, or why there is none."""
    widths = tuple(len(party.columns) for party in result.data.parties)
    truth = result.runs["main"].truth or Truth()
    reason = ""
    if len(result.settings) == 1:
        reason = "the audited run is defended; the attack needs an undefended one"
    elif sum(widths) > MOST_SINGLE:
        reason = f"it needs each column to be a subspace: {sum(widths)} are too many for an audit"
    elif not grid_columns(truth, levels=GRID_LEVELS):
        reason = f"no column has from 2 to {GRID_LEVELS} values that lie on a grid"
    if reason:
        return NotRun(
            attack="indices/integer-grid",
            coalition_label="server",
            status="not-applicable",
            reason=reason,
        )
    return result.config.run(
        subspaces=widths, codewords=GRID_LEVELS, embedding_dimensions=1, reference=False
    )
