"""``privaudit epsilon required``: the parameter that meets a target, and rules for clusters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from privaudit.cli import _epsilon_lists as lists
from privaudit.cli import _options as options
from privaudit.cli._console import emit_json
from privaudit.cli._epsilon_output import (
    check_file,
    collect,
    constant,
    csv_bytes,
    digits,
    show_table,
    write_file,
)
from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["register"]

_LEVELS = ("coordinate", "vector")
_BOUNDS = ("local", "basic", "refined")
_MOST_TARGET = 1000.0
_STATUS = {
    "coordinate": (
        "[proven] exact privacy blanket, one coordinate; over several rounds the least "
        "composition, which may be certified on a grid"
    ),
    "local": "[proven] Theorem A, whole vector, no shuffling",
    "basic": "[certified on a grid] whole vector, shuffled, the others anywhere",
    "refined": "[certified on a grid] whole vector, shuffled, the others jointly clipped",
}
Records = list[dict[str, Any]]


def register(group: typer.Typer) -> None:
    """Add the command to its group."""

    @group.command()
    def required(
        target: Annotated[str, typer.Option("--target", help="Epsilon to meet; a list or range.")],
        delta: Annotated[str, typer.Option("--delta", help="A list.")] = "1e-5",
        eps0: Annotated[str | None, typer.Option("--eps0", help="Local budgets.")] = None,
        cluster_size: Annotated[
            str | None, typer.Option("--cluster-size", help="Honest users in a cluster.")
        ] = None,
        rounds: Annotated[
            str | None, typer.Option("--rounds", help="Rounds; 1 unless they are to be found.")
        ] = None,
        level: Annotated[
            str, typer.Option("--level", help="coordinate, or vector (the whole one).")
        ] = "vector",
        bound: Annotated[
            str, typer.Option("--bound", help="Of the vector: local, basic or refined.")
        ] = "refined",
        what_if: Annotated[
            str | None,
            typer.Option(
                "--what-if",
                help="Sizes of the clusters of a round (2,3,3,9): compare sending all with "
                "merging and with withholding those below --least.",
            ),
        ] = None,
        least: Annotated[
            str | None,
            typer.Option("--least", help="n_min of --what-if; by default what --target needs."),
        ] = None,
        json: options.Json = False,
        csv: Annotated[
            Path | None, typer.Option("--csv", help="Write the rows there as CSV.")
        ] = None,
        quiet: options.Quiet = False,
    ) -> None:
        """Find the eps0, cluster size or number of rounds that meets a target: the one left out.

        With --eps0 the cluster size is found, with --cluster-size eps0, with both the rounds.

        With --what-if and --eps0, rules for clusters that are too small are compared.
        """
        for name, value, allowed in (("--level", level, _LEVELS), ("--bound", bound, _BOUNDS)):
            if value not in allowed:
                raise ConfigurationError(
                    f"{name}: {value!r} is not allowed; allowed are {', '.join(allowed)}."
                    f"{did_you_mean(value, allowed)}"
                )
        check_file("--csv", csv)
        given: dict[str, Sequence[Any]] = {
            "--target": lists.epsilons("--target", target, most=_MOST_TARGET),
            "--delta": lists.deltas("--delta", delta),
        }
        if eps0 is not None:
            given["--eps0"] = lists.epsilons("--eps0", eps0)
        if cluster_size is not None:
            given["--cluster-size"] = lists.counts(
                "--cluster-size", cluster_size, most=lists.MOST_USERS
            )
        if rounds is not None:
            given["--rounds"] = lists.counts("--rounds", rounds)
        used = "coordinate" if level == "coordinate" else bound
        if what_if is None and least is not None:
            raise ConfigurationError("--least is for --what-if; to find a size give --eps0 alone")
        if what_if is not None:
            records = _plans(given, used, what_if, least, quiet=quiet)
        else:
            records = _answers(given, used, quiet=quiet)
        if csv is not None:
            write_file("--csv", csv, csv_bytes(records))
        if json:
            emit_json({"rows": records})
        elif what_if is not None:
            _show_plans(records, used)
        else:
            _show_answers(records, used)


def _unknown(given: Mapping[str, Sequence[Any]], used: str) -> str:
    """Return which option is to be found.

    Raises
    ------
    ConfigurationError
        If that is not one.
    """
    missing = [name for name in ("--eps0", "--cluster-size") if name not in given]
    if len(missing) == 1:
        return missing[0]
    if len(missing) == 2:
        raise ConfigurationError(
            "give --eps0 (to find the cluster size), --cluster-size (to find eps0), or both (to "
            "find the rounds)"
        )
    if "--rounds" in given:
        raise ConfigurationError(
            "--eps0, --cluster-size and --rounds leave nothing to find; leave out the one wanted"
        )
    return "--rounds"


def _answers(given: dict[str, Sequence[Any]], used: str, *, quiet: bool) -> Records:
    unknown = _unknown(given, used)
    values = {"--rounds": (1,), **given, unknown: (None,)}
    names = ("--target", "--delta", "--eps0", "--cluster-size", "--rounds")
    total = lists.check_size(values)

    def rows() -> Iterator[dict[str, Any]]:
        for point in itertools.product(*(values[name] for name in names)):
            yield _answer(dict(zip(names, point, strict=True)), unknown, used)

    return collect(rows(), total, quiet=quiet)


def _answer(point: dict[str, Any], unknown: str, used: str) -> dict[str, Any]:
    """Solve for one unknown; the row holds the answer, and the bound that it reaches."""
    from privaudit.accounting import cluster_size_for, epsilon0_for, rounds_for, upper_bound

    target, delta, eps0, n, rounds = point.values()
    level: Any = used
    note = ""
    try:
        if unknown == "--eps0":
            eps0 = epsilon0_for(target, delta=delta, n=n, rounds=rounds, level=level)
        elif unknown == "--cluster-size":
            n = cluster_size_for(target, epsilon0=eps0, delta=delta, rounds=rounds, level=level)
            note = "no cluster of up to 2,000 users meets it" if n is None else ""
        else:
            rounds = rounds_for(target, epsilon0=eps0, delta=delta, n=n, level=level)
            note = {0: "not even one round meets it", 1_000_000: "or more"}.get(rounds, "")
            rounds = rounds or None
        solved = eps0 is not None and n is not None and rounds is not None
        reached = (
            upper_bound(level, n=n, epsilon0=eps0, delta=delta, rounds=rounds) if solved else None
        )
    except (OverflowError, ZeroDivisionError) as error:
        raise ConfigurationError(
            f"--target {target:g} at delta {delta:g} leaves the range of double precision "
            f"({error}); ask for a target nearer to 1"
        ) from error
    return {
        "target": target,
        "delta": delta,
        "level": "coordinate" if used == "coordinate" else "vector",
        "bound": used,
        "found": unknown.lstrip("-").replace("-", "_"),
        "eps0": eps0,
        "cluster_size": n,
        "rounds": rounds,
        "upper": reached,
        "note": note,
    }


def _show_answers(records: Records, used: str) -> None:
    found = records[0]["found"]
    words = {"eps0": "largest eps0", "cluster_size": "least n", "rounds": "most rounds"}
    keys = {
        "target": "target",
        "delta": "delta",
        "eps0": "eps0",
        "cluster_size": "n",
        "rounds": "T",
    }
    fixed = [k for k in keys if k not in (found, "target") and constant(records, k)]
    columns = [k for k in keys if k not in (found, *fixed)]
    title = ", ".join(f"{keys[k]} = {_setting(records[0][k])}" for k in fixed)
    noted = any(r["note"] for r in records)
    show_table(
        f"{words[found].capitalize()} to meet the target: {title}",
        [*(keys[k] for k in columns), words[found], "epsilon there", *(["note"] if noted else [])],
        [
            [
                *(_setting(r[k]) for k in columns),
                "none" if r[found] is None else _setting(r[found]),
                digits(r["upper"], "above"),
                *([r["note"]] if noted else []),
            ]
            for r in records
        ],
        legend=[_STATUS[used], "epsilon there: the upper bound with that value, rounded up."],
        text=frozenset({"note"}),
    )


def _setting(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _plans(
    given: dict[str, Sequence[Any]], used: str, what_if: str, least: str | None, *, quiet: bool
) -> Records:
    from privaudit.accounting import cluster_size_for, plan_clusters

    sizes = lists.cluster_list("--what-if", what_if)
    if "--cluster-size" in given or "--eps0" not in given:
        raise ConfigurationError("--what-if needs --eps0, and no --cluster-size: it has the sizes")
    _unknown(given, used)
    floors = None if least is None else lists.counts("--least", least, most=lists.MOST_USERS)
    values = {"--rounds": (1,), **given, "--least": floors or (None,)}
    names = ("--target", "--delta", "--eps0", "--rounds", "--least")
    total = lists.check_size(values)
    level: Any = used

    def rows() -> Iterator[Records]:
        for target, delta, eps0, rounds, floor in itertools.product(*(values[n] for n in names)):
            shared: dict[str, Any] = {"epsilon0": eps0, "delta": delta, "rounds": rounds}
            floor = floor or cluster_size_for(target, level=level, **shared)
            if floor is None:
                raise ConfigurationError(
                    f"--least: no cluster of up to 2,000 users keeps epsilon at {target:g} with "
                    f"eps0 = {eps0:g}, delta = {delta:g} over {rounds:,} rounds; give --least"
                )
            plans = plan_clusters(sizes, least=floor, level=level, **shared)
            yield [
                {
                    "target": target,
                    "delta": delta,
                    "eps0": eps0,
                    "rounds": rounds,
                    "bound": used,
                    "least": floor,
                    "rule": plan.rule,
                    "sizes": list(plan.sizes),
                    "users_served": plan.users_served,
                    "users_withheld": plan.users_withheld,
                    "upper": plan.worst_epsilon,
                    "meets_target": plan.worst_epsilon is not None and plan.worst_epsilon <= target,
                    "note": "" if plan.sizes else "no cluster is sent",
                }
                for plan in plans
            ]

    return [record for plans in collect(rows(), total, quiet=quiet) for record in plans]


def _show_plans(records: Records, used: str) -> None:
    keys = {"target": "target", "delta": "delta", "eps0": "eps0", "rounds": "T", "least": "n_min"}
    fixed = [k for k in keys if constant(records, k)]
    columns = [k for k in keys if k not in fixed]
    title = ", ".join(f"{keys[k]} = {_setting(records[0][k])}" for k in fixed)
    show_table(
        f"Rules for clusters below n_min: {title}",
        [*(keys[k] for k in columns), "rule", "clusters", "served", "withheld", "worst", "meets"],
        [
            [
                *(_setting(r[k]) for k in columns),
                r["rule"],
                ", ".join(map(str, r["sizes"])) or "none",
                f"{r['users_served']:,}",
                f"{r['users_withheld']:,}",
                digits(r["upper"], "above"),
                "-" if r["upper"] is None else "yes" if r["meets_target"] else "no",
            ]
            for r in records
        ],
        legend=[
            _STATUS[used],
            "worst: largest upper bound over the clusters sent, rounded up. served, withheld: "
            "users. Merging changes what the clusters mean for learning; that is not judged here.",
        ],
        text=frozenset({"rule", "clusters", "meets"}),
        sections=frozenset(range(2, len(records), 3)),
    )
