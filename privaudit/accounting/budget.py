"""The budget of a run: what its ledger of privacy events amounts to, by cluster size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from privaudit.accounting._history import (
    Report,
    seen_by_one_observer,
    simultaneous,
    story,
    worst_histories,
)
from privaudit.accounting._literature import fmt21_minimum_users
from privaudit.accounting._release_rows import release_rows, worst_releases
from privaudit.accounting._rows import (
    BASIC,
    COORDINATE,
    FLOOR,
    LOCAL,
    MEDIAN,
    REFINED,
    RELEASES,
    ROLES,
    THEOREM2,
    USER,
    BudgetRow,
)
from privaudit.accounting.bracket import Bracket, check_count, check_delta
from privaudit.accounting.composition import local_zcdp, theorem2_delta_s
from privaudit.accounting.releases import compose_releases
from privaudit.accounting.rounds import compose_coordinate
from privaudit.accounting.vector import (
    ShuffledVector,
    compose_local_per_coordinate,
    compose_theorem2,
    compose_vectors,
)
from privaudit.errors import ConfigurationError
from privaudit.ledger import CoveredRelease, LaplaceVector, PrivacyEvent, UnprotectedRelease

__all__ = ["Budget", "BudgetRow", "UncoveredRelease", "budget"]


@dataclass(frozen=True, slots=True)
class UncoveredRelease:
    """Something released without differential privacy."""

    what: str
    observers: tuple[str, ...]
    values_per_user_and_round: int
    consequence: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What the ledger amounts to.

    Attributes
    ----------
    rows : tuple of BudgetRow
        About the noised subvector only, everything else being given.
    uncovered : tuple of UncoveredRelease
    user_level_epsilon : float
        Epsilon of everything released about one user; ``inf`` if anything is uncovered.
    user_level_sentence : str
    worst_user : str
        The user with the largest total; empty without a noised release.
    flags : tuple of str
        Conditions under which the bounds do not mean what they seem to.
    """

    rows: tuple[BudgetRow, ...]
    uncovered: tuple[UncoveredRelease, ...]
    user_level_epsilon: float
    user_level_sentence: str
    worst_user: str
    flags: tuple[str, ...]


def budget(events: Sequence[PrivacyEvent], *, delta: float, colluding_users: int = 0) -> Budget:
    """Derive the budget of a run from its ledger.

    The rows are for the observers of the shuffled reports (of all reports, where none is
    shuffled): everything of a user that such an observer receives is composed. Parties that see
    the same reports before they are shuffled are covered by the local rows.

    Parameters
    ----------
    events : sequence of PrivacyEvent
    delta : float
        Delta of every row, of one round and in total alike.
    colluding_users : int
        Users of each cluster who work with the observer; they are not counted as honest.

    Raises
    ------
    ConfigurationError
        If the ledger is empty, delta is not in (0, 1), or a relation other than replace-one is
        used, or the noised releases are stated for several relations or units.

    Examples
    --------
    >>> event = PrivacyEvent(
    ...     round=1,
    ...     mechanism=LaplaceVector(1.0, 582026, 1.0, shuffle="per-coordinate"),
    ...     subjects=("a", "b", "c", "d"),
    ...     observers=("aggregation-server",),
    ...     unit="the less important subvector of one user",
    ... )
    >>> [f"{row.upper:.3g}" for row in budget([event], delta=1e-5).rows if row.upper]
    ['1', '2.73e+05', '4.73', '2.85', '2.24', '4.73']
    """
    check_delta(delta)
    check_count("colluding_users", colluding_users, least=0)
    if not events:
        raise ConfigurationError("the ledger holds no privacy event; nothing can be accounted")
    _check_consistent(events)
    vectors = [event for event in events if isinstance(event.mechanism, LaplaceVector)]
    covered = [event for event in events if isinstance(event.mechanism, CoveredRelease)]
    chosen = seen_by_one_observer(vectors)
    rows: list[BudgetRow] = []
    for report, clusters in sorted(
        simultaneous(chosen).items(), key=lambda item: (item[0].size, repr(item[0]))
    ):
        rows += budget_rows(
            Counter([report]),
            clusters=clusters,
            delta=delta,
            colluding_users=colluding_users,
            note="one round",
        )
    worst = worst_histories(chosen, colluding_users)
    for user, history in worst:
        if history.total() > 1:
            rows += budget_rows(
                history,
                clusters=1,
                delta=delta,
                colluding_users=colluding_users,
                note=f"total of {user}, worst-off of its cluster size: {story(history)}",
            )
    rows += release_rows(covered, delta=delta, colluding_users=colluding_users, alone=not vectors)
    uncovered = _uncovered(events)
    if rows:
        rows.append(_user_row(rows, uncovered, chosen, covered))
    return Budget(
        rows=tuple(rows),
        uncovered=uncovered,
        user_level_epsilon=(rows[-1].upper or 0.0) if rows else math.inf if uncovered else 0.0,
        user_level_sentence=_sentence(uncovered),
        worst_user=worst[0][0] if worst else worst_releases(covered)[1] if covered else "",
        flags=tuple(_flags(vectors, chosen, rows, colluding_users)),
    )


