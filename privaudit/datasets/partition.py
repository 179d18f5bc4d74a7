"""Spread a data set over the users of a federation.

The schemes are those of the PA-CFL paper, section 7.1, and the independent one:

``iid``
    Every user draws from all records alike.
``dirichlet`` (Non-IID Set-1)
    Label skew. Without ``records_per_user`` the records of each class are divided among the users
    in proportions from Dirichlet(alpha, ..., alpha), as the paper states it; users then hold
    different numbers of records. With it, each user draws its own label proportions from
    Dirichlet(alpha, ..., alpha) over the classes and holds exactly that many records, which are
    dealt to the users in turn; where a class runs out, the remaining ones take its share.
``clustered`` (Non-IID Set-2)
    The classes, ascending, are cut into ``groups`` runs as even as possible (longer runs first):
    (0, 1), (2, 3), ... for ten classes and five groups. The users are divided as evenly as
    possible over the groups, at random, so that a user's number does not tell its group. A user
    draws from the records of its group's classes alike.

No record is held by two users, and the auxiliary records are held by none.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from privaudit.datasets._assignment import (
    Index,
    clustered,
    deal,
    deal_tests,
    dirichlet_by_class,
    dirichlet_by_user,
    draw_groups,
)
from privaudit.datasets.base import ClientData, Dataset, FederatedData
from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["SCHEMES", "Scheme", "partition", "single_record_users"]

Scheme: TypeAlias = Literal["iid", "dirichlet", "clustered"]

#: Names of the schemes.
SCHEMES: tuple[str, ...] = get_args(Scheme)

# Without a number of records a user, at least four fifths of the training records go to users.
_LARGEST_AUXILIARY_SHARE = 0.2
_SINGLE_RECORD_TEST = 20


def partition(
    dataset: Dataset,
    *,
    users: int,
    scheme: Scheme,
    records_per_user: int | None,
    alpha: float = 0.5,
    groups: int = 5,
    test_records_per_user: int | None = None,
    auxiliary_records: int = 1000,
    rng: np.random.Generator,
) -> FederatedData:
    """Give each of several users disjoint training records and a test set of the same labels.

    Parameters
    ----------
    dataset : Dataset
    users : int
        At least 2. Parties are named ``user-1`` to ``user-N``.
    scheme : {"iid", "dirichlet", "clustered"}
        See the module's documentation.
    records_per_user : int or None
        Training records of each user; ``None`` divides all that are not auxiliary.
    alpha : float
        Concentration of ``dirichlet``; smaller is more skewed. Other schemes ignore it.
    groups : int
        Number of groups of ``clustered``. Other schemes ignore it.
    test_records_per_user : int, optional
        At most so many test records a user; by default as many as it has training records, or the
        number of test records over the number of users if that is less. The label distribution is
        that of the user's training records, up to rounding; where the test set has too few records
        of a label for it, the user gets fewer test records, and never one twice. Test records of
        one user are given to another only when all of the label are given out.
    auxiliary_records : int
        At most so many records that no user holds: 0, or at least one a class. There are fewer
        when fewer are left; without ``records_per_user`` they are at most a fifth of the training
        records, or one a class. One a class is set aside before the users choose, so that every
        class occurs.
    rng : numpy.random.Generator

    Returns
    -------
    FederatedData
        ``groups`` is given by ``clustered`` only.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range, there are too few records, or a user would have none.
    """
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"unknown partition scheme '{scheme}'; schemes are {', '.join(SCHEMES)}."
            f"{did_you_mean(scheme, SCHEMES)}"
        )
    if users < 2:
        raise ConfigurationError(f"users must be at least 2 (PA-CFL clusters users), got {users}")
    for name, value in (
        ("records_per_user", records_per_user),
        ("test_records_per_user", test_records_per_user),
    ):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} must be at least 1, got {value}")
    if scheme == "dirichlet" and not (np.isfinite(alpha) and alpha > 0):
        raise ConfigurationError(f"alpha must be a positive number, got {alpha}")

    total = len(dataset.train)
    most_auxiliary = auxiliary_records
    if records_per_user is None:
        most_auxiliary = min(auxiliary_records, int(_LARGEST_AUXILIARY_SHARE * total))
    reserved = _reserve_auxiliary(dataset, auxiliary_records, rng=rng)
    if records_per_user is None:
        # What is left over is known beforehand, so the whole auxiliary set is drawn first.
        reserved = _top_up(reserved, total, (), most_auxiliary, rng=rng)
    available = np.setdiff1d(np.arange(total), reserved)

    group_of: Index | None = None
    if scheme == "clustered":
        group_of = draw_groups(users, groups, dataset.classes, rng=rng)
        held = clustered(dataset, available, group_of, groups, records_per_user, rng=rng)
    elif scheme == "iid":
        held = deal(available, users, records_per_user, f"'{dataset.name}'", rng=rng)
    elif records_per_user is None:
        held = dirichlet_by_class(dataset, available, users, alpha, rng=rng)
    else:
        held = dirichlet_by_user(dataset, available, users, records_per_user, alpha, rng=rng)
    for user, index in enumerate(held, start=1):
        if len(index) == 0:
            raise ConfigurationError(
                f"user-{user} would hold no records: give fewer users than {users}, more records, "
                "or, with 'dirichlet', a larger alpha"
            )

    auxiliary = _top_up(reserved, total, held, most_auxiliary, rng=rng)
    tests = deal_tests(dataset, held, test_records_per_user, rng=rng)
    return _federate(dataset, held, tests, group_of, auxiliary)


def single_record_users(
    dataset: Dataset,
    *,
    users: int,
    auxiliary_records: int,
    rng: np.random.Generator,
) -> FederatedData:
    """Give each user exactly one record, for experiments on gradient inversion.

    Parameters
    ----------
    dataset : Dataset
    users : int
        At least 1. Their labels are spread over the classes as evenly as possible, in random order.
    auxiliary_records : int
        As for :func:`partition`.
    rng : numpy.random.Generator

    Returns
    -------
    FederatedData
        A user's test set is up to 20 test records of its record's class, which users of the same
        class may share; ``groups`` is None.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range or there are too few records.
    """
    if users < 1:
        raise ConfigurationError(f"users must be at least 1, got {users}")
    total = len(dataset.train)
    reserved = _reserve_auxiliary(dataset, auxiliary_records, rng=rng)
    available = np.setdiff1d(np.arange(total), reserved)
    # Whole rounds through the classes, each in its own order: any prefix is as even as it can be.
    rounds = [rng.permutation(dataset.classes) for _ in range(-(-users // dataset.classes))]
    labels = np.concatenate(rounds)[:users]
    held: list[Index] = [available[:0]] * users
    for label in range(dataset.classes):
        takers = np.flatnonzero(labels == label)
        stock = available[dataset.train.labels[available] == label]
        if len(takers) > len(stock):
            raise ConfigurationError(
                f"{users} users need {len(takers)} records of class {label}; "
                f"'{dataset.name}' has {len(stock)} besides the auxiliary ones: give fewer users"
            )
        for taker, record in zip(takers, rng.permutation(stock), strict=False):
            held[taker] = np.array([record])
    auxiliary = _top_up(reserved, total, held, auxiliary_records, rng=rng)
    tests = deal_tests(dataset, held, _SINGLE_RECORD_TEST, rng=rng)
    return _federate(dataset, held, tests, None, auxiliary)


def _federate(
    dataset: Dataset,
    held: list[Index],
    tests: list[Index],
    group_of: Index | None,
    auxiliary: Index,
) -> FederatedData:
    clients = tuple(
        ClientData(f"user-{user}", dataset.train.take(train), dataset.test.take(test))
        for user, (train, test) in enumerate(zip(held, tests, strict=True), start=1)
    )
    return FederatedData(
        dataset=dataset.name,
        classes=dataset.classes,
        clients=clients,
        groups=group_of,
        auxiliary=dataset.train.take(auxiliary),
    )


def _reserve_auxiliary(dataset: Dataset, wanted: int, *, rng: np.random.Generator) -> Index:
    """Draw one training record of each class, or none if none are wanted."""
    for part, data in (("training", dataset.train), ("test", dataset.test)):
        counts = np.bincount(data.labels, minlength=dataset.classes)
        if counts.min() == 0:
            raise ConfigurationError(
                f"the {part} set of '{dataset.name}' has no record of class {counts.argmin()}; "
                "a partition needs every class in both"
            )
    if wanted == 0:
        return np.empty(0, dtype=np.int64)
    if wanted < dataset.classes:
        raise ConfigurationError(
            f"auxiliary_records must be 0 or at least one a class ({dataset.classes} for "
            f"'{dataset.name}'), got {wanted}"
        )
    labels = dataset.train.labels
    return np.array(
        [rng.choice(np.flatnonzero(labels == label)) for label in range(dataset.classes)]
    )


def _top_up(
    reserved: Index,
    total: int,
    held: tuple[Index, ...] | list[Index],
    wanted: int,
    *,
    rng: np.random.Generator,
) -> Index:
    """Add records that nobody holds until there are ``wanted``, or as many as are left."""
    free = np.setdiff1d(np.arange(total), np.concatenate([reserved, *held]))
    more = rng.permutation(free)[: max(0, wanted - len(reserved))]
    return np.concatenate([reserved, more])
