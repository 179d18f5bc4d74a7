"""PCSC is exact wherever its sizes are accepted, and refuses what it cannot decode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation import pcsc, shared_key
from privaudit.secure_computation.integers import PURE_PYTHON, decode, encode
from privaudit.secure_computation.pcsc import Keys, Parameters
from privaudit.secure_computation.quantisation import quantise

DEFAULT = Parameters()
KEYS = pcsc.generate(DEFAULT, source=np.random.default_rng(11))
ELEMENTS = st.one_of(st.just(0), st.integers(-32767, 32767), st.sampled_from([-32767, 32767]))
PAIRS = st.lists(st.tuples(ELEMENTS, ELEMENTS), min_size=1, max_size=30)


class Injected:
    """A random source that hands out given integers."""

    def __init__(self, *calls: tuple[list[int], int]) -> None:
        self.calls = [encode(values, width=width).tobytes() for values, width in calls]

    def bytes(self, length: int, /) -> bytes:
        data = self.calls.pop(0)
        assert len(data) == length
        return data


# Computed by an independent implementation of the published formulas.
VECTOR_PARAMETERS = Parameters(160, 60, 32, 32)
VECTOR_KEYS = Keys(
    modulus=730750818665451459101842416358141509827966271787,
    scale=576460752303423619,
    secret=103929005321308650608990281194157653061304342135,
)
VECTOR_NOISE = [2654435769, 2135587861, 4087136352, 1559087156, 276965227]
VECTOR_RESPONSE_NOISE = [2343432205, 3735928559, 3237998097]
VECTOR_CIPHERTEXTS = [
    526140585849900950131289397815387361387053963732,
    250079166166741094355630829235725500866495026098,
    42221152885317973603732862655340405680254013212,
    704768565226988009059263348823043005525043856767,
    45468939453571056567512532915466815530390219575,
]
VECTOR_RESPONSE = 256643900088037999662485419956730095249734253023


@pytest.mark.parametrize("forced", ["0", "1"])
def test_the_test_vector_comes_out_byte_for_byte(
    forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PURE_PYTHON, forced)
    pcsc.check(VECTOR_PARAMETERS, dimension=3, largest=7)
    challenge = pcsc.encrypt(
        [3, 0, -7],
        VECTOR_KEYS,
        parameters=VECTOR_PARAMETERS,
        source=Injected((VECTOR_NOISE, 4)),
    )
    assert challenge.ciphertexts.tobytes() == encode(VECTOR_CIPHERTEXTS, width=20).tobytes()
    response = pcsc.respond(
        challenge,
        [-2, 5, 0],
        parameters=VECTOR_PARAMETERS,
        source=Injected((VECTOR_RESPONSE_NOISE, 4)),
    )
    assert response == pcsc.Response(VECTOR_RESPONSE, 29)
    assert pcsc.decode(response, VECTOR_KEYS) == -6
    lifted = VECTOR_RESPONSE * pow(VECTOR_KEYS.secret, -1, VECTOR_KEYS.modulus)
    assert lifted % VECTOR_KEYS.modulus == 730750818663457617101803821659957161552962245712


def run(a: np.ndarray, b: np.ndarray, seed: int, parameters: Parameters, keys: Keys) -> int:
    rng = np.random.default_rng(seed)
    challenge = pcsc.encrypt(a, keys, parameters=parameters, source=rng)
    return pcsc.decode(pcsc.respond(challenge, b, parameters=parameters, source=rng), keys)


def test_a_hundred_random_pairs_of_16_bits_decode_exactly() -> None:
    pcsc.check(DEFAULT, dimension=1000, largest=32767)
    rng = np.random.default_rng(1)
    for seed in range(100):
        a, b = rng.integers(-32767, 32768, (2, 1000))
        b[rng.random(1000) < 0.1] = 0
        assert run(a, b, seed, DEFAULT, KEYS) == int(a @ b)


@given(PAIRS, st.integers(0, 2**32))
def test_decoding_gives_the_inner_product_of_any_signed_vectors(
    pairs: list[tuple[int, int]], seed: int
) -> None:
    a, b = np.array(pairs).T
    assert run(a, b, seed, DEFAULT, KEYS) == sum(x * y for x, y in pairs)


@given(PAIRS, st.integers(0, 2**32))
@settings(deadline=None)
def test_the_smallest_sizes_that_are_accepted_decode(
    pairs: list[tuple[int, int]], seed: int
) -> None:
    a, b = np.array(pairs).T
    tight = pcsc.fitting(Parameters(16, 8, 8, 8), dimension=len(pairs), largest=32767)
    keys = pcsc.generate(tight, source=np.random.default_rng(seed))
    assert run(a, b, seed, tight, keys) == sum(x * y for x, y in pairs)


def test_the_greatest_noise_decodes_at_the_smallest_sizes_and_not_a_few_bits_below() -> None:
    """The two inequalities suffice, and are within a few bits of necessary."""

    class Ones:
        def bytes(self, length: int, /) -> bytes:
            return b"\xff" * length

    n, largest = 50, 127
    sizes = pcsc.fitting(Parameters(16, 8, 32, 32), dimension=n, largest=largest)

    def exact(parameters: Parameters, zeros: int) -> bool:
        """Whether equal vectors, all Q but for some zeros in the second, decode."""
        a = np.full(n, largest)
        b = np.where(np.arange(n) < zeros, 0, largest)
        keys = pcsc.generate(parameters, source=np.random.default_rng(2))
        challenge = pcsc.encrypt(a, keys, parameters=parameters, source=Ones())
        response = pcsc.respond(challenge, b, parameters=parameters, source=Ones())
        return pcsc.decode(response, keys) == int(a @ b)

    for zeros in (0, 1, n // 2, n):
        assert exact(sizes, zeros)
        assert not exact(replace(sizes, scale_bits=sizes.scale_bits - 4), zeros)
    assert not exact(replace(sizes, modulus_bits=sizes.modulus_bits - 4), 0)


@given(PAIRS, st.integers(0, 2**32))
@settings(max_examples=30)
def test_gmpy2_and_pure_python_send_the_same_bytes(pairs: list[tuple[int, int]], seed: int) -> None:
    pytest.importorskip("gmpy2", reason="gmpy2 is in the extra 'crypto'")
    a, b = np.array(pairs).T
    small, sent = Parameters(160, 60, 16, 16), []
    for forced in "01":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PURE_PYTHON, forced)
            rng = np.random.default_rng(seed)
            keys = pcsc.generate(small, source=rng)
            challenge = pcsc.encrypt(a, keys, parameters=small, source=rng)
            response = pcsc.respond(challenge, b, parameters=small, source=rng)
            sent.append((keys, challenge.ciphertexts.tobytes(), response))
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("sizes", "named", "suggested"),
    [
        ((430, 200, 128, 128), "fails range: 2 alpha", "k2) 200 with modulus_bits (k1) 442 would"),
        (
            (512, 120, 128, 128),
            "fails noise: alpha n Q",
            "k2) 156 with modulus_bits (k1) 512 would",
        ),
        ((257, 150, 128, 128), "and range", "(k2) 156 with modulus_bits (k1) 354 would"),
    ],
)
def test_sizes_that_cannot_decode_are_refused_and_told_what_fits(
    sizes: tuple[int, int, int, int], named: str, suggested: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        pcsc.check(Parameters(*sizes), dimension=1000, largest=32767)
    assert named in str(refused.value)
    assert suggested in str(refused.value)
    fit = pcsc.fitting(Parameters(*sizes), dimension=1000, largest=32767)
    pcsc.check(fit, dimension=1000, largest=32767)


def test_a_refused_size_does_fail_to_decode() -> None:
    parameters, rng = Parameters(400, 200, 128, 128), np.random.default_rng(3)
    with pytest.raises(ConfigurationError):
        pcsc.check(parameters, dimension=100, largest=32767)
    keys = pcsc.generate(parameters, source=rng)
    a = rng.integers(-32767, 32768, 100)
    assert run(a, a, 0, parameters, keys) != int(a @ a)


@pytest.mark.parametrize("arguments", [{"modulus_bits": 2}, {"noise_bits": 128.0}])
def test_lengths_that_are_no_lengths_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        Parameters(**arguments)


@pytest.mark.parametrize(("dimension", "largest"), [(0, 1), (1, 0), (1, 2**31)])
def test_dimensions_and_magnitudes_outside_the_scheme_are_refused(
    dimension: int, largest: int
) -> None:
    with pytest.raises(ConfigurationError, match="PCSC takes vectors"):
        pcsc.check(DEFAULT, dimension=dimension, largest=largest)


@pytest.mark.parametrize(
    "vector",
    [np.zeros(3), np.zeros((2, 2), int), np.zeros(0, int), [2**31], [-(2**31)], [True]],
)
def test_vectors_that_are_not_of_integers_are_refused(vector: object) -> None:
    with pytest.raises(InvalidDataError, match="PCSC takes integers"):
        pcsc.encrypt(np.asarray(vector), KEYS, parameters=DEFAULT, source=np.random.default_rng(0))


@pytest.fixture
def challenge() -> pcsc.Challenge:
    return pcsc.encrypt([1, -2, 3], KEYS, parameters=DEFAULT, source=np.random.default_rng(0))


def respond(challenge: pcsc.Challenge, vector: list[int], *, validate: bool = True) -> object:
    return pcsc.respond(
        challenge,
        vector,
        parameters=DEFAULT,
        source=np.random.default_rng(0),
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_vectors_of_different_lengths_are_refused(
    challenge: pcsc.Challenge, validate: bool
) -> None:
    with pytest.raises(InvalidDataError, match="different lengths"):
        respond(challenge, [1, 2], validate=validate)


@pytest.mark.parametrize("index", [0, 2, 4])
@pytest.mark.parametrize("excess", [0, 1, 2**500])
def test_ciphertexts_outside_the_residues_are_refused(
    challenge: pcsc.Challenge, index: int, excess: int
) -> None:
    values = decode(challenge.ciphertexts)
    values[index] = min(KEYS.modulus + excess, 2**512 - 1)
    bad = replace(challenge, ciphertexts=encode(values, width=64))
    with pytest.raises(InvalidDataError, match=rf"ciphertext {index} .* not in \[0, p\)"):
        respond(bad, [1, 2, 3], validate=False)


def test_the_greatest_residue_is_accepted(challenge: pcsc.Challenge) -> None:
    values = [KEYS.modulus - 1] * 5
    respond(replace(challenge, ciphertexts=encode(values, width=64)), [1, 2, 3])


def test_a_modulus_that_is_no_prime_is_refused_only_where_the_responder_checks(
    challenge: pcsc.Challenge,
) -> None:
    composite = replace(challenge, modulus=2**512 - 1)
    with pytest.raises(InvalidDataError, match="p is not prime"):
        respond(composite, [1, 2, 3])
    respond(composite, [1, 2, 3], validate=False)  # as published: nothing is checked


def test_lengths_other_than_agreed_are_refused(challenge: pcsc.Challenge) -> None:
    for bad, name in (
        (replace(challenge, modulus=2**511 - 1), "modulus p has 511 bits; 512"),
        (replace(challenge, scale=5), "scale alpha has 3 bits; 200"),
    ):
        rows = encode([v % bad.modulus for v in decode(challenge.ciphertexts)], width=64)
        with pytest.raises(InvalidDataError, match=name):
            respond(replace(bad, ciphertexts=rows), [1, 2, 3])


def test_a_response_outside_the_residues_is_refused() -> None:
    with pytest.raises(InvalidDataError, match=r"not in \[0, p\)"):
        pcsc.decode(pcsc.Response(KEYS.modulus, 1), KEYS)


def test_the_secret_is_not_in_the_printed_keys() -> None:
    assert str(KEYS.secret) not in repr(KEYS)


def test_sixteen_bits_give_the_cosine_of_the_reals() -> None:
    rng = np.random.default_rng(4)
    u = rng.normal(size=10_000)
    v = 0.3 * u + rng.normal(size=10_000)
    a, b = quantise(u).values, quantise(v).values
    product = run(a, b, 0, DEFAULT, KEYS)
    truth = float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    assert pcsc.cosine(product, pcsc.squared_norm(a), pcsc.squared_norm(b)) == pytest.approx(
        truth, abs=1e-5
    )


def test_a_zero_vector_has_no_cosine() -> None:
    with pytest.raises(InvalidDataError, match="zero vector"):
        pcsc.cosine(0, 0, 4)


def test_squared_norms_beyond_64_bits_are_exact() -> None:
    vector = np.full(9, -(2**31 - 1))
    assert pcsc.squared_norm(vector) == 9 * (2**31 - 1) ** 2 > 2**63


@given(st.lists(st.tuples(ELEMENTS, ELEMENTS, ELEMENTS), min_size=1, max_size=20))
@settings(max_examples=50)
def test_one_key_for_all_gives_the_gram_matrix_and_the_sum(rows: list[tuple[int, ...]]) -> None:
    vectors = np.array(rows).T
    shared_key.check(DEFAULT, dimension=len(rows), largest=32767)
    shared_key.check_sum(DEFAULT, clients=3, largest=32767)
    rng = np.random.default_rng(0)
    sent = [
        pcsc.encrypt(vector, KEYS, parameters=DEFAULT, source=rng).ciphertexts for vector in vectors
    ]
    gram = [
        [
            shared_key.decode_product(shared_key.product(x, y, modulus=KEYS.modulus), KEYS)
            for y in sent
        ]
        for x in sent
    ]
    assert gram == (vectors @ vectors.T).tolist()
    total = shared_key.decode_sum(shared_key.add(sent, modulus=KEYS.modulus), KEYS)
    assert total.tolist() == vectors.sum(axis=0).tolist()


def test_shared_key_refuses_what_it_cannot_decode() -> None:
    long_noise = Parameters(512, 200, 160, 8)  # would do for PCSC with a responder's short noise
    pcsc.check(long_noise, dimension=10, largest=32767)
    with pytest.raises(ConfigurationError, match="fails noise"):
        shared_key.check(replace(long_noise, noise_bits=190), dimension=10, largest=32767)
    with pytest.raises(ConfigurationError, match=r"N 2\^k3 <= alpha fails"):
        shared_key.check_sum(Parameters(512, 130, 128, 128), clients=3, largest=1)
    with pytest.raises(ConfigurationError, match="N Q"):
        shared_key.check_sum(Parameters(210, 200, 128, 128), clients=3, largest=32767)
    ours, theirs = np.zeros((5, 64), np.uint8), np.zeros((6, 64), np.uint8)
    with pytest.raises(InvalidDataError, match="different lengths"):
        shared_key.product(ours, theirs, modulus=KEYS.modulus)
    with pytest.raises(InvalidDataError, match="one shape"):
        shared_key.add([ours, theirs], modulus=KEYS.modulus)
    with pytest.raises(InvalidDataError, match=r"not in \[0, p\)"):
        shared_key.decode_product(KEYS.modulus, KEYS)


def test_a_sum_under_another_key_is_refused() -> None:
    other = pcsc.generate(DEFAULT, source=np.random.default_rng(12))
    sent = pcsc.encrypt([1, 2], KEYS, parameters=DEFAULT, source=np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match="not under this key"):
        shared_key.decode_sum(sent.ciphertexts, replace(other, modulus=KEYS.modulus))
