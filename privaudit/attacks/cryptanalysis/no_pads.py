"""Without the zero pads, the ratio of two ordinary coordinates reveals the key just as well.

``C_i / C_j = x_i / x_j mod p`` with ``x_i = a_i alpha + c_i``, which are longer than pads, but
still unique if ``p > 2 abs(x_i x_j)``, and every parameter set that decodes has that.
"""

from __future__ import annotations

import math

from privaudit.attacks.cryptanalysis._numbers import rational
from privaudit.attacks.cryptanalysis._unmask import Recovery, checked, unmask, without_factor
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.secure_computation.integers import Bytes, decode, inverse

__all__ = ["recover_from_pair"]


def recover_from_pair(
    modulus: int,
    scale: int,
    ciphertexts: Bytes,
    *,
    pair: tuple[int, int] = (0, 1),
) -> Recovery:
    """Recover the whole vector from any two coordinates' ratio, exactly and with its sign.

    Parameters
    ----------
    modulus, scale : int
        The public p and alpha.
    ciphertexts : ndarray of uint8, shape (n, width)
        ``C_i = s (a_i alpha + c_i) mod p``; none need encrypt zero.
    pair : tuple of int
        The two coordinates.

    Returns
    -------
    Recovery

    Raises
    ------
    InvalidDataError
        If the numbers are malformed.
    InapplicableError
        If there are fewer than two ciphertexts, the modulus is at most twice alpha squared (then
        no two coordinates other than zeros have a unique ratio), or a ciphertext is no unit.
    RecoveryFailedError
        If the ratio found is not that of the plaintexts: the modulus is below ``2 abs(x_i x_j)``.
    """
    checked(modulus, scale, ciphertexts, least=2)
    if modulus <= 2 * scale * scale:
        raise InapplicableError(
            f"the modulus of {modulus.bit_length()} bits is at most twice the square of the scale "
            f"of {scale.bit_length()} bits: ratios of coordinates are not unique (nor do products "
            "decode); see pcsc-lattice"
        )
    if any(math.gcd(c, modulus) != 1 for c in decode(ciphertexts[list(pair)])):
        raise InapplicableError(f"a ciphertext of the pair {pair} has no inverse modulo p")
    first, last = decode(ciphertexts[list(pair)])
    ratio = first * inverse(last, modulus) % modulus
    numerator, denominator = rational(ratio, modulus, bound=math.isqrt(modulus // 2))
    if numerator == 0 or 2 * abs(numerator) * denominator >= modulus:
        raise RecoveryFailedError(f"coordinates {pair} have no unique short ratio")
    surplus = math.log2(modulus) - 1 - math.log2(abs(numerator)) - math.log2(denominator)
    multiple = last * inverse(denominator, modulus) % modulus
    key, factor = without_factor(modulus, scale, ciphertexts, multiple)
    return signed(modulus, scale, ciphertexts, key, factor=factor, surplus=surplus)


def signed(
    modulus: int, scale: int, ciphertexts: Bytes, key: int, *, factor: int, surplus: float
) -> Recovery:
    """Recover with s or -s, whichever leaves noise that is small and positive.

    Raises
    ------
    RecoveryFailedError
        If neither is the key.
    """
    try:
        values, largest = unmask(modulus, scale, ciphertexts, key)
    except RecoveryFailedError:
        key = modulus - key
        values, largest = unmask(modulus, scale, ciphertexts, key)
    return Recovery(values, key, factor, surplus, largest.bit_length())
