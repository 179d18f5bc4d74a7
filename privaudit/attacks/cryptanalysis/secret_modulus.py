"""Keeping the modulus secret does not help: two lattice reductions do without it.

The responder does not need p, so that an initiator may want to keep it. Over the integers
``C = s x - p q``, with ``x = alpha a + c`` and q the quotients. Short vectors orthogonal to C are
orthogonal to x and to q; what is orthogonal to enough of them is a lattice of rank two that
contains x and q, with short basis (v_1, v_2). There ``x = u_1 v_1 + u_2 v_2``, and x is short
modulo alpha: a second reduction, of v_1, v_2 and the alpha e_i, gives ``r = u v - alpha a``, from
which u modulo alpha, and hence a, follows up to sign. The idea of reducing twice is that of
Lepoint and Tibouchi's attack on the scheme of Trostle and Parrish.

The other coordinates cost a modular product each: ``C = gamma_1 v_1 + gamma_2 v_2`` with known
gammas much longer than the v's, so that one equation determines both v's of a coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.cryptanalysis._numbers import native, reduced, round_divide
from privaudit.attacks.cryptanalysis._rank_two import (
    Pair,
    coefficients,
    combination,
    short_modulo,
)
from privaudit.attacks.cryptanalysis._unmask import LARGEST_REDUCED
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.errors import InvalidDataError
from privaudit.secure_computation.integers import Bytes, blocks, decode, inverse

__all__ = ["SignedRecovery", "recover_without_modulus"]

NAME = "cryptanalysis/pcsc-secret-modulus"
#: Coordinates from which the sign is decided, at most.
_SIGN_COORDINATES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class SignedRecovery:
    """The vector behind a challenge of unknown modulus.

    Attributes
    ----------
    values : ndarray of int64, shape (n,)
        The quantised vector, exact up to one sign for all.
    sign_ratio : float
        How much larger the noise must have been had the sign been the other one; about 1 means
        that the sign is a guess.
    """

    values: npt.NDArray[np.int64]
    sign_ratio: float


def recover_without_modulus(
    scale: int, ciphertexts: Bytes, *, coordinates: int = 12
) -> SignedRecovery:
    """Recover the whole vector from alpha and the ciphertexts alone.

    Parameters
    ----------
    scale : int
        The public alpha.
    ciphertexts : ndarray of uint8, shape (n, width)
        ``C_i = s (a_i alpha + c_i) mod p`` for a p that is not known.
    coordinates : int
        Coordinates used for the lattices; from eight on nearly always enough.

    Returns
    -------
    SignedRecovery

    Raises
    ------
    InvalidDataError
        If the numbers are malformed.
    InapplicableError
        If there are fewer ciphertexts than ``coordinates``, these are fewer than six, or the
        ciphertexts are too long to reduce.
    RecoveryFailedError
        If the lattices do not separate, or noise and lattice are beyond floating point.
    UnmetRequirementsError
        If python-flint is not installed.
    """
    if ciphertexts.ndim != 2 or ciphertexts.dtype != np.uint8:
        raise InvalidDataError(f"ciphertexts are uint8 (n, width), got {ciphertexts.shape}")
    width = 8 * ciphertexts.shape[1]
    if width > LARGEST_REDUCED:
        raise InapplicableError(
            f"ciphertexts of {ciphertexts.shape[1]} bytes are beyond {LARGEST_REDUCED} bits"
        )
    if not 2 <= scale < 1 << width:
        raise InvalidDataError(
            f"the scale alpha must be at least 2 and below the modulus, which has at most {width} "
            f"bits; it has {scale.bit_length()}"
        )
    if coordinates < 6 or len(ciphertexts) < coordinates:
        raise InapplicableError(
            f"a secret modulus needs at least six coordinates, {coordinates} were asked for and "
            f"{len(ciphertexts)} ciphertexts are there"
        )
    sample = decode(ciphertexts[:coordinates])
    pair = _kernel(sample)
    # The first two vectors are those of the kernel; the third is c up to one of the kernel.
    residue = short_modulo(scale, pair, attack=NAME)[2]
    u = coefficients(pair, residue, modulus=scale)
    gammas = combination(pair, sample)
    values, noise, slopes = _all_coordinates(scale, ciphertexts, u, gammas)
    expected = [
        round_divide(u[0] * v + u[1] * w - r, scale) for v, w, r in zip(*pair, residue, strict=True)
    ]
    if values[:coordinates].tolist() != expected:
        raise RecoveryFailedError("the two lattices do not tell the same values")
    plus, minus = _least_noise(noise, slopes), _least_noise(-noise, slopes)
    positive = plus <= minus
    ratio = max(plus, minus) / max(min(plus, minus), 1e-300)
    return SignedRecovery(values if positive else -values, ratio)


def _kernel(sample: list[int]) -> Pair:
    """Return a short basis of the rank-two lattice that holds x and q."""
    m = len(sample)
    weight = 1 << (max(c.bit_length() for c in sample) + m)
    rows = [[*(int(i == j) for j in range(m)), weight * c] for i, c in enumerate(sample)]
    orthogonal = [row[:m] for row in reduced(rows, attack=NAME) if row[m] == 0][: m - 2]
    rows = [
        [*(int(i == j) for j in range(m)), *(weight * vector[i] for vector in orthogonal)]
        for i in range(m)
    ]
    kernel = [row[:m] for row in reduced(rows, attack=NAME) if not any(row[m:])]
    if len(kernel) != 2:
        raise RecoveryFailedError(f"the kernel has rank {len(kernel)} instead of 2")
    return kernel[0], kernel[1]


def _all_coordinates(
    scale: int, ciphertexts: Bytes, u: tuple[int, int], gammas: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return all values, and noise and (v_1, v_2) of the first few thousand coordinates."""
    modulus = abs(gammas[1])
    inverted = native(inverse(gammas[0], modulus))
    p, half = native(modulus), native(modulus // 2)
    one, two = native(gammas[0]), native(gammas[1])
    values = np.empty(len(ciphertexts), dtype=np.int64)
    noise: list[float] = []
    slopes: list[tuple[float, float]] = []
    for rows in blocks(len(ciphertexts)):
        quotients = []
        for c in decode(ciphertexts[rows]):
            v = c * inverted % p
            if v > half:
                v -= p
            w = (c - one * v) // two
            x = u[0] * v + u[1] * w
            quotient = (2 * x + scale) // (2 * scale)
            quotients.append(int(quotient))
            if len(noise) < _SIGN_COORDINATES:
                try:
                    noise.append(float(x - quotient * scale))
                    slopes.append((float(v), float(w)))
                except OverflowError:
                    raise RecoveryFailedError(
                        f"noise and lattice under a scale of {int(scale).bit_length()} bits are "
                        "too long for the linear program that tells the sign"
                    ) from None
        try:
            values[rows] = quotients
        except OverflowError:
            raise RecoveryFailedError("the values that were found leave 64 bits") from None
    return values, np.array(noise), np.array(slopes)


def _least_noise(noise: npt.NDArray[np.float64], slopes: npt.NDArray[np.float64]) -> float:
    """Return the least t such that some k gives ``0 <= noise + k v <= t`` everywhere.

    The c_i are known up to a vector of the kernel, and are positive: of the two signs the true
    one needs the smaller t. A linear program in k and t.
    """
    from scipy.optimize import linprog

    unit, sizes = float(np.abs(noise).max()) or 1.0, np.abs(slopes).max(axis=0)
    sizes[sizes == 0] = 1.0
    scaled, offset = slopes / sizes, noise / unit
    ones = np.ones((len(noise), 1))
    # k v - t <= -noise and -k v <= noise.
    above = np.hstack([scaled, -ones])
    below = np.hstack([-scaled, 0 * ones])
    found = linprog(
        [0.0, 0.0, 1.0],
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([-offset, offset]),
        bounds=[(None, None), (None, None), (0, None)],
    )
    return float(found.fun) if found.success else math.inf
