"""What a rule for clusters that are too small would change in a run's budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from privaudit.accounting._history import Report, seen_by_one_observer
from privaudit.accounting._rows import BudgetRow
from privaudit.accounting.bracket import check_count, check_delta
from privaudit.accounting.planning import ClusterPlan, cluster_size_for, plan_clusters, upper_bound
from privaudit.ledger import LaplaceVector, PrivacyEvent

__all__ = ["what_if_rows"]

_VERBS = {"merge": "merged with the next smallest", "withhold": "withheld"}


def what_if_rows(
    events: Sequence[PrivacyEvent],
    *,
    delta: float,
    target: float | None = None,
    least: int | None = None,
    colluding_users: int = 0,
) -> tuple[BudgetRow, ...]:
    """Return budget rows for merging and for withholding the clusters below a minimum size.

    The round with the smallest cluster is replayed under either rule, with the refined bound of one
    round. What merging does to learning is not judged.

    Parameters
    ----------
    events : sequence of PrivacyEvent
        The ledger of a run; vectors whose coordinates are shuffled one by one, jointly clipped,
        are looked at.
    delta : float
    target : float, optional
        Epsilon that a cluster is to meet; by default half of the bound without shuffling.
    least : int, optional
        Minimum number of honest users instead of the least that meets the target.
    colluding_users : int
        Users of each cluster who are not honest.

    Returns
    -------
    tuple of BudgetRow
        Two rows of role ``"other"``; none if no cluster is below the minimum, or no minimum up to
        2,000 users meets the target.

    Examples
    --------
    >>> events = [
    ...     PrivacyEvent(
    ...         1, LaplaceVector(1.0, 1000, 1.0, shuffle="per-coordinate"), users, ("server",), "x"
    ...     )
    ...     for users in (("a", "b"), ("c", "d", "e"), tuple("fghij"))
    ... ]
    >>> [(row.cluster_size, round(row.upper, 1)) for row in what_if_rows(events, delta=1e-5)]
    [(5, 2.0), (5, 2.0)]
    """
    check_delta(delta)
    check_count("colluding_users", colluding_users, least=0)
    chosen = [
        event
        for event in seen_by_one_observer(
            [event for event in events if isinstance(event.mechanism, LaplaceVector)]
        )
        if Report.of(event).joint and Report.of(event).mechanism.shuffle == "per-coordinate"
    ]
    if not chosen:
        return ()
    rounds: dict[int, list[PrivacyEvent]] = defaultdict(list)
    for event in chosen:
        rounds[event.round].append(event)
    number, worst = min(
        rounds.items(), key=lambda item: (min(len(e.subjects) for e in item[1]), item[0])
    )
    mechanism = Report.of(worst[0]).mechanism
    epsilon0 = max(Report.of(event).mechanism.epsilon0 for event in worst)
    if least is None:
        if target is None:
            target = upper_bound("local", n=1, epsilon0=epsilon0, delta=delta) / 2
        least = cluster_size_for(target, epsilon0=epsilon0, delta=delta)
        why = f"the least with epsilon <= {target:.3g} in one round"
    else:
        why = "as given"
    honest = [max(1, len(event.subjects) - colluding_users) for event in worst]
    if least is None or min(honest) >= least:
        return ()
    _, merge, withhold = plan_clusters(honest, least=least, epsilon0=epsilon0, delta=delta)
    before = ", ".join(map(str, sorted(honest)))

    def row(plan: ClusterPlan) -> BudgetRow:
        sent = ", ".join(map(str, plan.sizes)) or "none"
        smallest = plan.sizes[0] if plan.sizes else 0
        return BudgetRow(
            cluster_size=smallest + (colluding_users if plan.sizes else 0),
            honest_users=smallest,
            clusters=len(plan.sizes),
            rounds=1,
            epsilon0=epsilon0,
            delta=delta,
            dimension=mechanism.dimension,
            quantity=f"what if clusters below {least} users were {_VERBS[plan.rule]}",
            lower=None,
            upper=plan.worst_epsilon,
            theorem="shuffled Renyi bound, the others jointly clipped too; smallest cluster",
            status="certified on a grid",
            domain_ok=True,
            note=(
                f"{least} is {why}; round {number}, honest users by cluster: {before} -> {sent}; "
                f"{plan.users_served} users served, {plan.users_withheld} withheld"
            ),
        )

    return row(merge), row(withhold)
