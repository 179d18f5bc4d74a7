"""``privaudit check`` and ``privaudit compare``: a report against a policy, or against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from privaudit.cli import _options as options
from privaudit.cli._console import count, emit_json, table
from privaudit.cli._epsilon_output import printable
from privaudit.cli._folders import report_at

__all__ = ["register"]

BREACHED = 1
INCOMPLETE = 3
#: What two reports set otherwise: so many are listed, and so many of them on one line.
MOST_SETTINGS = 8
MOST_IN_A_LINE = 3

Results = Annotated[Path, typer.Argument(help="An audit's folder, or its report.json.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def check(
        results: Results,
        policy: Annotated[Path, typer.Option("--policy", help="TOML file with the limits.")],
        strict: Annotated[
            bool, typer.Option("--strict", help="An inconclusive limit ends with code 3.")
        ] = False,
        json: options.Json = False,
    ) -> None:
        """Hold a report against a policy, for automated checks.

        Exit code 0 if every limit is met, 1 if one is breached, 3 if one
        names what the report did not measure (or, with --strict, if one is
        inconclusive).
        """
        from privaudit.reports.policy import judge, read_policy

        outcomes = judge(report_at(results), read_policy(policy))
        by_kind = {
            kind: sum(o.outcome == kind for o in outcomes)
            for kind in ("breached", "not measured", "inconclusive", "met")
        }
        if json:
            emit_json({"outcomes": [asdict(o) for o in outcomes], "counts": by_kind})
        else:
            table(
                f"{results} against {policy}",
                ("limit", "outcome", "evidence"),
                [(o.rule, o.outcome, o.evidence) for o in outcomes],
            )
            counted = ", ".join(f"{n} {kind}" for kind, n in by_kind.items() if n)
            typer.echo(f"==== {count(len(outcomes), 'limit')}: {counted} ====")
        if by_kind["breached"]:
            raise typer.Exit(BREACHED)
        if by_kind["not measured"] or (strict and by_kind["inconclusive"]):
            raise typer.Exit(INCOMPLETE)

    @app.command()
    def compare(
        before: Results,
        after: Results,
        everything: Annotated[
            bool, typer.Option("--all", help="Show also what cannot be told apart.")
        ] = False,
        json: options.Json = False,
    ) -> None:
        """Compare two reports: what leaks more, what leaks less, with intervals."""
        from privaudit.reports.compare import changed_settings, compare_reports

        reports = report_at(before), report_at(after)
        changes, settings = compare_reports(*reports), changed_settings(*reports)
        kinds = ("leaks more", "leaks less", "only before", "only after", "not told apart")
        by_kind = {kind: sum(c.judgement == kind for c in changes) for kind in kinds}
        if json:
            emit_json(
                {
                    "changes": [asdict(c) for c in changes],
                    "counts": by_kind,
                    "settings": {name: list(values) for name, values in settings.items()},
                }
            )
            return
        _tell_settings(settings)
        if "seed" in settings:
            typer.echo(
                "Two seeds are two federations: intervals do not say how much another would differ."
            )
        shown = [c for c in changes if everything or c.judgement != "not told apart"]
        if shown:
            table(
                f"{before} and {after}",
                ("figure", "before", "after", "judgement"),
                [
                    (
                        f"{c.what} (other settings)" if c.settings_differ else c.what,
                        c.before or "-",
                        c.after or "-",
                        c.judgement,
                    )
                    for c in shown
                ],
            )
        counted = ", ".join(f"{n} {kind}" for kind, n in by_kind.items() if n) or "nothing"
        typer.echo(f"==== {count(len(changes), 'figure')} compared: {counted} ====")


def _tell_settings(settings: Mapping[str, tuple[object, object]]) -> None:
    """Print what was set otherwise: few on one line, more one a line, and not all of many."""
    told = [f"{_said(name)}: {_said(a)} -> {_said(b)}" for name, (a, b) in settings.items()]
    more = len(told) - MOST_SETTINGS
    if more > 0:
        told = [*told[:MOST_SETTINGS], f"and {more} more (--json lists them)"]
    if len(told) > MOST_IN_A_LINE:
        typer.echo("\n  ".join(("set otherwise:", *told)))
    elif told:
        typer.echo(f"set otherwise: {'; '.join(told)}")


def _said(value: object) -> str:
    # Reports come from strangers too: no control characters, no page of text.
    return "-" if value in (None, "", [], {}, ()) else printable(str(value))[:60]
