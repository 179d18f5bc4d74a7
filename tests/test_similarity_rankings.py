"""Rank-biased overlap, Jaccard and cosine distances against definitions and hand values."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.similarity import (
    cosine_distances,
    jaccard,
    pairwise_distances,
    rank_biased_overlap,
)
from privaudit.similarity._rank_kernel import BLOCK

PERSISTENCE = st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999])


def rankings(users, max_items=30):
    """Strategy: `users` rankings of one length over a small set of items, so that they overlap."""
    return st.integers(1, max_items).flatmap(
        lambda k: st.lists(
            st.permutations(range(max_items + 10)).map(lambda items: items[:k]),
            min_size=users,
            max_size=users,
        )
    )


def slow_rbo(x, y, p):
    """Equation 32 of Webber, Moffat and Zobel (2010) in exact arithmetic, set by set."""
    shorter, longer = sorted((x, y), key=len)
    s, length = len(shorter), len(longer)
    p = Fraction(p)

    def overlap(depth):
        return Fraction(len(set(shorter[:depth]) & set(longer[:depth])))

    total = sum(overlap(d) / d * p**d for d in range(1, length + 1))
    total += sum(overlap(s) * Fraction(d - s, s * d) * p**d for d in range(s + 1, length + 1))
    tail = (overlap(length) - overlap(s)) / length + overlap(s) / s
    return float((1 - p) / p * total + tail * p**length)


@given(rankings(1), rankings(1), PERSISTENCE)
@settings(max_examples=150, deadline=None)
def test_rbo_equals_its_definition_for_rankings_of_any_two_lengths(first, second, p):
    expected = slow_rbo(first[0], second[0], p)
    assert rank_biased_overlap(first[0], second[0], persistence=p) == pytest.approx(
        expected, rel=1e-12, abs=1e-15
    )


@given(rankings(4), PERSISTENCE)
@settings(max_examples=100, deadline=None)
def test_rbo_matrix_is_one_minus_the_definition(sequences, p):
    matrix = pairwise_distances(sequences, metric="rbo", persistence=p)
    for i, j in itertools.combinations(range(4), 2):
        assert matrix[i, j] == pytest.approx(1 - slow_rbo(sequences[i], sequences[j], p), abs=1e-14)


@pytest.mark.parametrize(
    ("x", "y", "p", "value"),
    [
        # (1-p)/p (1 p + 1/2 p^2 + 3/3 p^3) + p^3, by hand.
        ([1, 2, 3], [1, 3, 2], 0.9, 0.955),
        # Overlaps 0, 1, 2, 4, 5: (1/9)(0.405 + 0.486 + 0.6561 + 0.59049) + 0.59049.
        ([1, 2, 3, 4, 5], [2, 3, 4, 1, 5], 0.9, 0.828),
        ([1, 2], [2, 1], 0.5, 0.5),  # (1)(0 + 1/4) + 1/4
    ],
)
def test_rbo_has_the_values_computed_by_hand(x, y, p, value):
    assert rank_biased_overlap(x, y, persistence=p) == pytest.approx(value, abs=1e-12)
    assert pairwise_distances([x, y], metric="rbo", persistence=p)[0, 1] == pytest.approx(
        1 - value, abs=1e-12
    )


@given(rankings(1, max_items=60), PERSISTENCE)
@settings(max_examples=60, deadline=None)
def test_rbo_is_one_for_identical_and_zero_for_disjoint_rankings(sequences, p):
    x = np.array(sequences[0])
    other = x + 1000
    assert rank_biased_overlap(x, x, persistence=p) == pytest.approx(1.0, abs=1e-14)
    assert rank_biased_overlap(x, other, persistence=p) == 0.0
    matrix = pairwise_distances([x, x, other], metric="rbo", persistence=p)
    np.testing.assert_array_equal(matrix, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])


def test_rbo_weighs_the_top_more_than_the_bottom():
    x = np.arange(100)
    top, bottom = x.copy(), x.copy()
    top[[0, 1]] = top[[1, 0]]
    bottom[[98, 99]] = bottom[[99, 98]]
    matrix = pairwise_distances([x, top, bottom], metric="rbo", persistence=0.9)
    assert matrix[0, 1] > matrix[0, 2] > 0.0


def test_rbo_is_accurate_at_the_length_and_persistence_of_the_paper():
    rng = np.random.default_rng(3)
    x = rng.permutation(3000)[:1455]
    y = x.copy()
    y[200:] = rng.permutation(y[200:])
    y[1300:] += 10_000
    p = 0.999
    overlap, seen_x, seen_y, terms = 0, set(), set(), []
    for depth, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True), start=1):
        overlap += (a == b) + (a in seen_y) + (b in seen_x)
        seen_x.add(a)
        seen_y.add(b)
        terms.append(overlap / depth * p**depth)
    expected = (1 - p) / p * sum(terms) + overlap / len(x) * p ** len(x)
    assert rank_biased_overlap(x, y, persistence=p) == pytest.approx(expected, rel=1e-12)
    assert pairwise_distances([x, y], metric="rbo")[0, 1] == pytest.approx(1 - expected, abs=1e-13)


@given(rankings(5))
@settings(max_examples=100, deadline=None)
def test_jaccard_matrix_equals_the_set_formula(sequences):
    matrix = pairwise_distances(sequences, metric="jaccard")
    for i, j in itertools.product(range(5), repeat=2):
        a, b = set(sequences[i]), set(sequences[j])
        assert matrix[i, j] == 1 - len(a & b) / len(a | b)


@pytest.mark.parametrize("coordinates", [BLOCK, BLOCK + 1, 5 * BLOCK, 400 * BLOCK])
def test_rankings_that_span_several_look_up_tables_are_compared_in_full(coordinates):
    # With k = 100 items a row, the gaps between coordinates are closed beyond 100 tables.
    rng = np.random.default_rng(1)
    pool = np.unique(np.append(rng.integers(0, coordinates, 150), [0, coordinates - 1]))
    sequences = np.array([rng.permutation(pool)[:100] for _ in range(4)])
    by_set = pairwise_distances(sequences, metric="jaccard")
    by_rank = pairwise_distances(sequences, metric="rbo", persistence=0.9)
    for i, j in itertools.combinations(range(4), 2):
        assert by_set[i, j] == jaccard(sequences[i], sequences[j])
        expected = 1 - slow_rbo(sequences[i].tolist(), sequences[j].tolist(), 0.9)
        assert by_rank[i, j] == pytest.approx(expected, abs=1e-14)


def test_jaccard_of_one_pair_takes_unequal_lengths():
    assert jaccard([1, 2, 3, 4], [4, 9]) == 1 - 1 / 5


def test_jaccard_ignores_the_order_of_ranks():
    rng = np.random.default_rng(0)
    sequences = np.array([rng.permutation(50)[:20] for _ in range(4)])
    np.testing.assert_array_equal(
        pairwise_distances(sequences, metric="jaccard"),
        pairwise_distances(sequences, metric="jaccard", sequence_order="index"),
    )


def test_sparse_coordinates_cost_no_memory_of_their_size():
    sequences = [[2**50, 3, 2**52], [2**52, 2**50, 4]]
    assert pairwise_distances(sequences, metric="jaccard")[0, 1] == 0.5


@pytest.mark.parametrize("metric", ["jaccard", "rbo"])
def test_a_repeated_index_is_refused_with_its_row(metric):
    with pytest.raises(ConfigurationError, match=r"repeats the index 5 in row 1"):
        pairwise_distances([[1, 5, 2], [5, 2, 5]], metric=metric)


@pytest.mark.parametrize("persistence", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_persistence_outside_its_open_interval_is_refused(persistence):
    with pytest.raises(ConfigurationError, match="persistence"):
        rank_biased_overlap([1, 2], [2, 1], persistence=persistence)
    with pytest.raises(ConfigurationError, match="persistence"):
        pairwise_distances([[1, 2], [2, 1]], metric="rbo", persistence=persistence)


@pytest.mark.parametrize("x", [[], [[1]], [1.5], [-1, 2], [3, 3]])
def test_unusable_rankings_are_refused(x):
    with pytest.raises(ConfigurationError):
        jaccard(x, [1, 2])
    with pytest.raises(ConfigurationError):
        rank_biased_overlap([1, 2], x, persistence=0.9)


def test_cosine_distances_have_the_values_of_the_angles():
    vectors = [[1.0, 0.0], [3.0, 3.0], [0.0, -2.0], [-1.0, 0.0]]
    half = np.sqrt(0.5)
    expected = [
        [0.0, 1 - half, 1.0, 2.0],
        [1 - half, 0.0, 1 + half, 1 + half],
        [1.0, 1 + half, 0.0, 1.0],
        [2.0, 1 + half, 1.0, 0.0],
    ]
    matrix = cosine_distances(vectors)
    np.testing.assert_allclose(matrix, expected, atol=1e-15)
    np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0]], "shape"),
        ([1.0, 2.0], "shape"),
        ([[1.0, 0.0], [0.0, 0.0]], "vector 1 is zero"),
        ([[np.nan, 0.0], [0.0, 1.0]], "vector 0"),
    ],
)
def test_vectors_without_a_direction_are_refused(vectors, message):
    with pytest.raises(InvalidDataError, match=message):
        cosine_distances(vectors)
