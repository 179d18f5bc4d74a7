"""PCSC, the "privacy-preserving cosine similarity computation" of Lu et al., exact on integers.

An initiator with a vector a and a responder with a vector b (n integers each) compute a . b:

* The initiator draws primes p and alpha, a secret s, and noise c_i, appends two zeros to a, and
  sends p, alpha, and C_i = s (a_i alpha + c_i) mod p for i = 1 .. n + 2.
* The responder appends two zeros to b and answers D = sum_i D_i mod p and B = sum_i b_i ** 2, with
  D_i = b_i alpha C_i where b_i != 0 and D_i = r_i C_i, r_i fresh noise, where b_i = 0.
* The initiator lifts E = D / s mod p to (-p/2, p/2], and a . b is E / alpha ** 2 rounded to the
  nearest integer (halves up; rounding down, as published, is off by one for negative noise).

`check` says which sizes decode every pair of vectors. **The scheme is not secure**: the ratio of
two ciphertexts gives s away (see docs/secure-computation.md). It is here to be audited.

Source: R. Lu, H. Zhu, X. Liu, J. K. Liu, J. Shao, "Toward Efficient and Privacy-Preserving
Computing in Big Data Era", IEEE Network 28(4), 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.secure_computation import _digits
from privaudit.secure_computation._pcsc_sizes import LIMIT, PADS, Parameters, check, fitting
from privaudit.secure_computation.integers import (
    Bytes,
    RandomSource,
    byte_width,
    decode_one,
    encode_one,
    inverse,
    is_prime,
    map_modulo,
    random_bits,
    random_prime,
)

__all__ = [
    "PADS",
    "Challenge",
    "Keys",
    "Parameters",
    "Response",
    "centred",
    "check",
    "cosine",
    "decode",
    "encrypt",
    "fitting",
    "generate",
    "respond",
    "round_quotient",
    "squared_norm",
    "validate_challenge",
]


@dataclass(frozen=True, slots=True)
class Keys:
    """What an initiator (or all clients, in the shared-key variant) keeps; only s is secret.

    Attributes
    ----------
    modulus, scale : int
        The primes p and alpha, which are sent in the clear.
    secret : int
        s, invertible modulo p.
    """

    modulus: int
    scale: int
    secret: int = field(repr=False)

    @property
    def width(self) -> int:
        """Bytes of an integer modulo p on the wire."""
        return byte_width(self.modulus.bit_length())


@dataclass(frozen=True, slots=True)
class Challenge:
    """The initiator's message.

    Attributes
    ----------
    modulus, scale : int
        p and alpha.
    ciphertexts : ndarray of uint8, shape (n + 2, width of p)
        C_i, one a row, most significant byte first.
    """

    modulus: int
    scale: int
    ciphertexts: Bytes = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes on the wire, without framing."""
        return int(self.ciphertexts.nbytes) + 2 * int(self.ciphertexts.shape[1])


@dataclass(frozen=True, slots=True)
class Response:
    """The responder's message: D modulo p, and B, the squared norm of b in the clear."""

    value: int
    squared_norm: int


