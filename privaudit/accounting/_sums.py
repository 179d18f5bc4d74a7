r"""Expected positive part of a sum of independent lattice variables, by a tilted transform.

For a tilt :math:`\theta \ge 0` under which the mean is zero,

.. math:: E[S_+] = M(\theta)^n \sum_{s>0} s\,e^{-\theta s} p^{(\theta)}_n(s),

so that a delta of 1e-14 comes out with relative, not absolute, accuracy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._lattice import LatticeLaw
from privaudit.accounting.bracket import NumericalError

__all__ = ["expected_positive_part", "tilt"]

Array = NDArray[np.float64]

#: The window of the transform leaves out, by Bernstein's inequality, tilted mass of at most
#: exp(-_TAIL); what that can change is added to an upper bound and taken from a lower one.
_TAIL = 45.0
#: Relative allowance for float64 rounding: of everything, and of the n-th power of a spectrum whose
#: values are known to some units in the last place.
_ROUNDING = 1e-9
_ROUNDING_OF_POWER = 4e-15


def tilt(losses: Array, masses: Array) -> tuple[float, float, Array]:
    """Return (theta, ln M(theta), tilted masses): mean zero under the tilt, or theta = 0.

    Theta is 0 if the mean is positive. ``masses`` may sum to less than one.

    Raises
    ------
    NumericalError
        If no loss is positive, so that no tilt exists.
    """
    kept = masses > 0
    x, log_mass = losses[kept], np.log(masses[kept])
    if not (x > 0).any():
        raise NumericalError("the loss is never positive: no tilt makes its mean zero")

    def at(theta: float) -> tuple[float, float, float, Array]:
        exponent = log_mass + theta * x
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        mean = float(weight @ x) / total
        variance = float(weight @ (x - mean) ** 2) / total
        return mean, variance, top + math.log(total), weight / total

    low, high = 0.0, 1.0 / float(x.max())
    while at(high)[0] < 0:
        low, high = high, 4 * high
    theta = 0.5 * (low + high)
    for _ in range(200):
        mean, variance, _, _ = at(theta)
        low, high = (theta, high) if mean < 0 else (low, theta)
        newton = theta - mean / variance if variance > 0 else math.nan
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - theta) <= 1e-12 * theta or high < 1e-14 / float(x.max()):
            break
        theta = following
    _, _, log_m, weight = at(theta)
    tilted = np.zeros(losses.size)
    tilted[kept] = weight
    return theta, log_m, tilted


def _power(spectrum: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """Return ``spectrum**n`` by repeated squaring (NumPy's complex power is ten times slower)."""
    square, answer = spectrum.copy(), None
    while True:
        if n & 1:
            answer = square.copy() if answer is None else np.multiply(answer, square, out=answer)
        n >>= 1
        if not n:
            break
        np.multiply(square, square, out=square)
    assert answer is not None
    return answer


def expected_positive_part(law: LatticeLaw, n: int, *, upper: bool) -> float:
    r"""Bound :math:`E[(Z_1+\dots+Z_n)_+]` for n independent draws of a law with mean <= 0.

    Parameters
    ----------
    law : LatticeLaw
    n : int
    upper : bool
        Whether to round up (``True``) or down.

    Returns
    -------
    float
        A bound on the side asked for; the law itself must have been rounded to the same side.

    Raises
    ------
    NumericalError
        If an intermediate value is not finite.
    """
    from scipy import fft

    x = law.support
    if not ((law.weights > 0) & (x > 0)).any():
        return 0.0
    theta, log_m, weights = tilt(x, law.weights)
    mean = float(weights @ x)
    variance = float(weights @ (x - mean) ** 2)
    span = float(x[-1] - x[0])
    reach = span * _TAIL / 3 + math.hypot(span * _TAIL / 3, math.sqrt(2 * n * variance * _TAIL))
    whole = n * (law.weights.size - 1) + 1
    window = 2 * math.ceil((reach + abs(n * mean)) / law.step) + 2
    wraps = window < whole
    length = int(fft.next_fast_len(max(min(whole, window), law.weights.size), real=True))
    # Sums are s = n * origin + step * j, with j taken modulo the length of the transform.
    base = n * law.origin / law.step
    lowest = math.ceil(-base - length / 2) if wraps else 0
    first = max(lowest, math.floor(-base) + 1)  # the first positive sum
    last = lowest + length if wraps else whole
    if first >= last:
        return 0.0
    probability = fft.irfft(_power(fft.rfft(weights, length), n), length)
    j = np.arange(first, last)
    s = law.step * (base + j)
    kernel = s * np.exp(-theta * s)
    tilted = float(kernel @ np.maximum(probability[j % length], 0.0))
    weight = min(1 / (math.e * theta), n * float(x[-1])) if theta > 0 else n * float(x[-1])
    doubt = weight * math.exp(-_TAIL) if wraps else 0.0
    doubt += 1e-16 * float(kernel.sum())
    allowance = _ROUNDING + n * _ROUNDING_OF_POWER
    tilted = tilted * (1 + allowance) + doubt if upper else tilted * (1 - allowance) - doubt
    value = max(0.0, tilted) * math.exp(n * log_m)
    if not math.isfinite(value):
        raise NumericalError(f"the expected positive part of {n} terms came out as {value}")
    return value
