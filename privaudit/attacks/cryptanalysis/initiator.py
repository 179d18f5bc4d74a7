"""What the initiator of PCSC learns beyond the inner product that it is meant to learn.

The responder returns D with ``E = D / s = alpha^2 <a, b> + alpha S + T`` modulo p, centred, where
``S = sum b_i c_i + sum_{b_i = 0} r_i a_i`` and ``T = sum_{b_i = 0} r_i c_i``, pads included. The
initiator knows a, c, s and alpha. It reads off <a, b> (as intended), the squared norm of b (sent
in the clear), and S up to T / alpha: a second linear equation in b, of some 70 further bits, if no
b_i is zero. Each further query is a further equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.cryptanalysis._numbers import centred, reduced, round_divide
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.errors import InvalidDataError
from privaudit.secure_computation.integers import inverse

__all__ = [
    "Leak",
    "Projection",
    "read_response",
    "recover_from_queries",
    "recover_from_response",
    "uncertainty",
]

NAME = "cryptanalysis/pcsc-initiator"


@dataclass(frozen=True, slots=True)
class Leak:
    """What one response says: ``product`` is <a, b>, ``noise`` is S up to ``uncertainty_bits``."""

    product: int
    noise: int
    uncertainty_bits: int


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """What k products say of a vector.

    Attributes
    ----------
    values : ndarray, shape (n,)
        int64, the vector itself, if ``exact``; else float64, its projection on the span of the
        queries, plus what the prior says across it.
    rank : int
        Number of independent queries.
    exact : bool
    """

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    rank: int
    exact: bool


def read_response(
    modulus: int, scale: int, key: int, response: int, *, uncertainty_bits: int
) -> Leak:
    """Split a response into the product and the noise.

    Parameters
    ----------
    modulus, scale, key : int
        The initiator's p, alpha and s.
    response : int
        D.
    uncertainty_bits : int
        Length of ``T / alpha`` at most: with the default sizes 128 + 128 + 1 - 200, about 58.
    """
    whole = centred(response * inverse(key, modulus), modulus)
    product = round_divide(whole, scale * scale)
    return Leak(product, round_divide(whole - product * scale * scale, scale), uncertainty_bits)


def recover_from_response(
    vector: Sequence[int],
    noise: Sequence[int],
    leak: Leak,
    *,
    squared_norm: int,
    value_bits: int = 16,
) -> npt.NDArray[np.int64]:
    """Solve one response for the responder's whole vector: a knapsack, by LLL.

    The unknowns are short, and two equations hold: ``<a, b>`` exactly and ``<c, b> = S`` up to the
    uncertainty. The squared norm tells the right solution from others.

    Parameters
    ----------
    vector, noise : sequence of int, length n
        The initiator's a_i and c_i, without pads.
    leak : Leak
    squared_norm : int
        B, as the responder sends it.
    value_bits : int
        Bits of a b_i with its sign.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    InapplicableError
        If the unknowns have more bits than the two equations determine.
    RecoveryFailedError
        If no short solution has the norm: some b_i is zero, or the equations do not suffice.
    UnmetRequirementsError
        If python-flint is not installed.
    """
    n = len(vector)
    longest = max((c.bit_length() for c in noise), default=0)
    known = longest - leak.uncertainty_bits + 3 * value_bits
    if n == 0 or n * value_bits >= known:
        raise InapplicableError(
            f"one response tells about {known} bits of the responder's vector, which has "
            f"{n * value_bits} ({n} values of {value_bits} bits); ask more often"
        )
    # Columns: the b_i, weighted to be as long as the error of the noise equation; the product,
    # weighted so that it must hold exactly; the noise equation; a mark of the target row.
    mark = 1 << leak.uncertainty_bits
    unit = max(1, mark >> (value_bits - 1))
    exact = 1 << (longest + value_bits)
    rows = [
        [*(unit * (i == j) for j in range(n)), exact * int(vector[i]), int(noise[i]), 0]
        for i in range(n)
    ]
    rows.append([0] * n + [-exact * leak.product, -leak.noise, mark])
    for row in reduced(rows, attack=NAME):
        if abs(row[-1]) != mark or row[n]:
            continue
        sign = 1 if row[-1] > 0 else -1
        found = [sign * entry // unit for entry in row[:n]]
        if sum(b * b for b in found) == squared_norm:
            return np.array(found, dtype=np.int64)
    raise RecoveryFailedError(
        "no short solution has the responder's norm: a zero among its values hides the rest of "
        "one response, or the vector is too long for it"
    )


def recover_from_queries(
    vectors: npt.NDArray[np.int64],
    products: Sequence[int],
    *,
    prior: npt.NDArray[np.float64] | None = None,
) -> Projection:
    """Solve the products with several vectors for the responder's vector.

    With n independent queries the vector is exact. With fewer, it is known on their span; across
    it the guess is the prior's, scaled to agree with the products as well as it can, or zero.

    Parameters
    ----------
    vectors : ndarray of int64, shape (k, n)
    products : sequence of int, length k
    prior : ndarray of float64, shape (n,), optional
        A direction that the vector is supposed to have.

    Raises
    ------
    InvalidDataError
        If shapes disagree or there is no query.
    """
    if vectors.ndim != 2 or len(vectors) != len(products) or len(products) == 0:
        raise InvalidDataError(
            f"{len(products)} products need as many query vectors, got shape {vectors.shape}"
        )
    matrix = vectors.astype(np.float64)
    scale = np.linalg.norm(matrix, axis=1)
    scale[scale == 0] = 1.0
    normal = matrix / scale[:, np.newaxis]
    right = np.array([float(p) for p in products]) / scale
    start = np.zeros(vectors.shape[1])
    if prior is not None:
        expected = normal @ prior
        if expected.any():
            start = prior * (float(expected @ right) / float(expected @ expected))
    correction, _, rank, _ = np.linalg.lstsq(normal, right - normal @ start, rcond=None)
    solution, rank = start + correction, int(rank)
    if rank == vectors.shape[1]:
        rounded = np.rint(solution).astype(np.int64)
        if _holds(vectors, rounded, products):
            return Projection(rounded, rank, True)
    return Projection(solution, rank, False)


def _holds(
    vectors: npt.NDArray[np.int64], values: npt.NDArray[np.int64], products: Sequence[int]
) -> bool:
    """Check the products exactly; int64 would overflow only beyond 2 ** 63."""
    largest = int(np.abs(vectors).max(initial=0)) * int(np.abs(values).max(initial=0))
    if largest * len(values) < 2**62:
        return bool((vectors @ values == np.array(products, dtype=np.int64)).all())
    return all(
        sum(int(a) * int(b) for a, b in zip(row, values, strict=True)) == int(product)
        for row, product in zip(vectors, products, strict=True)
    )


def uncertainty(noise_bits: int, scale: int, *, response_bits: int = 128, terms: int = 2) -> int:
    """Return the bits of ``T / alpha`` for a responder's r_i of ``response_bits`` bits."""
    return max(1, noise_bits + response_bits + math.ceil(math.log2(terms)) - scale.bit_length() + 1)