def budget_rows(
    history: Counter[Report], *, clusters: int, delta: float, colluding_users: int, note: str
) -> list[BudgetRow]:
    """Return all rows for what one user released."""
    smallest = min(history, key=lambda r: r.hiding(colluding_users, vector=True))

    def row(quantity: str, bracket: Bracket) -> BudgetRow:
        return BudgetRow(
            cluster_size=smallest.size,
            honest_users=max(1, smallest.size - colluding_users),
            clusters=clusters,
            rounds=history.total(),
            epsilon0=max(r.mechanism.epsilon0 for r in history),
            delta=delta,
            dimension=max(r.mechanism.dimension for r in history),
            quantity=quantity,
            lower=bracket.lower,
            upper=bracket.upper,
            theorem=bracket.theorem,
            status=bracket.status,
            domain_ok=bracket.domain_ok,
            note="; ".join(part for part in (note, bracket.note) if part),
            role=ROLES.get(quantity, "other"),
        )

    def releases(*, vector: bool) -> Counter[ShuffledVector]:
        counted: Counter[ShuffledVector] = Counter()
        for report, count in history.items():
            m = report.mechanism
            hiding = report.hiding(colluding_users, vector=vector)
            counted[ShuffledVector(hiding, m.epsilon0, m.dimension)] += count
        return counted

    rows = [
        row(COORDINATE, compose_coordinate(releases(vector=False), delta)),
        row(THEOREM2, compose_theorem2(releases(vector=True), delta)),
    ]
    if all(report.joint for report in history):
        whole = compose_vectors(releases(vector=True), delta)
        rows += [
            row(LOCAL, whole.local),
            row(BASIC, whole.basic),
            row(REFINED, whole.refined),
            row(FLOOR, whole.floor),
        ]
    else:
        rows.append(row(LOCAL, compose_local_per_coordinate(releases(vector=True), delta)))
    return rows


def _uncovered(events: Sequence[PrivacyEvent]) -> tuple[UncoveredRelease, ...]:
    seen: dict[str, tuple[set[str], int]] = {}
    for event in events:
        mechanism = event.mechanism
        if isinstance(mechanism, UnprotectedRelease):
            what, values = mechanism.what, mechanism.dimension
        elif isinstance(mechanism, LaplaceVector) and mechanism.clip_source == "median-of-users":
            what, values = MEDIAN, 1
        else:
            continue
        observers, most = seen.get(what, (set(), 0))
        seen[what] = observers | set(event.observers), max(most, values)
    return tuple(
        UncoveredRelease(
            what=what,
            observers=tuple(sorted(observers)),
            values_per_user_and_round=values,
            consequence=(
                "computed from the users' data and released without noise: no finite epsilon "
                "holds for a user's data as a whole"
            ),
        )
        for what, (observers, values) in sorted(seen.items())
    )


def _check_consistent(events: Sequence[PrivacyEvent]) -> None:
    """Raise ConfigurationError if bounds on the noised releases could not be put together."""
    noised = [event for event in events if not isinstance(event.mechanism, UnprotectedRelease)]
    for event in noised:
        if isinstance(event.mechanism, LaplaceVector) and event.relation != "replace-one":
            raise ConfigurationError(
                f"round {event.round}: the bounds are for the relation 'replace-one', not "
                f"{event.relation!r}; replacing is the stricter, so declare that one"
            )
    for what, values in (
        ("relation", {event.relation for event in noised}),
        ("unit", {event.unit for event in noised}),
    ):
        if len(values) > 1:
            raise ConfigurationError(
                f"noised releases are stated for several values of {what} ("
                f"{', '.join(repr(v) for v in sorted(values))}): their bounds do not add up; state "
                "all for one, or account them apart"
            )


