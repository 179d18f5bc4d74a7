"""What initiators of PCSC, honest or not, learn of those that answer them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcsc_runs import case, challenge_arrays, random_vector, respond, send_response

from privaudit.attacks.base import Knowledge
from privaudit.attacks.cryptanalysis import (
    HonestInitiator,
    InapplicableError,
    MaliciousModulus,
    RecoveryFailedError,
    craft,
    extract,
    read_response,
    recover_from_queries,
    recover_from_response,
)
from privaudit.attacks.cryptanalysis._unmask import noise_of
from privaudit.attacks.cryptanalysis.initiator import uncertainty
from privaudit.attacks.cryptanalysis.malicious import recognised
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.protocols.disue import kinds
from privaudit.secure_computation import pcsc
from privaudit.testing import check_attack
from privaudit.transcript import Coalition, MemoryRecorder, Party

PARAMETERS = pcsc.Parameters()


def asked(rng, b, *, bits):
    """One honest query: the leak, and all that the initiator knows."""
    one = case(rng, n=len(b), bits=bits)
    answer = respond(one, b, rng)
    known = recover_from_pads(*one.public)
    noise = noise_of(*one.public[:2], one.challenge.ciphertexts[:-2], known)
    leak = read_response(
        one.keys.modulus,
        one.keys.scale,
        one.keys.secret,
        answer.value,
        uncertainty_bits=uncertainty(128, one.keys.scale),
    )
    return one, noise, leak, answer


@pytest.mark.parametrize(("n", "bits"), [(8, 8), (11, 8), (5, 16)])
def test_one_response_gives_a_short_vector_without_zeros(n, bits):
    pytest.importorskip("flint")
    rng = np.random.default_rng(0)
    for _ in range(5):
        b = random_vector(rng, n=n, bits=bits, zeros=False)
        one, noise, leak, answer = asked(rng, b, bits=bits)
        assert leak.product == one.vector @ b
        found = recover_from_response(
            one.vector.tolist(),
            noise,
            leak,
            squared_norm=answer.squared_norm,
            value_bits=bits,
        )
        assert (found == b).all()


def test_one_zero_hides_the_rest_of_a_response():
    pytest.importorskip("flint")
    rng = np.random.default_rng(1)
    for _ in range(5):
        b = random_vector(rng, n=8, bits=8, zeros=False)
        b[3] = 0
        one, noise, leak, answer = asked(rng, b, bits=8)
        with pytest.raises(RecoveryFailedError, match="a zero among its values"):
            recover_from_response(
                one.vector.tolist(),
                noise,
                leak,
                squared_norm=answer.squared_norm,
                value_bits=8,
            )


def test_a_vector_of_more_bits_than_a_response_tells_is_refused():
    rng = np.random.default_rng(2)
    b = random_vector(rng, n=12, bits=8, zeros=False)
    one, noise, leak, answer = asked(rng, b, bits=8)
    with pytest.raises(InapplicableError, match="ask more often"):
        recover_from_response(
            one.vector.tolist(), noise, leak, squared_norm=answer.squared_norm, value_bits=8
        )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 999))
def test_as_many_queries_as_values_are_exact_and_fewer_give_the_projection(n, seed):
    rng = np.random.default_rng(seed)
    b = random_vector(rng, n=n)
    queries = rng.integers(-32_767, 32_768, (n, n))
    whole = recover_from_queries(queries, (queries @ b).tolist())
    if whole.rank == n:
        assert whole.exact
        assert (whole.values == b).all()
    some = queries[: max(1, n // 2)]
    part = recover_from_queries(some, (some @ b).tolist())
    basis = np.linalg.qr(some.T.astype(float))[0]
    if part.rank == len(some) < n:
        assert not part.exact
        assert np.allclose(part.values, basis @ (basis.T @ b), rtol=1e-6, atol=1e-3)


def test_a_prior_counts_across_the_queries_only():
    rng = np.random.default_rng(9)
    model = rng.normal(size=200)
    b = np.rint(20_000 * (model + rng.normal(scale=0.1, size=200)) / np.abs(model).max())
    queries = rng.integers(-32_767, 32_768, (60, 200))
    with_prior = recover_from_queries(queries, (queries @ b).tolist(), prior=model).values
    without = recover_from_queries(queries, (queries @ b).tolist()).values
    scaled = model * (model @ b) / (model @ model)
    errors = [np.linalg.norm(g - b) for g in (with_prior, scaled, without)]
    assert errors[0] < 0.95 * errors[1] < errors[2]
    assert np.allclose(queries @ with_prior, queries @ b)


def test_products_without_their_queries_are_refused():
    with pytest.raises(InvalidDataError, match="2 products need as many"):
        recover_from_queries(np.ones((1, 3), dtype=np.int64), [1, 2])


def oracle(b, rng):
    def respond_to(crafted):
        challenge = pcsc.Challenge(crafted.modulus, crafted.scale, crafted.ciphertexts)
        return pcsc.respond(challenge, b, parameters=PARAMETERS, source=rng, validate=False).value

    return respond_to


def test_a_malicious_initiator_reads_two_values_a_run():
    rng = np.random.default_rng(3)
    b = random_vector(rng, n=50)
    b[1] = 0
    modulus = pcsc.generate(PARAMETERS, source=rng).modulus
    values = extract(oracle(b, rng), 50, modulus=modulus, runs=3)
    assert (values[:6] == b[:6]).all()
    assert np.isnan(values[6:]).all()
    blind = craft(50, modulus=modulus, positions=(7, 40), blind=int(rng.integers(2, 2**62)))
    from privaudit.attacks.cryptanalysis import read

    assert read(blind, oracle(b, rng)(blind)) == {7: b[7], 40: b[40]}


def test_a_long_modulus_reads_the_whole_vector_in_one_run():
    rng = np.random.default_rng(4)
    b = random_vector(rng, n=60)
    values = extract(oracle(b, rng), 60, modulus=(1 << (220 * 60 + 3)) - 1, runs=1)
    assert (values == b).all()


def test_a_responder_that_checks_the_modulus_stops_the_long_one_only():
    rng = np.random.default_rng(5)
    b = random_vector(rng, n=20)

    def answer(crafted):
        challenge = pcsc.Challenge(crafted.modulus, crafted.scale, crafted.ciphertexts)
        return pcsc.respond(challenge, b, parameters=PARAMETERS, source=rng).value

    with pytest.raises(InvalidDataError):
        answer(craft(20, modulus=(1 << (220 * 20 + 3)) - 1))
    modulus = pcsc.generate(PARAMETERS, source=rng).modulus
    assert (extract(answer, 20, modulus=modulus, runs=1)[:2] == b[:2]).all()


def test_positions_that_do_not_fit_are_refused():
    with pytest.raises(ConfigurationError, match="holds 2 distinct coordinates"):
        craft(10, modulus=1 << 500, positions=(0, 1, 2))
    with pytest.raises(ConfigurationError, match="ascend"):
        craft(10, modulus=1 << 500, positions=(4, 2))
    with pytest.raises(InapplicableError, match="active"):
        extract(lambda _: 0, 10, modulus=1 << 500, runs=0)


def test_an_honest_challenge_is_not_taken_for_a_malicious_one():
    one = case(np.random.default_rng(6))
    assert recognised(*one.public) is None
    assert recognised(*one.public[:2], np.zeros_like(one.challenge.ciphertexts)) is None


def run_with(make, b, rng):
    """Record one challenge of user-1 and the answer of user-2."""
    recorder = MemoryRecorder()
    recorder.declare([Party("user-1", "user"), Party("user-2", "user")])
    challenge = make(rng)
    pair = {"initiator": "user-1", "responder": "user-2"}
    recorder.send(
        kind=kinds.SIMILARITY_CHALLENGE,
        sender="user-1",
        receiver="user-2",
        round=1,
        arrays=challenge_arrays(challenge),
        meta=pair,
    )
    answer = pcsc.respond(challenge, b, parameters=PARAMETERS, source=rng, validate=False)
    send_response(recorder, answer, pair, 1, sender="user-2", receiver="user-1")
    return recorder.transcript().view(Coalition.of("user-1"))


def test_a_recorded_malicious_challenge_is_read_and_an_honest_one_is_not():
    rng = np.random.default_rng(7)
    b = random_vector(rng, n=30)

    def malicious(rng):
        modulus = pcsc.generate(PARAMETERS, source=rng).modulus
        made = craft(30, modulus=modulus, positions=(2, 5), blind=12345)
        return pcsc.Challenge(made.modulus, made.scale, made.ciphertexts)

    view = run_with(malicious, b, rng)
    attack = MaliciousModulus()
    guesses = attack.run(view, knowledge=Knowledge(), rng=rng)
    assert guesses.target_ids == ("user-2/round-1",)
    assert np.flatnonzero(np.isfinite(guesses.values[0])).tolist() == [2, 5]
    assert guesses.values[0][[2, 5]].tolist() == b[[2, 5]].tolist()
    check_attack(attack, view, Knowledge())

    honest = run_with(lambda rng: case(rng, n=30).challenge, b, rng)
    with pytest.raises(InapplicableError, match="passive recording"):
        attack.run(honest, knowledge=Knowledge(), rng=rng)


def test_a_recorded_answer_with_a_short_vector_is_solved():
    pytest.importorskip("flint")
    rng = np.random.default_rng(8)
    b = random_vector(rng, n=6, zeros=False)
    view = run_with(lambda rng: case(rng, n=6, zeros=False).challenge, b, rng)
    guesses = HonestInitiator().run(view, knowledge=Knowledge(), rng=rng)
    assert guesses.values[0].tolist() == b.tolist()
    assert guesses.diagnostics["exact"] == 1
