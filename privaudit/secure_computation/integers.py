"""Arithmetic on many big integers: arrays of bytes, random sources, primes.

A vector of n integers below 256 ** width is a ``uint8`` array of shape (n, width), one integer a
row, most significant byte first. That is what a wire carries, what a recording stores, and 64
bytes instead of 100 a coordinate in memory; Python integers exist for one block of rows at a time.

Arithmetic runs on `gmpy2 <https://gmpy2.readthedocs.io>`_ where it is installed (the extra
``crypto``) and on Python's own integers otherwise, with the same results byte for byte. Set the
environment variable ``PRIVAUDIT_PURE_PYTHON=1`` to do without gmpy2.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError

__all__ = [
    "PURE_PYTHON",
    "Backend",
    "Bytes",
    "RandomSource",
    "SeededSource",
    "SystemSource",
    "backend",
    "blocks",
    "byte_width",
    "decode",
    "decode_one",
    "encode",
    "encode_one",
    "inverse",
    "is_prime",
    "map_modulo",
    "multiply_modulo",
    "random_bits",
    "random_prime",
]

#: Big integers, shape (n, width), or one, shape (width,); most significant byte first.
Bytes = npt.NDArray[np.uint8]
Backend = Literal["gmpy2", "python"]

#: Environment variable that forces pure Python where it is set and neither empty nor ``0``.
PURE_PYTHON: Final = "PRIVAUDIT_PURE_PYTHON"
#: Rows held as Python objects at a time: about 3 MB of 512-bit integers.
BLOCK: Final = 1 << 14
#: Rounds of Miller-Rabin; a composite passes with probability at most 4 ** -40.
ROUNDS: Final = 40


class RandomSource(Protocol):
    """Where random bytes come from: the seam between real use and reproducible simulations."""

    def bytes(self, length: int, /) -> bytes:
        """Return ``length`` uniform random bytes."""
        ...


@dataclass(frozen=True, slots=True)
class SystemSource:
    """The operating system's generator (`secrets`): for real use."""

    def bytes(self, length: int, /) -> bytes:
        """Return ``length`` bytes fit for keys."""
        return secrets.token_bytes(length)


@dataclass(frozen=True, slots=True)
class SeededSource:
    """A numpy generator, for simulations: the same seed gives the same bytes.

    Not fit for keys that shall protect anything. Any object with a method ``bytes`` will do as a
    source, so that an ``np.random.Generator`` can be passed as it is; this class names the intent.
    """

    rng: np.random.Generator

    def bytes(self, length: int, /) -> bytes:
        """Return the generator's next ``length`` bytes."""
        return self.rng.bytes(length)


@cache
def _gmpy2() -> Any:
    return importlib.import_module("gmpy2") if importlib.util.find_spec("gmpy2") else None


def backend() -> Backend:
    """Return what big integers are computed with now: ``"gmpy2"`` or ``"python"``."""
    forced = os.environ.get(PURE_PYTHON, "0") not in ("", "0")
    return "python" if forced or _gmpy2() is None else "gmpy2"


def byte_width(bits: int) -> int:
    """Return how many bytes an integer of ``bits`` bits takes.

    Examples
    --------
    >>> byte_width(512), byte_width(60)
    (64, 8)
    """
    return (bits + 7) // 8


def blocks(n: int) -> Iterator[slice]:
    """Yield slices that together cover ``n`` rows, a block of rows each."""
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))


def _checked(array: Bytes) -> Bytes:
    if array.ndim != 2 or array.dtype != np.uint8 or array.shape[1] == 0:
        raise InvalidDataError(
            "big integers are a uint8 array of shape (n, width), one a row, most significant byte"
            f" first; this array has shape {array.shape} and dtype {array.dtype}"
        )
    return array


def encode(values: Iterable[int], *, width: int) -> Bytes:
    """Return integers as rows of bytes, most significant first.

    Parameters
    ----------
    values : iterable of int
        Non-negative integers below 256 ** ``width``.
    width : int
        Bytes a row.

    Returns
    -------
    ndarray of uint8, shape (n, width)

    Raises
    ------
    InvalidDataError
        If an integer is negative or too large.

    Examples
    --------
    >>> encode([1, 258], width=2).tolist()
    [[0, 1], [1, 2]]
    """
    try:
        joined = b"".join([int(value).to_bytes(width, "big") for value in values])
    except OverflowError as error:
        raise InvalidDataError(
            f"an integer is negative or needs more than the {width} bytes of a row"
        ) from error
    return np.frombuffer(bytearray(joined), dtype=np.uint8).reshape(-1, width)


def decode(array: Bytes) -> list[int]:
    """Return the integers of an array of bytes as Python integers, the inverse of `encode`.

    All of them are alive at once: for many rows take `blocks` of them, or `map_modulo`.

    Raises
    ------
    InvalidDataError
        If the array is not of shape (n, width) and dtype uint8.
    """
    data, width = _checked(array).tobytes(), array.shape[1]
    return [int.from_bytes(data[i : i + width], "big") for i in range(0, len(data), width)]


def encode_one(value: int, *, width: int) -> Bytes:
    """Return one integer as ``width`` bytes, shape (width,); see `encode`."""
    row: Bytes = encode([value], width=width)[0]
    return row


def decode_one(row: Bytes) -> int:
    """Return the integer of one row, shape (width,); see `decode`."""
    return decode(row[np.newaxis])[0]


