"""``privaudit simulate``: record one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from privaudit.campaigns.folders import refuse_campaign
from privaudit.cli import _options as options
from privaudit.cli._console import count, progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def simulate(
        protocol: Annotated[str, typer.Argument(help="See: privaudit list protocols.")],
        out: options.Out,
        config: options.Config = None,
        parameter: options.Settings = None,
        dataset: options.Dataset = None,
        data_root: options.DataRoot = None,
        users: options.Users = None,
        partition: options.Partition = None,
        parties: options.Parties = None,
        split: options.Split = None,
        rounds: options.Rounds = None,
        seed: options.Seed = None,
        threads: options.Threads = 1,
        force: options.Force = False,
        quiet: options.Quiet = False,
    ) -> None:
        """Run a protocol and record who saw what: OUT/run, and the truth apart in OUT/truth."""
        from privaudit.campaigns.simulation import (
            SimulationConfig,
            record_run,
            simulation_config,
        )
        from privaudit.protocols.base import RoundMetrics

        refuse_campaign(out)
        values = options.configuration(
            config=config,
            sections=("parameters", "federation", "seed"),
            settings=parameter,
            federation={
                "dataset": dataset,
                "users": users,
                "partition": partition,
                "parties": parties,
                "split": split,
            },
            top={"seed": seed, "protocol": protocol},
            rounds=rounds,
        )
        resolved = simulation_config(values, where=str(config or "options"))
        if isinstance(resolved, SimulationConfig):
            options.use_threads(threads)
        with progress(quiet=quiet) as steps:

            def on_round(done: int, total: int, metrics: RoundMetrics) -> None:
                accuracy = metrics.values.get("accuracy", metrics.values.get("clustering_accuracy"))
                detail = "" if accuracy is None else f"accuracy {accuracy:.1%}"
                steps(f"{protocol}: rounds", done, total, detail)

            outcome = record_run(
                resolved, Path(out), data_root=data_root, force=force, progress=on_round
            )
        for warning in (*_idle(values.get("parameters", {})), *outcome.warnings):
            typer.echo(f"warning: {warning}", err=True)
        ended = outcome.reason or f"completed {count(outcome.rounds, 'round')}"
        typer.echo(f"{protocol} {ended}; recorded in {out / 'run'}, truth apart in {out / 'truth'}")


def _idle(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Tell what was set and has no effect: of one gradient there are no batches."""
    idle = [name for name in ("batch_size", "local_epochs") if name in parameters]
    if parameters.get("update") == "gradient" and idle:
        yield (
            f"{' and '.join(idle)} had no effect: with update = gradient a user sends one gradient "
            "of all its records; for one record a user: --partition single-record"
        )
