"""Measuring many cells on several processes, each finished cell stored at once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children
from pathlib import Path
from typing import Protocol

from privaudit.campaigns.cells import Cell, CellStore, Measurement, measure
from privaudit.campaigns.runs import RecordedRun, recorded
from privaudit.campaigns.simulation import AnySimulationConfig, simulation_config
from privaudit.campaigns.workers import (
    end_with_parent,
    one_thread_a_worker,
    take_environment,
    worker_context,
)

__all__ = ["Batch", "HasCell", "measure_batches"]


class HasCell(Protocol):
    """A planned measurement."""

    @property
    def cell(self) -> Cell:
        """What is to be measured."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The cells that a plan makes of one recorded run.

    Attributes
    ----------
    folder : Path
        Of the run.
    config : SimulationConfig or VerticalSimulationConfig
        By which it was recorded.
    plan : callable
        Gives the cells of a run in a fixed order; a module-level function or a partial of one,
        because it goes to worker processes.
    """

    folder: Path
    config: AnySimulationConfig
    plan: Callable[[RecordedRun], Sequence[HasCell]]


@lru_cache(maxsize=4)
def _read(folder: Path, config: str, data_root: Path | None) -> RecordedRun:
    resolved = simulation_config(json.loads(config), where=str(folder))
    return recorded(resolved, folder, data_root=data_root)


def _run(batch: Batch, data_root: Path | None) -> RecordedRun:
    return _read(batch.folder, batch.config.model_dump_json(), data_root)


def _work(batch: Batch, data_root: Path | None, position: int) -> Measurement:
    return measure(batch.plan(_run(batch, data_root))[position].cell)


def _start_worker(variables: Mapping[str, str]) -> None:
    take_environment(variables)
    import torch

    torch.set_num_threads(1)
    # Ctrl-C reaches every process of the terminal; the parent alone says what happened.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def measure_batches(
    batches: Sequence[Batch],
    *,
    store: CellStore,
    jobs: int,
    data_root: Path | None,
    done: Callable[[int, int, Cell, Measurement], None],
) -> list[tuple[HasCell, Measurement]]:
    """Return every planned cell with its measurement, in the order planned.

    Cells that the store holds are not computed again. A worker that dies makes its cell a failed
    one; results do not depend on the number of processes.

    Parameters
    ----------
    done : callable
        Called as each cell is finished with how many are done, the total, and the cell.
    """
    planned: list[tuple[Batch, int, HasCell]] = [
        (batch, position, item)
        for batch in batches
        for position, item in enumerate(batch.plan(_run(batch, data_root)))
    ]
    results: dict[int, Measurement] = {}
    missing: list[int] = []
    for index, (_, _, item) in enumerate(planned):
        stored = store.get(item.cell)
        if stored is None:
            missing.append(index)
        else:
            results[index] = stored
            done(len(results), len(planned), item.cell, stored)

    def finished(index: int, measurement: Measurement) -> None:
        cell = planned[index][2].cell
        store.put(cell, measurement)
        results[index] = measurement
        done(len(results), len(planned), cell, measurement)

    if jobs == 1 or len(missing) < 2:
        for index in missing:
            finished(index, measure(planned[index][2].cell))
    else:
        _in_processes(planned, missing, jobs, data_root, finished)
    return [(item, results[index]) for index, (_, _, item) in enumerate(planned)]


def _in_processes(
    planned: Sequence[tuple[Batch, int, HasCell]],
    missing: Sequence[int],
    jobs: int,
    data_root: Path | None,
    finished: Callable[[int, Measurement], None],
) -> None:
    one_thread_a_worker()
    pool = ProcessPoolExecutor(
        max_workers=min(jobs, len(missing)),
        mp_context=worker_context(),
        initializer=_start_worker,
        initargs=(dict(os.environ),),
    )
    with pool:
        waiting: dict[Future[Measurement], int] = {}
        for index in missing:
            batch, position, _ = planned[index]
            waiting[pool.submit(_work, batch, data_root, position)] = index
        try:
            for future in as_completed(waiting):
                try:
                    measurement = future.result()
                except BrokenProcessPool:
                    measurement = Measurement("failed", "its worker process died", (), {}, 0.0)
                finished(waiting[future], measurement)
        except BaseException:
            # Whatever ends the campaign early does not wait for cells that may take minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.terminate()
            raise
