"""Exact DTW and FastDTW: equality with a plain programme and with the fastdtw package."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fastdtw.fastdtw import fastdtw as package_fastdtw  # the pure Python one, not its Cython twin
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError
from privaudit.similarity import dtw, fastdtw, pairwise_distances
from privaudit.similarity._pairs import as_lane_type

SMALL_INTEGERS = st.integers(-4, 4)  # many ties
COORDINATES = st.integers(0, 582_025)
FLOATS = st.floats(-1e9, 1e9, allow_subnormal=False)
DECIMALS = st.integers(-20, 20).map(lambda i: i / 10)  # ties that rounding makes and breaks
ELEMENTS = [SMALL_INTEGERS, COORDINATES, FLOATS, DECIMALS]
SEQUENCE_PAIRS = st.sampled_from(ELEMENTS).flatmap(
    lambda element: st.tuples(
        st.lists(element, min_size=1, max_size=40), st.lists(element, min_size=1, max_size=40)
    )
)


def plain_dtw(x, y):
    """The textbook programme, in float64, one cell after the other."""
    d = np.full((len(x) + 1, len(y) + 1), np.inf)
    d[0, 0] = 0.0
    for r, s in itertools.product(range(len(x)), range(len(y))):
        cost = abs(float(x[r]) - float(y[s]))
        d[r + 1, s + 1] = cost + min(d[r, s + 1], d[r + 1, s], d[r, s])
    return d[-1, -1]


def package_distance(x, y, radius):
    """The package's distance, or None where it fails (see the test on radius 0)."""
    try:
        return package_fastdtw(x, y, radius=radius)[0]
    except IndexError:
        return None


def permutation_sequences(users, k, *, coordinates=582_026, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(coordinates, k, replace=False) for _ in range(users)])


@given(SEQUENCE_PAIRS)
@settings(max_examples=200, deadline=None)
def test_dtw_equals_the_plain_programme_bit_for_bit(pair):
    x, y = pair
    assert dtw(x, y) == plain_dtw(x, y)


@given(SEQUENCE_PAIRS)
@settings(max_examples=100, deadline=None)
def test_dtw_is_symmetric_and_zero_on_itself(pair):
    x, y = pair
    assert dtw(x, y) == dtw(y, x)
    assert dtw(x, x) == 0.0


@pytest.mark.parametrize("users", [2, 3, 6, 7, 17])  # 1, 3, 15, 21, 136 pairs; lanes hold 16
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 23])  # around the block of four rows
def test_matrix_equals_the_plain_programme_for_every_remainder_of_lanes_and_rows(users, k):
    sequences = permutation_sequences(users, k)
    expected = [[plain_dtw(x, y) for y in sequences] for x in sequences]
    np.testing.assert_array_equal(pairwise_distances(sequences, metric="dtw"), expected)


def test_kernel_type_is_int32_exactly_while_no_sum_can_overflow():
    k = 1455
    fitting = (2**31 - 2) // k
    row = np.full((1, k), 7, dtype=np.int64)
    assert as_lane_type(row, row + fitting)[0].dtype == np.int32
    assert as_lane_type(row, row + fitting + 1)[0].dtype == np.float64
    # The largest sums there are: every cell of every path costs the whole range.
    assert dtw(row[0], row[0] + fitting) == k * fitting
    assert dtw(row[0], row[0] + fitting + 1) == k * (fitting + 1)


@pytest.mark.parametrize("coordinates", [582_026, 4_910_922, 2**45])
def test_matrix_is_exact_in_both_kernel_types(coordinates):
    sequences = permutation_sequences(4, 300) * (coordinates // 582_026)
    matrix = pairwise_distances(sequences, metric="dtw")
    for i, j in itertools.combinations(range(4), 2):
        assert matrix[i, j] == plain_dtw(sequences[i], sequences[j])


@given(SEQUENCE_PAIRS, st.sampled_from([0, 1, 2, 5, 60]))
@settings(max_examples=500, deadline=None)
def test_fastdtw_equals_the_package(pair, radius):
    x, y = pair
    expected = package_distance(x, y, radius)
    if expected is None:
        with pytest.raises(ConfigurationError, match="radius 0"):
            fastdtw(x, y, radius=radius)
    else:
        assert fastdtw(x, y, radius=radius) == expected


@pytest.mark.parametrize("radius", [1, 2, 5])
@pytest.mark.parametrize("lengths", [(1455, 1455), (257, 256), (1000, 130), (3, 700)])
def test_fastdtw_equals_the_package_on_long_sequences(lengths, radius):
    sequences = permutation_sequences(2, 1455, seed=radius)
    x, y = sequences[0][: lengths[0]], sequences[1][: lengths[1]]
    assert fastdtw(x, y, radius=radius) == package_distance(x, y, radius)


def test_fastdtw_at_radius_zero_fails_exactly_where_the_package_does():
    rng = np.random.default_rng(5)
    outcomes = set()
    for n, m in itertools.product(range(1, 18), repeat=2):
        x, y = rng.integers(0, 9, n), rng.integers(0, 9, m)
        expected = package_distance(x, y, 0)
        try:
            found = fastdtw(x, y, radius=0)
        except ConfigurationError:
            found = None
        assert found == expected, (n, m)
        outcomes.add(expected is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize("radius", [1, 3])
def test_fastdtw_matrix_holds_the_distances_of_the_package(radius):
    sequences = permutation_sequences(7, 61)
    matrix = pairwise_distances(sequences, metric="fastdtw", radius=radius)
    for i, j in itertools.combinations(range(7), 2):
        assert matrix[i, j] == package_distance(sequences[i], sequences[j], radius)


@given(SEQUENCE_PAIRS)
@settings(max_examples=100, deadline=None)
def test_fastdtw_never_undercuts_dtw_and_meets_it_at_full_radius(pair):
    x, y = pair
    # Another path may add the same costs in another order: a few ulps on floats.
    assert fastdtw(x, y, radius=1) >= dtw(x, y) * (1 - 1e-12)
    assert fastdtw(x, y, radius=40) == dtw(x, y)


@pytest.mark.parametrize("metric", ["dtw", "fastdtw"])
def test_index_order_compares_the_sorted_sequences(metric):
    sequences = permutation_sequences(5, 64)
    np.testing.assert_array_equal(
        pairwise_distances(sequences, metric=metric, sequence_order="index"),
        pairwise_distances(np.sort(sequences, axis=1), metric=metric),
    )


def test_index_order_does_not_change_the_callers_array():
    sequences = permutation_sequences(3, 16)
    before = sequences.copy()
    pairwise_distances(sequences, metric="dtw", sequence_order="index")
    np.testing.assert_array_equal(sequences, before)


@pytest.mark.parametrize("function", [dtw, fastdtw])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([], "shape"),
        ([[1, 2]], "shape"),
        ([1.0, np.nan], "not finite"),
        ([1.0, np.inf], "not finite"),
        (["a"], "needed: numbers"),
        ([2**53], "integers beyond"),
    ],
)
def test_unusable_sequences_are_refused(function, x, message):
    with pytest.raises(ConfigurationError, match=message):
        function(x, [1, 2, 3])


@pytest.mark.parametrize("radius", [-1, 1.5, True])
def test_unusable_radius_is_refused(radius):
    with pytest.raises(ConfigurationError, match="radius"):
        fastdtw([1, 2], [1, 2], radius=radius)
