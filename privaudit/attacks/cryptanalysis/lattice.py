"""Where two coordinates are not enough, several are: lattice reduction for long plaintexts.

With ``t_j = C_j / C_1`` the vector ``x = (x_1, ..., x_m)`` lies in the lattice spanned by
``(1, t_2, ..., t_m)`` and the ``p e_j``, of determinant ``p ** (m - 1)``. If x has no structure, it
is the shortest vector, and LLL finds it, as long as it is clearly shorter than
``p ** (1 - 1 / m)``.

But ``x = alpha a + c`` has structure: with lambda such that lambda and ``lambda alpha mod p`` are
both short, ``lambda x mod p = (lambda alpha mod p) a + lambda c`` is shorter than a long x. Two
such vectors span a lattice of rank two, all of whose vectors are combinations of a and c. Reduced
once more modulo alpha it gives a itself and c up to a multiple of a, from which x follows. So a
scale almost as long as the modulus protects nothing either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from privaudit.attacks.cryptanalysis._numbers import centred, reduced
from privaudit.attacks.cryptanalysis._rank_two import short_modulo
from privaudit.attacks.cryptanalysis._unmask import (
    LARGEST_REDUCED,
    Recovery,
    checked,
    without_factor,
)
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.attacks.cryptanalysis.no_pads import signed
from privaudit.secure_computation.integers import Bytes, decode, inverse

__all__ = ["coordinates_needed", "recover_by_lattice"]

NAME = "cryptanalysis/pcsc-lattice"
#: Bits by which a vector must be shorter than the Gaussian heuristic says, for LLL to find it.
MARGIN = 2
#: Largest dimension in which LLL alone is known to do; beyond, stronger reduction is needed.
LARGEST_DIMENSION = 64


def coordinates_needed(
    modulus_bits: int, scale_bits: int, *, value_bits: int = 16, noise_bits: int = 128
) -> int:
    """Return the least number of coordinates that should do.

    Without structure (``k1 + k3 >= 2 k2`` and the bits of a value) the least m with
    ``bits(x) < k1 (1 - 1 / m) - MARGIN``; with structure the least m >= 6 with
    ``k3 < k2 (1 - 2 / m) - MARGIN``.

    Raises
    ------
    InapplicableError
        If more than ``LARGEST_DIMENSION`` were needed.

    Examples
    --------
    >>> coordinates_needed(512, 200), coordinates_needed(512, 285), coordinates_needed(512, 490)
    (2, 3, 6)
    """
    plaintext_bits = scale_bits + value_bits - 1
    if plaintext_bits >= modulus_bits:
        raise InapplicableError(
            f"plaintexts of {plaintext_bits} bits do not fit under a modulus of {modulus_bits} "
            "bits: the ciphertexts do not determine them (nor do products decode)"
        )
    if modulus_bits + noise_bits >= 2 * scale_bits + value_bits:
        needed, room = modulus_bits, modulus_bits - plaintext_bits - MARGIN
        least = 2
    else:
        needed, room = 2 * scale_bits, scale_bits - noise_bits - MARGIN
        least = 6
    m = max(least, needed // room + 1) if room > 0 else LARGEST_DIMENSION + 1
    if m > LARGEST_DIMENSION:
        raise InapplicableError(
            f"plaintexts of {plaintext_bits} bits with noise of {noise_bits} bits under a modulus "
            f"of {modulus_bits} bits need a lattice of more than {LARGEST_DIMENSION} dimensions, "
            "beyond LLL (nor do products decode)"
        )
    return m


def recover_by_lattice(
    modulus: int,
    scale: int,
    ciphertexts: Bytes,
    *,
    value_bits: int = 16,
    noise_bits: int = 128,
    coordinates: int | None = None,
) -> Recovery:
    """Recover the whole vector by LLL on some coordinates.

    Parameters
    ----------
    modulus, scale : int
        The public p and alpha.
    ciphertexts : ndarray of uint8, shape (n, width)
        ``C_i = s (a_i alpha + c_i) mod p``.
    value_bits : int
        Bits of a quantised value with its sign, which with alpha bounds the plaintexts' length.
    noise_bits : int
        Bits k3 of the c_i, a public parameter of the protocol.
    coordinates : int, optional
        Dimension m of the lattice; None for the least that should do.

    Returns
    -------
    Recovery

    Raises
    ------
    InvalidDataError
        If the numbers are malformed.
    InapplicableError
        If m coordinates are too few for plaintexts of this length, m is beyond LLL, the modulus
        too long to reduce, or there are not that many ciphertexts.
    RecoveryFailedError
        If no short vector found is that of the plaintexts.
    UnmetRequirementsError
        If python-flint is not installed.
    """
    needed = coordinates_needed(
        modulus.bit_length(),
        scale.bit_length(),
        value_bits=value_bits,
        noise_bits=noise_bits,
    )
    m = needed if coordinates is None else coordinates
    if m < needed:
        raise InapplicableError(
            f"plaintexts of {scale.bit_length() + value_bits - 1} bits under a modulus of "
            f"{modulus.bit_length()} bits need {needed} coordinates, {m} were asked for"
        )
    checked(modulus, scale, ciphertexts, least=m)
    if m > 2 and modulus.bit_length() > LARGEST_REDUCED:
        raise InapplicableError(
            f"a modulus of {modulus.bit_length()} bits is beyond {LARGEST_REDUCED} bits, up to "
            f"which lattices of {m} dimensions are reduced"
        )
    sample = decode(ciphertexts[:m])
    if math.gcd(sample[0], modulus) != 1:
        raise InapplicableError("the first ciphertext has no inverse modulo p")
    inverted = inverse(sample[0], modulus)
    rows = [[1, *(c * inverted % modulus for c in sample[1:])]]
    rows += [[modulus * (i == j) for i in range(m)] for j in range(1, m)]
    basis = reduced(rows, attack=NAME)
    for candidate in _plaintexts(modulus, scale, sample, basis):
        if math.gcd(candidate[0], modulus) != 1:
            continue
        surplus = modulus.bit_length() * (1 - 1 / m) - max(abs(x) for x in candidate).bit_length()
        key = sample[0] * inverse(candidate[0], modulus) % modulus
        for divide in (False, True):
            try:
                factor = 1
                if divide:
                    key, factor = without_factor(modulus, scale, ciphertexts, key)
                return signed(modulus, scale, ciphertexts, key, factor=factor, surplus=surplus)
            except RecoveryFailedError:
                continue
    raise RecoveryFailedError(f"no short vector of the lattice of {m} coordinates is a plaintext")


def _plaintexts(
    modulus: int, scale: int, sample: list[int], basis: list[list[int]]
) -> Iterator[list[int]]:
    """Yield what may be x, up to a factor: the shortest vector, then that of the rank-two part."""
    yield basis[0]
    if len(basis) < 4:
        return
    # Modulo alpha the shortest are a itself and c up to a multiple of a: x = k a + c for some k,
    # and the ratio of two ciphertexts determines k.
    values, noise = short_modulo(scale, (basis[0], basis[1]), attack=NAME)[:2]
    slope = values[0] * sample[1] - values[1] * sample[0]
    if math.gcd(slope, modulus) == 1:
        offset = noise[1] * sample[0] - noise[0] * sample[1]
        k = offset * inverse(slope, modulus)
        yield [centred(k * a + c, modulus) for a, c in zip(values, noise, strict=True)]
