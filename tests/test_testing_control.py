"""The control experiments: derangement and pseudonyms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.attacks.control import deranged, derangement, linking_truth, pseudonymise
from privaudit.errors import ConfigurationError
from privaudit.transcript import Coalition, MemoryRecorder, Party


def make_run(users=5, rounds=2, *, kind="report"):
    recorder = MemoryRecorder()
    recorder.declare(
        [*(Party(f"user-{i}", "user") for i in range(users)), Party("server", "server")]
    )
    for t in range(1, rounds + 1):
        for i in range(users):
            recorder.send(
                kind=kind,
                sender=f"user-{i}",
                receiver="server",
                round=t,
                arrays={"values": np.array([10 * t + i])},
                meta={"user": f"user-{i}"},
            )
            recorder.send(
                kind="other",
                sender="server",
                receiver=f"user-{i}",
                round=t,
                arrays={"values": np.array([100 * t + i])},
            )
    return recorder.transcript()


def payloads(messages):
    return [int(m.arrays["values"][0]) for m in messages]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 30), st.integers(0, 1000))
def test_a_derangement_is_a_permutation_without_fixed_points(n, seed):
    order = derangement(n, rng=np.random.default_rng(seed))
    assert sorted(order) == list(range(n))
    assert not (order == np.arange(n)).any()


def test_every_derangement_is_drawn_about_equally_often():
    rng = np.random.default_rng(0)
    seen = {}
    for _ in range(1800):
        order = tuple(derangement(4, rng=rng))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 9  # !4
    assert min(seen.values()) > 140  # 200 expected, standard deviation 13


def test_no_derangement_of_one():
    with pytest.raises(ConfigurationError, match="at least two"):
        derangement(1, rng=np.random.default_rng(0))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(0, 500))
def test_payloads_stay_in_their_round_and_never_with_their_sender(users, seed):
    view = make_run(users).view(Coalition.of("server"))
    control = deranged(view, kinds=["report"], rng=np.random.default_rng(seed))
    for t in (1, 2):
        before, after = view.select("report", round=t), control.select("report", round=t)
        assert sorted(payloads(before)) == sorted(payloads(after))
        assert all(a != b for a, b in zip(payloads(before), payloads(after), strict=True))
        assert [(m.sender, m.seq, m.meta) for m in before] == [
            (m.sender, m.seq, m.meta) for m in after
        ]
    assert payloads(control.select("other")) == payloads(view.select("other"))


def test_what_members_wrote_stays_where_two_others_wrote_the_like():
    transcript = make_run(users=4)
    member = transcript.ids("user")[0]
    view = transcript.view(Coalition.of("server", member))
    control = deranged(view, kinds=["report"], rng=np.random.default_rng(0))
    for before, after in zip(view.select("report"), control.select("report"), strict=True):
        kept = payloads([before]) == payloads([after])
        assert kept == (before.sender == member)


def test_messages_of_one_sender_are_deranged_among_themselves():
    view = make_run().view(Coalition.of("server"))
    control = deranged(view, kinds=["other"], rng=np.random.default_rng(0))
    pairs = zip(payloads(view.select("other")), payloads(control.select("other")), strict=True)
    assert all(a != b and a // 100 == b // 100 for a, b in pairs)


def test_nothing_to_derange_is_an_error():
    view = make_run(users=1).view(Coalition.of("server"))
    with pytest.raises(ConfigurationError, match="nothing to derange"):
        deranged(view, kinds=["report"], rng=np.random.default_rng(0))
    with pytest.raises(ConfigurationError, match="nothing to derange"):
        deranged(
            make_run().view(Coalition.of("server")), kinds=["typo"], rng=np.random.default_rng(0)
        )


def test_senders_with_different_receivers_cannot_be_exchanged():
    recorder = MemoryRecorder()
    recorder.declare([Party(p, "user") for p in "abc"])
    for sender, receiver in (("a", "c"), ("b", "a")):
        recorder.send(
            kind="report", sender=sender, receiver=receiver, round=1, arrays={"values": np.zeros(1)}
        )
    view = recorder.transcript().view(Coalition.of("a"))
    with pytest.raises(ConfigurationError, match="cannot be exchanged"):
        deranged(view, kinds=["report"], rng=np.random.default_rng(0))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(0, 500))
def test_pseudonyms_carry_their_users_payloads_and_no_trace_of_them(users, seed):
    transcript = make_run(users)
    treated, mapping = pseudonymise(
        transcript, kind="report", round=2, rng=np.random.default_rng(seed)
    )
    view = treated.view(Coalition.of("server"))
    sent = {m.sender: m for m in view.select("report", round=2)}
    assert set(sent) == set(mapping)
    assert sorted(mapping.values()) == sorted(transcript.ids("user"))
    truth = linking_truth(transcript, mapping)
    for name, user in mapping.items():
        assert payloads([sent[name]]) == [20 + int(user[-1])]
        assert not sent[name].meta
        assert truth.get(name, "user") == int(user[-1])
    assert payloads(view.select("report", round=1)) == payloads(
        transcript.messages[: 2 * users : 2]
    )
    assert [m.seq for m in treated.messages] == [m.seq for m in transcript.messages]


def test_the_order_of_pseudonymous_messages_tells_nothing():
    firsts = set()
    for seed in range(40):
        treated, _ = pseudonymise(
            make_run(), kind="report", round=2, rng=np.random.default_rng(seed)
        )
        firsts.add(
            payloads([m for m in treated.messages if m.kind == "report" and m.round == 2])[0]
        )
    assert firsts == {20, 21, 22, 23, 24}


def test_a_kind_or_round_that_is_not_there_is_named():
    with pytest.raises(ConfigurationError, match=r"rounds with this kind: \[1, 2\]"):
        pseudonymise(make_run(), kind="report", round=9, rng=np.random.default_rng(0))
