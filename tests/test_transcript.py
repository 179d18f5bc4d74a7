"""What a coalition knows is what its members sent, received and hold, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import (
    EVIDENCED,
    Capability,
    Coalition,
    MemoryRecorder,
    NullRecorder,
    Party,
    Transcript,
    Truth,
    View,
)

PARTIES = ("user-1", "user-2", "user-3", "server", "helper")
KINDS = ("update", "model", "norm")

messages = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(PARTIES),
        st.sampled_from(PARTIES),
        st.none() | st.integers(1, 4),
    ),
    max_size=25,
)
holdings = st.lists(st.tuples(st.sampled_from(PARTIES), st.sampled_from("abc")), max_size=6)
members = st.frozensets(st.sampled_from(PARTIES), min_size=1)
capabilities = st.frozensets(st.sampled_from(list(Capability)))


def recorder_of(*, facts: Any = ()) -> MemoryRecorder:
    recorder = MemoryRecorder()
    roles = {p: "user" if p.startswith("user") else "server" for p in PARTIES}
    recorder.declare([Party(p, roles[p]) for p in PARTIES], facts=facts)
    return recorder


def transcript_of(sent: Any, held: Any = (), *, facts: Any = ()) -> Transcript:
    """Record messages that carry their own number, and secrets that carry theirs."""
    recorder = recorder_of(facts=facts)
    for number, (kind, sender, receiver, t) in enumerate(sent):
        recorder.send(
            kind=kind,
            sender=sender,
            receiver=receiver,
            round=t,
            arrays={"number": np.array([number])},
        )
    for number, (party, name) in enumerate(held):
        recorder.keep_secret(party, name, np.array([number]))
    return recorder.transcript()


@given(messages, members)
def test_a_view_holds_exactly_the_messages_of_its_members_in_order(
    sent: list[Any], coalition: frozenset[str]
) -> None:
    view = transcript_of(sent).view(Coalition(coalition))
    # By brute force: the union, over the members, of what each one sent and received.
    known: set[int] = set()
    for member in coalition:
        known |= {i for i, (_, sender, _, _) in enumerate(sent) if sender == member}
        known |= {i for i, (_, _, receiver, _) in enumerate(sent) if receiver == member}
    assert [int(m.arrays["number"][0]) for m in view.messages] == sorted(known)
    assert [m.seq for m in view.messages] == sorted(known)


@given(messages, members, members)
def test_two_coalitions_that_join_see_the_union_of_their_views(
    sent: list[Any], first: frozenset[str], second: frozenset[str]
) -> None:
    transcript = transcript_of(sent)

    def seen(coalition: frozenset[str]) -> set[int]:
        return {m.seq for m in transcript.view(Coalition(coalition)).messages}

    assert seen(first | second) == seen(first) | seen(second)


@given(messages)
def test_all_parties_together_see_everything(sent: list[Any]) -> None:
    transcript = transcript_of(sent)
    assert transcript.view(Coalition.of(*PARTIES)).messages == transcript.messages


@given(holdings, members)
def test_a_view_holds_the_secrets_of_its_members_only(
    held: list[Any], coalition: frozenset[str]
) -> None:
    view = transcript_of([], held).view(Coalition(coalition))
    last = {(party, name): number for number, (party, name) in enumerate(held)}
    expected = {key: number for key, number in last.items() if key[0] in coalition}
    found = {
        (party, name): int(array[0])
        for party, arrays in view.secrets.items()
        for name, array in arrays.items()
    }
    assert found == expected


@given(capabilities, capabilities)
def test_what_a_transcript_must_show_is_granted_only_where_it_does(
    granted: frozenset[Capability], facts: frozenset[Capability]
) -> None:
    transcript = transcript_of([], facts=facts)
    view = transcript.view(Coalition.of("server", capabilities=granted))
    for capability in Capability:
        shown = capability in facts if capability in EVIDENCED else True
        assert (capability in view.capabilities) == (capability in granted and shown)


@given(messages, st.sampled_from(KINDS))
def test_selecting_narrows_by_kind_round_and_ends(sent: list[Any], kind: str) -> None:
    view = transcript_of(sent).view(Coalition.of(*PARTIES))
    for t, sender, receiver in itertools.product((None, 1, 2), (None, "user-1"), (None, "server")):
        expected = [
            i
            for i, (k, s, r, u) in enumerate(sent)
            if k == kind and t in (None, u) and sender in (None, s) and receiver in (None, r)
        ]
        chosen = view.select(kind, round=t, sender=sender, receiver=receiver)
        assert [m.seq for m in chosen] == expected
    assert view.rounds(kind) == tuple(sorted({u for k, _, _, u in sent if k == kind and u}))


def test_missing_capabilities_are_named_with_the_reason() -> None:
    transcript = transcript_of([], facts=[Capability.MODEL_ARCHITECTURE])
    granted = transcript.view(Coalition.of("server", capabilities=Capability))
    with pytest.raises(UnmetRequirementsError, match="transcript does not show single-local-step"):
        granted.require([Capability.SINGLE_LOCAL_STEP], attack="toy/a")
    refused = transcript.view(Coalition.of("server"))
    with pytest.raises(UnmetRequirementsError, match=r"'toy/a'.*threat model does not grant"):
        refused.require([Capability.AUXILIARY_DATA], attack="toy/a")
    granted.require([Capability.MODEL_ARCHITECTURE, Capability.AUXILIARY_DATA], attack="toy/a")


def test_an_unknown_member_is_named_with_the_nearest_party() -> None:
    with pytest.raises(ConfigurationError, match=r"'user-11'.*user-1, .*Did you mean 'user-1'\?"):
        transcript_of([]).view(Coalition.of("server", "user-11"))


def test_an_empty_coalition_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one party"):
        transcript_of([]).view(Coalition(frozenset()))


def test_no_truth_can_be_reached_from_a_view() -> None:
    recorder = recorder_of()
    recorder.note_truth("user-1", images=np.full((2, 2), 41.5))
    recorder.publish("configuration", {"rounds": 1})
    recorder.send(kind="norm", sender="user-1", receiver="server", arrays={"norm": np.ones(1)})
    view = recorder.transcript().view(Coalition.of(*PARTIES, capabilities=Capability))
    assert {f.name for f in dataclasses.fields(View)} == {
        "coalition",
        "parties",
        "messages",
        "secrets",
        "public",
        "public_arrays",
        "capabilities",
    }
    seen: list[Any] = [view]
    reached: list[Any] = []
    while seen:
        thing = seen.pop()
        reached.append(thing)
        if dataclasses.is_dataclass(thing):
            seen += [getattr(thing, f.name) for f in dataclasses.fields(thing)]
        elif hasattr(thing, "items"):
            seen += [*thing.keys(), *thing.values()]
        elif isinstance(thing, tuple | frozenset | list):
            seen += list(thing)
    assert not [x for x in reached if isinstance(x, Truth)]
    assert not [x for x in reached if isinstance(x, np.ndarray) and (x == 41.5).any()]
    assert recorder.truth().get("user-1", "images").tolist() == [[41.5, 41.5], [41.5, 41.5]]


def test_what_the_truth_does_not_hold_is_said() -> None:
    truth = Truth({"user-1": {"images": np.zeros(1)}})
    with pytest.raises(KeyError, match="no target 'user-2'"):
        truth.get("user-2", "images")
    with pytest.raises(KeyError, match="images"):
        truth.get("user-1", "labels")


def test_recorded_arrays_cannot_be_written_and_the_senders_stay_writeable() -> None:
    recorder = recorder_of()
    mine = np.zeros(3)
    message = recorder.send(
        kind="update", sender="user-1", receiver="server", arrays={"values": mine}
    )
    recorder.keep_secret("user-1", "key", mine)
    recorder.publish("start", mine)
    recorder.note_truth("user-1", update=mine)
    transcript = recorder.transcript()
    for array in (
        message.arrays["values"],
        transcript.secrets["user-1"]["key"],
        transcript.public_arrays["start"],
        recorder.truth().get("user-1", "update"),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    mine[0] = 1
    with pytest.raises(TypeError):
        message.arrays["more"] = mine  # type: ignore[index]
    with pytest.raises(TypeError):
        transcript.secrets["user-2"] = {}  # type: ignore[index]


@pytest.mark.parametrize(
    "array",
    [np.array([{}]), np.array(["text"]), np.array([1j]), np.array(["2026-01-01"], "datetime64[D]")],
    ids=["objects", "text", "complex", "dates"],
)
def test_arrays_of_anything_but_numbers_are_refused_by_name(array: np.ndarray) -> None:
    recorder = recorder_of()
    for refused in (
        lambda: recorder.send(
            kind="update", sender="user-1", receiver="server", arrays={"values": array}
        ),
        lambda: recorder.publish("values", array),
        lambda: recorder.keep_secret("user-1", "values", array),
        lambda: recorder.note_truth("user-1", values=array),
    ):
        with pytest.raises(ConfigurationError, match="'values' has dtype"):
            refused()
    assert recorder.transcript().messages == ()


@pytest.mark.parametrize(("sender", "receiver"), [("nobody", "server"), ("user-1", "nobody")])
def test_both_ends_of_a_message_must_be_declared(sender: str, receiver: str) -> None:
    recorder = recorder_of()
    with pytest.raises(ConfigurationError, match="update: 'nobody' is not a declared party"):
        recorder.send(kind="update", sender=sender, receiver=receiver)
    assert recorder.transcript().messages == ()


def test_nothing_is_sent_or_kept_before_parties_are_declared() -> None:
    with pytest.raises(ConfigurationError, match="not a declared party"):
        MemoryRecorder().send(kind="update", sender="a", receiver="b")
    with pytest.raises(ConfigurationError, match="not a declared party"):
        recorder_of().keep_secret("nobody", "key", np.zeros(1))


@pytest.mark.parametrize(
    "parties", [[], [Party("", "user")], [Party("a", "user"), Party("a", "server")]]
)
def test_parties_have_distinct_ids_that_are_not_empty(parties: list[Party]) -> None:
    with pytest.raises(ConfigurationError, match="non-empty and distinct"):
        MemoryRecorder().declare(parties)


def test_parties_are_declared_once() -> None:
    with pytest.raises(ConfigurationError, match="declared once"):
        recorder_of().declare([Party("user-9", "user")])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(["<f4", "<i8", "|b1"]))
def test_a_message_knows_the_size_of_its_arrays(shape: list[int], dtype: str) -> None:
    array = np.zeros(shape, dtype=dtype)
    message = recorder_of().send(
        kind="update", sender="user-1", receiver="server", arrays={"a": array, "b": array}
    )
    assert message.nbytes == 2 * array.nbytes
    assert message.specs["a"].shape == array.shape
    assert message.specs["a"].dtype == dtype


def test_a_recorder_that_keeps_nothing_returns_the_message_all_the_same() -> None:
    message = NullRecorder().send(
        kind="norm", sender="a", receiver="b", round=2, arrays={"norm": np.ones(1)}
    )
    assert (message.kind, message.sender, message.receiver, message.round) == ("norm", "a", "b", 2)
    assert message.arrays["norm"].tolist() == [1.0]


def test_parties_are_found_by_role_in_the_order_declared() -> None:
    assert transcript_of([]).ids("user") == ("user-1", "user-2", "user-3")
    assert transcript_of([]).ids("none") == ()
