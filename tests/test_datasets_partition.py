"""Users hold disjoint records of the declared labels, reproducibly, or a message says why not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.datasets.base import Dataset, FederatedData, LabelledImages
from privaudit.datasets.partition import SCHEMES, partition, single_record_users
from privaudit.errors import ConfigurationError


def numbered(train: list[int], test: list[int]) -> Dataset:
    """Make a data set with given numbers of records a class; each pixel is the record's number."""

    def part(counts: list[int], start: int) -> LabelledImages:
        labels = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
        numbers = np.arange(start, start + len(labels), dtype=np.float32)
        return LabelledImages(numbers.reshape(-1, 1, 1, 1), labels.astype(np.int64))

    return Dataset("numbered", part(train, 0), part(test, 100_000), len(train))


EVEN = numbered([60] * 10, [15] * 10)


def numbers(data: LabelledImages) -> list[int]:
    return data.images.ravel().astype(int).tolist()


def counts(data: LabelledImages, classes: int) -> np.ndarray:
    return np.bincount(data.labels, minlength=classes)


def split(dataset: Dataset = EVEN, seed: int = 0, **options: Any) -> FederatedData:
    options = {"users": 10, "scheme": "iid", "records_per_user": 20, **options}
    return partition(dataset, rng=np.random.default_rng(seed), **options)


def fingerprint(data: FederatedData) -> list[Any]:
    parts = [(c.party, numbers(c.train), numbers(c.test)) for c in data.clients]
    groups = None if data.groups is None else data.groups.tolist()
    return [parts, groups, numbers(data.auxiliary)]


class_counts = st.lists(st.integers(30, 90), min_size=2, max_size=7)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Dataset, dict[str, Any]]:
    train = draw(class_counts)
    test = draw(st.lists(st.integers(1, 12), min_size=len(train), max_size=len(train)))
    users = draw(st.integers(2, 6))
    options = {
        "users": users,
        "scheme": draw(st.sampled_from(SCHEMES)),
        "records_per_user": draw(st.none() | st.integers(1, 9)),
        "alpha": draw(st.floats(0.01, 50)),
        "groups": draw(st.integers(1, min(users, len(train)))),
        "test_records_per_user": draw(st.none() | st.integers(1, 15)),
        "auxiliary_records": draw(st.just(0) | st.integers(len(train), 400)),
        "seed": draw(st.integers(0, 2**32)),
    }
    return numbered(train, test), options


@settings(max_examples=150, deadline=None)
@given(cases())
def test_properties_of_every_partition(case: tuple[Dataset, dict[str, Any]]) -> None:
    dataset, options = case
    try:
        data = split(dataset, **options)
    except ConfigurationError as error:
        reason = str(error)
    else:
        check_partition(dataset, options, data)
        return
    # Only the paper's own Dirichlet split can leave a user without records here.
    assert options["scheme"] == "dirichlet"
    assert options["records_per_user"] is None
    assert "would hold no records" in reason


