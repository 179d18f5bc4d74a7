"""Arithmetic on arrays of big integers agrees with Python's own, with and without gmpy2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation import _digits
from privaudit.secure_computation.integers import (
    BLOCK,
    PURE_PYTHON,
    SeededSource,
    SystemSource,
    backend,
    byte_width,
    decode,
    decode_one,
    encode,
    encode_one,
    inverse,
    is_prime,
    multiply_modulo,
    random_bits,
    random_prime,
)

WIDE = st.integers(0, 2**200 - 1)


@pytest.fixture(params=["gmpy2", "python"])
def each_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == "gmpy2":
        pytest.importorskip("gmpy2", reason="gmpy2 is in the extra 'crypto'")
    monkeypatch.setenv(PURE_PYTHON, "1" if name == "python" else "0")
    assert backend() == name
    return name


@given(st.lists(WIDE))
def test_encoding_is_big_endian_and_decodes(values: list[int]) -> None:
    rows = encode(values, width=25)
    assert rows.shape == (len(values), 25)
    assert rows.dtype == np.uint8
    assert rows.tobytes() == b"".join(v.to_bytes(25, "big") for v in values)
    assert decode(rows) == values
    assert [decode_one(row) for row in rows] == values


@pytest.mark.parametrize("value", [-1, 256])
def test_an_integer_that_does_not_fit_its_row_is_refused(value: int) -> None:
    with pytest.raises(InvalidDataError, match="1 bytes of a row"):
        encode_one(value, width=1)


@pytest.mark.parametrize("array", [np.zeros(3, np.uint8), np.zeros((3, 4), np.int64)])
def test_arrays_of_another_form_are_refused(array: np.ndarray) -> None:
    with pytest.raises(InvalidDataError, match="uint8 array of shape"):
        decode(array)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("n", [0, 1, BLOCK, BLOCK + 3])
def test_products_modulo_p_are_those_of_python_across_blocks(n: int) -> None:
    values = [(i * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128 for i in range(n)]  # the first is 0
    modulus, factor = 2**107 - 1, 3**150
    product = multiply_modulo(encode(values, width=16), factor, modulus)
    assert product.shape == (n, 14)
    assert decode(product) == [v * factor % modulus for v in values]


@given(st.lists(WIDE, min_size=1, max_size=8), st.integers(1, 2**90), st.integers(0, 2**90))
def test_gmpy2_and_pure_python_multiply_to_the_same_bytes(
    values: list[int], modulus: int, factor: int
) -> None:
    pytest.importorskip("gmpy2", reason="gmpy2 is in the extra 'crypto'")
    rows, results = encode(values, width=25), []
    for forced in "01":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PURE_PYTHON, forced)
            results.append(multiply_modulo(rows, factor, modulus))
    assert results[0].tobytes() == results[1].tobytes()
    assert decode(results[0]) == [v * factor % modulus for v in values]


@given(st.lists(st.tuples(WIDE, WIDE, st.sampled_from([-1, 0, 1])), max_size=20))
def test_sums_of_products_by_digits_are_exact(rows: list[tuple[int, int, int]]) -> None:
    left, right = encode([r[0] for r in rows], width=25), encode([r[1] for r in rows], width=26)
    signs = np.array([r[2] for r in rows], dtype=np.int8)
    assert _digits.inner_product(left, right) == sum(x * y for x, y, _ in rows)
    assert _digits.inner_product(left, right, left_signs=signs) == sum(
        x * y * s for x, y, s in rows
    )


@pytest.mark.parametrize(("count", "width"), [(1, 3), (2, 4), (300, 25)])
def test_sums_row_by_row_carry_through_all_digits(count: int, width: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (5, width), dtype=np.uint8) for _ in range(count)]
    for array in arrays:
        array[0] = 255
    rows = zip(*map(decode, arrays), strict=True)
    assert decode(_digits.add(arrays)) == [sum(row) for row in rows]


def test_sums_of_products_stay_exact_at_the_greatest_digits_of_many_blocks() -> None:
    n = 2 * BLOCK + 1
    full = np.full((n, 4), 255, np.uint8)
    assert _digits.inner_product(full, full) == n * (2**32 - 1) ** 2


@pytest.mark.usefixtures("each_backend")
def test_primality_is_that_of_the_sieve_and_no_pseudoprime_passes() -> None:
    composite = {i * j for i in range(2, 71) for j in range(i, 5000 // i + 1)}
    assert [n for n in range(-2, 5000) if is_prime(n)] == [
        n for n in range(2, 5000) if n not in composite
    ]
    # Carmichael numbers, a product of two large primes, and the least composite that passes
    # Miller-Rabin in the first twelve prime bases (Sorenson and Webster 2017).
    for n in (561, 41041, 825265, (2**61 - 1) * (2**89 - 1), 318665857834031151167461):
        assert not is_prime(n)
    assert is_prime(2**127 - 1)
    assert is_prime(2**255 - 19)


@pytest.mark.parametrize("bits", [3, 8, 61, 160])
def test_both_backends_draw_the_same_prime_of_the_length_asked_for(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gmpy2", reason="gmpy2 is in the extra 'crypto'")
    drawn = []
    for forced in "01":
        monkeypatch.setenv(PURE_PYTHON, forced)
        drawn.append(random_prime(bits, source=SeededSource(np.random.default_rng(bits))))
    assert drawn[0] == drawn[1]
    assert drawn[0].bit_length() == bits
    assert is_prime(drawn[0])


def test_random_primes_below_three_bits_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 3 bits"):
        random_prime(2, source=SystemSource())


def test_random_bits_fill_their_length_and_no_more() -> None:
    drawn = random_bits(2000, bits=60, source=np.random.default_rng(0))
    values = decode(drawn)
    assert drawn.shape == (2000, byte_width(60))
    assert max(values) < 2**60
    # Each bit is 1 in half of the draws, within 6 standard deviations.
    counts = [sum(v >> bit & 1 for v in values) for bit in range(60)]
    assert all(abs(count - 1000) < 6 * 22.4 for count in counts)


def test_a_seed_repeats_its_bytes_and_the_system_does_not() -> None:
    first, second = (SeededSource(np.random.default_rng(5)).bytes(32) for _ in range(2))
    assert first == second
    assert SystemSource().bytes(32) != SystemSource().bytes(32)


def test_an_integer_without_inverse_is_refused() -> None:
    assert inverse(3, 7) * 3 % 7 == 1
    with pytest.raises(InvalidDataError, match="common factor 4"):
        inverse(4, 8)
