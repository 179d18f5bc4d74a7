"""Which coalition learns what of an update, checked against the updates themselves."""

import numpy as np
import pytest
from collusion_runs import AS, MS, make_run
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.attacks.base import Knowledge
from privaudit.attacks.collusion import RECOVERED, Status, UpdateRecovery
from privaudit.attacks.control import deranged
from privaudit.errors import ConfigurationError, CorruptRecordingError, UnmetRequirementsError
from privaudit.protocols.baselines import kinds as baseline_kinds
from privaudit.protocols.pa_cfl import kinds
from privaudit.scoring.exposure import exposure, summarise
from privaudit.transcript import Coalition, MemoryRecorder, Party


def recover(recorder, *members, round=None):
    view = recorder.transcript().view(Coalition.of(*members))
    return {r.user: r for r in UpdateRecovery(round=round).recover(view)}


def attack(view):
    return UpdateRecovery().run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))


def fraction(recovery, status):
    return float((recovery.coordinates["status"] == status).mean())


def test_management_server_has_each_noised_value_and_no_important_one():
    recorder, _, permutation, rest = make_run([0, 0, 0, 1, 1])
    for i, found in enumerate(recover(recorder, MS).values()):
        assert (found.coordinates["status"][permutation] == Status.UNKNOWN).all()
        assert np.isnan(found.coordinates["value"][permutation]).all()
        assert (found.coordinates["status"][rest] == Status.ATTRIBUTED).all()
        noised = recorder.truth().get(f"user-{i}/round-1", "noised")
        assert np.array_equal(found.coordinates["value"][rest], noised)
        assert found.ordered == len(permutation)


def test_aggregation_server_alone_places_nothing():
    recorder, _, permutation, rest = make_run([0, 0, 0, 1, 1])
    found = recover(recorder, AS)
    for user, recovery in found.items():
        assert fraction(recovery, Status.UNKNOWN) == 1.0
        assert recovery.unplaced_exact == len(permutation)
        assert recovery.unplaced_noised == len(rest)
        assert recovery.unplaced_anonymity == (3 if user in ("user-0", "user-1", "user-2") else 2)


def test_any_one_user_gives_the_aggregation_server_every_important_value_in_its_place():
    recorder, updates, permutation, rest = make_run([0, 0, 0, 1, 1])
    found = recover(recorder, AS, "user-0")
    assert set(found) == {"user-1", "user-2", "user-3", "user-4"}
    for user, recovery in found.items():
        i = int(user[-1])
        exact = recovery.coordinates["status"] == Status.EXACT
        assert set(np.flatnonzero(exact)) == set(permutation)
        assert np.array_equal(recovery.coordinates["value"][exact], updates[i][exact])
        assert (recovery.coordinates["status"][rest] == Status.ANONYMOUS).all()
        assert (recovery.coordinates["anonymity"][rest] == 2).all()
        assert recovery.unplaced_exact == recovery.unplaced_noised == 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_noised_values_are_attributed_only_when_the_rest_of_the_pre_cluster_colludes(data):
    pre = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=6))
    users = range(len(pre))
    colluders = data.draw(st.sets(st.sampled_from(users), min_size=1, max_size=len(pre) - 1))
    recorder, _, _, rest = make_run(pre, seed=data.draw(st.integers(0, 99)))
    found = recover(recorder, AS, *(f"user-{u}" for u in colluders))
    for u in users:
        if u in colluders:
            continue
        coordinates = found[f"user-{u}"].coordinates[rest]
        left = sum(pre[v] == pre[u] and v not in colluders for v in users)
        assert (coordinates["anonymity"] == left).all()
        if left == 1:
            noised = recorder.truth().get(f"user-{u}/round-1", "noised")
            assert np.array_equal(coordinates["value"], noised)
        else:
            assert np.isnan(coordinates["value"]).all()


