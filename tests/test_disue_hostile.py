"""Recordings of DisUE written by a stranger: each a typed error that names the message."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from pcsc_runs import case, exchange

from privaudit.attacks.base import Attack, Knowledge
from privaudit.attacks.cryptanalysis import InapplicableError, PadRatio, RecoveryFailedError
from privaudit.attacks.cryptanalysis.lattice import recover_by_lattice
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.attacks.cryptanalysis.secret_modulus import recover_without_modulus
from privaudit.attacks.inference.counts import LabelsFromCounts
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.attacks.reconstruction.sent import SentModels
from privaudit.errors import InvalidDataError, PrivauditError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Coalition, MemoryRecorder, Party, Transcript


def recorded(kind: str, arrays: dict[str, Any], meta: dict[str, Any] | None = None) -> Transcript:
    recorder = MemoryRecorder()
    users = ("user-1", "user-2", "user-3")
    recorder.declare([Party(kinds.SERVER, "server"), *(Party(u, "user") for u in users)])
    for user in users[:2]:
        recorder.send(
            kind=kind, sender=user, receiver=kinds.SERVER, round=1, arrays=arrays, meta=meta
        )
    return recorder.transcript()


@pytest.mark.parametrize("pairs", ["abc", [["user-1"]], [[1, 2]], {"user-1": "user-2"}, 7])
def test_pairs_that_are_none_are_refused_before_anything_is_hidden(pairs: Any) -> None:
    run = recorded(kinds.SIMILARITY_VALUES, {"cosines": np.ones(1)}, {"pairs": pairs})
    with pytest.raises(InvalidDataError, match="similarity-values, message 0: meta 'pairs'"):
        pseudonymise_round(
            run, round=1, kinds=[kinds.SIMILARITY_VALUES], rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("cosines", [np.ones(0), np.ones(3), np.array(1.0)])
def test_pairs_without_a_value_each_are_refused(cosines: Any) -> None:
    pairs = [["user-1", "user-2"], ["user-1", "user-3"]]
    run = recorded(kinds.SIMILARITY_VALUES, {"cosines": cosines}, {"pairs": pairs})
    with pytest.raises(InvalidDataError, match="2 pairs need as many rows of 'cosines'"):
        pseudonymise_round(
            run, round=1, kinds=[kinds.SIMILARITY_VALUES], rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize(
    ("attack", "kind", "name"),
    [
        (LabelsFromCounts(), kinds.CLASS_COUNTS, "counts"),
        (SentModels(), kinds.PARAMETERS, "parameters"),
    ],
)
def test_a_message_without_its_array_is_named(attack: Attack, kind: str, name: str) -> None:
    view = recorded(kind, {"other": np.ones(2)}).view(Coalition.of(kinds.SERVER))
    with pytest.raises(InvalidDataError, match=f"message 0 .* carries no '{name}'; it has other"):
        attack.run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))


@pytest.mark.parametrize("initiator", [["user-1"], {"user-1": 1}, 5, True])
def test_an_initiator_that_is_no_id_names_no_party(initiator: Any) -> None:
    view = exchange("relay").transcript.view(Coalition.of("server"))
    messages = tuple(
        replace(m, meta=MappingProxyType({"initiator": initiator}))
        if m.kind == kinds.SIMILARITY_CHALLENGE
        else m
        for m in view.messages
    )
    with pytest.raises(InvalidDataError, match="names no party"):
        PadRatio().run(
            replace(view, messages=messages), knowledge=Knowledge(), rng=np.random.default_rng(0)
        )


def test_a_scale_longer_than_the_ciphertexts_is_no_scale() -> None:
    pytest.importorskip("flint")
    ciphertexts = case(np.random.default_rng(0)).challenge.ciphertexts
    # Reduced, a scale of 1.6 million bits would take hours.
    with pytest.raises(InvalidDataError, match="below the modulus, which has at most 512 bits"):
        recover_without_modulus(1 << 1_600_000, ciphertexts)


def test_what_would_take_too_long_to_reduce_is_refused() -> None:
    pytest.importorskip("flint")
    rng = np.random.default_rng(0)
    long = rng.integers(0, 256, (20, 2048), dtype=np.uint8)
    with pytest.raises(InapplicableError, match="beyond 4096 bits"):
        recover_without_modulus((1 << 16_000) + 1, long)
    with pytest.raises(InapplicableError, match="beyond 4096 bits"):
        recover_by_lattice((1 << 16_383) + 1, (1 << 16_000) + 1, long)


def test_lattices_beyond_floating_point_are_an_error_of_the_attack() -> None:
    pytest.importorskip("flint")
    long = np.random.default_rng(0).integers(0, 256, (20, 512), dtype=np.uint8)
    with pytest.raises(RecoveryFailedError, match="too long for the linear program"):
        recover_without_modulus((1 << 2000) + 1, long)


@pytest.mark.parametrize("modulus", [0, 1, 2, 1 << 511, 3**300])
def test_a_modulus_that_is_none_is_a_typed_error(modulus: int) -> None:
    _, scale, ciphertexts = case(np.random.default_rng(0)).public
    with pytest.raises(PrivauditError):
        recover_from_pads(modulus, scale, ciphertexts)
    with pytest.raises(PrivauditError):
        recover_by_lattice(modulus, scale, ciphertexts)


@pytest.mark.parametrize(("round", "said"), [(None, "in any round;"), (7, "in round 7;")])
def test_where_nothing_was_sent_the_round_is_named(round: int | None, said: str) -> None:
    view = recorded(kinds.PARAMETERS, {"parameters": np.ones(2)}).view(Coalition.of(kinds.SERVER))
    with pytest.raises(UnmetRequirementsError, match=f"outside it {said}"):
        LabelsFromCounts(round=round).run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
