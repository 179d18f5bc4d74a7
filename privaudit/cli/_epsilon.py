"""``privaudit epsilon``: tables of bounds, budgets of ledgers, and what a target requires."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from privaudit.cli import _epsilon_lists as lists
from privaudit.cli import _options as options
from privaudit.cli._console import emit_json
from privaudit.cli._epsilon_output import check_file, collect, csv_bytes, json_bytes, write_file
from privaudit.cli._epsilon_required import register as register_required
from privaudit.cli._epsilon_show import show_budget, show_coordinate, show_methods, show_vector
from privaudit.errors import ConfigurationError

if TYPE_CHECKING:
    from privaudit.accounting.tables import Cell, EpsilonRow
    from privaudit.cli._epsilon_plot import Curve

__all__ = ["register"]

INCOMPLETE = 3

_LIST = "A list (2,4,8) or range (2..50, 2..50:4)."
Eps0: TypeAlias = Annotated[
    str, typer.Option("--eps0", help=f"Local budget of one coordinate. {_LIST}")
]
Delta: TypeAlias = Annotated[
    str, typer.Option("--delta", help="At which epsilon is stated; a list.")
]
ClusterSize: TypeAlias = Annotated[
    str, typer.Option("--cluster-size", help=f"Honest users shuffled together. {_LIST}")
]
Rounds: TypeAlias = Annotated[str, typer.Option("--rounds", help=f"Rounds composed. {_LIST}")]
Csv: TypeAlias = Annotated[Path | None, typer.Option("--csv", help="Write the rows there as CSV.")]
Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw epsilon against cluster size there: .png or .svg."),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the application."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Bounds on epsilon: tables, budgets of a run, and what a target requires.",
    )
    app.add_typer(group, name="epsilon")
    register_required(group)

    @group.command()
    def shuffle(
        eps0: Eps0,
        cluster_size: ClusterSize,
        delta: Delta = "1e-5",
        rounds: Rounds = "1",
        methods: Annotated[
            str | None,
            typer.Option(
                "--methods",
                help="Bounds of the literature to set beside it: all, or a list of efmrtt19, "
                "hoeffding, bennett, hoeffding-generic, bennett-generic, fmt21-closed, "
                "fmt21-numerical, fmt23.",
            ),
        ] = None,
        json: options.Json = False,
        csv: Csv = None,
        plot: Plot = None,
        quiet: options.Quiet = False,
    ) -> None:
        """Bracket one shuffled coordinate: exact blanket above, a pair of data sets below."""
        from privaudit.accounting.tables import check_methods, coordinate_rows

        cells, total = _cells(
            {"--eps0": lists.epsilons("--eps0", eps0)},
            {"--delta": lists.deltas("--delta", delta)},
            {"--rounds": lists.counts("--rounds", rounds)},
            {"--cluster-size": lists.counts("--cluster-size", cluster_size, most=lists.MOST_USERS)},
        )
        chosen: tuple[str, ...] = ()
        if methods is not None:
            try:
                chosen = check_methods([m.strip() for m in methods.split(",") if m.strip()])
            except ConfigurationError as error:
                raise ConfigurationError(f"--methods: {error}") from None
        _check_outputs(csv, plot)
        rows = collect(coordinate_rows(cells, methods=chosen), total, quiet=quiet)
        records = _deliver(rows, json=json, csv=csv)
        if plot is not None:
            curves = _curves(rows, {name: name for name in chosen}, {})
            _draw(curves, plot, "Epsilon of one shuffled coordinate")
        if not json:
            (show_methods if chosen else show_coordinate)(records, rows)
        _tell_failures(rows)

    @group.command()
    def vector(
        eps0: Eps0,
        cluster_size: ClusterSize,
        dimension: Annotated[
            str, typer.Option("--dimension", help=f"Coordinates d2 of the noised vector. {_LIST}")
        ],
        delta: Delta = "1e-5",
        rounds: Rounds = "1",
        certify: Annotated[
            bool,
            typer.Option(
                "--certify",
                help="Evaluate the refined bound again by interval arithmetic, for the best "
                "bracket (up to 50 users; needs privaudit[crypto]).",
            ),
        ] = False,
        json: options.Json = False,
        csv: Csv = None,
        plot: Plot = None,
        quiet: options.Quiet = False,
    ) -> None:
        """Bracket the whole noised vector, beside the paper's Theorem 2 and the local guarantee."""
        from privaudit.accounting.tables import vector_rows

        cells, total = _cells(
            {"--eps0": lists.epsilons("--eps0", eps0)},
            {"--delta": lists.deltas("--delta", delta)},
            {"--rounds": lists.counts("--rounds", rounds)},
            {"--cluster-size": lists.counts("--cluster-size", cluster_size, most=lists.MOST_USERS)},
            {"--dimension": lists.counts("--dimension", dimension)},
        )
        _check_outputs(csv, plot)
        rows = collect(vector_rows(cells, certified=certify), total, quiet=quiet)
        records = _deliver(rows, json=json, csv=csv)
        if plot is not None:
            curves = _curves(
                rows, {"paper's Theorem 2": "paper_theorem2"}, {"without shuffling": "local"}
            )
            _draw(curves, plot, "Epsilon of the whole noised vector")
        if not json:
            show_vector(records, rows)
        _tell_failures(rows)

    @group.command()
    def events(
        source: Annotated[
            Path, typer.Argument(help="A JSON list of privacy events, or a recorded run.")
        ],
        delta: Annotated[str, typer.Option("--delta", help="One delta, for every row.")] = "1e-5",
        colluding_users: Annotated[
            int,
            typer.Option(
                "--colluding-users", min=0, help="Users of a cluster who work with the observer."
            ),
        ] = 0,
        ledger_out: Annotated[
            Path | None, typer.Option("--ledger-out", help="Write the events there as JSON.")
        ] = None,
        reader: options.Reader = "",
        json: options.Json = False,
        csv: Csv = None,
        plot: Plot = None,
    ) -> None:
        """Account what a ledger or a recorded run released: bounds, and what none covers."""
        from privaudit.accounting import budget
        from privaudit.accounting.tables import budget_record
        from privaudit.cli._epsilon_events import events_of, ledger_json
        from privaudit.cli._epsilon_show import budget_curves, budget_json

        values = lists.deltas("--delta", delta)
        if len(values) != 1:
            raise ConfigurationError(f"--delta: {delta!r} names {len(values)}; allowed is one")
        _check_outputs(csv, plot)
        check_file("--ledger-out", ledger_out)
        found, problems = events_of(source, reader=reader)
        for problem in problems:
            typer.echo(problem, err=True)
        account = budget(found, delta=values[0], colluding_users=colluding_users)
        if ledger_out is not None:
            write_file("--ledger-out", ledger_out, json_bytes(ledger_json(found)))
        records = [budget_record(row) for row in account.rows]
        if csv is not None:
            write_file("--csv", csv, csv_bytes(records))
        if plot is not None:
            _draw(budget_curves(account.rows), plot, "Epsilon of the run, by cluster size")
        if json:
            emit_json(budget_json(account, records, events=len(found)))
        else:
            show_budget(account, events=len(found))