def test_with_all_others_colluding_attribution_is_exact_and_with_one_missing_the_set_is_two():
    recorder, *_ = make_run([0, 0, 0, 0])
    view = recorder.transcript().view
    alone = exposure(attack(view(Coalition.of(AS, "user-1", "user-2", "user-3"))), recorder.truth())
    assert [m.attributed_verified for m in alone] == [1.0]
    assert alone[0].anonymity_minimum == 1
    two = exposure(attack(view(Coalition.of(AS, "user-1", "user-2"))), recorder.truth())
    assert [m.anonymity_minimum for m in two] == [2, 2]
    assert [m.attributed_fraction for m in two] == [0.0, 0.0]


def test_coinciding_values_shrink_the_set_and_are_counted():
    recorder, _, _, rest = make_run([0] * 5, decimals=0)
    found = recover(recorder, AS, "user-0")["user-1"]
    noised = np.stack([recorder.truth().get(f"user-{i}/round-1", "noised") for i in range(5)])
    bits = noised.view(np.uint32)  # 0.0 and -0.0 can be told apart
    assert found.coordinates["anonymity"][rest].tolist() == [
        len(np.unique(column)) for column in bits[1:].T
    ]
    assert found.ambiguous == (bits[1:] == bits[0]).any(axis=0).sum() > 0


def test_both_servers_have_everything_that_was_sent():
    recorder, *_ = make_run([0, 0, 1])
    measures = exposure(attack(recorder.transcript().view(Coalition.of(MS, AS))), recorder.truth())
    for m in measures:
        assert m.exact_fraction == pytest.approx(7 / 60)
        assert m.exact_verified == m.attributed_verified == 1.0
        assert m.exact_fraction + m.attributed_fraction == 1.0


def test_management_server_and_all_but_one_of_a_final_cluster_derive_the_last_ones_values():
    # Fine clustering moved user-3: what counts is the final cluster, found by least squares.
    recorder, updates, permutation, _ = make_run([0, 0, 0, 1, 1], [0, 0, 1, 0, 1], noise=5.0)
    found = recover(recorder, MS, "user-0", "user-1")
    derived = found["user-3"].coordinates
    assert (derived["status"][permutation] == Status.DERIVED).all()
    np.testing.assert_allclose(derived["value"][permutation], updates[3, permutation], rtol=1e-3)
    assert fraction(found["user-2"], Status.DERIVED) == 0
    assert fraction(found["user-4"], Status.DERIVED) == 0


def test_two_unknown_members_of_the_final_cluster_derive_nothing():
    recorder, *_ = make_run([0, 0, 0])
    assert all(fraction(r, Status.DERIVED) == 0 for r in recover(recorder, MS, "user-0").values())


def test_a_global_aggregate_gives_the_last_user_even_if_it_is_alone_in_its_cluster():
    recorder, *_ = make_run([0, 0, 0, 1], global_aggregate=True)
    view = recorder.transcript().view(Coalition.of(MS, "user-0", "user-1", "user-2"))
    (measure,) = exposure(attack(view), recorder.truth())
    assert measure.derived_fraction == pytest.approx(7 / 60)
    assert measure.derived_error < 1e-5
    recorder, *_ = make_run([0, 0, 0, 1], global_aggregate=False)
    view = recorder.transcript().view(Coalition.of(MS, "user-0", "user-1", "user-2"))
    (measure,) = exposure(attack(view), recorder.truth())
    assert measure.derived_fraction == 0


def test_the_other_of_two_users_is_approximated_without_a_server():
    recorder, *_ = make_run([0, 0], noise=20.0, d=400, k=40)
    (measure,) = exposure(
        attack(recorder.transcript().view(Coalition.of("user-0"))), recorder.truth()
    )
    assert measure.derived_fraction == 0.1
    # Weights are near one half, not one half: an approximation, unlike the least squares.
    assert 1e-5 < measure.derived_error < 0.3


def test_a_user_that_got_its_own_values_back_knows_that_it_was_alone():
    recorder, *_ = make_run([0, 1])
    assert fraction(recover(recorder, "user-0")["user-1"], Status.DERIVED) == 0


