"""Labels from a part of a gradient: the rules, on cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inversion_runs import world

from privaudit.attacks.inversion._labels import (
    candidates_from_values,
    label_of_whole,
    labels_from_ranks,
    rows_of,
)

#: Three classes of two features: weights at 10 to 15, biases at 16 to 18.
LAYOUT = (10, 16, 2)


def test_coordinates_lie_in_the_rows_of_their_classes() -> None:
    indices = np.array([[9, 10, 11, 12, 15, 16, 18, 19]])
    assert rows_of(indices, LAYOUT, 3).tolist() == [[-1, 0, 0, 1, 2, 0, 2, -1]]


@pytest.mark.parametrize(
    ("indices", "values", "allowed"),
    [
        ([10, 12, 14], [0.1, -0.5, 0.2], [1]),  # one row is negative
        ([10, 11, 12], [0.3, -0.4, -0.2], [1]),  # sums, not single entries, decide
        ([10, 12, 3], [0.1, 0.2, -9.0], [2]),  # nothing negative seen: a row not seen
        ([3, 4], [1.0, -1.0], [0, 1, 2]),  # nothing of the last layer seen
        ([10, 12, 14], [0.1, 0.2, 0.3], [0, 1, 2]),  # contradictory: every row positive
    ],
)
def test_labels_that_known_values_allow(indices, values, allowed) -> None:
    found = candidates_from_values(
        np.array([indices]), np.array([values], dtype=np.float32), LAYOUT, 3
    )
    assert np.flatnonzero(found[0]).tolist() == allowed


def test_the_label_from_ranks_weighs_early_coordinates_most() -> None:
    # Class 1 comes first; class 2 has two later entries: 1 > 1/2 + 1/3.
    labels, seen = labels_from_ranks(np.array([[12, 14, 18], [0, 1, 2]]), LAYOUT, 3)
    assert labels[0] == 1
    assert seen.tolist() == [True, False]


def test_labels_of_whole_gradients_are_exact_for_single_records() -> None:
    w = world(112, 30)
    assert label_of_whole(w.gradients, w.spec).tolist() == w.records.labels.tolist()


@given(st.permutations(range(3)), st.lists(st.integers(10, 18), min_size=1, unique=True))
def test_renaming_classes_renames_the_label(names: list[int], sequence: list[int]) -> None:
    def renamed(coordinate: int) -> int:
        if coordinate >= 16:
            return 16 + names[coordinate - 16]
        label, feature = divmod(coordinate - 10, 2)
        return 10 + 2 * names[label] + feature

    weights = np.zeros(3)
    for rank, label in enumerate(rows_of(np.array(sequence), LAYOUT, 3)):
        weights[label] += 1 / (1 + rank)
    before, _ = labels_from_ranks(np.array([sequence]), LAYOUT, 3)
    after, _ = labels_from_ranks(np.array([[renamed(c) for c in sequence]]), LAYOUT, 3)
    if np.sum(np.isclose(weights, weights.max())) == 1:  # ties go to the first class
        assert after[0] == names[before[0]]
