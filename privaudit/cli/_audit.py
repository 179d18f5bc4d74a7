"""``privaudit audit`` and ``privaudit report``: the main job, and its formats."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privaudit.campaigns.folders import given_back, refuse_campaign
from privaudit.cli import _options as options
from privaudit.cli._console import progress
from privaudit.cli._folders import report_at
from privaudit.errors import ConfigurationError

if TYPE_CHECKING:
    from privaudit.reports import AuditReport

__all__ = ["register"]

INCOMPLETE = 3
CONTRADICTED = 1


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def audit(
        subject: Annotated[
            str,
            typer.Argument(
                help="A protocol (pa-cfl, disue, pq-mds) to simulate, attack and account, or a "
                "recorded run (./pa-cfl, should its folder have such a name)."
            ),
        ],
        out: options.Out,
        config: options.Config = None,
        parameter: options.Settings = None,
        dataset: options.Dataset = None,
        data_root: options.DataRoot = None,
        users: options.Users = None,
        partition: options.Partition = None,
        table: options.Table = None,
        parties: options.Parties = None,
        split: options.Split = None,
        label: options.Label = None,
        categorical: options.Categorical = None,
        drop: options.Drop = None,
        missing: options.Missing = None,
        include_examples: Annotated[
            bool,
            typer.Option(
                "--include-examples",
                help="Show records of your own table, and what attacks made of them, in the "
                "report.",
            ),
        ] = False,
        figure: Annotated[
            list[str] | None,
            typer.Option(
                "--figure",
                help="A figure besides those of every report; repeatable. For pa-cfl: exposures, "
                "the paper's figure 10 redone, also written to OUT/exposures.png.",
            ),
        ] = None,
        reader: options.Reader = "",
        rounds: options.Rounds = None,
        seed: options.Seed = None,
        delta: Annotated[
            float | None,
            typer.Option("--delta", help="At which epsilon is stated.", show_default="1e-5"),
        ] = None,
        jobs: Annotated[
            int, typer.Option("-j", "--jobs", min=1, help="Worker processes for the attacks.")
        ] = 2,
        force: options.Force = False,
        json: options.Json = False,
        quiet: options.Quiet = False,
    ) -> None:
        """Audit a protocol end to end and write the report: OUT/report.html, .json and .md.

        The same command on the same folder resumes. The exit code is 0
        when the report is complete, whatever it found; 1 if an attack
        shows a larger epsilon than was proven, which means that this tool
        or the protection it ran is wrong.
        """
        started = time.perf_counter()
        refuse_campaign(out)
        from privaudit.campaigns.auditing import AUDITS, audit_of, claim_folder, perform

        exists = Path(subject).exists()
        if exists and subject in AUDITS and not quiet:
            typer.echo(
                f"'{subject}' is read as the protocol; to audit what lies in the folder of that "
                f"name, write ./{subject}",
                err=True,
            )
        if exists and subject not in AUDITS:
            _refuse(
                subject,
                {
                    "config": config,
                    "parameter": parameter,
                    "dataset": dataset,
                    "users": users,
                    "partition": partition,
                    "table": table,
                    "parties": parties,
                    "split": split,
                    "label": label,
                    "categorical": categorical,
                    "drop": drop,
                    "missing": missing,
                    "include-examples": include_examples,
                    "figure": figure,
                    "rounds": rounds,
                },
            )
            report, files = _of_recording(
                Path(subject),
                out,
                data_root=data_root,
                reader=reader,
                seed=seed or 0,
                delta=1e-5 if delta is None else delta,
                force=force,
                quiet=quiet,
            )
            _tell(report, files, out, json=json, seconds=time.perf_counter() - started)
            return
        if reader:
            raise ConfigurationError(
                f"--reader is for recorded runs; write ./{subject} to name what lies there"
                if exists
                else f"--reader is for recorded runs; there is no file or folder '{subject}'"
            )
        from privaudit.configuration import validated
        from privaudit.reports import write_report

        audited = audit_of(subject)
        if figure and "figures" not in audited.Config.model_fields:
            raise ConfigurationError(
                f"--figure does not apply to the audit of '{subject}'; that of pa-cfl has one"
            )
        federation, top = options.audited_data(
            subject,
            audited.Config,
            {
                "dataset": dataset,
                "users": users,
                "partition": partition,
                "table": table,
                "parties": parties,
                "split": split,
                "label": label,
                "categorical": categorical,
                "drop": drop,
                "missing": missing,
            },
            {
                "seed": seed,
                "delta": delta,
                "include_examples": include_examples or None,
                "figures": figure or None,
            },
        )
        values = options.configuration(
            config=config,
            sections=tuple(audited.Config.model_fields),
            settings=parameter,
            federation=federation,
            top=top,
            rounds=rounds,
        )
        resolved = validated(audited.Config, values, where=str(config or "options"))
        audited.check_inputs(resolved, data_root=data_root)
        options.use_threads(1)
        with given_back(out), progress(quiet=quiet) as steps:
            claim_folder(subject, resolved, out, force=force)
            report = perform(
                audited,
                resolved,
                out,
                data_root=data_root,
                jobs=jobs,
                steps=steps,
                command=_command(),
                device="CPU, one thread a process",
            )
            files = write_report(report, out)
            steps("report", 1, 1, str(files[0]))
        _tell(report, files, out, json=json, seconds=time.perf_counter() - started)

    @app.command()
    def report(
        results: Annotated[
            Path, typer.Argument(help="Folder of an audit or campaign, or its report.json.")
        ],
        out: Annotated[
            Path | None, typer.Option("-o", "--out", help="Folder; that of the results by default.")
        ] = None,
        format: Annotated[
            str,
            typer.Option(
                "--format",
                help="Comma-separated: html, json, md, sarif, junit, pdf (printed by Chromium), or "
                "another of privaudit list reporters.",
            ),
        ] = "html,json,md",
        quiet: Annotated[
            bool, typer.Option("-q", "--quiet", help="Do not list the files that are written.")
        ] = False,
    ) -> None:
        """Write the report of a finished audit or campaign again, in the formats wanted."""
        from privaudit import plugins
        from privaudit.reports import write_report

        wanted = tuple(part.strip() for part in format.split(",") if part.strip())
        if not wanted:
            raise ConfigurationError(
                f"--format names no format; allowed are {', '.join(plugins.available('reporter'))}"
            )
        folder = out or (results if results.is_dir() else results.parent)
        for file in write_report(report_at(results), folder, formats=wanted):
            if not quiet:
                typer.echo(str(file))


def _command() -> str:
    return shlex.join(["privaudit", *sys.argv[1:]])


def _tell(
    report: AuditReport, files: Sequence[Path], out: Path, *, json: bool, seconds: float
) -> None:
    """Print verdicts or the JSON, and end with the code of what was found."""
    if json:
        typer.echo((out / "report.json").read_text(encoding="utf-8"))
    else:
        for verdict in report.verdicts:
            typer.echo(f"{verdict.verdict:>13}  {verdict.risk}")
            if verdict.verdict != "not tested":
                typer.echo(f"{'':>13}  {verdict.sentence}")
        breached = sum(v.verdict == "breached" for v in report.verdicts)
        typer.echo(
            f"==== {breached} of {len(report.verdicts)} risks breached, "
            f"{len(report.findings)} figures, {len(report.not_run)} attacks not run, "
            f"{seconds:.0f} s ===="
        )
        typer.echo(f"report: {files[0]}")
    contradictions = [w for w in report.warnings if w.startswith("CONTRADICTION")]
    for sentence in contradictions:
        typer.echo(sentence, err=True)
    if contradictions:
        raise typer.Exit(CONTRADICTED)
    if not report.complete:
        failed = [n for n in report.not_run if n.status == "failed"]
        for row in failed:
            typer.echo(f"failed: {row.attack} by {row.coalition_label}: {row.reason}", err=True)
        raise typer.Exit(INCOMPLETE)


def _refuse(subject: str, of_simulations: Mapping[str, object]) -> None:
    """Refuse options that do not fit the audit of a run that was recorded already."""
    for name, value in of_simulations.items():
        if value:
            raise ConfigurationError(
                f"--{name} is for simulations; {subject} is a recorded run, whose parameters are "
                "what they are"
            )


def _of_recording(
    folder: Path,
    out: Path,
    *,
    data_root: Path | None,
    reader: str,
    seed: int,
    delta: float,
    force: bool,
    quiet: bool,
) -> tuple[AuditReport, tuple[Path, ...]]:
    from privaudit.campaigns.recordings import audit_recording, claim_recording
    from privaudit.campaigns.runs import open_run
    from privaudit.cli._inspect import run_at
    from privaudit.reports import write_report

    run = open_run(run_at(folder), data_root=data_root, reader=reader)
    options.use_threads(1)
    with given_back(out), progress(quiet=quiet) as steps:
        claim_recording(run, out, seed=seed, delta=delta, force=force)
        report = audit_recording(
            run,
            out,
            seed=seed,
            delta=delta,
            steps=steps,
            command=_command(),
            device="CPU, one thread",
        )
        return report, write_report(report, out)