def test_one_user_among_many_learns_no_update():
    recorder, *_ = make_run([0, 0, 1, 1])
    for found in recover(recorder, "user-0").values():
        assert fraction(found, Status.UNKNOWN) == 1.0


def test_an_undefended_server_has_every_update():
    recorder = MemoryRecorder()
    recorder.declare([Party("user-0", "user"), Party("user-1", "user"), Party("server", "server")])
    updates = np.random.default_rng(0).normal(size=(2, 9)).astype(np.float32)
    for i, update in enumerate(updates):
        recorder.send(
            kind=baseline_kinds.UPDATE,
            sender=f"user-{i}",
            receiver="server",
            round=1,
            arrays={"values": update},
        )
        recorder.note_truth(f"user-{i}/round-1", update=update)
    measures = exposure(
        attack(recorder.transcript().view(Coalition.of("server"))), recorder.truth()
    )
    assert [m.exact_verified for m in measures] == [1.0, 1.0]
    assert [m.exact_fraction for m in measures] == [1.0, 1.0]


def test_deranged_messages_are_not_verified():
    recorder, *_ = make_run([0, 0, 0, 0])
    view = recorder.transcript().view(Coalition.of(MS, AS))
    control = deranged(view, kinds=UpdateRecovery.reads, rng=np.random.default_rng(1))
    measures = exposure(attack(control), recorder.truth())
    assert all(m.exact_verified == m.attributed_verified == 0.0 for m in measures)


def test_the_baseline_knows_nothing_of_the_same_targets():
    recorder, *_ = make_run([0, 0, 1])
    view = recorder.transcript().view(Coalition.of(MS))
    guesses = UpdateRecovery().baseline(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert guesses.target_ids == attack(view).target_ids
    assert all((v["status"] == Status.UNKNOWN).all() for v in guesses.values)


def test_another_round_than_those_of_the_view_is_refused():
    recorder, *_ = make_run([0, 0], round=3)
    assert set(recover(recorder, MS, round=3)) == {"user-0", "user-1"}
    with pytest.raises(UnmetRequirementsError, match=r"in round 2; rounds with some: \[3\]"):
        recover(recorder, MS, round=2)


def test_hostile_recordings_are_refused_by_name():
    recorder = MemoryRecorder()
    recorder.declare([Party("user-0", "user"), Party(MS, "server"), Party(AS, "server")])
    values = np.zeros(4, dtype=np.float32)
    recorder.send(
        kind=kinds.SHUFFLED_REMAINDER, sender=MS, receiver=AS, round=1, arrays={"values": values}
    )
    with pytest.raises(CorruptRecordingError, match="must name its 'user'"):
        recover(recorder, AS)


def test_summary_averages_and_keeps_the_worst():
    recorder, *_ = make_run([0, 0, 1])
    truth, view = recorder.truth(), recorder.transcript().view
    row = summarise(
        exposure(attack(view(Coalition.of(AS, "user-0"))), truth), label="AS + 1 user", size=2
    )
    assert (row.targets, row.anonymity_minimum, row.exact_verified) == (2, 1, 1.0)
    assert "noised values of 2 of 2 targets" in row.note
    alone = summarise(exposure(attack(view(Coalition.of(AS))), truth), label="AS", size=1)
    assert alone.unplaced_values == 7
    assert alone.noised_fraction == pytest.approx(53 / 60)
    assert np.isnan(alone.exact_verified)
    with pytest.raises(ConfigurationError, match="no target"):
        summarise((), label="nobody", size=0)


def test_exposure_refuses_guesses_of_another_kind():
    recorder, *_ = make_run([0, 0])
    guesses = attack(recorder.transcript().view(Coalition.of(MS)))
    assert guesses.values[0].dtype == RECOVERED
    short = type(guesses)(guesses.target_ids, tuple(v[:5] for v in guesses.values), guesses.scores)
    with pytest.raises(ConfigurationError, match="shape"):
        exposure(short, recorder.truth())
