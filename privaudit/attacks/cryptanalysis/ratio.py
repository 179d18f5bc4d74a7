"""The ratio of the pads reveals the key of one PCSC challenge.

The initiator pads its vector with two zeros, so that the last two ciphertexts are ``s c_{n+1}``
and ``s c_{n+2}`` modulo p: the secret s times numbers of only k3 bits. Their ratio modulo p does
not depend on s, and its numerator and denominator are short enough to be read off by the extended
Euclidean algorithm, which is reduction of a lattice of dimension two. From then on everything is
division. Whenever the parameters let the protocol decode at all, the ratio is unique (see
docs/attacks/cryptanalysis.md).
"""

from __future__ import annotations

import math

from privaudit.attacks.cryptanalysis._numbers import rational
from privaudit.attacks.cryptanalysis._unmask import Recovery, checked, unmask, without_factor
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.secure_computation.integers import Bytes, decode, inverse

__all__ = ["recover_from_pads"]


def recover_from_pads(modulus: int, scale: int, ciphertexts: Bytes) -> Recovery:
    """Recover the whole vector of a challenge from what the initiator sends, exactly.

    Parameters
    ----------
    modulus, scale : int
        The public p and alpha.
    ciphertexts : ndarray of uint8, shape (n + 2, width)
        ``C_i = s (a_i alpha + c_i) mod p``, the last two with ``a_i = 0``.

    Returns
    -------
    Recovery
        The vector and the key; where a factor divides every a_i and every c_i, which happens with
        probability below 2 ** -n, divided by it, for the challenge does not determine it.
        Under the shortest sizes that decode, which leave hardly room between noise and alpha, two
        or three coordinates with a common factor pass for others by chance, once in some hundreds.

    Raises
    ------
    InvalidDataError
        If the numbers are malformed.
    InapplicableError
        If there are fewer than three ciphertexts, a pad is no unit modulo p, or the modulus is
        not above twice the product of the reconstructed pads.
    RecoveryFailedError
        If the result contradicts how ciphertexts are made: the pads were not zeros, or the ratio
        was not theirs.
    """
    checked(modulus, scale, ciphertexts, least=3)
    first, last = decode(ciphertexts[-2:])
    if math.gcd(first, modulus) != 1 or math.gcd(last, modulus) != 1:
        raise InapplicableError("a pad's ciphertext has no inverse modulo p, so there is no ratio")
    ratio = first * inverse(last, modulus) % modulus
    numerator, denominator = rational(ratio, modulus, bound=math.isqrt(modulus // 2))
    if numerator < 1 or 2 * numerator * denominator >= modulus:
        raise InapplicableError(
            f"the pads' ratio is not determined: the modulus of {modulus.bit_length()} bits is not "
            "above twice the product of the pads"
        )
    surplus = math.log2(modulus) - 1 - math.log2(numerator) - math.log2(denominator)
    multiple = last * inverse(denominator, modulus) % modulus
    pad = max(numerator, denominator)
    # Pads are positive, so the multiple is of the key and not of its negative.
    key, factor = without_factor(modulus, scale, ciphertexts[:-2], multiple, seen=pad, signs=(1,))
    values, largest = unmask(modulus, scale, ciphertexts, key, seen=pad * factor)
    if values[-2:].any():
        raise RecoveryFailedError("the last two coordinates are not zero: they are no pads")
    return Recovery(values[:-2], key, factor, surplus, largest.bit_length())
