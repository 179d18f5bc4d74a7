"""Quantisation, shares, masks, and CKKS compute what they say, and refuse the rest."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation import ckks, masking, secret_sharing
from privaudit.secure_computation.quantisation import dequantise, largest_integer, quantise

INTEGERS = hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-32767, 32767))


# Quantisation


@pytest.mark.parametrize("bits", [8, 16, 24])
@given(
    vector=hnp.arrays(
        np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
    ).filter(lambda v: np.abs(v).max() > 1e-290)
)
def test_integers_are_within_half_a_step_and_reach_q(bits: int, vector: np.ndarray) -> None:
    quantised = quantise(vector, bits=bits)
    largest = 2 ** (bits - 1) - 1
    assert np.abs(quantised.values).max() == largest == largest_integer(bits)
    error = np.abs(dequantise(quantised) - vector).max()
    assert error <= 0.5000001 / quantised.scale


def test_ties_go_to_the_even_integer() -> None:
    # A largest magnitude of 127 makes the scale 1.
    values = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
    assert quantise(values, bits=8).values.tolist() == [127, 0, 2, 2, 0, -2, -2]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([0.0, np.nan, np.nan], "NaN at 2 of 3 places, first at index 1"),
        ([1.0, -np.inf], "infinity at 1 of 2 places"),
        ([0.0, -0.0], "zero vector"),
        ([[1.0]], r"shape \(1, 1\)"),
        ([], r"shape \(0,\)"),
        (["a"], "real numbers"),
        ([5e-324], "too small to scale"),
    ],
)
def test_vectors_that_cannot_be_quantised_are_refused(vector: object, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        quantise(np.asarray(vector))


def test_other_lengths_of_integers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="12 is not one of 8, 16, 24"):
        quantise([1.0], bits=12)


# Two servers


def two_servers(a: np.ndarray, b: np.ndarray, seed: int) -> int:
    rng = np.random.default_rng(seed)
    shares = list(
        zip(secret_sharing.share(a, source=rng), secret_sharing.share(b, source=rng), strict=True)
    )
    triples = secret_sharing.deal_triple(a.size, source=rng)
    opened = [
        secret_sharing.open_differences(*own, triple)
        for own, triple in zip(shares, triples, strict=True)
    ]
    results = [
        secret_sharing.product_share(j, own=opened[j], received=opened[1 - j], triple=triples[j])
        for j in (0, 1)
    ]
    return secret_sharing.reconstruct(*results)


@given(INTEGERS, st.integers(0, 2**32))
def test_shares_give_the_inner_product_exactly(a: np.ndarray, seed: int) -> None:
    b = np.random.default_rng(seed).integers(-32767, 32768, a.size)
    assert two_servers(a, b, seed) == int(a @ b)


def test_shares_are_exact_up_to_the_bound_that_is_checked() -> None:
    n, largest = 8, 2**30 - 1
    secret_sharing.check(dimension=n, largest=largest)
    a = np.full(n, largest)
    assert two_servers(a, -a, 0) == -n * largest**2
    with pytest.raises(ConfigurationError, match=r"n Q\^2 < 2\^63"):
        secret_sharing.check(dimension=n, largest=2**30)
    a = np.full(n, 2**30)
    assert two_servers(a, a, 0) != n * 2**60


def test_a_share_is_the_source_alone_and_the_openings_do_not_depend_on_the_vectors() -> None:
    """What server 0 holds is the same random numbers whatever the vector; d is masked by x."""
    one = secret_sharing.share(np.array([1, 2, 3]), source=np.random.default_rng(1))
    other = secret_sharing.share(np.array([-9, 0, 7]), source=np.random.default_rng(1))
    assert one[0].tolist() == other[0].tolist()
    assert one[1].tolist() != other[1].tolist()
    triples = secret_sharing.deal_triple(3, source=np.random.default_rng(2))
    opened = sum(
        secret_sharing.open_differences(s, s, t).first for s, t in zip(one, triples, strict=True)
    )
    masks = triples[0].x + triples[1].x
    assert (opened + masks).view(np.int64).tolist() == [1, 2, 3]
    assert not np.isin(opened.view(np.int64), [1, 2, 3]).any()


def test_shares_refuse_reals_other_lengths_and_a_third_server() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidDataError, match="quantise"):
        secret_sharing.share([0.5], source=rng)
    triple, _ = secret_sharing.deal_triple(3, source=rng)
    short, _ = secret_sharing.share([1, 2], source=rng)
    with pytest.raises(InvalidDataError, match="one length"):
        secret_sharing.open_differences(short, short, triple)
    opening = secret_sharing.Opening(triple.x, triple.y)
    with pytest.raises(ConfigurationError, match="two servers"):
        secret_sharing.product_share(2, own=opening, received=opening, triple=triple)
    with pytest.raises(InvalidDataError, match="different lengths"):
        secret_sharing.product_share(
            0, own=opening, received=secret_sharing.Opening(short, short), triple=triple
        )


# Masks


@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 2**32))
def test_masks_cancel_in_the_sum_of_all(clients: int, dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = [f"client-{i}" for i in range(clients)]
    seeds = masking.pairwise_seeds(ids, source=rng)
    vectors = rng.integers(-(2**59), 2**59, (clients, dimension))
    sent = {
        client: masking.mask(vector, client=client, seeds=seeds[client], round_index=seed)
        for client, vector in zip(ids, vectors, strict=True)
    }
    assert masking.aggregate(sent, clients=ids).tolist() == vectors.sum(axis=0).tolist()


def test_one_masked_vector_is_unrelated_to_its_vector_and_new_each_round() -> None:
    seeds = masking.pairwise_seeds(["u", "v"], source=np.random.default_rng(0))["u"]
    zeros = np.zeros(4000, dtype=np.int64)
    first = masking.mask(zeros, client="u", seeds=seeds)
    second = masking.mask(zeros, client="u", seeds=seeds, round_index=1)
    for sent in (first, second, first - second):
        # Uniform on [0, 1): mean within 6 standard deviations of 1/2.
        assert abs(float((sent / 2.0**64).mean()) - 0.5) < 6 * 0.2887 / 4000**0.5
    assert not (first == second).any()
    assert masking.mask(zeros, client="u", seeds=seeds).tolist() == first.tolist()


def test_who_dropped_out_is_named() -> None:
    ids = ["a", "b", "c", "d"]
    seeds = masking.pairwise_seeds(ids, source=np.random.default_rng(0))
    sent = {c: masking.mask([1], client=c, seeds=seeds[c]) for c in ("a", "d")}
    with pytest.raises(InvalidDataError, match="dropped out: b, c"):
        masking.aggregate(sent, clients=ids)
    with pytest.raises(InvalidDataError, match="not made for: d"):
        masking.aggregate(sent, clients=["a"])


@pytest.mark.parametrize("ids", [[], ["a"], ["a", "a"]])
def test_masks_need_two_distinct_clients(ids: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="at least two clients"):
        masking.pairwise_seeds(ids, source=np.random.default_rng(0))


def test_masks_refuse_what_they_cannot_cover() -> None:
    seeds = {"v": bytes(16)}
    with pytest.raises(ConfigurationError, match="nobody"):
        masking.mask([1], client="u", seeds={})
    with pytest.raises(ConfigurationError, match="none with itself"):
        masking.mask([1], client="v", seeds=seeds)
    with pytest.raises(ConfigurationError, match="round_index"):
        masking.mask([1], client="u", seeds=seeds, round_index=-1)
    with pytest.raises(InvalidDataError, match="quantise"):
        masking.mask([0.5], client="u", seeds=seeds)
    with pytest.raises(InvalidDataError, match="has 16 bytes; this one has 3"):
        masking.mask([1], client="u", seeds={"v": bytes(3)})
    one = {"u": np.zeros(1, np.uint64), "v": np.zeros(2, np.uint64)}
    with pytest.raises(InvalidDataError, match="one shape"):
        masking.aggregate(one, clients=["u", "v"])
    with pytest.raises(InvalidDataError, match="dtype uint64"):
        masking.aggregate({"u": np.zeros(1, np.int64)}, clients=["u"])


# CKKS


@pytest.fixture(scope="module")
def keys() -> tuple[ckks.Context, ckks.Context]:
    pytest.importorskip("tenseal", reason="tenseal is in the extra 'crypto'")
    own = ckks.generate(8192)
    return own, ckks.public(own)


@pytest.mark.parametrize("dimension", [1, 4096, 5000])
def test_ckks_gives_inner_products_of_unit_vectors_to_1e5(
    keys: tuple[ckks.Context, ckks.Context], dimension: int
) -> None:
    own, public = keys
    u, v = np.random.default_rng(dimension).normal(size=(2, dimension))
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    sent = ckks.encrypt(u, public)
    assert len(sent.ciphertexts) == -(-dimension // 4096)
    with_plain = ckks.times_plain(sent, v)
    with_cipher = ckks.times(sent, ckks.encrypt(v, public))
    for product in (with_plain, with_cipher):
        assert product.dimension == len(product.ciphertexts) == 1
        assert ckks.decrypt(product, own) == pytest.approx(np.array([u @ v]), abs=1e-5)
    assert ckks.decrypt(sent, own) == pytest.approx(u, abs=1e-6)


def test_the_public_half_does_not_decrypt(keys: tuple[ckks.Context, ckks.Context]) -> None:
    _, public = keys
    assert not public.has_secret_key
    with pytest.raises(ConfigurationError, match="public half"):
        ckks.decrypt(ckks.encrypt([1.0], public), public)


def test_ckks_refuses_other_rings_shapes_and_dimensions(
    keys: tuple[ckks.Context, ckks.Context],
) -> None:
    _, public = keys
    with pytest.raises(ConfigurationError, match="4096 is not one of 8192, 16384"):
        ckks.generate(4096)
    with pytest.raises(InvalidDataError, match="NaN"):
        ckks.encrypt([np.nan], public)
    with pytest.raises(InvalidDataError, match="shape"):
        ckks.encrypt([[1.0]], public)
    sent = ckks.encrypt([1.0, 2.0], public)
    with pytest.raises(InvalidDataError, match="one dimension"):
        ckks.times_plain(sent, [1.0])
    with pytest.raises(InvalidDataError, match="one dimension"):
        ckks.times(sent, ckks.encrypt([1.0], public))


def test_a_missing_tenseal_names_the_extra() -> None:
    with pytest.MonkeyPatch.context() as patch:

        def refuse(name: str) -> object:
            raise ModuleNotFoundError(name)

        patch.setattr(importlib, "import_module", refuse)
        with pytest.raises(ConfigurationError, match=r"privaudit\[crypto\]"):
            ckks.generate(8192)
