"""Rules that every engine of campaigns keeps."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privaudit._conformance.digests import require
from privaudit.campaigns.grid.engines import Engine, Task
from privaudit.campaigns.grid.specification import CellSpec, execute
from privaudit.campaigns.simulation import simulation_config

__all__ = ["check_engine"]

#: What may differ from engine to engine and from run to run.
OF_THE_RUN = ("seconds", "log")


def check_engine(engine: Engine, folder: Path, *, tasks: Sequence[Task] | None = None) -> None:
    """Check that an engine keeps the rules, by measuring some small cells with it.

    The rules, by the names that messages start with:

    ``answers``
        Every task is answered, once, under its key; no tasks give no answer.
    ``same-results``
        Results are those that :func:`privaudit.campaigns.grid.execute` gives in this process, but
        for ``seconds`` and ``log``.
    ``failures``
        A cell that cannot be measured is answered as failed, with a reason, and the others go on.
    ``abandoned``
        When its answers are no longer wanted (Ctrl-C), it leaves no child process behind.

    Parameters
    ----------
    engine : Engine
    folder : Path
        Where runs are recorded.
    tasks : sequence of (key, CellSpec), optional
        Cells to measure; two attacks on a tiny run of FedAvg, and one that fails, if None.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    chosen = list(_tasks() if tasks is None else tasks)
    runs = folder / "runs"
    expected = {key: _expected(spec, runs) for key, spec in chosen}
    answers = list(engine.run(chosen, runs=runs, data_root=None))
    keys = [key for key, _ in answers]
    require(
        sorted(keys) == sorted(expected),
        "answers",
        f"the tasks {sorted(expected)} were answered as {sorted(keys)}",
    )
    for key, result in answers:
        wanted = expected[key]
        if wanted is None:
            require(
                result["status"] == "failed" and bool(result["reason"]),
                "failures",
                f"a cell that cannot be measured was answered with {result['status']!r}, "
                f"{result['reason']!r}",
            )
        else:
            require(
                _kept(result) == wanted,
                "same-results",
                f"the result of '{key}' is not that of execute() in this process",
            )
    require(not list(engine.run([], runs=runs, data_root=None)), "answers", "no tasks, an answer")
    before = set(multiprocessing.active_children())
    stream = iter(engine.run(chosen, runs=runs, data_root=None))
    next(stream)
    close = getattr(stream, "close", None)
    if close is not None:
        close()
    left = set(multiprocessing.active_children()) - before
    require(not left, "abandoned", f"processes are left after the answers were closed: {left}")


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in OF_THE_RUN}


def _expected(spec: CellSpec, runs: Path) -> dict[str, Any] | None:
    """Return what a cell gives in this process; None if it cannot be measured."""
    try:
        result = _kept(execute(spec.to_json(), runs=runs))
    except Exception:
        # Whatever it is: an engine must answer it as a failed cell.
        return None
    return None if result["status"] == "failed" else result


def _tasks() -> list[Task]:
    config = simulation_config(
        {
            "protocol": "fedavg",
            "parameters": {"rounds": 1, "model": "mlp", "local_epochs": 1},
            "federation": {"users": 3, "records_per_user": 8},
            "seed": 0,
        },
        where="check_engine",
    ).model_dump(mode="json")
    return [
        ("measured", CellSpec(config, "collusion/update-recovery", {}, "server")),
        ("again", CellSpec(config, "collusion/update-recovery", {}, "server + 1 user")),
        ("broken", CellSpec(config, "no/such-attack", {}, "server")),
    ]