def integer_vector(vector: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return a vector as int64 after checking that it is one of PCSC's.

    Raises
    ------
    InvalidDataError
        If it is not of shape (n,), n >= 1, with integers of magnitude below 2 ** 31.
    """
    values = np.asarray(vector)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
        raise InvalidDataError(
            "PCSC takes integers of shape (n,), n >= 1 (quantise real vectors first); this vector"
            f" has shape {values.shape} and dtype {values.dtype}"
        )
    if int(values.max()) >= LIMIT or int(values.min()) <= -LIMIT:
        raise InvalidDataError(f"PCSC takes integers of magnitude below 2^31 ({LIMIT})")
    return values.astype(np.int64, copy=False)


def squared_norm(vector: npt.ArrayLike) -> int:
    """Return the sum of the squares of an integer vector, exactly."""
    magnitudes = _digits.magnitudes(integer_vector(vector))
    return _digits.inner_product(magnitudes, magnitudes)


def generate(parameters: Parameters, *, source: RandomSource) -> Keys:
    """Draw primes p and alpha of the given lengths, and s uniform in [1, p).

    Parameters
    ----------
    parameters : Parameters
        The lengths.
    source : RandomSource
        ``SystemSource()`` in real use; a seeded ``np.random.Generator`` in simulations.
    """
    modulus = random_prime(parameters.modulus_bits, source=source)
    scale = random_prime(parameters.scale_bits, source=source)
    secret = 0
    while not 0 < secret < modulus:
        secret = decode_one(random_bits(1, bits=parameters.modulus_bits, source=source)[0])
    return Keys(modulus, scale, secret)


def encrypt(
    vector: npt.ArrayLike, keys: Keys, *, parameters: Parameters, source: RandomSource
) -> Challenge:
    """Return the initiator's message, C_i = s (a_i alpha + c_i) mod p.

    Whether a product of such a message decodes is for `check` to say, once for all vectors.

    Parameters
    ----------
    vector : array_like of int, shape (n,)
        a, of magnitude below 2 ** 31.
    keys : Keys
        Of the initiator.
    parameters : Parameters
        The length of the noise is taken from it.
    source : RandomSource
        One call, for the noise c of n + 2 coordinates: n + 2 rows of `random_bits`.

    Raises
    ------
    InvalidDataError
        If the vector is not one of integers.
    """
    values = np.append(integer_vector(vector), [0] * PADS)
    noise = random_bits(len(values), bits=parameters.noise_bits, source=source)

    def ciphertexts(c: list[int], p: int, rows: slice) -> list[int]:
        alpha, s = type(p)(keys.scale), type(p)(keys.secret)  # the backend's integers
        return [
            s * (a * alpha + noise) % p for a, noise in zip(values[rows].tolist(), c, strict=True)
        ]

    return Challenge(keys.modulus, keys.scale, map_modulo(noise, ciphertexts, keys.modulus))


def validate_challenge(
    challenge: Challenge, *, dimension: int, parameters: Parameters | None = None
) -> None:
    """Check a challenge as a responder can.

    Parameters
    ----------
    challenge : Challenge
        From somebody else.
    dimension : int
        n, the length of the responder's vector.
    parameters : Parameters, optional
        Given: the lengths of p and alpha must be these, and p prime. The published scheme does not
        check this, and an initiator with a modulus of its own choice reads the responder's vector.
        It protects the responder, not the initiator.

    Raises
    ------
    InvalidDataError
        If the ciphertexts are not n + 2 integers in [0, p), or p is not as agreed.
    """
    modulus, ciphertexts = challenge.modulus, challenge.ciphertexts
    if modulus < 2 or challenge.scale < 1:
        raise InvalidDataError("a challenge has a modulus of at least 2 and a positive scale")
    shape = (dimension + PADS, byte_width(modulus.bit_length()))
    if ciphertexts.shape != shape or ciphertexts.dtype != np.uint8:
        raise InvalidDataError(
            f"a challenge for a vector of n = {dimension} under this modulus has ciphertexts of"
            f" shape {shape} and dtype uint8 (n + {PADS} rows); this one has shape"
            f" {ciphertexts.shape} and dtype {ciphertexts.dtype}: the two vectors have different"
            " lengths, or the message was cut"
        )
    outside = _first_not_below(ciphertexts, modulus)
    if outside is not None:
        raise InvalidDataError(f"ciphertext {outside} of the challenge is not in [0, p)")
    if parameters is None:
        return
    for name, number, bits in (
        ("modulus p", modulus, parameters.modulus_bits),
        ("scale alpha", challenge.scale, parameters.scale_bits),
    ):
        if number.bit_length() != bits:
            raise InvalidDataError(
                f"the challenge's {name} has {number.bit_length()} bits; {bits} were agreed on"
            )
    if not is_prime(modulus):
        raise InvalidDataError("the challenge's modulus p is not prime")


def _first_not_below(array: Bytes, modulus: int) -> int | None:
    """Return the index of the first row that is at least ``modulus``."""
    open_rows = np.arange(array.shape[0])  # equal to the modulus so far
    found: list[int] = []
    for column, byte in enumerate(encode_one(modulus, width=array.shape[1]).tolist()):
        values = array[open_rows, column]
        found.extend(open_rows[values > byte][:1].tolist())
        open_rows = open_rows[values == byte]
        if not open_rows.size:
            break
    found.extend(open_rows[:1].tolist())
    return min(found) if found else None


def respond(
    challenge: Challenge,
    vector: npt.ArrayLike,
    *,
    parameters: Parameters,
    source: RandomSource,
    validate: bool = True,
) -> Response:
    """Return the responder's message: D = sum_i D_i mod p and B = sum_i b_i ** 2.

    Parameters
    ----------
    challenge : Challenge
        The initiator's message.
    vector : array_like of int, shape (n,)
        b, of magnitude below 2 ** 31.
    parameters : Parameters
        The length of the noise r_i is taken from it, and the lengths agreed on.
    source : RandomSource
        One call, for the noise r of all places where b (with its pads) is 0, in their order.
    validate : bool
        Check the lengths of p and alpha and that p is prime; the published scheme does not.

    Raises
    ------
    InvalidDataError
        If the vector or the challenge is not usable; see `validate_challenge`.
    """
    own = integer_vector(vector)
    validate_challenge(challenge, dimension=len(own), parameters=parameters if validate else None)
    ciphertexts = challenge.ciphertexts
    products = _digits.inner_product(
        _digits.magnitudes(own), ciphertexts[: len(own)], left_signs=_digits.signs(own)
    )
    zeros = np.append(own == 0, [True] * PADS)
    noise = random_bits(int(zeros.sum()), bits=parameters.response_noise_bits, source=source)
    masks = _digits.inner_product(noise, ciphertexts[zeros])
    value = (challenge.scale * products + masks) % challenge.modulus
    return Response(value, squared_norm(own))


def centred(value: int, modulus: int) -> int:
    """Return the representative of ``value`` modulo ``modulus`` in (-modulus/2, modulus/2].

    Examples
    --------
    >>> centred(6, 7), centred(3, 7), centred(4, 8)
    (-1, 3, 4)
    """
    value %= modulus
    return value - modulus if 2 * value > modulus else value


def round_quotient(numerator: int, denominator: int) -> int:
    """Return the integer nearest to the quotient, halves upwards; the denominator is positive.

    Examples
    --------
    >>> round_quotient(-7, 4), round_quotient(6, 4)
    (-2, 2)
    """
    return (2 * numerator + denominator) // (2 * denominator)


def decode(response: Response, keys: Keys) -> int:
    """Return a . b from the responder's message: E / alpha ** 2, rounded.

    Raises
    ------
    InvalidDataError
        If D is not in [0, p).
    """
    if not 0 <= response.value < keys.modulus:
        raise InvalidDataError("the value D of the response is not in [0, p)")
    lifted = centred(response.value * inverse(keys.secret, keys.modulus), keys.modulus)
    return round_quotient(lifted, keys.scale**2)


def cosine(product: int, first_squared_norm: int, second_squared_norm: int) -> float:
    """Return a . b / (|a| |b|) from exact integers.

    Raises
    ------
    InvalidDataError
        If a squared norm is not positive.

    Examples
    --------
    >>> cosine(-6, 9, 16)
    -0.5
    """
    if first_squared_norm <= 0 or second_squared_norm <= 0:
        raise InvalidDataError(
            "a zero vector has no cosine with another: the squared norms are"
            f" {first_squared_norm} and {second_squared_norm}"
        )
    return product / math.sqrt(first_squared_norm * second_squared_norm)
