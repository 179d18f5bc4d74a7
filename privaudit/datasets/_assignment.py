"""Which records go to which user, as positions in a data set."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privaudit.datasets.base import Dataset
from privaudit.errors import ConfigurationError

__all__ = [
    "Index",
    "clustered",
    "deal",
    "deal_tests",
    "dirichlet_by_class",
    "dirichlet_by_user",
    "draw_groups",
]

Index: TypeAlias = npt.NDArray[np.int64]


def _check_enough(available: int, users: int, records_per_user: int, source: str) -> None:
    if users * records_per_user > available:
        raise ConfigurationError(
            f"{users} users with {records_per_user} record(s) each need "
            f"{users * records_per_user} records; {source} has {available} besides the auxiliary "
            "ones: give fewer users or fewer records a user"
        )


def deal(
    stock: Index,
    users: int,
    records_per_user: int | None,
    source: str,
    *,
    rng: np.random.Generator,
) -> list[Index]:
    """Shuffle the stock and cut it into equal hands, as large as asked or as possible."""
    size = max(1, len(stock) // users) if records_per_user is None else records_per_user
    _check_enough(len(stock), users, size, source)
    return list(rng.permutation(stock)[: size * users].reshape(users, size))


def draw_groups(users: int, groups: int, classes: int, *, rng: np.random.Generator) -> Index:
    if not 1 <= groups <= min(users, classes):
        raise ConfigurationError(
            f"groups must be from 1 to {min(users, classes)}, the smaller of the number of users "
            f"({users}) and of classes ({classes}); got {groups}"
        )
    return rng.permutation(np.arange(users, dtype=np.int64) % groups)


def clustered(
    dataset: Dataset,
    available: Index,
    group_of: Index,
    groups: int,
    records_per_user: int | None,
    *,
    rng: np.random.Generator,
) -> list[Index]:
    held: list[Index] = [available[:0]] * len(group_of)
    for group, labels in enumerate(np.array_split(np.arange(dataset.classes), groups)):
        members = np.flatnonzero(group_of == group)
        stock = available[np.isin(dataset.train.labels[available], labels)]
        source = f"group {group} (classes {', '.join(map(str, labels))}) of '{dataset.name}'"
        hands = deal(stock, len(members), records_per_user, source, rng=rng)
        for member, hand in zip(members, hands, strict=True):
            held[member] = hand
    return held


def dirichlet_by_class(
    dataset: Dataset, available: Index, users: int, alpha: float, *, rng: np.random.Generator
) -> list[Index]:
    parts: list[list[Index]] = [[] for _ in range(users)]
    for label in range(dataset.classes):
        stock = rng.permutation(available[dataset.train.labels[available] == label])
        shares = rng.dirichlet(np.full(users, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(stock)).astype(np.int64)
        for user, part in enumerate(np.split(stock, cuts)):
            parts[user].append(part)
    return [np.concatenate(part) for part in parts]


def dirichlet_by_user(
    dataset: Dataset,
    available: Index,
    users: int,
    records_per_user: int,
    alpha: float,
    *,
    rng: np.random.Generator,
) -> list[Index]:
    _check_enough(len(available), users, records_per_user, f"'{dataset.name}'")
    stocks = [
        list(rng.permutation(available[dataset.train.labels[available] == label]))
        for label in range(dataset.classes)
    ]
    held = []
    for _ in range(users):
        shares = rng.dirichlet(np.full(dataset.classes, alpha))
        left = np.array([len(stock) for stock in stocks])
        counts = _apportion(records_per_user, shares, left)
        held.append(
            np.array(
                [
                    stocks[label].pop()
                    for label in range(dataset.classes)
                    for _ in range(counts[label])
                ],
                dtype=np.int64,
            )
        )
    return held


def _apportion(total: int, shares: npt.NDArray[np.float64], limits: Index) -> Index:
    """Divide a number in proportion to shares, by largest remainders, within limits.

    What a limit takes off is divided among the others by the same rule; where all shares of those
    are zero, in proportion to what they have left. ``total`` is at most the sum of the limits.
    """
    counts = np.zeros(len(shares), dtype=np.int64)
    while (missing := total - int(counts.sum())) > 0:
        room = limits - counts
        weights = np.where(room > 0, shares, 0.0)
        if weights.sum() <= 0:
            weights = room.astype(np.float64)
        exact = missing * weights / weights.sum()
        extra = np.floor(exact).astype(np.int64)
        order = np.argsort(extra - exact, kind="stable")
        extra[order[: missing - int(extra.sum())]] += 1
        counts += np.minimum(extra, room)
    return counts


def deal_tests(
    dataset: Dataset,
    held: list[Index],
    wanted: int | None,
    *,
    rng: np.random.Generator,
) -> list[Index]:
    """Draw a test set for each user with the label distribution of its training records."""
    stocks = [
        rng.permutation(np.flatnonzero(dataset.test.labels == label))
        for label in range(dataset.classes)
    ]
    limits = np.array([len(stock) for stock in stocks])
    given = np.zeros(dataset.classes, dtype=np.int64)
    tests = []
    for index in held:
        size = wanted
        if size is None:
            size = max(1, min(len(index), len(dataset.test) // len(held)))
        counts = np.bincount(dataset.train.labels[index], minlength=dataset.classes)
        present = counts > 0
        # Fewer records of all labels rather than another distribution.
        largest = int((limits[present] * len(index) // counts[present]).min())
        size = min(size, max(1, largest))
        numbers = _apportion(size, counts / len(index), np.where(present, limits, 0))
        tests.append(
            np.concatenate(
                [
                    stock[np.arange(start, start + number) % len(stock)]
                    for stock, start, number in zip(stocks, given, numbers, strict=True)
                ]
            )
        )
        given += numbers
    return tests
