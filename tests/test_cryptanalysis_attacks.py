"""From recorded views of DisUE's similarities to every client's vector, and on to its record."""

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pytest
from cli_runs import called
from pcsc_runs import exchange

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.cryptanalysis import (
    HonestInitiator,
    InapplicableError,
    LatticeReduction,
    MaliciousModulus,
    NoPads,
    PadRatio,
    RecoveredInversion,
    SecretModulus,
)
from privaudit.attacks.cryptanalysis.chain import real_scale, update_direction
from privaudit.datasets import load_dataset
from privaudit.datasets.partition import single_record_users
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.models.spec import ModelSpec
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.config import DisUEConfig
from privaudit.protocols.disue.protocol import DisUE
from privaudit.scoring.reconstruction import psnr
from privaudit.scoring.recovered import all_exact, exact_fraction, relative_error
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Truth

ATTACKS = [PadRatio(), NoPads(), LatticeReduction(), SecretModulus()]
NAMES = [attack.name.split("/")[1] for attack in ATTACKS]


def view_of(variant, *members):
    return exchange(variant).transcript.view(Coalition.of(*members))


def mean(scores):
    return float(np.mean(list(scores.per_target.values())))


def run(attack, view):
    return attack.run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))


@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_a_relaying_server_recovers_every_initiator_and_keeps_the_rules(attack):
    if attack.name.endswith(("lattice", "secret-modulus")):
        pytest.importorskip("flint")
    made, view = exchange("relay"), view_of("relay", "server")
    guesses = run(attack, view)
    assert set(guesses.target_ids) == {f"user-{i}/round-{t}" for i in (1, 2, 3) for t in (1, 2)}
    assert mean(all_exact(guesses, made.truth)) == 1
    baseline = attack.baseline(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert mean(exact_fraction(baseline, made.truth)) < 0.2
    assert mean(relative_error(baseline, made.truth)) > 100 * mean(
        relative_error(guesses, made.truth)
    )
    control = deranged(view, kinds=attack.reads, rng=np.random.default_rng(1))
    assert mean(exact_fraction(run(attack, control), made.truth)) < 0.2
    check_attack(attack, view, Knowledge(), truth=made.truth)


def test_a_server_recovers_all_clients_under_a_shared_key():
    made = exchange("shared_key")
    guesses = run(PadRatio(), view_of("shared_key", "server"))
    assert len(guesses.target_ids) == 8
    assert mean(all_exact(guesses, made.truth)) == 1


@pytest.mark.parametrize("variant", ["pairwise", "relay"])
def test_a_responder_recovers_those_that_asked_it(variant):
    made = exchange(variant)
    guesses = run(PadRatio(), view_of(variant, "user-3"))
    assert {t.split("/")[0] for t in guesses.target_ids} == {"user-1", "user-2"}
    assert mean(all_exact(guesses, made.truth)) == 1


@pytest.mark.parametrize(
    ("variant", "member"), [("pairwise", "server"), ("relay", "user-1"), ("shared_key", "user-2")]
)
@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_who_saw_no_ciphertexts_is_told_so(attack, variant, member):
    with pytest.raises(UnmetRequirementsError, match=f"{member} saw none of a client outside it"):
        run(attack, view_of(variant, member))


def test_an_initiator_alone_gets_one_direction_of_each_responder():
    made, view = exchange("pairwise"), view_of("pairwise", "user-1")
    attack = HonestInitiator()
    guesses = run(attack, view)
    assert len(guesses.target_ids) == 6
    own = {f"round-{t}": made.truth.get(f"user-1/round-{t}", "quantised") for t in (1, 2)}
    for target, guess in zip(guesses.target_ids, guesses.values, strict=True):
        a, b = own[target.split("/")[1]], made.truth.get(target, "quantised")
        assert guess @ a == pytest.approx(a @ b)
    silent = replace(view, messages=tuple(m for m in view.messages if "model" not in m.kind))
    for target, guess in zip(guesses.target_ids, run(attack, silent).values, strict=True):
        a, b = own[target.split("/")[1]], made.truth.get(target, "quantised")
        assert np.allclose(guess, a * ((a @ b) / (a @ a)))
    assert mean(exact_fraction(guesses, made.truth)) < 0.1
    check_attack(attack, view, Knowledge(), truth=made.truth)
    with pytest.raises(InapplicableError, match="passive recording"):
        run(MaliciousModulus(), view)
    with pytest.raises(UnmetRequirementsError, match="add a client that acts as initiator"):
        run(attack, view_of("pairwise", "server"))


def test_the_control_exchanges_relayed_messages_by_their_authors():
    view = view_of("relay", "server", "user-2")
    control = deranged(view, kinds=PadRatio.reads, rng=np.random.default_rng(3))
    author = {
        m.arrays["ciphertexts"].tobytes(): (m.meta["initiator"], m.round)
        for m in view.select(kinds.SIMILARITY_CHALLENGE)
    }
    sources = {}
    for message in control.select(kinds.SIMILARITY_CHALLENGE):
        source = author[message.arrays["ciphertexts"].tobytes()]
        assert source[1] == message.round
        sources.setdefault((message.meta["initiator"], message.round), set()).add(source[0])
    for t in (1, 2):
        assert sources["user-1", t] == {"user-3"}
        assert sources["user-3", t] == {"user-1"}
        assert sources["user-2", t] == {"user-2"}


def test_a_client_whose_ciphertexts_withstand_is_a_failed_target():
    made, view = exchange("relay"), view_of("relay", "server")
    broken = []
    for message in view.messages:
        if message.kind == kinds.SIMILARITY_CHALLENGE and message.meta["initiator"] == "user-2":
            arrays = dict(message.arrays)
            arrays["ciphertexts"] = np.roll(arrays["ciphertexts"], 1, axis=1)
            arrays["ciphertexts"][:, 0] = 0
            message = replace(message, arrays=MappingProxyType(arrays))
        broken.append(message)
    guesses = run(PadRatio(), replace(view, messages=tuple(broken)))
    scores = exact_fraction(guesses, made.truth).per_target
    assert {t: s for t, s in scores.items() if s < 1} == {
        "user-2/round-1": 0,
        "user-2/round-2": 0,
    }
    assert guesses.diagnostics["withstood"] == 2


def test_malformed_messages_are_named():
    view = view_of("relay", "server")
    (first, *rest) = (m for m in view.messages if m.kind == kinds.SIMILARITY_CHALLENGE)
    for arrays, meta, match in (
        (
            {name: a for name, a in first.arrays.items() if name != "scale"},
            first.meta,
            "'scale' of message",
        ),
        (dict(first.arrays), {"initiator": "nobody"}, "names no party: 'nobody'"),
        (dict(first.arrays) | {"ciphertexts": np.zeros(3)}, first.meta, "'ciphertexts' of message"),
    ):
        bad = replace(first, arrays=MappingProxyType(arrays), meta=MappingProxyType(meta))
        with pytest.raises(InvalidDataError, match=match):
            run(PadRatio(), replace(view, messages=(bad, *rest)))


def test_scores_of_recovered_vectors():
    truth = Truth(
        {"a": {"quantised": np.array([1, -2, 0, 4]), "vector": np.array([1.0, -2, 0, 4])}}
    )

    def of(*values):
        return Guesses(("a",), (np.array(values),), np.zeros(1))

    assert exact_fraction(of(1, -2, 0, 4), truth).per_target["a"] == 1
    assert all_exact(of(1, -2, 0, 5), truth).per_target["a"] == 0
    assert exact_fraction(of(1, np.nan, 0, 5), truth).per_target["a"] == 0.5
    assert relative_error(of(2, -4, 0, 8), truth).per_target["a"] < 1e-12
    assert relative_error(of(0, 0, 7, 0), truth).per_target["a"] == 1
    assert relative_error(of(0, 0, 0, 0), truth).per_target["a"] == 1
    assert np.isnan(relative_error(of(1, np.nan, 0, 4), truth).per_target["a"])
    with pytest.raises(InvalidDataError, match="has shape"):
        exact_fraction(of(1, 2), truth)


def test_the_real_scale_is_that_at_which_most_coordinates_have_not_moved():
    rng = np.random.default_rng(2)
    before = rng.normal(size=4000)
    after = before.copy()
    moved = rng.choice(4000, 1500, replace=False)
    after[moved] += rng.normal(scale=0.05, size=1500)
    kappa = np.abs(after).max() / 32_767
    quantised = np.rint(after / kappa).astype(np.int64)
    assert real_scale(quantised, before) == pytest.approx(kappa, rel=1e-4)
    update, ratio = update_direction(quantised, before)
    cosine = update @ (before - after) / np.linalg.norm(update) / np.linalg.norm(before - after)
    assert cosine > 0.9999
    assert ratio > 100
    with pytest.raises(InapplicableError, match="nothing to invert"):
        update_direction(np.rint(before / kappa).astype(np.int64), before)
    with pytest.raises(InapplicableError, match="does not point the way"):
        real_scale(quantised, -before)


@cache
def single_records(similarity_on):
    data = single_record_users(
        load_dataset("digits"), users=5, auxiliary_records=300, rng=np.random.default_rng(0)
    )
    recorder = MemoryRecorder()
    config = DisUEConfig(
        model="small-cnn",
        rounds=1,
        participation=1.0,
        update="gradient",
        distillation="none",
        similarity="relay",
        similarity_on=similarity_on,
    )
    DisUE(config).run(data, rng=np.random.default_rng(0), recorder=recorder)
    transcript = recorder.transcript()
    model = transcript.public["model"]
    spec = ModelSpec(model["name"], tuple(model["input_shape"]), model["classes"])
    knowledge = Knowledge(spec, transcript.public_arrays["initial-parameters"], data.auxiliary)
    view = transcript.view(Coalition.of("server", capabilities=Capability))
    return view, knowledge, recorder.truth()


@pytest.mark.parametrize("similarity_on", ["params", "delta"])
def test_ciphertexts_of_one_round_become_pictures(similarity_on):
    view, knowledge, truth = single_records(similarity_on)
    attack = RecoveredInversion(iterations=60, restarts=1)
    guesses = attack.run(view, knowledge=knowledge, rng=np.random.default_rng(0))
    baseline = attack.baseline(view, knowledge=knowledge, rng=np.random.default_rng(0))
    assert guesses.target_ids == baseline.target_ids == tuple(f"user-{i}" for i in range(1, 5))
    reached, prior = (
        np.median(list(psnr(g, truth).per_target.values())) for g in (guesses, baseline)
    )
    assert reached > prior + 6
    exact = run(PadRatio(), view)
    assert mean(all_exact(exact, truth)) == 1


def test_the_chain_keeps_the_rules():
    view, knowledge, truth = single_records("params")
    check_attack(RecoveredInversion(iterations=3, restarts=1), view, knowledge, truth=truth)
    silent = replace(
        view,
        messages=tuple(m for m in view.messages if m.kind != kinds.GLOBAL_MODEL),
        public_arrays=MappingProxyType({}),
    )
    with pytest.raises(UnmetRequirementsError, match="the model before training"):
        RecoveredInversion().run(silent, knowledge=knowledge, rng=np.random.default_rng(0))


def test_explain_knows_an_attack_by_its_last_name(tmp_path, capsys, monkeypatch):
    def cli(*arguments):
        return called(*arguments, cwd=tmp_path, capsys=capsys, monkeypatch=monkeypatch)

    short, whole = cli("explain", "pcsc-ratio"), cli("explain", "cryptanalysis/pcsc-ratio")
    assert short.code == whole.code == 0
    assert short.out == whole.out
    assert "attack cryptanalysis/pcsc-ratio" in short.out
    assert cli("explain", "pcsc").code != 0
