"""What PA-CFL's runs of a campaign cost in privacy, by epsilon0 and cluster size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from privaudit.accounting import OutOfDomainError, budget
from privaudit.accounting.bracket import check_epsilon0
from privaudit.campaigns.assembly import as_row, safe_bound
from privaudit.campaigns.grid.recorded import run_key
from privaudit.campaigns.pa_cfl.verdicts import FIXED_THRESHOLD
from privaudit.campaigns.runs import open_run
from privaudit.errors import CorruptRecordingError
from privaudit.ledger import LaplaceVector, PrivacyEvent
from privaudit.protocols.pa_cfl import PACFL
from privaudit.reports._format import equals
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
    words : tuple of str
        The brackets in words, and under which condition they hold.
    flags : tuple of str
        What the accounting of the runs flags.
    """

    rows: tuple[BudgetRow, ...]
    figures: tuple[Figure, ...]
    words: tuple[str, ...]
    flags: tuple[str, ...]


def run_budgets(runs: Sequence[Mapping[str, Any]], folder: Path, *, delta: float) -> Budgets:
    """Account for the ledgers of a campaign's runs of PA-CFL; runs that are not there have none.

    Parameters
    ----------
    runs : sequence of mapping
        Configurations.
    folder : Path
        Where the runs were recorded.
    """
    by_epsilon: dict[tuple[float, bool], list[Mapping[str, Any]]] = {}
    for run in runs:
        config = PACFL.Config(**run["parameters"]) if run["protocol"] == PACFL.name else None
        if config is not None and config.protection:
            by_epsilon.setdefault((config.epsilon0, config.clipping == "fixed"), []).append(run)
    kept: dict[str, BudgetRow] = {}
    told: dict[bool, list[BudgetRow]] = {True: [], False: []}
    flags: list[tuple[float, str]] = []
    figures = []
    beyond: list[str] = []
    allowed = sorted({epsilon0 for epsilon0, _ in by_epsilon})[:_SETTINGS]
    for epsilon0 in allowed:
        events: list[PrivacyEvent] = []
        try:
            check_epsilon0(epsilon0)
        except OutOfDomainError as error:
            beyond.append(f"No budget is given for runs at ε₀ = {epsilon0:g}: {error}")
            continue
        for fixed in (True, False):
            for run in by_epsilon.get((epsilon0, fixed), [])[:_RUNS]:
                found = _events(folder / run_key(run)[:32])
                if not found:
                    continue
                events += found
                spent = budget(found, delta=delta)
                flags += [(epsilon0, flag) for flag in spent.flags]
                for row in spent.rows:
                    shown = as_row(BudgetRow, row)
                    kept.setdefault(shown.model_dump_json(exclude={"clusters"}), shown)
                    told[fixed].append(shown)
        figures += _figure(epsilon0, events, delta=delta)
    words = [line for fixed, rows in told.items() for line in budget_words(rows, fixed=fixed)]
    if words:
        words.append(
            "What is sent without noise has no budget; for other protocols, see the audit of each."
        )
    return Budgets(
        tuple(kept.values()),
        tuple(figures),
        tuple(words),
        (*(_flag_words(flags) if words else ()), *beyond),
    )


def _flag_words(flags: Sequence[tuple[float, str]]) -> tuple[str, ...]:
    """Return each flag once; of those that differ in numbers alone the first, with its epsilon0."""
    alike: dict[str, dict[str, float]] = {}
    for epsilon0, flag in flags:
        alike.setdefault(re.sub(r"\d+", "", flag), {}).setdefault(flag, epsilon0)
    words = []
    for texts in alike.values():
        flag, epsilon0 = next(iter(texts.items()))
        words.append(flag if len(texts) == 1 else f"For instance at ε₀ = {epsilon0:g}: {flag}")
    return tuple(words)


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


def budget_words(rows: Sequence[BudgetRow], *, fixed: bool) -> tuple[str, ...]:
    """Return the bracket of the worst cluster in words, for every epsilon0.

    Parameters
    ----------
    fixed : bool
        Whether values were clipped at a threshold fixed in advance, for which alone bounds hold.
    """
    lines: dict[str, list[str]] = {}
    bounded = [row for row in rows if row.upper is not None]
    for epsilon0 in sorted({row.epsilon0 for row in bounded if row.role == "bracket"}):
        ours = [row for row in bounded if row.epsilon0 == epsilon0]
        brackets = [row for row in ours if row.role == "bracket"]
        first = min(row.rounds for row in brackets)
        for rounds in dict.fromkeys((first, max(row.rounds for row in brackets))):
            worst = max((r for r in brackets if r.rounds == rounds), key=_upper)
            most = safe_bound(_upper(worst), toward="above")
            if rounds > first:
                # In the order of the bounds over fewer rounds, which name their epsilon0.
                lines.setdefault(f"over {rounds} rounds at most", []).append(most)
                continue
            least = (
                ""
                if worst.lower is None
                else f"at least {safe_bound(worst.lower, toward='below')} and "
            )
            alone = [_upper(r) for r in ours if (r.role, r.rounds) == ("local", rounds)]
            shown = (
                f" (unshuffled at most {safe_bound(max(alone), toward='above')})" if alone else ""
            )
            period = "in one round" if rounds == 1 else f"over {rounds} rounds"
            where = f"{period} (smallest cluster: {worst.cluster_size} users; δ = {worst.delta:g})"
            lines.setdefault(where, []).append(
                f"{least}at most {most}{shown} at {equals('ε₀', f'{epsilon0:g}')}"
            )
    if not lines:
        return ()
    told = "; ".join(f"{where} {', '.join(bounds)}" for where, bounds in lines.items())
    part = "ε of the noised part of a PA-CFL user's report"
    if fixed:
        return (f"{part} is {told}.",)
    return (
        f"{FIXED_THRESHOLD}, {part} would be {told}. The runs took the median of the users' norms, "
        "so that no bound holds as it stands.",
    )


def _upper(row: BudgetRow) -> float:
    return row.upper or 0.0