def _user_row(
    rows: Sequence[BudgetRow],
    uncovered: Sequence[UncoveredRelease],
    vectors: Sequence[PrivacyEvent],
    covered: Sequence[PrivacyEvent],
) -> BudgetRow:
    """Return the row of everything that one user releases, shuffled or not, to anyone."""
    own = [row for row in rows if row.quantity in (LOCAL, RELEASES)]
    largest = max(own, key=lambda row: (row.rounds, row.upper or 0.0))
    upper = max(row.upper or 0.0 for row in own)
    theorem, status = largest.theorem, largest.status
    if vectors and covered:
        # The worst of either kind, as if one user had both.
        spent = compose_releases(
            worst_releases(covered)[0], largest.delta, zcdp=_local_zcdp(vectors)
        ).best
        upper, theorem, status = spent.upper or 0.0, spent.theorem, spent.status
    return replace(
        largest,
        quantity=USER,
        lower=None,
        upper=math.inf if uncovered else upper,
        theorem="no theorem applies" if uncovered else theorem,
        status="proven" if uncovered else status,
        note=_sentence(uncovered),
        role="user",
    )


def _local_zcdp(vectors: Sequence[PrivacyEvent]) -> float:
    """Return the largest zero-concentrated budget of one user's noised vectors, not shuffled."""
    total: dict[str, float] = {}
    for event in vectors:
        mechanism = event.mechanism
        assert isinstance(mechanism, LaplaceVector)
        size = 1 if mechanism.clipping == "joint-l2" else mechanism.dimension
        for subject in event.subjects:
            total[subject] = total.get(subject, 0.0) + size * local_zcdp(mechanism.epsilon0)
    return max(total.values())


def _sentence(uncovered: Sequence[UncoveredRelease]) -> str:
    if not uncovered:
        return (
            "Every release in the ledger is covered by a mechanism with differential privacy; the "
            "user-level guarantee is the bound on the total without shuffling."
        )
    names = "; ".join(release.what for release in uncovered)
    return (
        "The user-level epsilon is infinite: differential privacy does not cover "
        f"{names}. The bounds below are for the noised subvector only, everything else given."
    )


def _flags(
    vectors: Sequence[PrivacyEvent],
    chosen: Sequence[PrivacyEvent],
    rows: Sequence[BudgetRow],
    colluding_users: int,
) -> list[str]:
    flags = []
    reports = {Report.of(event) for event in vectors}
    if any(r.mechanism.clip_source == "median-of-users" for r in reports):
        flags.append(
            "The clipping threshold is the median of the users' norms: it depends on the data and "
            "shows in the noise scale. Every bound holds only for a threshold fixed in advance."
        )
    if any(not r.joint for r in reports):
        flags.append(
            "Clipping is per coordinate: the bounds for joint L2 clipping do not apply, and the "
            "loss grows with the dimension."
        )
    if any(r.mechanism.shuffle == "whole-report" for r in reports):
        flags.append(
            "Whole reports are permuted together: a report's coordinates stay linked, so the "
            "vector rows are not amplified (only a single coordinate is)."
        )
    before = {party for e in vectors if e not in chosen for party in e.observers}
    if before:
        flags.append(
            f"{', '.join(sorted(before))} sees reports before they are shuffled: against it only "
            "the noise of each user itself counts (the local rows of the table of budgets)."
        )
    sizes = sorted({Report.of(event).size for event in chosen})
    for size in sizes:
        honest = size - colluding_users
        if honest < 1:
            flags.append(
                f"{colluding_users} colluding users are all of a cluster of {size} or more than "
                "it: its target is counted as the only honest user."
            )
    shuffled = [row for row in rows if row.role == "paper"]
    if shuffled and sizes:
        need = min(
            fmt21_minimum_users(
                row.epsilon0, theorem2_delta_s(row.delta, row.dimension * row.rounds)
            )
            for row in shuffled
        )
        if sizes[0] < need:
            flags.append(
                "The closed form of Feldman, McMillan and Talwar (2021) needs clusters of at least "
                f"{need} users to bound one coordinate here; the smallest cluster has {sizes[0]}. "
                "The rows are computed by another bound (the exact privacy blanket), which has no "
                "such condition."
            )
    return flags