def check_partition(dataset: Dataset, options: dict[str, Any], data: FederatedData) -> None:
    classes, users = dataset.classes, options["users"]
    assert [c.party for c in data.clients] == [f"user-{n}" for n in range(1, users + 1)]

    held = [n for c in data.clients for n in numbers(c.train)] + numbers(data.auxiliary)
    assert len(set(held)) == len(held), "a record is held twice"
    for part in (data.auxiliary, *(c.train for c in data.clients)):
        np.testing.assert_array_equal(part.labels, dataset.train.labels[numbers(part)])

    if (records := options["records_per_user"]) is not None:
        assert {len(c.train) for c in data.clients} == {records}
    wanted = options["auxiliary_records"]
    if records is not None:
        left = len(dataset.train) - sum(len(c.train) for c in data.clients)
        assert len(data.auxiliary) == min(wanted, left)
    else:
        assert len(data.auxiliary) == min(wanted, max(classes, len(dataset.train) // 5))
    if wanted:
        assert set(data.auxiliary.labels) == set(range(classes))

    for client in data.clients:
        tested = numbers(client.test)
        assert len(tested) == len(set(tested)) > 0
        train, test = counts(client.train, classes), counts(client.test, classes)
        # Same distribution: each label within one record of its exact share, none foreign.
        exact = train / train.sum() * test.sum()
        assert (np.abs(test - exact) < 1).all()
        assert (test[train == 0] == 0).all()
        limit = options["test_records_per_user"] or max(
            1, min(train.sum(), len(dataset.test) // users)
        )
        assert test.sum() <= limit

    if options["scheme"] == "clustered":
        assert data.groups is not None
        assert np.ptp(np.bincount(data.groups, minlength=options["groups"])) <= 1
        runs = np.array_split(np.arange(classes), options["groups"])
        for client, group in zip(data.clients, data.groups, strict=True):
            assert set(client.train.labels) <= set(runs[group])
    else:
        assert data.groups is None


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(SCHEMES), st.none() | st.integers(5, 30), st.integers(0, 2**32))
def test_the_generator_decides_everything(scheme: str, records: int | None, seed: int) -> None:
    options = {"scheme": scheme, "records_per_user": records, "alpha": 5.0}
    first = fingerprint(split(seed=seed, **options))
    assert first == fingerprint(split(seed=seed, **options))
    assert first != fingerprint(split(seed=seed + 1, **options))


def test_clustered_is_the_papers_five_pairs_of_labels_with_four_users_each() -> None:
    data = split(users=20, scheme="clustered", records_per_user=20)
    assert data.groups is not None
    assert np.bincount(data.groups).tolist() == [4] * 5
    for client, group in zip(data.clients, data.groups, strict=True):
        assert set(client.train.labels) == {2 * group, 2 * group + 1}
        assert set(client.test.labels) == {2 * group, 2 * group + 1}


def test_a_users_number_does_not_tell_its_group() -> None:
    groups = {tuple(split(seed=s, scheme="clustered").groups.tolist()) for s in range(5)}  # type: ignore[union-attr]
    assert len(groups) == 5


def test_ten_classes_in_three_groups_are_runs_of_four_three_and_three() -> None:
    data = split(users=6, scheme="clustered", groups=3, records_per_user=40)
    labels: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
    for client, group in zip(data.clients, data.groups, strict=True):  # type: ignore[arg-type]
        labels[int(group)] |= set(client.train.labels.tolist())
    assert labels == {0: {0, 1, 2, 3}, 1: {4, 5, 6}, 2: {7, 8, 9}}


def test_iid_labels_follow_the_population() -> None:
    """A chi-square test over all users at a rate of one false alarm in 10,000."""
    from scipy.stats import chi2

    dataset = numbered([2000, 1000, 500], [9, 9, 9])
    data = split(dataset, users=20, records_per_user=100, auxiliary_records=0)
    expected = np.array([2000, 1000, 500]) / 3500 * 100
    statistic = sum(((counts(c.train, 3) - expected) ** 2 / expected).sum() for c in data.clients)
    assert statistic < chi2.ppf(1 - 1e-4, df=40)


@pytest.mark.parametrize("records", [None, 40])
def test_smaller_alpha_is_more_skewed(records: int | None) -> None:
    """The mean share of a user's largest label falls as alpha grows, down to the even share."""

    def largest_share(alpha: float) -> float:
        shares = [
            counts(c.train, 10).max() / len(c.train)
            for seed in range(10)
            for c in split(
                numbered([600] * 10, [15] * 10),
                seed=seed,
                users=10,
                scheme="dirichlet",
                records_per_user=records,
                alpha=alpha,
            ).clients
        ]
        return float(np.mean(shares))

    low, middle, high = (largest_share(alpha) for alpha in (0.1, 1.0, 1000.0))
    assert low > 0.5
    assert low > middle + 0.1
    assert middle > high + 0.1
    assert high < 0.2


def test_dirichlet_shares_have_the_moments_of_the_distribution() -> None:
    """Label shares of users with a fixed number of records: E = 1/10, Var = 0.09 / (10 alpha + 1).

    Sampling a finite number of records by largest remainders adds no more than rounding.
    """
    dataset = numbered([9000] * 10, [15] * 10)
    data = split(dataset, users=300, scheme="dirichlet", records_per_user=100, alpha=0.5, seed=4)
    shares = np.array([counts(c.train, 10) / 100 for c in data.clients])
    assert abs(shares.mean() - 0.1) < 1e-12
    # The variance of 3,000 shares; its standard error is about five per cent.
    assert shares.var() == pytest.approx(0.09 / 6, rel=0.2)


@pytest.mark.parametrize("alpha", [1e-300, 0.05, 1e200])
def test_dirichlet_users_hold_exactly_their_number_even_when_classes_run_out(alpha: float) -> None:
    data = split(scheme="dirichlet", records_per_user=59, alpha=alpha, auxiliary_records=10)
    assert [len(c.train) for c in data.clients] == [59] * 10
    assert (sum(counts(c.train, 10) for c in data.clients) == 59).all()


def test_without_a_number_of_records_every_training_record_is_given_out() -> None:
    data = split(scheme="dirichlet", records_per_user=None, alpha=5.0)
    held = [n for c in data.clients for n in numbers(c.train)] + numbers(data.auxiliary)
    assert sorted(held) == list(range(600))
    assert len(data.auxiliary) == 120


def test_test_records_are_shared_only_when_a_label_is_given_out() -> None:
    few = split(users=5, records_per_user=50, test_records_per_user=10)
    used = Counter(n for c in few.clients for n in numbers(c.test))
    per_label = sum(counts(c.test, 10) for c in few.clients)
    assert max(per_label) <= 15
    assert max(used.values()) == 1
    many = split(users=10, records_per_user=50, test_records_per_user=40)
    used = Counter(n for c in many.clients for n in numbers(c.test))
    assert max(used.values()) - min(used.values()) <= 4
    assert len(used) == 150


def test_a_user_of_one_rare_label_gets_fewer_test_records_not_others() -> None:
    dataset = numbered([100, 100], [3, 50])
    data = split(dataset, users=2, scheme="clustered", groups=2, test_records_per_user=30)
    sizes = {int(c.train.labels[0]): numbers(c.test) for c in data.clients}
    assert len(sizes[0]) == 3
    assert len(sizes[1]) == 30


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.just(0) | st.integers(10, 700), st.integers(0, 2**32))
def test_single_record_users_hold_one_record_each_with_labels_spread_evenly(
    users: int, auxiliary: int, seed: int
) -> None:
    data = single_record_users(
        EVEN, users=users, auxiliary_records=auxiliary, rng=np.random.default_rng(seed)
    )
    held = [n for c in data.clients for n in numbers(c.train)]
    assert len(held) == users
    everything = held + numbers(data.auxiliary)
    assert len(set(everything)) == len(everything)
    assert len(data.auxiliary) == min(auxiliary, 600 - users)
    labels = [int(c.train.labels[0]) for c in data.clients]
    assert np.ptp(np.bincount(labels, minlength=10)) <= 1
    for client in data.clients:
        assert set(client.test.labels) == set(client.train.labels)
        assert len(client.test) == 15
    assert data.groups is None


def test_single_record_users_are_deterministic_in_the_generator() -> None:
    def run(seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return fingerprint(single_record_users(EVEN, users=7, auxiliary_records=50, rng=rng))

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 1}, r"users must be at least 2 \(PA-CFL clusters users\), got 1"),
        ({"scheme": "dirichlt"}, r"unknown .* 'dirichlt'; .* Did you mean 'dirichlet'\?"),
        ({"records_per_user": 0}, r"records_per_user must be at least 1, got 0"),
        ({"test_records_per_user": 0}, r"test_records_per_user must be at least 1, got 0"),
        ({"scheme": "dirichlet", "alpha": 0.0}, r"alpha must be a positive number, got 0\.0"),
        ({"scheme": "dirichlet", "alpha": np.nan}, r"alpha must be a positive number, got nan"),
        (
            {"auxiliary_records": 9},
            r"auxiliary_records must be 0 or at least one a class \(10 for 'numbered'\), got 9",
        ),
        (
            {"users": 4, "scheme": "clustered"},
            r"groups must be from 1 to 4, .* users \(4\) and of classes \(10\); got 5",
        ),
        (
            {"users": 30, "scheme": "clustered", "groups": 11},
            r"groups must be from 1 to 10, .* got 11",
        ),
        (
            {"records_per_user": 60},
            r"10 users with 60 record\(s\) each need 600 records; 'numbered' has 590 besides the "
            r"auxiliary ones: give fewer users or fewer records a user",
        ),
        (
            {"records_per_user": 60, "scheme": "dirichlet"},
            r"need 600 records; 'numbered' has 590 besides",
        ),
        (
            {"records_per_user": 60, "scheme": "clustered"},
            r"2 users with 60 .* need 120 records; group 0 \(classes 0, 1\) of 'numbered' has 118",
        ),
        (
            {"users": 500, "records_per_user": None},
            r"500 users with 1 record\(s\) each need 500 records; 'numbered' has 480",
        ),
        (
            {"scheme": "dirichlet", "records_per_user": None, "alpha": 0.001},
            r"user-\d+ would hold no records: give fewer users than 10, .* a larger alpha",
        ),
    ],
)
def test_impossible_partitions_say_what_is_wrong_and_the_cure(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        split(**options)


def test_all_records_can_be_given_out_when_no_auxiliary_ones_are_wanted() -> None:
    data = split(records_per_user=60, auxiliary_records=0)
    assert len(data.auxiliary) == 0
    assert data.image_shape == (1, 1, 1)


@pytest.mark.parametrize(
    ("dataset", "part"),
    [(numbered([5, 0, 5], [5] * 3), "training"), (numbered([5] * 3, [5, 0, 5]), "test")],
)
def test_a_class_without_records_is_named(dataset: Dataset, part: str) -> None:
    message = rf"the {part} set of 'numbered' has no record of class 1"
    with pytest.raises(ConfigurationError, match=message):
        split(dataset, users=2, records_per_user=1)
    with pytest.raises(ConfigurationError, match=message):
        single_record_users(dataset, users=2, auxiliary_records=3, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (0, "users must be at least 1, got 0"),
        (600, r"600 users need 60 records of class 0; 'numbered' has 59 besides"),
    ],
)
def test_impossible_single_record_users_say_why(users: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        single_record_users(EVEN, users=users, auxiliary_records=10, rng=np.random.default_rng(0))
