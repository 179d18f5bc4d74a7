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

#: The window of the transform leaves out tilted mass of at most exp(-_TAIL) on either side; what
#: that can change is added to an upper bound and taken from a lower one.
_TAIL = 26.0
#: Relative allowance for float64 rounding: of everything, and of the n-th power of a spectrum whose
#: values are known to some units in the last place.
_ROUNDING = 1e-9
_ROUNDING_OF_POWER = 4e-15


def tilt(
    losses: Array, masses: Array, *, start: float | None = None, precision: float = 1e-6
) -> tuple[float, float, Array]:
    """Return (theta, ln M(theta), tilted masses): mean about zero under the tilt, or theta = 0.

    Theta is 0 if the mean is positive. ``masses`` may sum to less than one. Whatever theta is, the
    identity above holds; a mean near zero only keeps the window short. ``start`` is a first guess.

    Raises
    ------
    NumericalError
        If no loss is positive, so that no tilt exists.
    """
    kept = masses > 0
    x, log_mass = losses[kept], np.log(masses[kept])
    largest = float(x.max(initial=0.0))
    if largest <= 0:
        raise NumericalError("the loss is never positive: no tilt makes its mean zero")

    def at(theta: float) -> tuple[float, float, float, Array]:
        exponent = log_mass + theta * x
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        mean = float(weight @ x) / total
        away = x - mean
        variance = float(weight @ (away * away)) / total
        return mean, variance, top + math.log(total), weight / total

    low, high = 0.0, math.inf
    theta = start if start is not None and start > 0 else 1.0 / largest
    for _ in range(200):
        mean, variance, log_m, weight = at(theta)
        low, high = (theta, high) if mean < 0 else (low, theta)
        newton = theta - mean / variance if variance > 0 else math.nan
        other = 4 * theta if high == math.inf else 0.5 * (low + high)
        following = newton if low < newton < min(high, 8 * theta) else other
        if abs(following - theta) <= precision * theta:
            break
        if high < 1e-14 / largest:
            theta, (_, _, log_m, weight) = 0.0, at(0.0)
            break
        theta = following
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


def _reach(deviation: Array, weights: Array, n: int) -> float:
    """Return r such that n independent deviations of mean 0 sum to r or more with exp(-_TAIL).

    The least of Bernstein's inequality and Chernoff's bound at a few rates around the best one.
    """
    most, variance = float(deviation.max()), float(weights @ deviation**2)
    third = most * _TAIL / 3
    reach = third + math.sqrt(third * third + 2 * n * variance * _TAIL)
    if third * third > 0.1 * n * variance * _TAIL:
        rate = _TAIL / reach
        for _ in range(12):
            log_moment = math.log1p(float(weights @ np.expm1(np.minimum(rate * deviation, 700.0))))
            found = (_TAIL + n * log_moment) / rate
            if found >= reach and rate > _TAIL / reach:
                break
            reach, rate = min(reach, found), 1.4 * rate
    return reach * (1 + 1e-9)


def expected_positive_part(
    law: LatticeLaw, n: int, *, upper: bool, start: float | None = None
) -> float:
    r"""Bound :math:`E[(Z_1+\dots+Z_n)_+]` for n independent draws of a law with mean <= 0.

    Parameters
    ----------
    law : LatticeLaw
    n : int
    upper : bool
        Whether to round up (``True``) or down.
    start : float, optional
        About the tilt.

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
    theta, log_m, weights = tilt(x, law.weights, start=start, precision=3e-2)
    mean, top = float(weights @ x), float(x[-1])
    low, high = (_reach(side * (x - mean), weights, n) for side in (-1, 1))
    # Beyond _TAIL / theta the factor exp(-theta s) leaves nothing that counts.
    high = min(max(high + n * mean, law.step), n * top)
    cut = min(high, max(_TAIL / theta, 2 * law.step)) if theta > 0 else high
    below = max(low - n * mean, 0.0)
    whole = n * (law.weights.size - 1) + 1
    window = math.ceil(max(cut + below, high) / law.step) + 4
    wraps = window < whole
    length = int(fft.next_fast_len(max(min(whole, window), law.weights.size), real=True))
    # Sums are n * origin + step * j, with j taken modulo the length of the transform.
    base = n * law.origin / law.step
    first = max(0, math.floor(-base) + 1)  # the first positive sum
    last = min(whole, math.floor(cut / law.step - base) + 2, first + length)
    if first >= last:
        return 0.0
    probability = fft.irfft(_power(fft.rfft(weights, length), n), length)
    s = law.step * (base + np.arange(first, last))
    kernel = s * np.exp(-theta * s)
    at = first % length
    mass = probability[at : at + s.size]
    if mass.size < s.size:
        mass = np.concatenate((mass, probability[: s.size - mass.size]))
    tilted = float(kernel @ np.maximum(mass, 0.0))
    largest = min(1 / (math.e * theta), n * top) if theta > 0 else n * top
    doubt = 1e-16 * float(kernel.sum())
    if wraps:
        doubt += 2 * largest * math.exp(-_TAIL)
    if upper and last < whole:
        # Sums beyond the last one, where the kernel decreases, or which are too improbable.
        beyond = cut * math.exp(-theta * cut) if theta * cut >= 1 else largest
        rare = largest * math.exp(-_TAIL)
        doubt += min(beyond, rare) if cut >= high else beyond
    allowance = _ROUNDING + n * _ROUNDING_OF_POWER
    tilted = tilted * (1 + allowance) + doubt if upper else tilted * (1 - allowance) - doubt
    value = max(0.0, tilted) * math.exp(n * log_m)
    if not math.isfinite(value):
        raise NumericalError(f"the expected positive part of {n} terms came out as {value}")
    return value
