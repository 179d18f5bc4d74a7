"""What PA-CFL's runs of a campaign cost in privacy, by epsilon0 and cluster size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import Any, Final

from privaudit.accounting import budget
from privaudit.campaigns.assembly import as_row
from privaudit.campaigns.grid.recorded import run_key
from privaudit.campaigns.runs import open_run
from privaudit.errors import CorruptRecordingError
from privaudit.ledger import LaplaceVector, PrivacyEvent
from privaudit.protocols.pa_cfl import PACFL
from privaudit.reports.figures import epsilon_by_cluster_size
from privaudit.reports.model import BudgetRow, Figure

__all__ = ["Budgets", "budget_words", "run_budgets"]

#: Settings that are accounted for, and runs of each: clusters differ from seed to seed.
_SETTINGS: Final = 6
_RUNS: Final = 4
_SIZES: Final = (2, 3, 5, 8, 12, 20, 32, 50, 80)


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a campaign's runs of PA-CFL cost.

    Attributes
    ----------
    rows : tuple of BudgetRow
        Of the ledgers of its runs, each row once.
    figures : tuple of Figure
        Epsilon against cluster size over one round, one an epsilon0.
    """

    rows: tuple[BudgetRow, ...]
    figures: tuple[Figure, ...]


def run_budgets(runs: Sequence[Mapping[str, Any]], folder: Path, *, delta: float) -> Budgets:
    """Account for the ledgers of a campaign's runs of PA-CFL; runs that are not there have none.

    Parameters
    ----------
    runs : sequence of mapping
        Configurations.
    folder : Path
        Where the runs were recorded.
    """
    by_epsilon: dict[float, list[Mapping[str, Any]]] = {}
    for run in runs:
        config = PACFL.Config(**run["parameters"]) if run["protocol"] == PACFL.name else None
        if config is not None and config.protection:
            by_epsilon.setdefault(config.epsilon0, []).append(run)
    kept: dict[str, BudgetRow] = {}
    figures = []
    for epsilon0 in sorted(by_epsilon)[:_SETTINGS]:
        events: list[PrivacyEvent] = []
        for run in by_epsilon[epsilon0][:_RUNS]:
            found = _events(folder / run_key(run)[:32])
            events += found
            for row in budget(found, delta=delta).rows if found else ():
                shown = as_row(BudgetRow, row)
                kept.setdefault(shown.model_dump_json(exclude={"clusters"}), shown)
        figures += _figure(epsilon0, events, delta=delta)
    return Budgets(tuple(kept.values()), tuple(figures))


def _events(recording: Path) -> tuple[PrivacyEvent, ...]:
    try:
        if (recording / "run").is_dir():
            return tuple(PACFL().events(open_run(recording).transcript))
    except CorruptRecordingError:
        # Made again as soon as a cell needs it.
        return ()
    return ()


def _figure(epsilon0: float, events: Sequence[PrivacyEvent], *, delta: float) -> list[Figure]:
    """Return epsilon by cluster size: of clusters that occurred, and of others for the same run."""
    shuffled = [
        e
        for e in events
        if isinstance(e.mechanism, LaplaceVector) and e.mechanism.shuffle != "none"
    ]
    if not shuffled:
        return []
    occurred = sorted({len(e.subjects) for e in shuffled})
    users = len({user for e in shuffled for user in e.subjects})
    # Beside a size that occurred another says little, and their labels would overlap.
    others = {n for n in _SIZES if n <= users and all(abs(n - o) > 0.2 * o for o in occurred)}
    sizes = sorted({*occurred, *others})
    rows = [
        as_row(BudgetRow, row)
        for size in sizes
        for row in budget(
            [replace(shuffled[0], round=1, subjects=tuple(f"user-{i}" for i in range(size)))],
            delta=delta,
        ).rows
    ]
    if not any(row.role == "bracket" for row in rows):
        return []
    told = " and ".join(filter(None, (", ".join(map(str, occurred[:-1])), str(occurred[-1]))))
    drawn = epsilon_by_cluster_size(
        rows,
        rounds=1,
        id=f"epsilon-{epsilon0:g}",
        caption="The band holds the true budget of the noised part; the dashed line is the paper's "
        f"own statement. Clusters of {told} users occurred; other sizes are computed for the "
        "same setting.",
    )
    return [drawn.model_copy(update={"title": f"{drawn.title}, PA-CFL with ε₀ = {epsilon0:g}"})]


def budget_words(rows: Sequence[BudgetRow]) -> tuple[str, ...]:
    """Return the bracket of the smallest cluster in words, for every epsilon0."""
    told: dict[str, list[str]] = {}
    brackets = [row for row in rows if row.role == "bracket" and row.upper is not None]
    for epsilon0 in sorted({row.epsilon0 for row in brackets}):
        ours = [row for row in brackets if row.epsilon0 == epsilon0]
        rounds = min(row.rounds for row in ours)
        worst = max((r for r in ours if r.rounds == rounds), key=lambda r: r.upper or 0.0)
        least = "" if worst.lower is None else f"at least {_safe(worst.lower, ROUND_FLOOR)} and "
        where = (
            f"PA-CFL, the noised part of a user's report in "
            f"{'one round' if rounds == 1 else f'{rounds} rounds'}, smallest cluster "
            f"({worst.cluster_size} users), δ = {worst.delta:g}"
        )
        told.setdefault(where, []).append(
            f"{least}at most {_safe(worst.upper or 0.0, ROUND_CEILING)} at ε₀ = {epsilon0:g}"
        )
    words = tuple(f"{where}: ε is {'; '.join(bounds)}." for where, bounds in told.items())
    if not words:
        return ()
    return (
        *words,
        "What is sent without noise has no budget; for other protocols, see the audit of each.",
    )


def _safe(bound: float, rounding: str) -> str:
    """Return a bound with three digits, rounded to its safe side."""
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(repr(bound))):g}"
