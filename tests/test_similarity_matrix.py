"""What holds of the distance matrix under every metric, and how it is computed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError
from privaudit.similarity import METRICS, _compile, fastdtw, pairwise_distances


def sequences_of(users, k, *, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(4 * k)[:k] for _ in range(users)])


@pytest.mark.parametrize("metric", METRICS)
@given(users=st.integers(2, 9), k=st.integers(1, 20), seed=st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_matrix_is_symmetric_with_zero_diagonal_and_non_negative(metric, users, k, seed):
    matrix = pairwise_distances(sequences_of(users, k, seed=seed), metric=metric)
    assert matrix.shape == (users, users)
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 0.0)
    assert (matrix >= 0.0).all()


@pytest.mark.parametrize("metric", ["dtw", "jaccard", "rbo"])
def test_permuting_the_users_permutes_the_matrix(metric):
    sequences = sequences_of(19, 37)
    order = np.random.default_rng(1).permutation(19)
    matrix = pairwise_distances(sequences, metric=metric)
    permuted = pairwise_distances(sequences[order], metric=metric)
    np.testing.assert_array_equal(permuted, matrix[np.ix_(order, order)])


def test_fastdtw_reads_each_pair_from_the_lower_user_to_the_higher():
    # Ties are broken by direction, so FastDTW is not symmetric in its arguments (nor is the
    # package), and permuting users may change an entry; it is that of (lower, higher).
    assert fastdtw([3, 2, 2, 0, 0, 3], [2, 0, 4, 3, 3, 1]) == 7.0
    assert fastdtw([2, 0, 4, 3, 3, 1], [3, 2, 2, 0, 0, 3]) == 4.0
    sequences = np.random.default_rng(0).integers(0, 5, (20, 6))
    matrix = pairwise_distances(sequences, metric="fastdtw")
    for i in range(20):
        for j in range(i + 1, 20):
            assert matrix[i, j] == matrix[j, i] == fastdtw(sequences[i], sequences[j])


@pytest.mark.parametrize("metric", METRICS)
def test_number_of_threads_does_not_change_the_result(metric):
    sequences = sequences_of(30, 50)
    one = pairwise_distances(sequences, metric=metric, threads=1)
    three = pairwise_distances(sequences, metric=metric, threads=3)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("threads", [1, 2])
def test_progress_rises_to_the_number_of_pairs(metric, threads):
    calls = []
    pairwise_distances(
        sequences_of(25, 30),
        metric=metric,
        threads=threads,
        progress=lambda done, total: calls.append((done, total)),
    )
    done = [call[0] for call in calls]
    assert done == sorted(set(done))
    assert calls[-1] == (300, 300)
    assert {call[1] for call in calls} == {300}
    assert len(calls) > 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_the_progress_callback_reaches_the_caller(threads):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pairwise_distances(sequences_of(25, 30), metric="dtw", threads=threads, progress=interrupt)


@pytest.mark.parametrize("metric", METRICS)
def test_lists_and_other_integer_types_and_layouts_give_the_same_matrix(metric):
    sequences = sequences_of(5, 21)
    expected = pairwise_distances(sequences, metric=metric)
    for same in (
        sequences.tolist(),
        sequences.astype(np.uint16),
        np.asfortranarray(sequences),
        np.repeat(sequences, 2, axis=1)[:, ::2],
    ):
        np.testing.assert_array_equal(pairwise_distances(same, metric=metric), expected)


def test_an_unknown_metric_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigurationError, match=r"dtw, fastdtw, jaccard, rbo.*Did you mean 'jacc"):
        pairwise_distances([[1], [2]], metric="jacard")


def test_an_unknown_sequence_order_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigurationError, match=r"rank, index.*Did you mean 'index'"):
        pairwise_distances([[1], [2]], metric="dtw", sequence_order="indx")


def test_rank_biased_overlap_of_index_order_is_refused():
    with pytest.raises(ConfigurationError, match="discards"):
        pairwise_distances([[1], [2]], metric="rbo", sequence_order="index")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([1, 2, 3], "shape"),
        ([[1, 2, 3]], "shape"),
        ([[], []], "shape"),
        ([[1, 2], [3]], "one length"),
        ([[1.0, 2.0], [3.0, 4.0]], "type float64"),
        ([[True, False], [True, False]], "type bool"),
        ([[-1, 2], [3, 4]], "from -1 to 4"),
        ([[1, 2**53], [3, 4]], "allowed: 0 to"),
    ],
)
def test_unusable_sequences_are_refused(metric, sequences, message):
    with pytest.raises(ConfigurationError, match=message):
        pairwise_distances(sequences, metric=metric)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_unusable_number_of_threads_is_refused(threads):
    with pytest.raises(ConfigurationError, match="threads"):
        pairwise_distances([[1], [2]], metric="dtw", threads=threads)


def test_radius_zero_on_odd_lengths_is_refused_for_the_matrix_too():
    with pytest.raises(ConfigurationError, match="radius 0"):
        pairwise_distances([[1, 2, 3], [3, 2, 1]], metric="fastdtw", radius=0)


def test_importing_the_package_loads_neither_numba_nor_scikit_learn():
    code = (
        "import sys, privaudit.similarity; "
        "print(sorted({'numba', 'sklearn', 'scipy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_kernels_compile_without_any_writable_cache_folder(monkeypatch):
    import numba
    from numba.core import caching

    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])

    def double(x):
        return 2 * x

    with pytest.raises(RuntimeError, match="cannot cache"):  # what numba does by itself
        numba.njit(cache=True)(double)
    assert _compile.compiled(double)(21) == 42
