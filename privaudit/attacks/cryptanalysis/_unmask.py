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

__all__ = [
    "LARGEST_MODULUS",
    "LARGEST_REDUCED",
    "Recovery",
    "checked",
    "noise_of",
    "unmask",
    "without_factor",
]

#: Chance that a wrong key looks right, as a power of two.
_CONFIDENCE_BITS = 64
#: Longest modulus that is attacked, eight times the longest that we found in use.
LARGEST_MODULUS = 16_384
#: The same for lattice reductions in six and more dimensions, which take far longer.
LARGEST_REDUCED = 4_096
#: Ciphertexts from which the common factor is found.
SAMPLE = 64
#: Largest factor tried that all plaintexts of a short vector have in common.
LARGEST_SHARED = 1 << 12


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
        If there are fewer than ``least`` ciphertexts, or the modulus is too long to attack.
    """
    if ciphertexts.ndim != 2 or ciphertexts.dtype != np.uint8 or ciphertexts.shape[1] == 0:
        raise InvalidDataError(
            f"ciphertexts are a uint8 array of shape (n, width), got {ciphertexts.dtype} of shape "
            f"{ciphertexts.shape}"
        )
    if 8 * ciphertexts.shape[1] > LARGEST_MODULUS or modulus.bit_length() > LARGEST_MODULUS:
        raise InapplicableError(
            f"a modulus of {modulus.bit_length()} bits, with ciphertexts of "
            f"{ciphertexts.shape[1]} bytes, is beyond {LARGEST_MODULUS} bits and would take hours"
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


def noise_limit(scale: int, *, count: int, seen: int = 0) -> int:
    """Return what no c_i exceeds, by the sizes alone or from some c_i that are known.

    Sizes that decode have ``c_i < alpha / (2 n Q)``, so that 8 bits of room are there for 8-bit
    values; with known ones of k3 bits the others have as many, and 16 bits are room enough.
    """
    margin = min(8, max(2, -(-_CONFIDENCE_BITS // count)))
    return min(scale >> 2, seen << 16) if seen else scale >> margin


def without_factor(
    modulus: int,
    scale: int,
    ciphertexts: Bytes,
    multiple: int,
    *,
    seen: int = 0,
    signs: tuple[int, ...] = (1, -1),
) -> tuple[int, int]:
    """Divide a multiple ``s g`` of the key, or its negative, by its small factor g.

    ``C_i / (s g) = x_i / g mod p`` is a fraction whose denominator is g over what g has in common
    with x_i; the least common multiple of the denominators is g, but for factors that all x_i of
    the sample share. 64 random ones share a prime with probability below 2 ** -63. With fewer,
    what they share is found by trial: multiplied by it, all are small modulo alpha.

    Parameters
    ----------
    ciphertexts : ndarray of uint8, shape (n, width)
        Of which the first 64 are used.
    multiple : int
        ``s g mod p``.
    seen : int
        The largest known ``c_i / g``, if any is known.
    signs : tuple of int
        Whether it may be that of the key or of its negative. Where that is known the other is not
        tried: of a few coordinates all may be small by chance.

    Returns
    -------
    tuple of int
        The key s (or -s) and the factor g.

    Raises
    ------
    RecoveryFailedError
        If the ciphertexts have no small common denominator.
    """
    sample = decode(ciphertexts[:SAMPLE])
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
    divided = [centred(c * inverted * factor, modulus) for c in sample]
    factor *= _shared(divided, scale, seen=seen * factor, signs=signs)
    return multiple * inverse(factor, modulus) % modulus, factor


def _shared(divided: list[int], scale: int, *, seen: int, signs: tuple[int, ...]) -> int:
    """Return the least g for which all ``g x`` are small modulo alpha, or 1 if none is."""
    for g in range(1, LARGEST_SHARED + 1):
        limit = noise_limit(scale, count=len(divided), seen=seen * g)
        for sign in signs:
            if all(sign * g * x % scale <= limit for x in divided):
                return g
    return 1


def unmask(
    modulus: int, scale: int, ciphertexts: Bytes, key: int, *, seen: int = 0
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
        are zero. A wrong key makes x_i uniform; for 64 and more coordinates, or sizes that leave
        the usual room between noise and alpha, it passes with probability below 2 ** -64.
    """
    p, alpha, factor = native(modulus), native(scale), native(inverse(key, modulus))
    half, largest = p >> 1, native(0)
    limit = native(noise_limit(scale, count=len(ciphertexts), seen=seen))
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
