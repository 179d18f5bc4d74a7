"""What the tables of ``privaudit epsilon`` say to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privaudit.cli._console import count
from privaudit.cli._epsilon_output import constant, digits, say, show_table

if TYPE_CHECKING:
    from privaudit.accounting import Budget, BudgetRow
    from privaudit.accounting.tables import EpsilonRow
    from privaudit.cli._epsilon_plot import Curve

__all__ = [
    "budget_curves",
    "budget_json",
    "show_budget",
    "show_coordinate",
    "show_methods",
    "show_vector",
]

#: Parameters in the order of their columns: key, heading of the column, name in the title.
_PARAMETERS = (
    ("eps0", "eps0", "eps0"),
    ("delta", "delta", "delta"),
    ("dimension", "d2", "d2"),
    ("rounds", "T", "rounds"),
    ("cluster_size", "n", "cluster size"),
)
_ROUNDED = "Upper bounds are rounded up, lower bounds down. n: honest users in the cluster."
Records = Sequence[Mapping[str, Any]]
#: How a status is shown where there is no room for the words.
_SHORT = {"claimed by the paper": "erratum"}


def _heading(what: str, records: Records) -> tuple[str, list[tuple[str, str]]]:
    """Return a title with what all rows share, and the columns of what they do not."""
    fixed, columns = [], []
    for key, heading, name in _PARAMETERS:
        if key != "cluster_size" and constant(records, key):
            if key == "dimension" and records[0][key] == 1 and "local" not in records[0]:
                continue
            fixed.append(f"{name} = {_setting(records[0][key])}")
        else:
            columns.append((key, heading))
    return f"{what}: {', '.join(fixed)}", columns


def _setting(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _statuses(rows: Sequence[EpsilonRow]) -> list[str]:
    """Return each theorem that the best brackets rest on, with its status, once."""
    told = dict.fromkeys((row.best.theorem, row.best.status) for row in rows if row.best)
    return [f"[{status}] {theorem}" for theorem, status in told]


def show_coordinate(records: Records, rows: Sequence[EpsilonRow]) -> None:
    """Print brackets of one coordinate."""
    title, columns = _heading("One shuffled coordinate", records)
    show_table(
        title,
        [*(heading for _, heading in columns), "lower", "upper", "upper / (T eps0)"],
        [
            [
                *(_setting(r[key]) for key, _ in columns),
                digits(r["lower"], "below"),
                digits(r["upper"], "above"),
                _ratio(r),
            ]
            for r in records
        ],
        legend=[
            *_statuses(rows),
            f"{_ROUNDED} T: rounds. A ratio of 1: shuffling does nothing.",
        ],
    )


def _ratio(r: Mapping[str, Any]) -> str:
    upper = r["upper"]
    return digits(upper and upper / (r["rounds"] * r["eps0"]), "above", places=3)


def show_methods(records: Records, rows: Sequence[EpsilonRow]) -> None:
    """Print brackets of one coordinate, and below each what the literature's bounds answer."""
    from privaudit.accounting.tables import METHODS

    title, columns = _heading("One shuffled coordinate, bounds beside each other", records)
    lines: list[list[str]] = []
    ends: set[int] = set()
    for r in records:
        point = [_setting(r[key]) for key, _ in columns]
        blank = [""] * len(columns)
        lines.append([*point, "exact blanket, upper", digits(r["upper"], "above"), "proven"])
        lines.append([*blank, "data sets, lower", digits(r["lower"], "below"), "proven"])
        for name, answer in r["methods"].items():
            absent = answer["upper"] is None
            value = answer["note"] if absent else digits(answer["upper"], "above")
            status = "-" if absent else _SHORT.get(answer["status"], answer["status"])
            lines.append([*blank, name, value, status])
        ends.add(len(lines) - 1)
    used = {name: METHODS[name] for name in records[0]["methods"]}
    sources = [
        f"{name}: {m.source}; holds for {m.holds_for}{'; ' + m.caveat if m.caveat else ''}."
        for name, m in used.items()
    ]
    show_table(
        title,
        [*(heading for _, heading in columns), "bound", "epsilon", "status"],
        lines,
        legend=[*_statuses(rows), *sources, _ROUNDED],
        text=frozenset({"bound", "epsilon", "status"}),
        sections=frozenset(ends),
    )


