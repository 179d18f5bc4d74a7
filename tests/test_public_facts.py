"""What a recording says of its model is checked before anything is built of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaudit.attacks.control import pseudonymise
from privaudit.attacks.inversion import DeepLeakage
from privaudit.attacks.reidentification import GradientLinking
from privaudit.attacks.updates import records_told
from privaudit.campaigns.runs import RecordedRun, knowledge_of
from privaudit.errors import ConfigurationError, CorruptRecordingError, InvalidDataError
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party, View

SOUND = {"name": "mlp", "input_shape": [1, 8, 8], "classes": 10}


def run_with(model: Any) -> RecordedRun:
    recorder = MemoryRecorder()
    recorder.declare([Party("server", "server")])
    recorder.publish("model", model)
    return RecordedRun(
        transcript=recorder.transcript(),
        truth=None,
        auxiliary=None,
        outcome={},
        digest="",
        complete=True,
        dataset="",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_shape": "x"},
        {"input_shape": 5},
        {"input_shape": [1, 8]},
        {"input_shape": [1, 8, 10**9]},
        {"classes": "ten"},
        {"classes": True},
        {"classes": 0},
        {"name": 3},
    ],
)
def test_a_malformed_model_is_a_corrupt_recording(wrong: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecordingError, match="public fact 'model'"):
        knowledge_of(run_with({**SOUND, **wrong}))


@pytest.mark.parametrize("stated", [5, 0, -1, 2.5, "650", True])
def test_a_dimension_that_is_not_that_of_the_parameters_is_a_corrupt_recording(
    stated: Any,
) -> None:
    run = run_with({**SOUND, "dimension": stated})
    public = {"initial-parameters": np.zeros(650, np.float32)}
    run = replace(run, transcript=replace(run.transcript, public_arrays=public))
    with pytest.raises(CorruptRecordingError, match="which is not the number of its parameters"):
        knowledge_of(run)


@pytest.mark.parametrize("told", [0, -3, 2**62])
def test_a_count_of_records_that_cannot_be_is_refused(told: int) -> None:
    recorder = MemoryRecorder()
    recorder.declare([Party(SERVER, "server"), Party("user-1", "user")])
    recorder.send(
        kind=UPDATE,
        round=1,
        sender="user-1",
        receiver=SERVER,
        arrays={"values": np.zeros(4, np.float32), "records": np.array(told)},
    )
    view = recorder.transcript().view(Coalition.of(SERVER))
    with pytest.raises(InvalidDataError, match="expected is a count from 1"):
        records_told(view)


def test_a_model_that_is_no_mapping_is_a_corrupt_recording() -> None:
    with pytest.raises(CorruptRecordingError, match="public fact 'model'"):
        knowledge_of(run_with(5))


def test_a_sound_model_is_read() -> None:
    spec = knowledge_of(run_with(SOUND)).model
    assert spec is not None
    assert (spec.name, spec.input_shape, spec.classes) == ("mlp", (1, 8, 8), 10)


def updates_of(lengths: dict[str, int]) -> View:
    recorder = MemoryRecorder()
    recorder.declare([Party(SERVER, "server"), *(Party(user, "user") for user in lengths)])
    for round in (1, 2):
        for user, length in lengths.items():
            values = np.ones(length, np.float32)
            recorder.send(
                kind=UPDATE, round=round, sender=user, receiver=SERVER, arrays={"values": values}
            )
    rng = np.random.default_rng(0)
    hidden, _ = pseudonymise(recorder.transcript(), kind=UPDATE, round=2, rng=rng)
    return hidden.view(Coalition.of(SERVER, capabilities=Capability))


@pytest.mark.parametrize("lengths", [{"a": 8, "b": 5}, {"a": 0, "b": 0}])
def test_updates_that_cannot_be_compared_are_named(lengths: dict[str, int]) -> None:
    knowledge = knowledge_of(run_with(SOUND))
    with pytest.raises(InvalidDataError, match=r"the 'update' of '.+' in round [12] has shape"):
        GradientLinking().run(
            updates_of(lengths), knowledge=knowledge, rng=np.random.default_rng(0)
        )


def test_a_device_that_is_not_one_is_named() -> None:
    from inversion_runs import view_of, world

    w = world(1, 1)
    with pytest.raises(ConfigurationError, match="'banana' is not known"):
        replace(DeepLeakage(), device="banana").run(
            view_of(w.transcript(), SERVER), knowledge=w.knowledge, rng=np.random.default_rng(0)
        )
