"""Scores of rows, persons and membership, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from privaudit.attacks.base import Guesses
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.scoring import estimate
from privaudit.scoring.membership import membership_auc, true_positives_at
from privaudit.scoring.records import (
    advantage,
    attribute_accuracy,
    code_bijection,
    grid_accuracy,
    linked_within,
    normalised_error,
    person_truth,
    record_psnr,
    singled_out,
)
from privaudit.transcript import Truth

IDS = np.array([30, 10, 20])
TABLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
TRUTH = Truth(
    {
        "rows": {"ids": IDS, "labels": np.array([2, 0, 1])},
        "party-1": {
            "features": TABLE[:, :1].astype(np.float32),
            "columns": np.array([0]),
            "codes/round-1": np.array([[4], [7], [4]], dtype=np.uint8),
        },
        # The second party's columns in another order than the table's.
        "party-2": {"features": TABLE[:, [2, 1]].astype(np.float32), "columns": np.array([2, 1])},
    }
)


def rows(*pairs: tuple[int, list[float]]) -> Guesses:
    return Guesses(
        tuple(f"row-{i}" for i, _ in pairs),
        tuple(np.array(v, dtype=np.float32) for _, v in pairs),
        np.zeros(len(pairs)),
    )


def test_rows_are_joined_by_id_and_columns_by_position() -> None:
    perfect = rows((10, [1, 0, 0]), (20, [0, 1, 0]), (30, [0, 0, 1]))
    assert set(normalised_error(perfect, TRUTH).per_target.values()) == {0.0}


def test_the_mean_row_scores_one() -> None:
    guesses = rows(*((i, [1 / 3, 1 / 3, 1 / 3]) for i in (10, 20, 30)))
    found = normalised_error(guesses, TRUTH)
    assert np.mean(list(found.per_target.values())) == pytest.approx(1.0)
    assert not found.higher_is_leakier


def test_the_error_of_one_partys_columns_leaves_the_others_out() -> None:
    guesses = rows((10, [9, 0, 0]), (20, [9, 1, 0]), (30, [9, 0, 1]))
    only = normalised_error(guesses, TRUTH, parties=("party-2",))
    assert set(only.per_target.values()) == {0.0}
    assert min(normalised_error(guesses, TRUTH).per_target.values()) > 1


def test_psnr_is_that_of_the_definition_and_clamps() -> None:
    found = record_psnr(rows((10, [0.9, 0, 0]), (20, [0, 3.0, 0]), (30, [0, 0, np.nan])), TRUTH)
    assert found.per_target["row-10"] == pytest.approx(10 * np.log10(3 / 0.01), abs=1e-4)
    assert found.per_target["row-20"] == pytest.approx(120.0)
    assert np.isnan(found.per_target["row-30"])
    assert estimate(found, confidence=0.95).failed == 1


def test_rows_that_the_truth_does_not_hold_are_refused() -> None:
    for guesses in (rows((11, [0, 0, 0])), Guesses(("person-1",), (np.zeros(3),), np.zeros(1))):
        with pytest.raises(KeyError):
            normalised_error(guesses, TRUTH)
    with pytest.raises(InvalidDataError, match="do not hold column 2"):
        normalised_error(rows((10, [0, 0])), TRUTH)
    with pytest.raises(ConfigurationError, match="no features"):
        normalised_error(rows((10, [0, 0, 0])), TRUTH, parties=("party-9",))
    with pytest.raises(InvalidDataError, match="all equal"):
        normalised_error(rows((10, [0, 0, 0])), TRUTH)


def test_attributes_are_joined_by_row_id() -> None:
    guesses = Guesses(("row-20", "row-30"), (np.array(1), np.array(0)), np.zeros(2))
    assert attribute_accuracy(guesses, TRUTH).per_target == {"row-20": 1.0, "row-30": 0.0}


@pytest.mark.parametrize(
    ("value", "right"),
    [([1, 0, 0], 1.0), ([0, 5, 5], 1.0), ([0, 0, 0], 0.0), ([0, 1, 2], 0.0), ([0, 0, 1], 0.0)],
)
def test_codes_count_up_to_a_relabelling_by_ascending_id(value: list[int], right: float) -> None:
    # By ascending id the true codes are 7, 4, 4.
    guesses = Guesses(("party-1/subspace-0",), (np.array(value),), np.zeros(1))
    assert code_bijection(guesses, TRUTH).per_target == {"party-1/subspace-0": right}


def test_integers_count_up_to_a_reflection_and_the_unit() -> None:
    ids = np.array([3, 1, 2, 4])
    truth = Truth(
        {
            "rows": {"ids": ids},
            "p": {"features": np.array([[20.0], [10.0], [14.0], [20.0]]), "columns": np.array([5])},
        }
    )
    # By ascending id 10, 14, 20, 20: steps of two, 0, 2, 5, 5, or reflected 5, 3, 0, 0.
    for value, expected in (([0, 2, 5, 5], 1.0), ([5, 3, 0, 0], 1.0), ([0, 2, 5, 4], 0.75)):
        guesses = Guesses(("column-5",), (np.array(value),), np.zeros(1))
        assert grid_accuracy(guesses, truth).per_target == {"column-5": expected}
    with pytest.raises(KeyError):
        grid_accuracy(Guesses(("column-6",), (np.zeros(4),), np.zeros(1)), truth)


def test_persons_count_within_the_ranks_asked_for() -> None:
    truth = person_truth({"a": 7, "b": 8})
    guesses = Guesses(("b", "a"), (np.array([1, 8]), np.array([7, 8])), np.zeros(2))
    assert linked_within(guesses, truth, ranks=1).per_target == {"b": 0.0, "a": 1.0}
    assert linked_within(guesses, truth, ranks=2).per_target == {"b": 1.0, "a": 1.0}
    with pytest.raises(ConfigurationError):
        linked_within(guesses, truth, ranks=3)
    claims = Guesses(("a", "b"), (np.array(7), np.array(-1)), np.zeros(2))
    assert singled_out(claims, truth).per_target == {"a": 1.0, "b": 0.0}


def candidates(members: np.ndarray, others: np.ndarray) -> tuple[Guesses, Truth]:
    scores = np.concatenate([members, others])
    names = tuple(f"c{i}" for i in range(len(scores)))
    truth = person_truth({n: (i if i < len(members) else None) for i, n in enumerate(names)})
    return Guesses(names, tuple(np.array(s) for s in scores), scores), truth


def test_the_area_is_scikit_learns_with_ties_and_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.normal(1, 1, 300).round(1), rng.normal(0, 1, 200).round(1)
    found = membership_auc(*candidates(members, others))
    labels = np.r_[np.ones(300), np.zeros(200)]
    assert found.value == pytest.approx(roc_auc_score(labels, np.r_[members, others]))
    # Of two Gaussians one apart: Phi(1 / sqrt 2).
    assert found.low < stats.norm.cdf(1 / np.sqrt(2)) < found.high


def test_hits_at_few_false_alarms_agree_with_counting() -> None:
    members, others = np.array([5.0, 3.0, 2.0, 1.0]), np.arange(100) / 40.0
    # One of 100 may be exceeded: the threshold is 98 / 40 = 2.45.
    found = true_positives_at(*candidates(members, others))
    assert found.value == 0.5
    assert found.n == 4
    # Clopper-Pearson for 2 of 4.
    assert (found.low, found.high) == pytest.approx((0.0676, 0.9324), abs=1e-4)


def test_scores_that_are_all_alike_hit_nobody() -> None:
    found = candidates(np.zeros(50), np.zeros(150))
    assert true_positives_at(*found).value == 0.0
    assert membership_auc(*found).value == 0.5


def test_membership_needs_members_others_and_enough_of_them() -> None:
    with pytest.raises(ConfigurationError, match="members and others"):
        membership_auc(*candidates(np.zeros(3), np.zeros(0)))
    with pytest.raises(ConfigurationError, match="needs 100 others"):
        true_positives_at(*candidates(np.zeros(3), np.zeros(50)))
    with pytest.raises(ConfigurationError, match="not finite"):
        membership_auc(*candidates(np.array([np.inf]), np.zeros(50)))


def test_the_advantage_is_paired() -> None:
    good = rows((10, [1, 0, 0]), (20, [0, 1, 0]), (30, [0, 0, 0.9]))
    poor = rows(*((i, [1 / 3, 1 / 3, 1 / 3]) for i in (10, 20, 30)))
    one, two = normalised_error(good, TRUTH), normalised_error(poor, TRUTH)
    found = advantage(one, two)
    for target in one.per_target:
        assert found.per_target[target] == two.per_target[target] - one.per_target[target] > 0
    with pytest.raises(ConfigurationError):
        advantage(one, record_psnr(poor, TRUTH))


def test_the_bootstrap_of_many_rows_is_bounded_and_close_to_the_normal_interval() -> None:
    from privaudit.scoring.estimate import Scores

    values = np.random.default_rng(0).normal(size=30_000)
    found = estimate(
        Scores("x", "mean", dict(enumerate(values))),
        confidence=0.95,
    )
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)
    assert "1000 draws" in found.method
