"""Rows of a budget for releases that hide among nobody, from the ledger's events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from privaudit.accounting._rows import LOSS, PURE, RELEASES, RENYI, BudgetRow
from privaudit.accounting.bracket import Bracket
from privaudit.accounting.releases import compose_releases, zcdp_of_release
from privaudit.ledger import (
    ApproximateRelease,
    CoveredRelease,
    GaussianMechanism,
    PrivacyEvent,
    PureRelease,
    RandomizedResponse,
    SubsampledGaussian,
)

__all__ = ["release_rows", "worst_releases"]

History = Counter[CoveredRelease]


def worst_releases(events: Sequence[PrivacyEvent]) -> tuple[History, str, int]:
    """Return (releases, whose they are, rounds): at least those of the worst-off user.

    Where one user's releases include those of every other, they are that user's; else the most of
    each kind that any user had, which no user need have had.
    """
    histories: dict[str, History] = defaultdict(Counter)
    rounds: dict[str, set[int]] = defaultdict(set)
    for event in events:
        mechanism = event.mechanism
        assert isinstance(mechanism, CoveredRelease)
        for subject in event.subjects:
            histories[subject][mechanism] += 1
            rounds[subject].add(event.round)
    most: History = Counter()
    for history in histories.values():
        most |= history
    for user in sorted(histories):
        if histories[user] == most:
            return most, user, len(rounds[user])
    return most, "", max(len(r) for r in rounds.values())


def release_rows(
    events: Sequence[PrivacyEvent], *, delta: float, colluding_users: int, alone: bool
) -> list[BudgetRow]:
    """Return the rows of the worst single round and of the total.

    Parameters
    ----------
    alone : bool
        Whether these are all the noised releases; the least bound is then the run's bracket.
    """
    if not events:
        return []
    by_round: dict[int, list[PrivacyEvent]] = defaultdict(list)
    for event in events:
        by_round[event.round].append(event)
    single = {frozenset(h.items()): (h, r) for r, h in _rounds(by_round).items()}
    worst = max(single.values(), key=lambda item: _cost(item[0]))
    rows = _rows(worst[0], by_round[worst[1]], 1, delta, colluding_users, "one round", alone)
    history, user, rounds = worst_releases(events)
    if rounds > 1:
        whose = f"total of {user}" if user else "the most that any user released of each kind"
        rows += _rows(history, events, rounds, delta, colluding_users, whose, alone)
    return rows


def _rounds(by_round: Mapping[int, Sequence[PrivacyEvent]]) -> dict[int, History]:
    return {number: worst_releases(events)[0] for number, events in by_round.items()}


def _cost(history: History) -> float:
    return sum(count * zcdp_of_release(release) for release, count in history.items())


def _rows(
    history: History,
    events: Sequence[PrivacyEvent],
    rounds: int,
    delta: float,
    colluding_users: int,
    whose: str,
    alone: bool,
) -> list[BudgetRow]:
    spent = compose_releases(history, delta, relation=events[0].relation)
    users = min(len(event.subjects) for event in events)
    told = f"{whose}: {', '.join(_told(r, count) for r, count in history.items())}"

    def row(quantity: str, bracket: Bracket) -> BudgetRow:
        return BudgetRow(
            cluster_size=users,
            honest_users=max(1, users - colluding_users),
            clusters=1,
            rounds=rounds,
            epsilon0=max(_own(release) for release in history),
            delta=delta,
            dimension=max(_values(release) for release in history),
            quantity=quantity,
            lower=bracket.lower,
            upper=bracket.upper,
            theorem=bracket.theorem,
            status=bracket.status,
            domain_ok=bracket.domain_ok,
            note="; ".join(part for part in (told, bracket.note) if part),
            role="bracket" if quantity == RELEASES and alone else "other",
        )

    kinds = ((PURE, spent.pure), (RENYI, spent.renyi), (LOSS, spent.loss_distribution))
    rows = [row(quantity, bracket) for quantity, bracket in kinds if bracket is not None]
    return [*rows, row(RELEASES, spent.best)]


def _own(release: CoveredRelease) -> float:
    """Return the epsilon of a single report; 0 for Gaussian noise, which has none."""
    if isinstance(release, RandomizedResponse):
        return release.epsilon0
    return release.epsilon if isinstance(release, PureRelease | ApproximateRelease) else 0.0


def _values(release: CoveredRelease) -> int:
    if isinstance(release, RandomizedResponse):
        return release.reports
    return release.steps if isinstance(release, GaussianMechanism | SubsampledGaussian) else 1


def _told(release: CoveredRelease, count: int) -> str:
    if isinstance(release, RandomizedResponse):
        what = (
            f"{release.reports} randomized responses of {release.categories} values, "
            f"epsilon0 = {release.epsilon0:g}"
        )
    elif isinstance(release, GaussianMechanism):
        what = (
            f"{release.steps} Gaussian releases, noise multiplier {release.noise_multiplier:g}, "
            f"{release.rho:.4g}-zCDP"
        )
    elif isinstance(release, SubsampledGaussian):
        what = (
            f"{release.steps} sampled Gaussian steps, noise multiplier "
            f"{release.noise_multiplier:g}, sampling probability {release.sampling_probability:g}"
        )
    elif isinstance(release, ApproximateRelease):
        what = f"a ({release.epsilon:g}, {release.delta:g})-DP release"
    else:
        what = f"a {release.epsilon:g}-DP release"
    return f"{count} x ({what})" if count > 1 else what
