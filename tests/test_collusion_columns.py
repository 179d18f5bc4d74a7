"""Undoing the shuffle, and taking aggregates apart, against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privaudit.attacks.collusion.aggregates import last_summand, mixing_weights, subtract_equally
from privaudit.attacks.collusion.columns import attribute
from privaudit.errors import InvalidDataError


def possible_values(column, known, target):
    """All values that the target may have sent: every assignment that fits the colluders'."""
    users = range(len(column))
    return {
        order[target]
        for order in itertools.permutations(column)
        if all(order[u] == known[u] for u in users if u in known)
    }


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_candidates_are_those_of_every_assignment_that_fits_the_colluders(data):
    users = data.draw(st.integers(1, 5))
    d2 = data.draw(st.integers(1, 4))
    # Few distinct values, so that they coincide often.
    reports = data.draw(
        hnp.arrays(np.float32, (users, d2), elements=st.sampled_from([0.0, 1.0, 2.5, -1.0, 7.0]))
    )
    colluders = sorted(data.draw(st.sets(st.integers(0, users - 1), max_size=users - 1)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    result = attribute(rng.permuted(reports, axis=0), reports[colluders])
    target = next(u for u in range(users) if u not in colluders)
    for j in range(d2):
        known = {u: float(reports[u, j]) for u in colluders}
        possible = possible_values([float(v) for v in reports[:, j]], known, target)
        assert result.candidates[j] == len(possible)
        if len(possible) == 1:
            assert result.values[j] == reports[target, j]
        else:
            assert np.isnan(result.values[j])
    assert result.unmatched == 0
    ties = [any((reports[:, j] == reports[c, j]).sum() > 1 for c in colluders) for j in range(d2)]
    assert result.ambiguous <= sum(ties)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_anonymity_is_the_number_of_users_who_do_not_collude(missing):
    reports = np.random.default_rng(0).laplace(size=(6, 500)).astype(np.float32)
    shuffled = np.random.default_rng(1).permuted(reports, axis=0)
    result = attribute(shuffled, reports[missing:])
    assert (result.candidates == missing).all()
    assert np.array_equal(result.values, reports[0]) == (missing == 1)
    assert result.ambiguous == 0


def test_a_colluder_whose_value_occurs_twice_takes_out_one_of_them():
    shuffled = np.array([[3.0], [5.0], [3.0]], dtype=np.float32)
    result = attribute(shuffled, np.array([[3.0]], dtype=np.float32))
    assert result.candidates.tolist() == [2]
    assert result.ambiguous == 1


def test_values_that_are_not_in_the_column_are_counted_and_take_out_nothing():
    shuffled = np.array([[1.0, 1.0], [2.0, 2.0]], dtype=np.float32)
    result = attribute(shuffled, np.array([[9.0, 1.0]], dtype=np.float32))
    assert result.unmatched == 1
    assert result.candidates.tolist() == [2, 1]
    assert result.values[1] == 2.0


def test_not_a_number_and_signed_zero_are_matched_by_their_bits():
    shuffled = np.array([[np.nan, -0.0], [4.0, 0.0]], dtype=np.float32)
    result = attribute(shuffled, np.array([[np.nan, 0.0]], dtype=np.float32))
    assert result.values[0] == 4.0
    assert np.signbit(result.values[1])


@pytest.mark.parametrize(
    ("shuffled", "known"),
    [
        (np.zeros((2, 3)), np.zeros((1, 3), dtype=np.float32)),
        (np.zeros((2, 3), dtype=np.float32), np.zeros((1, 4), dtype=np.float32)),
        (np.zeros(3, dtype=np.float32), np.zeros((1, 3), dtype=np.float32)),
    ],
)
def test_reports_of_another_shape_or_type_are_refused(shuffled, known):
    with pytest.raises(InvalidDataError, match="reports"):
        attribute(shuffled, known)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_least_squares_finds_the_weights_and_who_is_in_the_sum(users, seed):
    rng = np.random.default_rng(seed)
    reports = rng.laplace(size=(users, 400)).astype(np.float32)
    inside = rng.random(users) < 0.6
    inside[0] = True
    true = np.where(inside, np.exp(rng.uniform(-1, 1, users)), 0.0)
    true /= true.sum()
    weights = mixing_weights((true @ reports.astype(np.float64)).astype(np.float32), reports)
    assert weights is not None
    assert ((weights != 0) == inside).all()
    np.testing.assert_allclose(weights, true, rtol=1e-4, atol=1e-7)


def test_no_weights_are_claimed_where_the_reports_do_not_explain_the_aggregate():
    rng = np.random.default_rng(0)
    reports = rng.normal(size=(4, 300)).astype(np.float32)
    assert mixing_weights(rng.normal(size=300).astype(np.float32), reports) is None
    assert mixing_weights(reports[0], np.stack([reports[0], reports[0]])) is None
    assert mixing_weights(reports[0, :3], reports[:, :3]) is None
    assert mixing_weights(np.full(300, np.nan, dtype=np.float32), reports) is None


def test_one_unknown_summand_is_found_and_two_are_not():
    rng = np.random.default_rng(0)
    values = dict(zip("abc", rng.normal(size=(3, 5)).astype(np.float32), strict=True))
    weights = {"a": 0.5, "b": 0.3, "c": 0.2}
    total = sum(w * values[n].astype(np.float64) for n, w in weights.items()).astype(np.float32)
    name, value = last_summand(total, weights, {"a": values["a"], "c": values["c"]})
    assert name == "b"
    np.testing.assert_allclose(value, values["b"], rtol=1e-5)
    assert last_summand(total, weights, {"a": values["a"]}) is None
    assert last_summand(total, weights, values) is None


def test_a_mean_that_its_known_members_explain_has_no_further_one():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 30)).astype(np.float32)
    assert subtract_equally(a, a[None]) is None
    np.testing.assert_allclose(subtract_equally((a + b) / 2, a[None]), b, rtol=1e-4, atol=1e-5)