def _cells(*axes: Mapping[str, Sequence[Any]]) -> tuple[Iterator[Cell], int]:
    """Return the cells of a grid, cluster sizes running fastest, and their number."""
    from privaudit.accounting.tables import Cell

    values = {name: axis for part in axes for name, axis in part.items()}
    total = lists.check_size(values)
    values.setdefault("--dimension", (1,))
    names = ("--eps0", "--delta", "--dimension", "--rounds", "--cluster-size")
    product = itertools.product(*(values[name] for name in names))
    return (Cell(e, d, n, dimension, t) for e, d, dimension, t, n in product), total


def _check_outputs(csv: Path | None, plot: Path | None) -> None:
    check_file("--csv", csv)
    check_file("--plot", plot, (".png", ".svg"))


def _deliver(rows: Sequence[EpsilonRow], *, json: bool, csv: Path | None) -> list[dict[str, Any]]:
    from privaudit.accounting.tables import record

    records = [record(row) for row in rows]
    if csv is not None:
        write_file("--csv", csv, csv_bytes(records))
    if json:
        emit_json({"rows": records})
    return records


def _tell_failures(rows: Sequence[EpsilonRow]) -> None:
    """End as incomplete if a row could not be computed; the others were given."""
    failed = [row for row in rows if row.best is None]
    for row in failed:
        c = row.cell
        typer.echo(
            f"not computed: eps0 {c.epsilon0:g}, delta {c.delta:g}, {c.cluster_size:,} users, "
            f"{c.rounds:,} rounds, {c.dimension:,} coordinates: {row.failure}",
            err=True,
        )
    if failed:
        raise typer.Exit(INCOMPLETE)


def _curves(
    rows: Sequence[EpsilonRow], dashed: Mapping[str, str], dotted: Mapping[str, str]
) -> list[Curve]:
    """Return one curve for each combination of parameters other than the cluster size."""
    from privaudit.cli._epsilon_plot import Curve

    groups: dict[tuple[Any, ...], list[EpsilonRow]] = {}
    for row in rows:
        c = row.cell
        groups.setdefault((c.epsilon0, c.delta, c.dimension, c.rounds), []).append(row)
    names = ("ε₀", "δ", "d₂", "T")
    varied = [i for i in range(len(names)) if len({key[i] for key in groups}) > 1]

    def bound(row: EpsilonRow, name: str) -> float | None:
        if name in row.bounds:
            return row.bounds[name].upper
        return next((m.upper for m in row.methods if m.method == name), None)

    def points(
        members: Sequence[EpsilonRow], chosen: Mapping[str, str]
    ) -> dict[str, tuple[tuple[int, float | None], ...]]:
        return {
            label: tuple((row.cell.cluster_size, bound(row, name)) for row in members)
            for label, name in chosen.items()
        }

    return [
        Curve(
            ", ".join(f"{names[i]} = {key[i]:,g}" for i in varied),
            tuple((row.cell.cluster_size, row.best.upper) for row in members if row.best),
            tuple((row.cell.cluster_size, row.best.lower) for row in members if row.best),
            points(members, dashed),
            points(members, dotted),
        )
        for key, members in groups.items()
    ]


def _draw(curves: Sequence[Curve], plot: Path, title: str) -> None:
    from privaudit.cli._epsilon_plot import plot_bytes

    data = plot_bytes(curves, title=title, format=plot.suffix.lower().lstrip("."))
    write_file("--plot", plot, data)
