r"""Lower bounds on epsilon of one shuffled coordinate over rounds: one explicit pair, composed.

In every round user 1 is at the upper (hypothesis P) or at the lower end (Q) of the interval, all
others at one known place, and of each report only its cell is kept. That is post-processing, so
what the counts of the cells lose over T rounds, the mechanism loses at least. With the law of the
privacy loss L = ln dP/dQ of a round under P,

.. math:: \delta(\varepsilon) = E_P\big[(1 - e^{\varepsilon - L_1 - \dots - L_T})_+\big],

and rounding losses down, or leaving outcomes out, can only lower it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting._sums import _power
from privaudit.accounting.bracket import NumericalError

__all__ = ["composed_lower_epsilon"]

Array = NDArray[np.float64]

#: Up to so many reports the counts of three cells are enumerated, beyond those of two.
_THREE_CELLS = 40
#: Length of the transform; the step of the loss follows from it.
_LENGTH = 2**18
#: The window leaves out tilted mass of at most exp(-_TAIL) (Bernstein's inequality).
_TAIL = 45.0
_ROUNDING = 1e-9
#: More rounds are counted as so many: fewer releases leak no more.
MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True)
class _LossLaw:
    """Privacy losses of one round and their probabilities under P."""

    losses: Array
    masses: Array

    def trimmed(self, mass: float) -> _LossLaw:
        """Return the law without the lowest losses and with the highest lowered, to the mass."""
        order = np.argsort(self.losses)
        losses, masses = self.losses[order], self.masses[order]
        low = int(np.searchsorted(np.cumsum(masses), mass))
        above = np.cumsum(masses[::-1])
        top = losses.size - 1 - int(np.searchsorted(above, mass))
        cap = losses[max(low, top)]
        return _LossLaw(np.minimum(losses[low:], cap), masses[low:])


@functools.lru_cache(maxsize=256)
def _loss_law(n: int, epsilon0: float, others: int) -> _LossLaw:
    """Return the law for user 1 at h against -h, all others at ``others * h``."""
    from scipy import special, stats

    h = epsilon0 / 2

    def above(place: float, threshold: float) -> float:
        distance = threshold - place
        return 0.5 * math.exp(-distance) if distance >= 0 else -0.5 * math.expm1(distance) + 0.5

    if n <= _THREE_CELLS:

        def cells(place: float) -> Array:
            high, low = above(place, h), above(-place, h)
            return np.array([high, max(1.0 - high - low, 1e-300), low])

        other, first, second = cells(others * h), cells(h), cells(-h)
        a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1))
        kept = a + b <= n
        counts = np.stack((a[kept], n - a[kept] - b[kept], b[kept]), axis=1)
        log_base = special.gammaln(n + 1) - special.gammaln(counts + 1).sum(axis=1)
        log_base = log_base + special.xlogy(counts, other).sum(axis=1)
        one, two = counts @ (first / other) / n, counts @ (second / other) / n
        masses = np.exp(log_base) * one
    else:
        # The threshold that tells the two ends apart best, per report.
        def told(threshold: float) -> float:
            at = above(others * h, threshold)
            return (above(h, threshold) - above(-h, threshold)) ** 2 / (at * (1 - at))

        threshold = max(np.linspace(-h, h, 17).tolist(), key=told)
        at, p, q = (above(x, threshold) for x in (others * h, h, -h))
        mean = n * at
        reach = 14 * math.sqrt(n * at * (1 - at)) + 60
        c = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1)
        one = (c * (p / at) + (n - c) * ((1 - p) / (1 - at))) / n
        two = (c * (q / at) + (n - c) * ((1 - q) / (1 - at))) / n
        masses = np.asarray(stats.binom.pmf(c, n, at)) * one
    kept_mass = masses > 0
    losses = np.log(one[kept_mass] / two[kept_mass])
    # Rounded down past the errors of the logarithm and the sums.
    losses = losses - 1e-12 * (1 + np.abs(losses))
    return _LossLaw(np.asarray(losses), np.asarray(masses[kept_mass] * (1 - 1e-11)))


def _tilted(law: _LossLaw, theta: float) -> tuple[float, float, float]:
    """Return (ln E e^{theta L}, tilted mean, tilted variance)."""
    exponent = np.log(law.masses) + theta * law.losses
    top = float(exponent.max())
    weight = np.exp(exponent - top)
    total = float(weight.sum())
    mean = float(weight @ law.losses) / total
    variance = float(weight @ (law.losses - mean) ** 2) / total
    return top + math.log(total), mean, variance


def _best_tilt(laws: Sequence[tuple[_LossLaw, int]], goal: float) -> float:
    """Return the tilt at which Chernoff's bound on exceeding the tilted mean is exp(goal).

    Where the greatest losses together are likelier than that: one that comes close to them.
    """
    top = sum(count * float(law.losses.max()) for law, count in laws)
    whole = sum(count * float(np.ptp(law.losses)) for law, count in laws)

    def gap(theta: float) -> float:
        chernoff = average = 0.0
        for law, count in laws:
            log_moment, mean, _ = _tilted(law, theta)
            chernoff += count * (log_moment - theta * mean)
            average += count * mean
        return chernoff - goal if top - average > 1e-3 * whole else -1.0

    low, high = 0.0, 1.0
    while gap(high) > 0:
        low, high = high, 4 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gap(middle) > 0 else (low, middle)
        if high - low <= 1e-6 * high:
            break
    return 0.5 * (low + high)


def _composed(laws: Sequence[tuple[_LossLaw, int]], delta: float) -> float:
    """Return the largest epsilon, rounded down, at which the composed divergence exceeds delta."""
    from scipy import fft

    theta = _best_tilt(laws, math.log(delta))
    span = max(float(np.ptp(law.losses)) for law, _ in laws)
    whole = sum(count * float(np.ptp(law.losses)) for law, count in laws)
    if whole == 0:
        return 0.0
    moments = [(_tilted(law, theta), count) for law, count in laws]
    variance = sum(count * v for (_, _, v), count in moments)
    third = span * _TAIL / 3
    rounds = sum(count for _, count in laws)
    window = 2 * (third + math.hypot(third, math.sqrt(2 * variance * _TAIL)))
    wraps = window < whole
    # Rounding moves the mean by less than a step a round: room for it on either side.
    step = min(window, whole) / (_LENGTH - 4 * rounds - 8)
    spectrum: NDArray[np.complex128] | None = None
    base, log_scale = 0, 0.0
    for law, count in laws:
        cell = np.floor(law.losses / step).astype(np.int64)
        lowest = int(cell.min())
        exponent = np.log(law.masses) + theta * step * cell
        shift = float(exponent.max())
        weights = np.bincount(cell - lowest, np.exp(exponent - shift))
        total = float(weights.sum())
        if weights.size > _LENGTH:
            raise NumericalError("the privacy loss spreads over too many lattice points")
        one = _power(fft.rfft(weights / total, _LENGTH), count)
        spectrum = one if spectrum is None else spectrum * one
        base += count * lowest
        log_scale += count * (shift + math.log(total))
    assert spectrum is not None
    probability = np.maximum(fft.irfft(spectrum, _LENGTH), 0.0)
    # Sums are step * (base + j), j taken modulo the length; centred on the tilted mean.
    mean = sum(count * m for (_, m, _), count in moments) / step
    first = round(mean - base - _LENGTH / 2) if wraps else 0
    j = np.arange(first, first + _LENGTH)
    losses = step * (base + j).astype(np.float64)
    tilted = probability[j % _LENGTH]
    doubt = 1e-16 + (2 * math.exp(-_TAIL) if wraps else 0.0) / _LENGTH
    allowance = _ROUNDING + 4e-15 * rounds

    def divergence(epsilon: float) -> float:
        start = int(np.searchsorted(losses, epsilon, side="right"))
        beyond = losses[start:]
        kernel = np.exp(log_scale - theta * beyond) * -np.expm1(epsilon - beyond)
        return float(kernel @ tilted[start:]) * (1 - allowance) - doubt * float(kernel.sum())

    # The answer lies a little below the tilted mean; far below it the doubt outgrows everything.
    starts = (max(0.0, step * mean - far / theta) for far in (0, 2, 5, 10, 20, 40))
    low = next((start for start in starts if divergence(start) > delta), math.nan)
    high = float(losses[-1])
    if math.isnan(low):
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if divergence(middle) > delta else (low, middle)
        if high - low <= 1e-7 * high:
            break
    return low


def composed_lower_epsilon(
    releases: Mapping[tuple[int, float], int], delta: float
) -> tuple[float, int]:
    """Return a lower bound on epsilon over rounds, and where the others stand (-1, 0, 1).

    Parameters
    ----------
    releases : mapping of (honest users, epsilon0) to int
        Rounds of each kind; of more than 10,000 rounds only so many are counted.
    delta : float
    """
    counted: dict[tuple[int, float], int] = {}
    for key, count in sorted(releases.items(), key=lambda item: (item[0][0], -item[0][1])):
        room = MOST_ROUNDS - sum(counted.values())
        if room > 0:
            counted[key] = min(count, room)
    total = sum(counted.values())
    best = (0.0, 1)
    for others in (1, 0, -1):
        laws = [
            (_loss_law(n, epsilon0, others).trimmed(1e-4 * delta / total), count)
            for (n, epsilon0), count in counted.items()
        ]
        with np.errstate(under="ignore"):
            best = max(best, (_composed(laws, delta), others))
    return best
