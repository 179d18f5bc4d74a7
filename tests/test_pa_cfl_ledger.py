"""The ledger holds what a transcript shows; FedAvg, the undefended neighbour, and its ledger."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pa_cfl_runs import (
    AS,
    DEFAULTS,
    DIVERGING,
    MS,
    USERS,
    VARIANTS,
    Run,
    execute,
    federation,
    run_of,
)

from privaudit.accounting import budget
from privaudit.datasets import load_dataset
from privaudit.datasets.partition import single_record_users
from privaudit.errors import ConfigurationError
from privaudit.ledger import LaplaceVector, PrivacyEvent, UnprotectedRelease
from privaudit.protocols.base import RunOutcome
from privaudit.protocols.baselines.fedavg import FedAvg
from privaudit.protocols.baselines.kinds import GLOBAL_MODEL, SERVER, UPDATE
from privaudit.protocols.pa_cfl import PACFL, kinds
from privaudit.transcript import (
    Capability,
    MemoryRecorder,
    Message,
    Transcript,
)


def events_of(run: Run) -> tuple[PrivacyEvent, ...]:
    return PACFL(run.config).events(run.transcript)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "PA-CFL*"])
def test_the_ledger_names_the_clusters_and_rounds_that_were_observed(variant: str) -> None:
    run = run_of(variant)
    events = events_of(run)
    assert {e.round for e in events} == {1, 2}
    for t in (1, 2):
        noised = [e for e in events if e.round == t and isinstance(e.mechanism, LaplaceVector)]
        attributed = [e for e in noised if e.mechanism.shuffle == "none"]  # type: ignore[union-attr]
        shuffled = [e for e in noised if e not in attributed]
        assert [(e.subjects, e.observers) for e in attributed] == [(run.users, (MS,))]
        assert sorted(sorted(e.subjects) for e in shuffled) == sorted(
            map(sorted, run.clusters(t).values())
        )
        assert {e.observers for e in shuffled} == {(AS,)}
        fixed = variant == "fixed clipping"
        for event in noised:
            mechanism = event.mechanism
            assert isinstance(mechanism, LaplaceVector)
            assert mechanism.dimension == run.dimension - run.k
            assert mechanism.epsilon0 == run.config.epsilon0
            assert mechanism.clip_source == ("fixed" if fixed else "median-of-users")
            told = run.received(kinds.CLIPPING_THRESHOLD, t, "threshold")
            assert mechanism.clip_norm == (1.0 if fixed else float(told["user-1"]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_ledger_holds_every_release_without_privacy(variant: str) -> None:
    run = run_of(variant)
    n_remainder = run.dimension - run.k
    expected = {
        (run.k, (MS,)): "coordinates and order of the largest update values",
        (run.k, (AS,)): "important update values, unclipped and without noise",
        (1, (AS,)): "size of the user's training set",
    }
    if variant not in ("fixed clipping", "PA-CFL*"):
        expected[1, (MS,)] = "norm of the less important subvector"
        expected[1, tuple(sorted(run.users))] = "median of the users' norms"
    if variant == "PA-CFL*":
        expected[n_remainder, (AS,)] = "the less important subvector, unclipped and without noise"
    if variant == "cosine":
        expected[run.dimension, (MS,)] = "the whole update"
    for t in (1, 2):
        found = {
            (e.mechanism.dimension, e.observers): e.mechanism.what
            for e in events_of(run)
            if e.round == t and isinstance(e.mechanism, UnprotectedRelease)
        }
        assert found == expected


def test_the_budget_counts_the_rounds_that_ran() -> None:
    spent = budget(events_of(run_of("fixed clipping")), delta=1e-5)
    assert {row.rounds for row in spent.rows} == {1, 2}
    assert spent.uncovered


def rewritten(run: Run, change: Any) -> Transcript:
    return replace(run.transcript, messages=tuple(change(m) for m in run.transcript.messages))


def test_messages_that_contradict_the_published_configuration_are_refused() -> None:
    run = run_of("default")
    claimed = dict(run.transcript.public)
    claimed["configuration"] = {**claimed["configuration"], "protection": False}  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match=r"round 1 holds noised reports although"):
        PACFL().events(replace(run.transcript, public=claimed))

    def shorten(message: Message) -> Message:
        if message.kind == kinds.NOISED_REMAINDER and message.sender == "user-2":
            return replace(message, arrays={"values": message.arrays["values"][:-1]})
        return message

    with pytest.raises(ConfigurationError, match="round 1: noised reports differ in length"):
        PACFL().events(rewritten(run, shorten))

    def fewer(message: Message) -> Message:
        if message.kind == kinds.PRE_CLUSTERING:
            return replace(message, meta={"users": list(run.users[:-1])})
        return message

    with pytest.raises(ConfigurationError, match="round 1: the pre-clustering names another"):
        PACFL().events(rewritten(run, fewer))


def test_the_ledger_takes_clusters_from_the_transcript_and_not_from_the_configuration() -> None:
    run = run_of("default")

    def merged(message: Message) -> Message:
        if message.kind == kinds.PRE_CLUSTERING:
            together = np.zeros_like(message.arrays["assignment"])
            return replace(message, arrays={"assignment": together})
        return message

    shuffled = [
        e
        for e in PACFL().events(rewritten(run, merged))
        if isinstance(e.mechanism, LaplaceVector) and e.mechanism.shuffle == "per-coordinate"
    ]
    assert [set(e.subjects) for e in shuffled] == [set(run.users)] * 2


def test_facts_of_a_run_are_those_that_its_configuration_and_data_show() -> None:
    assert Capability.SINGLE_LOCAL_STEP not in run_of("default").transcript.facts
    single = single_record_users(
        load_dataset("digits"), users=4, auxiliary_records=20, rng=np.random.default_rng(0)
    )
    gradient = execute(single, rounds=1, update="gradient", similarity="jaccard")
    assert {Capability.SINGLE_LOCAL_STEP, Capability.SINGLE_RECORD_UPDATES} <= (
        gradient.transcript.facts
    )
    accumulated = execute(single, rounds=1, similarity="jaccard")
    assert Capability.SINGLE_RECORD_UPDATES not in accumulated.transcript.facts


def fedavg(**parameters: Any) -> tuple[MemoryRecorder, RunOutcome]:
    recorder = MemoryRecorder()
    config = FedAvg.Config(**DEFAULTS | parameters)
    return recorder, FedAvg(config).run(
        federation(), rng=np.random.default_rng(0), recorder=recorder
    )


def test_fedavg_sends_the_model_and_averages_by_the_sizes_of_the_data() -> None:
    recorder, outcome = fedavg()
    assert outcome.status == "completed"
    messages = recorder.transcript().messages
    assert Counter((m.round, m.kind) for m in messages) == {
        (t, kind): USERS for t in (1, 2) for kind in (GLOBAL_MODEL, UPDATE)
    }
    models = {m.round: m.arrays["parameters"] for m in messages if m.kind == GLOBAL_MODEL}
    updates = [m for m in messages if m.kind == UPDATE and m.round == 1]
    sizes = [int(m.arrays["records"]) for m in updates]
    assert sizes == [len(c.train) for c in federation().clients]
    mean = np.average(
        [m.arrays["values"].astype(np.float64) for m in updates], axis=0, weights=sizes
    )
    assert models[2] == pytest.approx(models[1] - 0.05 * mean, abs=1e-6)
    for message in updates:
        assert (
            message.arrays["values"] == recorder.truth().get(f"{message.sender}/round-1", "update")
        ).all()


def test_the_ledger_of_fedavg_is_one_unprotected_release_a_round() -> None:
    recorder, _ = fedavg()
    transcript = recorder.transcript()
    events = FedAvg().events(transcript)
    assert [e.round for e in events] == [1, 2]
    for event in events:
        assert event.mechanism == UnprotectedRelease(
            "the whole update", len(transcript.public_arrays["initial-parameters"])
        )
        assert event.subjects == transcript.ids("user")
        assert event.observers == (SERVER,)


@pytest.mark.parametrize(
    ("learning_rate", "what"), [(1e20, "the averaged model"), (3e38, r"the update of user-\d+")]
)
def test_fedavg_that_diverges_is_an_outcome_and_sends_nothing_that_is_not_finite(
    learning_rate: float, what: str
) -> None:
    recorder, outcome = fedavg(**DIVERGING | {"learning_rate": learning_rate, "rounds": 3})
    assert outcome.status == "diverged"
    assert re.fullmatch(
        rf"diverged in round {outcome.rounds + 1}: {what} is not finite", outcome.reason
    )
    assert len(outcome.metrics) == outcome.rounds
    for message in recorder.transcript().messages:
        assert all(np.isfinite(a).all() for a in message.arrays.values())