def _decode_native(array: Bytes, modulus: int) -> tuple[list[Any], Any]:
    """Return a block's integers and the modulus as objects of the backend."""
    if backend() == "python":
        return decode(array), modulus
    gmpy2, (n, width) = _gmpy2(), array.shape
    whole = gmpy2.mpz(int.from_bytes(array.tobytes(), "big"))
    values = gmpy2.unpack(whole, 8 * width)  # last row first, zeros of the first rows dropped
    values += [gmpy2.mpz(0)] * (n - len(values))
    return values[::-1], gmpy2.mpz(modulus)


def _encode_native(values: list[Any], width: int) -> Bytes:
    """Return rows of integers known to be in [0, 256 ** width)."""
    if backend() == "python":
        return encode(values, width=width)
    whole = int(_gmpy2().pack(values[::-1], 8 * width))
    data = bytearray(whole.to_bytes(width * len(values), "big"))
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, width)


def map_modulo(
    array: Bytes,
    function: Callable[[list[Any], Any, slice], list[Any]],
    modulus: int,
) -> Bytes:
    """Apply a function to all integers, a block of rows at a time.

    Parameters
    ----------
    array : ndarray of uint8, shape (n, width)
        The integers.
    function : callable
        Takes a block's integers and the modulus, both as the backend's objects (int or mpz), and
        the slice of rows; returns as many integers in [0, modulus).
    modulus : int
        Its width in bytes is that of the result's rows.

    Returns
    -------
    ndarray of uint8, shape (n, width of the modulus)
    """
    _checked(array)
    width = byte_width(modulus.bit_length())
    result = np.empty((array.shape[0], width), dtype=np.uint8)
    for rows in blocks(array.shape[0]):
        values, native = _decode_native(array[rows], modulus)
        result[rows] = _encode_native(function(values, native, rows), width)
    return result


def multiply_modulo(array: Bytes, factor: int, modulus: int) -> Bytes:
    """Return every integer times ``factor``, modulo ``modulus``.

    Parameters
    ----------
    array : ndarray of uint8, shape (n, width)
        The integers.
    factor, modulus : int
        Any integer; a positive integer.

    Returns
    -------
    ndarray of uint8, shape (n, width of the modulus)

    Examples
    --------
    >>> multiply_modulo(encode([2, 300], width=2), 7, 11).tolist()
    [[3], [10]]
    """
    if modulus < 1:
        raise ConfigurationError(f"a modulus is positive; {modulus} is not")
    factor %= modulus
    return map_modulo(array, lambda values, p, _: [v * factor % p for v in values], modulus)


def inverse(value: int, modulus: int) -> int:
    """Return the inverse of ``value`` modulo ``modulus``.

    Raises
    ------
    InvalidDataError
        If the two have a common factor, so that there is no inverse.

    Examples
    --------
    >>> inverse(3, 7)
    5
    """
    try:
        return pow(value, -1, modulus)
    except ValueError as error:
        raise InvalidDataError(
            f"an integer has no inverse modulo the {modulus.bit_length()}-bit modulus: they have"
            f" the common factor {math.gcd(value, modulus)}"
        ) from error


@cache
def _small_primes() -> tuple[int, ...]:
    sieve = np.ones(2048, dtype=bool)
    sieve[:2] = False
    for i in range(2, 46):
        if sieve[i]:
            sieve[i * i :: i] = False
    return tuple(int(prime) for prime in np.flatnonzero(sieve))


@cache
def _product_of_small_primes() -> int:
    return math.prod(_small_primes())


def is_prime(n: int) -> bool:
    """Return whether ``n`` is prime; wrong about a composite with probability below 2 ** -79.

    gmpy2: Baillie-PSW and Miller-Rabin. Python: Miller-Rabin with 40 bases from the operating
    system, so that nobody can prepare a composite that passes.

    Examples
    --------
    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    if n <= _small_primes()[-1]:
        return n in _small_primes()
    if math.gcd(n, _product_of_small_primes()) != 1:
        return False
    if backend() == "gmpy2":
        return bool(_gmpy2().is_prime(n, ROUNDS))
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    odd = (n - 1) >> twos
    bases = [2, *(2 + secrets.randbelow(n - 3) for _ in range(ROUNDS))]
    return all(_passes(n, base, odd, twos) for base in bases)


def _passes(n: int, base: int, odd: int, twos: int) -> bool:
    """Miller-Rabin's test of n = odd * 2 ** twos + 1 in one base."""
    power = pow(base, odd, n)
    if power in (1, n - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % n
        if power == n - 1:
            return True
    return False


def random_bits(n: int, *, bits: int, source: RandomSource) -> Bytes:
    """Return ``n`` integers uniform in [0, 2 ** ``bits``).

    Returns
    -------
    ndarray of uint8, shape (n, byte_width(bits))
    """
    width = byte_width(bits)
    data = bytearray(source.bytes(n * width))
    drawn = np.frombuffer(data, dtype=np.uint8).reshape(n, width)
    drawn[:, 0] &= 0xFF >> (8 * width - bits)
    return drawn


def random_prime(bits: int, *, source: RandomSource) -> int:
    """Return a random prime of exactly ``bits`` bits.

    Candidates with the highest and the lowest bit set are drawn from the source until one is
    prime, so that the prime is uniform among those of its length.

    Raises
    ------
    ConfigurationError
        If ``bits`` is below 3.
    """
    if bits < 3:
        raise ConfigurationError(f"a random prime has at least 3 bits; {bits} were asked for")
    while True:
        drawn = decode_one(random_bits(1, bits=bits, source=source)[0])
        candidate = drawn | 1 << (bits - 1) | 1
        if is_prime(candidate):
            return candidate
