"""``privaudit run`` and ``privaudit results``: grids of cells that resume, and what they gave."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privaudit.cli import _options as options
from privaudit.cli._console import count, emit_json, progress, table
from privaudit.cli._fitted import fitted_table
from privaudit.cli._folders import refuse_export, refuse_no_campaign
from privaudit.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from privaudit.campaigns.grid import Campaign

__all__ = ["register"]

INCOMPLETE = 3


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def run(
        campaign: Annotated[Path, typer.Argument(help="TOML file that describes the campaign.")],
        out: Annotated[
            Path | None, typer.Option("-o", "--out", help="Folder that holds everything.")
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="List the cells and an estimate; run nothing.")
        ] = False,
        jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Worker processes.")] = 2,
        engine: Annotated[
            str, typer.Option("--engine", help="local, dask, or another of privaudit list engines.")
        ] = "local",
        address: Annotated[
            str,
            typer.Option("--address", help="Of a dask scheduler: host:port or its file."),
        ] = "",
        time_limit: Annotated[
            float | None, typer.Option("--time-limit", min=0.1, help="Seconds a cell may take.")
        ] = None,
        memory_limit: Annotated[
            float | None, typer.Option("--memory-limit", min=1, help="MB a worker may use.")
        ] = None,
        retry_failed: Annotated[
            bool, typer.Option("--retry-failed", help="Measure failed cells again.")
        ] = False,
        data_root: options.DataRoot = None,
        quiet: options.Quiet = False,
        json: options.Json = False,
    ) -> None:
        """Run a campaign: every cell of its grid, on processes or a cluster, and the report.

        The same command resumes after a crash, a kill or a full disk;
        finished cells are never measured again. Exit code 3 if cells
        failed or are missing.
        """
        from privaudit.campaigns.grid import read_campaign, run_campaign
        from privaudit.campaigns.grid.offered import EngineOptions, engine_of
        from privaudit.campaigns.grid.report import campaign_report
        from privaudit.reports import write_report

        described = read_campaign(campaign)
        if dry_run:
            _plan(described, out, json=json, jobs=jobs)
            return
        if out is None:
            raise ConfigurationError("name a folder with -o; the same command resumes there")
        chosen = engine_of(
            engine, EngineOptions(jobs, address, time_limit, memory_limit, out / "logs")
        )
        with progress(quiet=quiet) as steps:
            summary = run_campaign(
                described,
                out,
                engine=chosen,
                data_root=data_root,
                retry_failed=retry_failed,
                steps=steps,
                # Above the progress bars, and also without them.
                failed=lambda told: typer.echo(told, err=True),
            )
            report = campaign_report(described, out)
            files = write_report(report, out)
        told = (
            f"{summary.measured} measured, {summary.not_applicable} not applicable, "
            f"{summary.failed} failed, {summary.pending} pending"
        )
        if json:
            emit_json(
                {
                    "cells": summary.cells,
                    "measured": summary.measured,
                    "not_applicable": summary.not_applicable,
                    "failed": summary.failed,
                    "pending": summary.pending,
                    "computed": summary.computed,
                    "seconds": summary.seconds,
                    "report": str(files[0]),
                }
            )
        else:
            typer.echo(
                f"==== {count(summary.cells, 'cell')}: {told}; {summary.computed} in this run, "
                f"{summary.seconds:.0f} s ===="
            )
            typer.echo(f"report: {files[0]}")
        if summary.failed or summary.pending:
            raise typer.Exit(INCOMPLETE)

    @app.command()
    def results(
        folder: Annotated[Path, typer.Argument(help="A campaign's folder.")],
        where: Annotated[
            list[str] | None,
            typer.Option("--where", metavar="COLUMN=VALUE", help="Only such rows; repeatable."),
        ] = None,
        sort: Annotated[
            str, typer.Option("--sort", help="Column to sort by; -COLUMN descends.")
        ] = "",
        columns: Annotated[
            str, typer.Option("--columns", help="Comma-separated; also those of an export.")
        ] = "",
        csv_file: Annotated[
            Path | None, typer.Option("--csv", help="Write the rows to a CSV file.")
        ] = None,
        parquet: Annotated[
            Path | None, typer.Option("--parquet", help="Write them to a Parquet file.")
        ] = None,
        json: options.Json = False,
    ) -> None:
        """List, filter, sort and export the results of a campaign, one row a metric of a cell.

        An export leaves out what differs from run to run (seconds, log)
        unless --columns names it, so that the same campaign gives the
        same file.
        """
        from privaudit.campaigns.grid import Store
        from privaudit.campaigns.grid.table import (
            exported,
            flat_rows,
            never_found,
            selected,
            varying,
        )

        refuse_no_campaign(folder)
        if csv_file and parquet and csv_file.resolve() == parquet.resolve():
            raise ConfigurationError("--csv and --parquet name one file")
        for file in (csv_file, parquet):
            if file is not None:
                refuse_export(file)
        with Store(folder, readonly=True) as store:
            every = flat_rows(store.rows())
        rows = selected(every, where=where or (), sort=sort)
        for told in never_found(every, where=where or ()):
            typer.echo(told, err=True)
        kept = _columns(columns, rows) or exported(rows)
        if csv_file is not None:
            _write(csv_file, _csv(rows, kept).encode())
        if parquet is not None:
            _write(parquet, _parquet(rows, kept))
        if json:
            emit_json({"rows": rows})
            return
        if csv_file is not None or parquet is not None:
            files = " and ".join(str(f) for f in (csv_file, parquet) if f is not None)
            typer.echo(f"{count(len(rows), 'row')} written to {files}")
            return
        named = _columns(columns, rows)
        names = named or varying(rows)
        fitted_table(
            str(folder),
            names,
            [[_shown(row.get(name)) for name in names] for row in rows],
            keep=frozenset(named),
        )
        typer.echo(f"==== {count(len(rows), 'row')} ====")


def _plan(campaign: Campaign, out: Path | None, *, json: bool, jobs: int) -> None:
    from privaudit.campaigns.grid import Store
    from privaudit.campaigns.grid.store import FILE

    cells = campaign.cells()
    known: dict[str, float] = {}
    finished: set[str] = set()
    if out is not None and (out / FILE).is_file():
        with Store(out, readonly=True) as store:
            known = store.seconds_by_attack()
            finished = {r.key for r in store.rows() if r.status in ("measured", "not-applicable")}
    missing = [c for c in cells if c.key() not in finished]
    timed = [c for c in missing if c.attack in known]
    seconds = sum(known[c.attack] for c in timed) / jobs
    runs = {repr(c.run) for c in cells}
    if json:
        emit_json(
            {
                "cells": [c.to_json() for c in cells],
                "runs": len(runs),
                "missing": len(missing),
                "estimated_seconds": seconds if len(timed) == len(missing) else None,
            }
        )
        return
    table(
        campaign.name,
        ("protocol", "seed", "varies", "attack", "by", "options", "state"),
        [
            (
                str(c.run["protocol"]),
                str(c.run["seed"]),
                _varied(c.run, campaign.grid),
                c.attack,
                c.coalition or c.threat_model,
                ", ".join(f"{k}={v}" for k, v in c.options.items()),
                "finished" if c.key() in finished else "to do",
            )
            for c in cells
        ],
    )
    told = (
        f"about {seconds:.0f} s on {count(jobs, 'process').replace('processs', 'processes')} by "
        "the cells that are finished"
        if missing and len(timed) == len(missing)
        else "how long is known once a cell of each attack is finished (-o DIR)"
        if missing
        else "nothing is left to do"
    )
    typer.echo(
        f"==== {count(len(cells), 'cell')} on {count(len(runs), 'run')}, {len(missing)} to do: "
        f"{told} ===="
    )


def _varied(run: Mapping[str, Any], axes: Iterable[str]) -> str:
    """Return where a run lies on the axes of the grid, besides its protocol and seed."""
    from privaudit.campaigns.grid.subjects import axis_key

    told = {}
    for axis in axes:
        name, section = axis_key(run, axis), axis.partition(".")[0]
        if name and name in run[section]:
            told[name] = run[section][name]
    return ", ".join(f"{name}={_shown(value)}" for name, value in told.items()) or "-"


def _columns(text: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    known = {name for row in rows for name in row}
    for name in names:
        if rows and name not in known:
            raise ConfigurationError(
                f"--columns: no column is named '{name}'; there are {', '.join(sorted(known))}."
                f"{did_you_mean(name, known)}"
            )
    return names


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _csv(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _parquet(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> bytes:
    stream = io.BytesIO()
    try:
        import pandas as pd

        pd.DataFrame(list(rows), columns=list(names)).to_parquet(stream)
    except ImportError as error:
        raise ConfigurationError(
            "Parquet needs pandas and pyarrow: pip install 'privaudit[tables]'"
        ) from error
    return stream.getvalue()


def _write(file: Path, content: bytes) -> None:
    from privaudit.reports import replace_file

    try:
        replace_file(file, content)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
