"""Integers of the backend, rational reconstruction, and lattice reduction."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from privaudit.errors import UnmetRequirementsError
from privaudit.secure_computation.integers import backend

__all__ = ["centred", "native", "rational", "reduced", "round_divide"]


def native(value: int) -> Any:
    """Return an integer of the backend, on which products are fast: mpz, or int without gmpy2."""
    if backend() == "python":
        return value
    return importlib.import_module("gmpy2").mpz(value)


def centred(value: int, modulus: int) -> int:
    """Return the representative of ``value`` in (-modulus / 2, modulus / 2].

    Examples
    --------
    >>> centred(6, 7), centred(3, 7)
    (-1, 3)
    """
    value %= modulus
    return value - modulus if 2 * value > modulus else value


def round_divide(value: int, divisor: int) -> int:
    """Return ``value / divisor`` to the nearest integer, halves upwards; ``divisor`` positive."""
    return (2 * value + divisor) // (2 * divisor)


def rational(residue: int, modulus: int, *, bound: int) -> tuple[int, int]:
    """Find a fraction ``r / t`` of small terms that is ``residue`` modulo ``modulus``.

    Half-extended Euclid, stopped at the first remainder of at most ``bound``. If some r / t with
    ``abs(r) <= bound`` and ``2 abs(r) abs(t) < modulus`` exists where ``2 bound abs(t) <=
    modulus``, it is returned in lowest terms, and no other such fraction exists (Wang, Guy and
    Davenport, SIGSAM Bulletin 16(2), 1982; von zur Gathen and Gerhard, Modern Computer Algebra,
    theorem 5.26).

    Parameters
    ----------
    residue, modulus : int
        ``0 <= residue < modulus``.
    bound : int
        Largest numerator.

    Returns
    -------
    tuple of int
        Numerator, perhaps negative, and denominator, positive.

    Examples
    --------
    >>> rational(-7 * pow(11, -1, 10007) % 10007, 10007, bound=70)
    (-7, 11)
    """
    above, remainder = modulus, residue
    before, factor = 0, 1
    while remainder > bound:
        quotient = above // remainder
        above, remainder = remainder, above - quotient * remainder
        before, factor = factor, before - quotient * factor
    return (remainder, factor) if factor > 0 else (-remainder, -factor)


def reduced(rows: Sequence[Sequence[int]], *, attack: str) -> list[list[int]]:
    """Return an LLL-reduced basis of the lattice that rows span, without zero rows.

    Raises
    ------
    UnmetRequirementsError
        If python-flint is not installed.
    """
    try:
        flint = importlib.import_module("flint")
    except ImportError as error:
        raise UnmetRequirementsError(
            f"attack '{attack}' needs lattice reduction (python-flint), which is not installed: "
            "pip install 'privaudit[crypto]'"
        ) from error
    basis = flint.fmpz_mat([list(row) for row in rows]).lll()
    listed = [[int(entry) for entry in row] for row in basis.tolist()]
    return [row for row in listed if any(row)]
