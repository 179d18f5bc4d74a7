"""Each computation of PA-CFL, against the paper's examples and transparent references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privaudit.protocols.pa_cfl.aggregation import (
    cluster_aggregates,
    fine_clustering,
    global_aggregate,
)
from privaudit.protocols.pa_cfl.preclustering import (
    davies_bouldin,
    partition_by_spanning_tree,
    spanning_tree,
)
from privaudit.protocols.pa_cfl.protection import clip, noise, shuffle_per_coordinate
from privaudit.protocols.pa_cfl.sequences import (
    global_permutation,
    permutation_sequence,
    remainder_coordinates,
)


def test_figure_4_of_the_paper_gives_its_permutation_sequence() -> None:
    update = np.zeros(36)
    # The paper counts coordinates from one.
    update[np.array([1, 3, 5, 10, 19, 21, 22]) - 1] = [9, 8, 7, -5, -8, 4, 3]
    sequence = permutation_sequence(update, k=int(0.2 * 36))
    assert (sequence + 1).tolist() == [1, 3, 19, 5, 10, 21, 22]


@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-4, 4, width=16)),
    st.data(),
)
def test_a_sequence_is_the_head_of_a_stable_sort_by_magnitude(
    update: np.ndarray, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(update)))
    reference = sorted(range(len(update)), key=lambda e: (-abs(float(update[e])), e))[:k]
    assert permutation_sequence(update, k=k).tolist() == reference


@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_global_sequence_sorts_coordinates_by_the_papers_score(
    users: int, k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sequences = np.stack([rng.permutation(12)[:k] for _ in range(users)])
    scores: dict[int, float] = {}
    for sequence in sequences.tolist():
        for position, coordinate in enumerate(sequence, start=1):
            scores[coordinate] = scores.get(coordinate, 0.0) + 1 / (1 + position)
    got = global_permutation(sequences, dimension=12, k=k).tolist()
    assert len(got) == k
    assert len(set(got)) == k
    values = [scores[e] for e in got]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(values))
    left_out = [s for e, s in scores.items() if e not in got]
    assert not left_out or max(left_out) <= min(values) + 1e-12


def test_the_remainder_is_every_other_coordinate_in_ascending_order() -> None:
    permutation = np.array([5, 0, 3])
    rest = remainder_coordinates(permutation, dimension=7)
    assert rest.tolist() == [1, 2, 4, 6]


def _distance_matrix(points: np.ndarray) -> np.ndarray:
    return np.abs(points[:, None] - points[None, :])


def test_well_separated_pairs_are_cut_apart() -> None:
    points = np.array([0.0, 0.1, 10.0, 10.1, 30.0, 30.1])
    partition = partition_by_spanning_tree(_distance_matrix(points))
    assert partition.assignment.tolist() == [0, 0, 1, 1, 2, 2]
    assert partition.davies_bouldin < 0.1


def test_stopping_at_the_first_rejection_leaves_one_cluster_where_skipping_finds_two() -> None:
    # The heaviest edge isolates one user, which the size rule rejects.
    points = np.array([0.0, 0.1, 5.0, 5.1, 50.0])
    distances = _distance_matrix(points)
    assert len(np.unique(partition_by_spanning_tree(distances, edge_rule="stop").assignment)) == 1
    skipped = partition_by_spanning_tree(distances, edge_rule="skip").assignment
    assert skipped.tolist() == [0, 0, 1, 1, 1]


def test_identical_sequences_keep_the_tree_spanning_and_coincident_medoids_are_flagged() -> None:
    distances = np.zeros((6, 6))
    assert len(spanning_tree(distances)) == 5
    partition = partition_by_spanning_tree(distances)
    assert np.bincount(partition.assignment).min() >= 2
    assert partition.coincident_medoids == (len(np.unique(partition.assignment)) > 1)


@given(st.integers(4, 9), st.integers(0, 2**32 - 1))
def test_every_pre_cluster_has_two_users_and_no_removal_is_left_that_would_be_valid(
    users: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    distances = _distance_matrix(rng.normal(size=users))
    partition = partition_by_spanning_tree(distances)
    assert np.bincount(partition.assignment).min() >= 2
    index, _ = davies_bouldin(distances, partition.assignment)
    assert index == partition.davies_bouldin or len(np.unique(partition.assignment)) == 1


def test_davies_bouldin_with_medoids_matches_a_hand_computation() -> None:
    points = np.array([0.0, 1.0, 3.0, 10.0, 12.0])
    assignment = np.array([0, 0, 0, 1, 1])
    # Medoids 1.0 and 10.0 (first of a tie); dispersions (1 + 0 + 2) / 3 and (0 + 2) / 2.
    index, coincident = davies_bouldin(_distance_matrix(points), assignment)
    assert index == pytest.approx((1.0 + 1.0) / 9.0)
    assert not coincident


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100))
def test_clipping_bounds_the_norm_and_keeps_the_direction(seed: int, threshold: float) -> None:
    vector = np.random.default_rng(seed).normal(size=20)
    clipped = clip(vector, threshold=threshold)
    assert np.linalg.norm(clipped) <= threshold * (1 + 1e-12) or np.allclose(clipped, vector)
    assert np.allclose(np.cross(clipped[:3], vector[:3]), 0, atol=1e-9)


def test_the_noise_is_laplace_of_scale_two_thresholds_over_epsilon0() -> None:
    from scipy import stats

    report = noise(np.zeros(40_000), threshold=1.5, epsilon0=0.5, rng=np.random.default_rng(0))
    test = stats.kstest(report.astype(np.float64), stats.laplace(scale=2 * 1.5 / 0.5).cdf)
    assert test.pvalue > 0.01
    wrong = stats.kstest(report.astype(np.float64), stats.laplace(scale=1.5 / 0.5).cdf)
    assert wrong.pvalue < 1e-6


def test_the_shuffle_permutes_each_coordinate_uniformly_and_on_its_own() -> None:
    rng = np.random.default_rng(0)
    reports = np.tile(np.arange(3, dtype=np.float32)[:, None], (1, 60_000))
    shuffled = shuffle_per_coordinate(reports, rng=rng)
    assert (np.sort(shuffled, axis=0) == reports).all()
    orders, counts = np.unique(shuffled, axis=1, return_counts=True)
    assert orders.shape[1] == 6
    # Each of the 6 orders has probability 1/6; five standard deviations.
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(60_000 * 5 / 36)
    neighbours = (shuffled[:, :-1] == shuffled[:, 1:]).all(axis=0).mean()
    assert neighbours == pytest.approx(1 / 6, abs=0.01)


def _brute_fine_step(vectors: np.ndarray, assignment: np.ndarray, weights: np.ndarray) -> list[int]:
    labels = sorted(set(assignment.tolist()))
    centroids = []
    for label in labels:
        members = assignment == label
        centroids.append(np.average(vectors[members], axis=0, weights=weights[members]))
    result = []
    for vector in vectors:
        cosines = [v @ vector / np.linalg.norm(v) / np.linalg.norm(vector) for v in centroids]
        result.append(int(np.argmax(cosines)))
    return result


@given(st.integers(0, 2**32 - 1))
def test_a_converged_fine_clustering_is_a_fixed_point_of_the_reassignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(8, 5)).astype(np.float32)
    weights = rng.integers(1, 9, size=8).astype(np.float64)
    fine = fine_clustering(vectors, rng.integers(0, 3, size=8), weights=weights, iterations=100)
    if fine.converged:
        assert _brute_fine_step(vectors.astype(np.float64), fine.assignment, weights) == (
            fine.assignment.tolist()
        )


def test_fine_clustering_moves_a_misplaced_user_and_drops_an_emptied_cluster() -> None:
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 0.05]], dtype=np.float32)
    fine = fine_clustering(
        vectors, np.array([0, 0, 1, 1, 2]), weights=np.array([9, 9, 9, 9, 1.0]), iterations=50
    )
    assert fine.converged
    assert fine.assignment[4] == fine.assignment[0] or len(set(fine.assignment)) == 3
    assert fine.assignment[0] != fine.assignment[2]


def test_a_cap_on_the_iterations_is_reported_as_not_converged() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(12, 3)).astype(np.float32)
    fine = fine_clustering(vectors, np.arange(12) % 4, weights=np.ones(12), iterations=1)
    assert not fine.converged
    assert fine.assignment.tolist() == (np.arange(12) % 4).tolist()


def test_aggregates_are_softmax_weighted_by_the_cosine_to_the_centroid() -> None:
    vectors = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]], dtype=np.float32)
    assignment = np.array([0, 0, 1])
    sizes = np.array([1.0, 3.0, 2.0])
    centroid = (1 * vectors[0] + 3 * vectors[1]) / 4
    cosines = [v @ centroid / np.linalg.norm(v) / np.linalg.norm(centroid) for v in vectors[:2]]
    weights = np.exp(cosines) / np.exp(cosines).sum()
    aggregates = cluster_aggregates(vectors, assignment, centroid_weights=sizes)
    assert aggregates[0] == pytest.approx(weights[0] * vectors[0] + weights[1] * vectors[1])
    assert aggregates[1] == pytest.approx(vectors[2])
    total = global_aggregate(aggregates, assignment)
    expected = 2 / 3 * aggregates[0] / np.linalg.norm(aggregates[0])
    expected = expected + 1 / 3 * aggregates[1] / np.linalg.norm(aggregates[1])
    assert total == pytest.approx(expected)
