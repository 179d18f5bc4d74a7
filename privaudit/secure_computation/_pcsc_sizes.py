"""The sizes of PCSC: which lengths of p, alpha, and the noise decode every pair of vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from privaudit.errors import ConfigurationError
from privaudit.secure_computation.integers import byte_width

__all__ = ["LIMIT", "PADS", "Parameters", "check", "fitting"]

#: Zeros appended to both vectors.
PADS: Final = 2
#: Elements of vectors are below this in magnitude.
LIMIT: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Parameters:
    """Sizes in bits; the defaults are those of the scheme's public implementations.

    Attributes
    ----------
    modulus_bits, scale_bits : int
        Of the primes p (the literature's k1) and alpha (k2).
    noise_bits, response_noise_bits : int
        Of the initiator's c_i (k3) and the responder's r_i (k4).
    """

    modulus_bits: int = 512
    scale_bits: int = 200
    noise_bits: int = 128
    response_noise_bits: int = 128

    def __post_init__(self) -> None:
        for name in self.__slots__:
            bits = getattr(self, name)
            if isinstance(bits, bool) or not isinstance(bits, int) or not 3 <= bits <= 1 << 20:
                raise ConfigurationError(f"{name}: {bits!r} is not an integer from 3 to {1 << 20}")

    @property
    def width(self) -> int:
        """Bytes of an integer modulo p on the wire."""
        return byte_width(self.modulus_bits)


def _noise(
    parameters: Parameters, scale_bits: int, dimension: int, largest: int
) -> tuple[int, int]:
    """Return the greatest |E - alpha^2 a.b| and what it must be below, times two, least alpha."""
    alpha = 1 << (scale_bits - 1)
    c, r = 1 << parameters.noise_bits, 1 << parameters.response_noise_bits
    noise = alpha * dimension * largest * (c + r) + (dimension + PADS) * c * r
    return 2 * noise, alpha * alpha


def _range(modulus_bits: int, scale_bits: int, dimension: int, largest: int) -> tuple[int, int]:
    """Return twice the greatest |E| and what it must be below: greatest alpha, least p."""
    return 2 * (dimension * largest * largest + 1) << (2 * scale_bits), 1 << (modulus_bits - 1)


def fitting(parameters: Parameters, *, dimension: int, largest: int) -> Parameters:
    """Return the parameters with alpha and p as long as decoding needs, and no longer than that.

    Lengths that suffice are kept. The noise decides the length of alpha, alpha that of p.
    """
    scale_bits = parameters.scale_bits
    while (sizes := _noise(parameters, scale_bits, dimension, largest))[0] >= sizes[1]:
        scale_bits += 1
    modulus_bits = parameters.modulus_bits
    while (sizes := _range(modulus_bits, scale_bits, dimension, largest))[0] >= sizes[1]:
        modulus_bits += 1
    return Parameters(
        modulus_bits, scale_bits, parameters.noise_bits, parameters.response_noise_bits
    )


def check(parameters: Parameters, *, dimension: int, largest: int) -> None:
    """Refuse sizes with which some pair of vectors would not decode.

    For all vectors of ``dimension`` integers of magnitude at most ``largest`` (Q), all primes of
    the given lengths, and all noise, decoding is right if both hold:

    * noise: alpha n Q (2^k3 + 2^k4) + (n + 2) 2^(k3 + k4) < alpha^2 / 2,
    * range: 2 alpha^2 (n Q^2 + 1) < p.

    The first is tested at the least alpha of its length (it holds for every greater one), the
    second at the greatest alpha and the least p. The shared-key variant needs the same with k4
    equal to k3.

    Raises
    ------
    ConfigurationError
        If an inequality fails; the message says which one, and which lengths would do.

    Examples
    --------
    >>> check(Parameters(), dimension=582_026, largest=32_767)
    """
    if dimension < 1 or not 1 <= largest < LIMIT:
        raise ConfigurationError(
            f"PCSC takes vectors of at least 1 integer of magnitude below {LIMIT}, not all 0;"
            f" dimension {dimension} and largest {largest} are not allowed"
        )
    noise, noise_bound = _noise(parameters, parameters.scale_bits, dimension, largest)
    size, size_bound = _range(parameters.modulus_bits, parameters.scale_bits, dimension, largest)
    failed = []
    if noise >= noise_bound:
        failed.append(
            "noise: alpha n Q (2^k3 + 2^k4) + (n + 2) 2^(k3 + k4) < alpha^2 / 2"
            f" (2 x left {_power(noise)}, alpha^2 {_power(noise_bound)})"
        )
    if size >= size_bound:
        failed.append(
            f"range: 2 alpha^2 (n Q^2 + 1) < p (left {_power(size)}, p {_power(size_bound)})"
        )
    if failed:
        fit = fitting(parameters, dimension=dimension, largest=largest)
        raise ConfigurationError(
            f"PCSC with k1..k4 = {parameters.modulus_bits}, {parameters.scale_bits},"
            f" {parameters.noise_bits}, {parameters.response_noise_bits} does not decode every"
            f" pair of vectors of n = {dimension} integers up to Q = {largest}. It fails "
            + " and ".join(failed)
            + f". scale_bits (k2) {fit.scale_bits} with modulus_bits (k1) {fit.modulus_bits}"
            " would do"
        )


def _power(number: int) -> str:
    return f"about 2^{math.log2(number):.1f}"