def show_vector(records: Records, rows: Sequence[EpsilonRow]) -> None:
    """Print the bounds on the whole vector, and the best bracket of each row."""
    title, columns = _heading("Whole noised vector", records)
    names = {
        "paper_theorem2": "paper Th.2",
        "local": "local",
        "basic": "basic",
        "refined": "refined",
        "floor": "floor",
    }
    if any("certified" in row.bounds for row in rows):
        names["certified"] = "certified"
    computed = [row for row in rows if row.best is not None]
    first = computed[0].bounds if computed else {}
    show_table(
        title,
        [*(heading for _, heading in columns), *names.values(), "best bracket"],
        [
            [
                *(_setting(r[key]) for key, _ in columns),
                *(digits(r.get(name), "below" if name == "floor" else "above") for name in names),
                f"{digits(r['lower'], 'below')} .. {digits(r['upper'], 'above')}",
            ]
            for r in records
        ],
        legend=[
            *(
                f"{label} [{first[name].status}]: {first[name].theorem}"
                for name, label in names.items()
                if computed
            ),
            *(f"floor: {n}." for n in dict.fromkeys(row.bounds["floor"].note for row in computed)),
            *(
                f"refined, n = {row.cell.cluster_size}: {row.bounds['refined'].note}"
                for row in computed
                if not row.bounds["refined"].domain_ok
            ),
            f"best bracket: least valid upper bound, greatest lower bound. {_ROUNDED} T: rounds.",
            "Local, basic, refined and floor are for joint L2 clipping at a fixed threshold.",
        ],
    )


def show_budget(account: Budget, *, events: int) -> None:
    """Print the sentence about a user, the rows of a run's budget, and what no row covers."""
    say(f"{account.user_level_sentence}\n")
    if account.rows:
        colluding = any(row.honest_users != row.cluster_size for row in account.rows)
        statuses = list(dict.fromkeys((row.theorem, row.status) for row in account.rows))
        show_table(
            f"Budget of {count(events, 'privacy event')}, delta = {account.rows[0].delta:g}",
            ["n", *(["honest"] if colluding else []), "T", "quantity", "lower", "upper", "source"],
            [
                [
                    str(row.cluster_size),
                    *([str(row.honest_users)] if colluding else []),
                    str(row.rounds),
                    row.quantity,
                    digits(row.lower, "below"),
                    digits(row.upper, "above"),
                    str(1 + statuses.index((row.theorem, row.status))),
                ]
                for row in account.rows
            ],
            legend=[
                *([f"Worst-off user: {account.worst_user}."] if account.worst_user else []),
                *(f"{i}. [{status}] {what}" for i, (what, status) in enumerate(statuses, 1)),
                "n: users in the cluster. T: rounds; above 1, the total of the worst-off user. "
                "Upper bounds are rounded up, lower bounds down.",
            ],
            text=frozenset({"quantity"}),
        )
    if account.uncovered:
        show_table(
            "Released without differential privacy",
            ["what", "seen by", "values"],
            [
                [u.what, ", ".join(u.observers), f"{u.values_per_user_and_round:,}"]
                for u in account.uncovered
            ],
            legend=["values: numbers released per user and round."],
            text=frozenset({"what", "seen by"}),
        )
    for flag in account.flags:
        say(f"Note: {flag}")


def budget_json(
    account: Budget, records: Sequence[Mapping[str, Any]], *, events: int
) -> dict[str, Any]:
    """Return a run's budget as JSON values; an infinite epsilon is null, with a note."""
    from dataclasses import asdict
    from math import isinf

    infinite = isinf(account.user_level_epsilon)
    return {
        "rows": list(records),
        "events": events,
        "uncovered": [asdict(release) for release in account.uncovered],
        "user_level_epsilon": None if infinite else account.user_level_epsilon,
        "user_level_note": "infinite" if infinite else "",
        "user_level_sentence": account.user_level_sentence,
        "worst_user": account.worst_user,
        "flags": list(account.flags),
    }


def budget_curves(rows: Sequence[BudgetRow]) -> list[Curve]:
    """Return the brackets of single rounds by cluster size, with the paper's and local bounds."""
    from privaudit.cli._epsilon_plot import Curve

    def points(role: str, bound: str) -> tuple[tuple[int, float | None], ...]:
        # One round may hold clusters of one size with several budgets: the worst is drawn.
        worst: dict[int, float] = {}
        for row in rows:
            value = getattr(row, bound)
            if row.role == role and row.rounds == 1 and value is not None:
                worst[row.honest_users] = max(value, worst.get(row.honest_users, 0.0))
        return tuple(worst.items())

    paper, local = points("paper", "upper"), points("local", "upper")
    upper, lower = points("bracket", "upper"), points("bracket", "lower")
    return [
        Curve("", upper or local, lower, {"paper's Theorem 2": paper}, {"without shuffling": local})
    ]
