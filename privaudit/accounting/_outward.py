"""Upper bounds that hold for real numbers: ball arithmetic, and float64 rounded outwards.

Elementary functions are evaluated in balls (python-flint's arb) and rounded up to float64. Sums and
products of nonnegative float64 numbers are then enlarged by the most that rounding can have taken:
n terms, in whatever order, lose at most about n units of 2**-53 of the result (Higham 2002,
section 3.1). Nothing here relies on the accuracy of a library's exp or log.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import NumericalError
from privaudit.errors import UnmetRequirementsError

__all__ = [
    "balls",
    "binomial_weights",
    "down",
    "expm1_below",
    "laplace_moment",
    "report_law",
    "rounded_up",
    "sum_powers",
    "theorem_b_moment",
    "up",
]

Array = NDArray[np.float64]

_UNIT = 2.0**-52
#: Added for products below the smallest normal numbers.
_TINY = 1e-290
_PRECISION = 128


def balls() -> Any:
    """Return python-flint's ``arb``, with 128 bits.

    Raises
    ------
    UnmetRequirementsError
        If python-flint is not installed.
    """
    try:
        flint = importlib.import_module("flint")
    except ImportError:
        raise UnmetRequirementsError(
            "certifying a bound needs ball arithmetic (python-flint), which is not installed: "
            "pip install 'privaudit[crypto]'"
        ) from None
    flint.ctx.prec = max(int(flint.ctx.prec), _PRECISION)
    return flint.arb


def up(values: Array, terms: int = 1) -> Array:
    """Enlarge nonnegative results of sums of ``terms`` products beyond what rounding took."""
    return np.asarray(values * (1 + (terms + 8) * _UNIT) + _TINY, dtype=np.float64)


def down(values: Array, terms: int = 1) -> Array:
    """Reduce nonnegative results of sums of ``terms`` products below their true values."""
    return np.asarray(np.maximum(values * (1 - (terms + 8) * _UNIT) - _TINY, 0.0), np.float64)


def rounded_up(balls_: Iterable[Any], what: str) -> Array:
    """Return float64 numbers above the balls.

    Raises
    ------
    NumericalError
        If one is not finite.
    """
    found = np.array([float(ball.upper()) for ball in balls_])
    if not np.isfinite(found).all():
        raise NumericalError(f"{what} is not finite in ball arithmetic")
    # The conversion to float rounds to the nearest number.
    return np.asarray(np.nextafter(found, math.inf), dtype=np.float64)


def report_law(u: float, parts: int) -> Array:
    """Return upper bounds on the law of :func:`privaudit.accounting._moments.ratio_law`."""
    arb = balls()
    low = (-arb(u)).exp()
    step = 2 * arb(u).sinh() / parts
    rise = (2 * arb(u)).expm1() / parts
    # exp(w) where the ratio takes the lattice values.
    edges = [(1 + rise * i).sqrt() for i in range(parts + 1)]
    law = [arb(0)] * (parts + 1)
    for i in range(parts):
        mass = 1 / edges[i] - 1 / edges[i + 1]
        share = (low * (edges[i + 1] - edges[i]) - (low + step * i) * mass) / step
        law[i] += mass - share
        law[i + 1] += share
    law[-1] += low
    return np.maximum(rounded_up(law, "the law of a report"), 0.0)


def sum_powers(u: float, parts: int, k: int, powers: tuple[float, ...]) -> Array:
    """Return upper bounds on S**p, S = exp(-u) + j 2 sinh(u) / (parts k): shape (j, powers)."""
    arb = balls()
    low, step = (-arb(u)).exp(), 2 * arb(u).sinh() / (parts * k)
    logs = [(low + step * j).log() for j in range(parts * k + 1)]
    columns = [rounded_up(((x * arb(p)).exp() for x in logs), "a Renyi moment") for p in powers]
    return np.stack(columns, axis=1)


def binomial_weights(n: int, y: Array) -> Array:
    """Return upper bounds on P(k - 1) of Bin(n - 1, exp(-y)): shape (len(y), n)."""
    arb = balls()
    rows = []
    for value in y.tolist():
        inside, outside = (-arb(value)).exp(), -(-arb(value)).expm1()
        row = (
            math.comb(n - 1, k) * inside**k * (outside ** (n - 1 - k) if k < n - 1 else 1)
            for k in range(n)
        )
        rows.append(rounded_up(row, "a binomial weight"))
    return np.stack(rows)


def theorem_b_moment(u: float, n: int, order: float) -> Array:
    """Return upper bounds on exp(Theorem B's bound on ln A_k(u, -u)) - 1 for k = 1 .. n."""
    arb = balls()
    rise, alpha = (2 * arb(u)).expm1(), arb(order)
    return rounded_up(
        (
            (arb(k) / 2 * (rise / k).log1p() ** 2 * alpha * (alpha - 1)).expm1()
            for k in range(1, n + 1)
        ),
        "Theorem B's moment",
    )


def laplace_moment(t: Array, order: float) -> Array:
    """Return upper bounds on the moment less one of the Laplace mechanism at distances ``t``."""
    arb = balls()
    a = arb(order)
    rising, falling = a / (2 * a - 1), (a - 1) / (2 * a - 1)

    def moment(distance: float) -> Any:
        d = arb(distance)
        return rising * ((a - 1) * d).expm1() + falling * (-a * d).expm1()

    return rounded_up((moment(x) for x in t.tolist()), "the Laplace mechanism's moment")


def expm1_below(z: Array) -> Array:
    """Return lower bounds on exp(z) - 1 for z >= 0: a truncated series, of z / 64 above 1."""
    small = np.minimum(z, 1.0)
    large = np.minimum(z, 700.0) / 64
    return np.asarray(
        np.where(
            z <= 1,
            down(_series(small), 100),
            np.maximum(down((1 + down(_series(large), 100)) ** 64, 400) - 1, 0.0),
        ),
        dtype=np.float64,
    )


def _series(z: Array) -> Array:
    """Return z + z^2/2! + ... of 24 terms, in float64."""
    total = np.zeros_like(z)
    for i in range(24, 0, -1):
        total = z / i * (1 + total)
    return total
