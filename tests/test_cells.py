"""What a cell measures when the control experiment is not possible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_runs import SCRIPT, privaudit

from privaudit import plugins
from privaudit.attacks.base import Knowledge
from privaudit.attacks.reconstruction import SentModels
from privaudit.campaigns.cells import Cell, CellStore, measure
from privaudit.campaigns.scorers import model_scorers
from privaudit.errors import PluginError
from privaudit.protocols.disue import kinds
from privaudit.scoring.estimate import compare, verdict
from privaudit.transcript import Coalition, MemoryRecorder, Party


def lone_cell(clients: int) -> Cell:
    """A cell on a run of one round in which so many clients sent their models."""
    rng, recorder = np.random.default_rng(0), MemoryRecorder()
    users = [f"user-{i}" for i in range(clients)]
    recorder.declare([*(Party(u, "user") for u in users), Party(kinds.SERVER, "server")])
    recorder.publish("initial-parameters", np.zeros(5, dtype=np.float32))
    for user in users:
        model = rng.normal(size=5).astype(np.float32)
        recorder.send(
            round=1,
            kind=kinds.PARAMETERS,
            sender=user,
            receiver=kinds.SERVER,
            arrays={"parameters": model},
        )
        recorder.note_truth(f"{user}/round-1", parameters=model)
    return Cell(
        attack=SentModels(),
        coalition=Coalition.of(kinds.SERVER),
        label="server",
        transcript=recorder.transcript(),
        digest=f"test-{clients}",
        truth=recorder.truth(),
        knowledge=Knowledge(),
        scorers=model_scorers(name="parameters", reference="parameters"),
    )


def test_a_single_message_leaves_no_control_and_does_not_hide_the_attack(tmp_path: Path) -> None:
    measured = measure(lone_cell(1))
    assert measured.status == "measured"
    assert measured.diagnostics["without-control"] == 1.0
    first = measured.triples[0]
    assert first.control is None
    assert first.attack.per_target == {"user-0/round-1": 1.0}
    figure = compare(first.attack, baseline=first.baseline, control=None, confidence=0.95)
    assert verdict(figure) == "inconclusive"  # one target proves little, control or not
    store = CellStore(tmp_path)
    store.put(lone_cell(1), measured)
    again = store.get(lone_cell(1))
    assert again is not None
    assert again.triples == measured.triples


def test_two_messages_have_a_control() -> None:
    measured = measure(lone_cell(2))
    assert "without-control" not in measured.diagnostics
    control = measured.triples[0].control
    assert control is not None
    assert set(control.per_target.values()) == {0.0}


def test_an_error_of_the_attack_is_never_taken_for_a_missing_control() -> None:
    broken = replace(lone_cell(2), control=_broken)
    assert measure(broken).status == "failed"


def _broken(view: object, *, kinds: object, rng: object) -> None:
    raise ValueError("the control experiment itself is wrong")


def test_an_attack_may_be_named_without_its_family() -> None:
    assert plugins.whole_name("attack", "pcsc-ratio") == "cryptanalysis/pcsc-ratio"
    assert plugins.whole_name("attack", "inversion/dlg") == "inversion/dlg"
    assert plugins.whole_name("attack", "nothing") == "nothing"
    with pytest.raises(PluginError, match="indices/membership"):
        plugins.whole_name("attack", "membership")


@pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}")
def test_explain_lists_every_parameter_with_its_default_in_plain_words(tmp_path: Path) -> None:
    from privaudit.protocols.disue import DisUEConfig

    ended = privaudit("explain", "disue", cwd=tmp_path)
    assert ended.code == 0
    for name in DisUEConfig.model_fields:
        assert name in ended.out
    assert ":class:" not in ended.out
    assert "PCSC" in ended.out
