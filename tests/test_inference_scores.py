"""Scores of inferred labels, on values worked out by hand."""

import numpy as np
import pytest

from privaudit.attacks.base import Guesses
from privaudit.errors import ConfigurationError
from privaudit.scoring.labels import dominant_label, label_accuracy, label_overlap, total_variation
from privaudit.transcript import Truth


def guess(*values):
    return Guesses(
        tuple(f"user-{i}" for i in range(len(values))),
        tuple(np.asarray(v) for v in values),
        np.zeros(len(values)),
    )


def truth(*labels):
    return Truth({f"user-{i}": {"labels": np.array(v)} for i, v in enumerate(labels)})


def values(scores):
    return list(scores.per_target.values())


def test_label_accuracy_is_for_single_records():
    scores = label_accuracy(guess(3, 1), truth([3], [2]))
    assert scores.per_target == {"user-0": 1.0, "user-1": 0.0}
    assert scores.statistic == "proportion"
    with pytest.raises(ConfigurationError, match="dominant_label"):
        label_accuracy(guess(3), truth([3, 3]))


def test_any_of_several_most_frequent_labels_is_the_dominant_one():
    labels = [0, 0, 2, 2, 1]
    assert values(dominant_label(guess(0, 2, 1, 9), truth(*[labels] * 4))) == [1, 1, 0, 0]
    assert values(dominant_label(guess([0.1, 0.2, 0.7]), truth(labels))) == [1]


def test_overlap_and_total_variation_add_up_to_one():
    guesses, true = guess([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]), truth([0, 0, 1, 2], [0, 1])
    assert values(label_overlap(guesses, true)) == [0.75, 0.0]
    assert values(total_variation(guesses, true)) == [0.25, 1.0]
    assert not total_variation(guesses, true).higher_is_leakier


def test_a_class_counts_as_a_histogram_of_that_class_alone():
    assert values(label_overlap(guess(1, 5), truth([1, 1, 0, 0], [0]))) == [0.5, 0.0]


def test_a_histogram_that_does_not_fit_is_refused():
    with pytest.raises(ConfigurationError, match="sums to one"):
        label_overlap(guess([0.5, 0.1]), truth([0]))
    with pytest.raises(ConfigurationError, match="labels up to 2"):
        label_overlap(guess([0.5, 0.5]), truth([2]))


def test_a_target_that_the_truth_does_not_know_is_an_error():
    with pytest.raises(KeyError, match="user-1"):
        label_overlap(guess(1, 1), truth([1]))
