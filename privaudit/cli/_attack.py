"""``privaudit attack``: one attack on one coalition's view of a recorded run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from privaudit.cli import _options as options
from privaudit.cli._console import count, emit_json, table
from privaudit.cli._inspect import run_at
from privaudit.configuration import parse_assignment
from privaudit.errors import ConfigurationError, UnmetRequirementsError

__all__ = ["register"]

INCOMPLETE = 3
#: Of a data set given with --auxiliary, this many are taken.
AUXILIARY_RECORDS = 2000


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def attack(
        run: Annotated[Path, typer.Argument(help="A recorded run, or the folder that holds it.")],
        attack: Annotated[str, typer.Option("--attack", help="See: privaudit list attacks.")],
        coalition: Annotated[
            str, typer.Option("--coalition", help="Parties that pool what they saw, e.g. a,b.")
        ],
        option: Annotated[
            list[str] | None,
            typer.Option("--option", metavar="KEY=VALUE", help="Of the attack; repeatable."),
        ] = None,
        withhold: Annotated[
            list[str] | None,
            typer.Option("--withhold", help="A capability not to grant; repeatable."),
        ] = None,
        auxiliary: Annotated[
            str | None,
            typer.Option(
                "--auxiliary",
                help="Data set (or .npz) with records like the users', for attacks that need some.",
                show_default="those that a simulation kept apart",
            ),
        ] = None,
        reader: options.Reader = "",
        data_root: options.DataRoot = None,
        seed: options.Seed = None,
        threads: options.Threads = 1,
        json: options.Json = False,
    ) -> None:
        """Attack a recorded run. Figures need the truth beside it; without, guesses are counted.

        Exit code 3 if the attack is not applicable to this run and coalition.
        """
        import numpy as np

        from privaudit.attacks.presets import configured_attack
        from privaudit.campaigns.cells import measure
        from privaudit.campaigns.coalitions import granted_without, members_of
        from privaudit.campaigns.runs import open_run
        from privaudit.campaigns.single import single_cell
        from privaudit.datasets import load_dataset
        from privaudit.scoring.estimate import compare, verdict
        from privaudit.transcript import Coalition

        made = configured_attack(attack, dict(parse_assignment(text) for text in option or ()))
        known = None
        if auxiliary is not None:
            known = load_dataset(auxiliary, data_root=data_root).train
            known = known.take(np.arange(min(len(known), AUXILIARY_RECORDS)))
        recorded = open_run(run_at(run), data_root=data_root, auxiliary=known, reader=reader)
        if not recorded.complete:
            typer.echo("warning: the recording is incomplete; privaudit verify says why", err=True)
        granted = granted_without(withhold or ())
        options.use_threads(threads)
        members = members_of(coalition, recorded.transcript)
        label, allied = " + ".join(members), Coalition(frozenset(members), granted)
        try:
            if made.name.startswith("indices/"):
                from privaudit.campaigns.pq_mds.adversaries import declared_cell

                cell = declared_cell(recorded, made, allied, label=label, seed=seed or 0)
                # A wrong party is an error of the command, not a row of its result.
                recorded.transcript.view(cell.coalition)
                held = sorted(made.requires & allied.capabilities)
                if held and not json:
                    typer.echo(f"granted: {', '.join(held)} ({cell.setting})", err=True)
            else:
                cell = single_cell(recorded, made, allied, label=label, seed=seed or 0, keep=True)
        except UnmetRequirementsError as error:
            raise _NotApplicable(str(error)) from None
        measurement = measure(cell)
        if measurement.status == "not-applicable":
            raise _NotApplicable(measurement.reason)
        if measurement.status == "failed":
            raise ConfigurationError(measurement.reason)
        figures = [
            compare(t.attack, baseline=t.baseline, control=t.control, confidence=0.95)
            for t in measurement.triples
        ]
        if json:
            emit_json(
                {
                    "attack": made.name,
                    "coalition": sorted(members),
                    "guesses": len(measurement.guesses),
                    "diagnostics": dict(measurement.diagnostics),
                    "figures": [{**asdict(f), "verdict": verdict(f)} for f in figures],
                }
            )
            return
        if not figures:
            why = (
                "the truth does not lie beside the recording"
                if recorded.truth is None
                else "no score of this command fits it (privaudit audit has one by coalition)"
            )
            guessed = count(len(measurement.guesses), "target")
            typer.echo(f"{made.name} by {cell.label}: guesses for {guessed}, no figures: {why}")
            return
        table(
            f"{made.name} by {cell.label}",
            ("metric", "value", "95 % interval", "baseline", "control", "n", "verdict"),
            [
                (
                    f.metric,
                    f"{f.value:.3g}",
                    f"{f.low:.3g} to {f.high:.3g}",
                    "-" if f.baseline is None else f"{f.baseline.value:.3g}",
                    "-" if f.control is None else f"{f.control.value:.3g}",
                    str(f.n),
                    verdict(f),
                )
                for f in figures
            ],
        )


class _NotApplicable(UnmetRequirementsError):
    exit_code = INCOMPLETE
