"""A plaintext in a known lattice of rank two, found by its being short modulo alpha."""

from __future__ import annotations

import math

from privaudit.attacks.cryptanalysis._numbers import centred, reduced
from privaudit.attacks.cryptanalysis.errors import RecoveryFailedError
from privaudit.secure_computation.integers import inverse

__all__ = ["Pair", "coefficients", "combination", "short_modulo"]

Pair = tuple[list[int], list[int]]


def short_modulo(scale: int, pair: Pair, *, attack: str) -> list[list[int]]:
    """Return a reduced basis of the lattice of v_1, v_2 and the ``alpha e_i``.

    With ``x = u v = alpha a + c`` it contains ``c = u v - alpha a``, shorter than chance would
    have it where ``k3 < k2 (1 - 2 / m)``.

    Raises
    ------
    RecoveryFailedError
        If the lattice has not full rank.
    """
    m = len(pair[0])
    rows = [*pair, *([scale * (i == j) for j in range(m)] for i in range(m))]
    basis = reduced(rows, attack=attack)
    if len(basis) != m:
        raise RecoveryFailedError("the reduction modulo the scale has not full rank")
    return basis


def coefficients(pair: Pair, target: list[int], *, modulus: int) -> tuple[int, int]:
    """Return (u_1, u_2), centred, with ``u_1 v_1 + u_2 v_2 = target`` modulo alpha.

    Raises
    ------
    RecoveryFailedError
        If no two coordinates determine them.
    """
    first, second = pair
    for i in range(len(first)):
        for j in range(i):
            determinant = first[i] * second[j] - first[j] * second[i]
            if math.gcd(determinant, modulus) != 1:
                continue
            factor = inverse(determinant, modulus)
            u = (target[i] * second[j] - target[j] * second[i]) * factor
            w = (first[i] * target[j] - first[j] * target[i]) * factor
            return centred(u, modulus), centred(w, modulus)
    raise RecoveryFailedError("the lattice of rank two is degenerate modulo the scale")


def combination(pair: Pair, sample: list[int]) -> tuple[int, int]:
    """Return the coprime integers gamma with ``sample = gamma_1 v_1 + gamma_2 v_2``.

    Raises
    ------
    RecoveryFailedError
        If there are none.
    """
    first, second = pair
    determinant = first[0] * second[1] - first[1] * second[0]
    if determinant:
        one, rest = divmod(sample[0] * second[1] - sample[1] * second[0], determinant)
        two, other = divmod(first[0] * sample[1] - first[1] * sample[0], determinant)
        explained = all(
            one * v + two * w == c for v, w, c in zip(first, second, sample, strict=True)
        )
        if rest == other == 0 and explained and math.gcd(one, two) == 1:
            return one, two
    raise RecoveryFailedError("the ciphertexts do not lie in the lattice of rank two")
