"""Models that are sent in the clear are known to whoever receives them, and to nobody else."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from privaudit.attacks.base import Knowledge
from privaudit.attacks.reconstruction import SentModels
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.scoring.recovered import all_exact
from privaudit.testing import check_attack
from privaudit.transcript import Coalition, MemoryRecorder, Party, Transcript, Truth

USERS = ("user-1", "user-2", "user-3")


def recorded() -> tuple[Transcript, Truth]:
    rng, recorder = np.random.default_rng(0), MemoryRecorder()
    recorder.declare([*(Party(u, "user") for u in USERS), Party(kinds.SERVER, "server")])
    recorder.publish("initial-parameters", np.zeros(9, dtype=np.float32))
    for t in (1, 2):
        start = rng.normal(size=9).astype(np.float32)
        for user in USERS:
            model = start + rng.normal(size=9).astype(np.float32)
            recorder.send(
                round=t,
                kind=kinds.GLOBAL_MODEL,
                sender=kinds.SERVER,
                receiver=user,
                arrays={"parameters": start},
            )
            recorder.send(
                round=t,
                kind=kinds.PARAMETERS,
                sender=user,
                receiver=kinds.SERVER,
                arrays={"parameters": model},
            )
            recorder.note_truth(f"{user}/round-{t}", parameters=model)
    return recorder.transcript(), recorder.truth()


def test_the_server_has_every_model_of_every_round() -> None:
    transcript, truth = recorded()
    view = transcript.view(Coalition.of(kinds.SERVER))
    guesses = SentModels().run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert len(guesses.target_ids) == 6
    assert set(all_exact(guesses, truth, name="parameters").per_target.values()) == {1.0}
    prior = SentModels().baseline(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert set(all_exact(prior, truth, name="parameters").per_target.values()) == {0.0}
    np.testing.assert_array_equal(
        prior.values[0], view.select(kinds.GLOBAL_MODEL, round=1)[0].arrays["parameters"]
    )


def test_members_of_the_coalition_are_no_targets() -> None:
    transcript, _ = recorded()
    view = transcript.view(Coalition.of(kinds.SERVER, "user-2"))
    guesses = SentModels(round=1).run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert guesses.target_ids == ("user-1/round-1", "user-3/round-1")


def test_a_client_has_no_model_of_another() -> None:
    transcript, _ = recorded()
    with pytest.raises(UnmetRequirementsError, match="user-1 received none"):
        SentModels().run(
            transcript.view(Coalition.of("user-1")),
            knowledge=Knowledge(),
            rng=np.random.default_rng(0),
        )


def test_it_conforms() -> None:
    transcript, truth = recorded()
    check_attack(
        SentModels(),
        transcript.view(Coalition.of(kinds.SERVER)),
        Knowledge(),
        truth=Truth(MappingProxyType(dict(truth.targets))),
    )
