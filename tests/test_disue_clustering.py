"""Affinity propagation with its fallbacks, cosines, and the other clusterings' building blocks."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn.cluster
from scipy.spatial.distance import pdist, squareform
from sklearn.exceptions import ConvergenceWarning

from privaudit.errors import InvalidDataError
from privaudit.protocols.disue.aggregation import (
    FRACTION_BITS,
    average_of_groups,
    fixed_point,
    weighted_mean,
)
from privaudit.protocols.disue.clustering import (
    affinity_propagation,
    cosine_similarities,
    members_of,
    numbered,
)
from privaudit.protocols.disue.rivals import class_subspaces, smallest_angles


def blocks(*sizes: int) -> np.ndarray:
    """Similarities near 1 within blocks and near 0 between them."""
    label = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(0).uniform(0, 0.02, (len(label), len(label)))
    matrix = np.where(label[:, None] == label, 0.95, 0.05) + (noise + noise.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def unruly(seed: int) -> np.ndarray:
    """Random similarities; for some seeds damping 0.5 does not converge on them."""
    half = np.random.default_rng(seed).random((5, 5))
    matrix = (half + half.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def test_affinity_propagation_finds_blocks() -> None:
    found = affinity_propagation(blocks(4, 3, 5), seed=0)
    assert found.assignment.tolist() == [0] * 4 + [1] * 3 + [2] * 5
    assert found.warning == ""


@pytest.mark.parametrize("clients", [1, 2])
def test_one_or_two_clients_are_one_group_with_a_warning(clients: int) -> None:
    found = affinity_propagation(blocks(*[1] * clients), seed=0)
    assert found.assignment.tolist() == [0] * clients
    assert f"{clients} client(s)" in found.warning


@pytest.mark.parametrize("seed", [141, 161, 173, 204])
def test_where_it_does_not_converge_damping_is_raised_and_told(seed: int) -> None:
    matrix = unruly(seed)
    model = sklearn.cluster.AffinityPropagation(affinity="precomputed", random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = affinity_propagation(matrix, seed=0)
    assert "damping 0.9" in found.warning
    again = sklearn.cluster.AffinityPropagation(
        affinity="precomputed", damping=0.9, max_iter=1000, random_state=0
    )
    assert found.assignment.tolist() == numbered(again.fit(matrix).labels_).tolist()


class Failing:
    """Stands for scikit-learn's class where no setting converges."""

    tried: ClassVar[list[float]] = []
    warns: ClassVar[bool]

    def __init__(self, *, damping: float, **_: Any) -> None:
        self.tried.append(damping)

    def fit(self, matrix: np.ndarray) -> Failing:
        self.labels_ = np.arange(len(matrix)) if self.warns else np.full(len(matrix), -1)
        if self.warns:
            warnings.warn("did not converge", ConvergenceWarning, stacklevel=2)
        return self


@pytest.mark.parametrize("warns", [True, False])
def test_where_nothing_converges_all_are_one_group_and_it_is_told(
    warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sklearn.cluster, "AffinityPropagation", Failing)
    monkeypatch.setattr(Failing, "warns", warns, raising=False)
    Failing.tried.clear()
    found = affinity_propagation(blocks(2, 2), seed=0)
    assert Failing.tried == [0.5, 0.9]
    assert found.assignment.tolist() == [0] * 4
    assert "did not converge" in found.warning


def test_clients_that_are_all_alike_are_one_group() -> None:
    assert affinity_propagation(np.ones((4, 4)), seed=0).assignment.tolist() == [0] * 4


@pytest.mark.parametrize(
    "matrix", [np.ones((2, 3)), np.array([[1.0, 0.2], [0.3, 1.0]]), np.full((3, 3), np.nan)]
)
def test_what_is_no_similarity_matrix_is_refused(matrix: np.ndarray) -> None:
    with pytest.raises(InvalidDataError, match="symmetric matrix of finite numbers"):
        affinity_propagation(matrix, seed=0)


def test_cosines_are_those_of_scipy() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    expected = 1 - squareform(pdist(vectors.astype(np.float64), "cosine"))
    assert cosine_similarities(vectors) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_vector_without_direction_has_no_cosine(value: float) -> None:
    vectors = np.ones((3, 4))
    vectors[1] = value
    with pytest.raises(InvalidDataError, match=r"vector 1 is not defined: its norm is"):
        cosine_similarities(vectors)


def test_members_are_the_positions_of_each_group() -> None:
    assert members_of(np.array([0, 1, 0, 2])) == ((0, 2), (1,), (3,))


def test_means_are_weighted_by_records_or_equal() -> None:
    models = np.array([[0.0, 4.0], [8.0, 0.0]], dtype=np.float32)
    records = np.array([1, 3])
    assert weighted_mean(models, records).tolist() == [6.0, 1.0]
    assert average_of_groups(models, records, weights="records").tolist() == [6.0, 1.0]
    assert average_of_groups(models, records, weights="equal").tolist() == [4.0, 2.0]


def test_fixed_point_keeps_24_bits_and_refuses_what_could_overflow() -> None:
    found = fixed_point(np.array([0.5, -1.25], dtype=np.float32), records=3)
    assert (found / 2**FRACTION_BITS).tolist() == [1.5, -3.75]
    for bad in (np.inf, np.nan, 2.0**31):
        with pytest.raises(InvalidDataError, match=r"at most 2\^31"):
            fixed_point(np.array([bad], dtype=np.float32), records=1)


def test_subspaces_are_orthonormal_within_a_class_and_lead_with_the_mean_image() -> None:
    rng = np.random.default_rng(0)
    images = rng.random((9, 1, 4, 4), dtype=np.float32) * 0.1
    labels = np.array([0, 0, 0, 0, 3, 3, 3, 3, 7])
    images[labels == 0, :, 0] += 1
    vectors = class_subspaces(images, labels, count=3)
    assert vectors.shape == (16, 3 + 3 + 1)
    for columns in (vectors[:, :3], vectors[:, 3:6]):
        assert columns.T @ columns == pytest.approx(np.eye(3), abs=1e-5)
    mean = images[labels == 0].mean(axis=0).ravel()
    assert abs(vectors[:, 0] @ mean) / np.linalg.norm(mean) > 0.99


def test_the_smallest_angle_between_lines_is_the_angle_between_them() -> None:
    lines = [
        np.array([[np.cos(a)], [np.sin(a)], [0.0]], dtype=np.float32)
        for a in np.deg2rad([0.0, 30.0, 200.0])
    ]
    expected = [[0, 30, 20], [30, 0, 10], [20, 10, 0]]
    assert smallest_angles(lines) == pytest.approx(np.array(expected), abs=1e-4)
