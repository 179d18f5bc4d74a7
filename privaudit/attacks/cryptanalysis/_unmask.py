"""From a multiple of the secret factor to every coordinate, with proof that it is right.

A ciphertext is ``C_i = s x_i mod p`` with ``x_i = a_i alpha + c_i`` and ``0 <= c_i < 2 ** k3``. An
adversary who knows ``s g`` for some small ``g`` removes g and then reads all ``x_i``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.cryptanalysis._numbers import centred, native, rational
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.errors import InvalidDataError
from privaudit.secure_computation.integers import Bytes, blocks, decode, inverse

__all__ = ["Recovery", "checked", "noise_of", "unmask", "without_factor"]

#: Chance that a wrong key looks right, as a power of two.
_CONFIDENCE_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """The plaintext behind a challenge.

    Attributes
    ----------
    values : ndarray of int64, shape (n,)
        The quantised vector, exact.
    key : int
        The secret factor s.
    common_factor : int
        The factor g by which the reconstructed ratio was reduced.
    surplus_bits : float
        By how many bits the modulus exceeds what a unique ratio needs; chance produces a ratio
        with this surplus with probability about 2 ** -surplus.
    noise_bits : int
        Length of the largest c_i.
    """

    values: npt.NDArray[np.int64]
    key: int
    common_factor: int
    surplus_bits: float
    noise_bits: int


def checked(modulus: int, scale: int, ciphertexts: Bytes, *, least: int) -> None:
    """Check the public numbers of a challenge.

    Raises
    ------
    InvalidDataError
        If the ciphertexts are not a uint8 array (n, width), or modulus or scale is out of range.
    InapplicableError
        If there are fewer than ``least`` ciphertexts.
    """
    if ciphertexts.ndim != 2 or ciphertexts.dtype != np.uint8 or ciphertexts.shape[1] == 0:
        raise InvalidDataError(
            f"ciphertexts are a uint8 array of shape (n, width), got {ciphertexts.dtype} of shape "
            f"{ciphertexts.shape}"
        )
    if not 1 < scale < modulus:
        raise InvalidDataError(
            f"the scale alpha must lie between 1 and the modulus; they have "
            f"{scale.bit_length()} and {modulus.bit_length()} bits"
        )
    if len(ciphertexts) < least:
        raise InapplicableError(
            f"the attack needs {least} ciphertexts, the challenge has {len(ciphertexts)}"
        )


def without_factor(modulus: int, scale: int, sample: list[int], multiple: int) -> tuple[int, int]:
    """Divide a multiple ``s g`` of the key by its small factor g.

    ``C_i / (s g) = x_i / g mod p`` is a fraction whose denominator is g over what g has in common
    with x_i; g is the least common multiple of the denominators. A prime factor of g stays
    undetected only if it divides every x_i of the sample: with 64 random ones, 2 ** -64 at most.

    Parameters
    ----------
    sample : list of int
        Ciphertexts, at best 64 or more.
    multiple : int
        ``s g mod p``.

    Returns
    -------
    tuple of int
        The key s and the factor g.
    """
    inverted = inverse(multiple, modulus)
    # Numerators are bounded by the x_i (values of at most 40 bits), denominators by what is left.
    bound = 1 << max(1, min(scale.bit_length() + 40, modulus.bit_length() - 22))
    factor = 1
    for ciphertext in sample:
        _, denominator = rational(ciphertext * inverted % modulus, modulus, bound=bound)
        factor = math.lcm(factor, denominator)
        if factor >= modulus:
            raise RecoveryFailedError(
                "the ciphertexts have no small common denominator: the reconstructed ratio is not "
                "that of the plaintexts"
            )
    return multiple * inverse(factor, modulus) % modulus, factor


def unmask(
    modulus: int, scale: int, ciphertexts: Bytes, key: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Return every ``a_i`` and the largest ``c_i`` for a key, or say that the key is wrong.

    Returns
    -------
    values : ndarray of int64, shape (n,)
    largest : int

    Raises
    ------
    RecoveryFailedError
        If an ``a_i`` leaves 64 bits, the ``c_i`` are not all small against alpha, or all ``a_i``
        are zero. A wrong key makes x_i uniform; it passes with probability below 2 ** -64.
    """
    p, alpha, factor = native(modulus), native(scale), native(inverse(key, modulus))
    half, largest = p >> 1, native(0)
    margin = max(2, -(-_CONFIDENCE_BITS // len(ciphertexts)))
    limit = alpha >> margin
    values = np.empty(len(ciphertexts), dtype=np.int64)
    for rows in blocks(len(ciphertexts)):
        quotients = []
        for ciphertext in decode(ciphertexts[rows]):
            x = ciphertext * factor % p
            quotient, noise = divmod(x - p if x > half else x, alpha)
            quotients.append(int(quotient))
            if noise > largest:
                largest = noise
        try:
            values[rows] = quotients
        except OverflowError:
            raise RecoveryFailedError(
                "the key that was found gives values beyond 64 bits: it is not the key"
            ) from None
        if largest > limit:
            raise RecoveryFailedError(
                f"the key that was found leaves noise of {int(largest).bit_length()} bits against "
                f"a scale of {scale.bit_length()} bits: it is not the key"
            )
    if not values.any():
        raise RecoveryFailedError(
            "the key that was found makes every value zero, and a zero vector has no cosine: it is "
            "not the key"
        )
    return values, int(largest)


def noise_of(modulus: int, scale: int, ciphertexts: Bytes, recovery: Recovery) -> tuple[int, ...]:
    """Return the c_i of as many leading ciphertexts as are given; for short vectors."""
    factor = inverse(recovery.key, modulus)
    return tuple(centred(c * factor, modulus) % scale for c in decode(ciphertexts))
