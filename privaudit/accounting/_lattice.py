r"""Expected positive part of a sum of independent variables, by a tilted Fourier transform.

The delta of a shuffled mechanism at a given epsilon is :math:`E[(\sum_{i\le n} Z_i)_+]` over a
normalisation (privacy blanket, Balle et al. 2019, Lemma 5.3). Laws are put on a lattice by the
convex order: spreading mass outwards with the mean kept can only raise :math:`E(\cdot)_+` (upper
bound), contracting it can only lower it. For a tilt :math:`\theta \ge 0` with tilted mean zero,

.. math:: E[S_+] = M(\theta)^n \sum_{s>0} s\,e^{-\theta s} p^{(\theta)}_n(s),

so that a delta of 1e-14 is computed with relative, not absolute, accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privaudit.accounting.bracket import NumericalError

__all__ = ["LatticeLaw", "Piece", "contracted", "expected_positive_part", "spread"]

Array = NDArray[np.float64]

#: Nats of tail mass outside the window of the transform: Bernstein's inequality makes the mass
#: that can wrap around at most exp(-_TAIL), and what it can change is added to the answer.
_TAIL = 45.0
#: Relative allowance for float64 rounding in transforms of up to 2**24 points and powers up to
#: 1e7; about a thousand times what is observed against direct convolution.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Piece:
    r"""A stretch of the output line on which loss and density are exponentials.

    On :math:`w \in [a, b]` the loss is :math:`p + q e^{r w}`, increasing in w, and the density
    of w is :math:`\kappa e^{\sigma w}`.
    """

    a: float
    b: float
    p: float
    q: float
    r: float
    kappa: float
    sigma: float

    def loss(self, w: Array) -> Array:
        """Return the loss at ``w``."""
        return self.p + self.q * np.exp(self.r * w)

    def inverse(self, loss: Array) -> Array:
        """Return w at which the loss is ``loss``."""
        return np.asarray(np.log((loss - self.p) / self.q) / self.r, dtype=np.float64)

    def mass(self, w: Array) -> Array:
        """Return the probability of each interval between consecutive ``w``."""
        return np.asarray(self.kappa * _integral(self.sigma, w), dtype=np.float64)

    def first_moment(self, w: Array) -> Array:
        """Return the integral of the loss over each interval between consecutive ``w``."""
        return self.p * self.mass(w) + self.q * self.kappa * _integral(self.sigma + self.r, w)

    def peak_density(self) -> tuple[float, float, float]:
        """Return the density of the loss at ``a`` and ``b``, and its maximum (at one of them)."""
        ends = [
            self.kappa * math.exp(self.sigma * w) / abs(self.q * self.r * math.exp(self.r * w))
            for w in (self.a, self.b)
        ]
        return ends[0], ends[1], max(ends)


def _integral(rate: float, w: Array) -> Array:
    left, width = w[:-1], np.diff(w)
    return np.asarray(np.exp(rate * left) * np.expm1(rate * width) / rate, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """Probabilities ``weights`` at ``origin + step * arange(len(weights))``."""

    origin: float
    step: float
    weights: Array

    @property
    def support(self) -> Array:
        """Return the lattice points."""
        return np.asarray(self.origin + self.step * np.arange(self.weights.size), np.float64)


def spread(
    pieces: list[Piece], atoms: list[tuple[float, float]], *, origin: float, step: float, size: int
) -> LatticeLaw:
    """Put a law on a lattice by a mean-preserving split of each cell on its two ends.

    The result is larger in the convex order, so every E of a convex function is bounded above.

    Parameters
    ----------
    pieces : list of Piece
    atoms : list of (loss, probability)
    origin, step, size : float, float, int
        The lattice; it must cover the support.
    """
    weights = np.zeros(size)
    lattice = LatticeLaw(origin, step, weights).support
    for piece in pieces:
        ends = piece.loss(np.array([piece.a, piece.b]))
        inner = lattice[(lattice > ends[0]) & (lattice < ends[1])]
        w = np.concatenate(([piece.a], np.clip(piece.inverse(inner), piece.a, piece.b), [piece.b]))
        mass = piece.mass(w)
        _split(weights, lattice, step, piece.first_moment(w), mass)
    for loss, probability in atoms:
        _split(weights, lattice, step, np.array([loss * probability]), np.array([probability]))
    return LatticeLaw(origin, step, weights)


def _split(weights: Array, lattice: Array, step: float, moment: Array, mass: Array) -> None:
    kept = mass > 0
    moment, mass = moment[kept], mass[kept]
    mean = moment / mass
    cell = np.clip(np.floor((mean - lattice[0]) / step).astype(np.int64), 0, lattice.size - 2)
    share = np.clip((mean - lattice[cell]) / step, 0.0, 1.0)
    np.add.at(weights, cell, mass * (1 - share))
    np.add.at(weights, cell + 1, mass * share)


def contracted(law: LatticeLaw, excess: float) -> LatticeLaw:
    r"""Return a law smaller in the convex order than the one that ``law`` is a spread of.

    The integrated tail of ``law`` interpolates the true one, G, between lattice points and exceeds
    it by at most ``excess`` (half of step squared times the density at the two ends, an eighth of
    it inside). Lowering it by ``excess`` at each inner point gives a convex function below G with
    the same mean. It needs the two ends of the support on the lattice.

    Raises
    ------
    NumericalError
        If the lattice is too coarse for that: an end holds less mass than must be moved.
    """
    moved = excess / law.step
    weights = law.weights.copy()
    if weights.size < 3 or moved >= min(weights[0], weights[-1]):
        raise NumericalError("the lattice of the lower bound is too coarse for these parameters")
    weights[0] -= moved
    weights[1] += moved
    weights[-1] -= moved
    weights[-2] += moved
    return LatticeLaw(law.origin, law.step, weights)


def _tilt(law: LatticeLaw) -> tuple[float, float, Array, float]:
    """Return (theta, ln M(theta), tilted weights, tilted variance) with tilted mean zero."""
    x = law.support
    kept = law.weights > 0
    x, log_w = x[kept], np.log(law.weights[kept])

    def moments(theta: float) -> tuple[float, float, float, Array]:
        exponent = log_w + theta * x
        top = float(exponent.max())
        mass = np.exp(exponent - top)
        total = float(mass.sum())
        mean = float((mass * x).sum()) / total
        variance = float((mass * (x - mean) ** 2).sum()) / total
        return mean, variance, top + math.log(total), mass / total

    low, high = 0.0, 1.0 / law.step
    while moments(high)[0] < 0:
        high *= 4
    theta = 0.0
    for _ in range(200):
        mean, variance, _, _ = moments(theta)
        if mean < 0:
            low = theta
        else:
            high = theta
        newton = theta - mean / variance if variance > 0 else math.nan
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - theta) <= 1e-13 * max(abs(theta), 1e-300):
            break
        theta = following
    _, variance, log_m, mass = moments(theta)
    weights = np.zeros(law.weights.size)
    weights[kept] = mass
    return theta, log_m, weights, variance


def _power(spectrum: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """Return ``spectrum**n`` by repeated squaring (NumPy's complex power is ten times slower)."""
    square, answer = spectrum.copy(), None
    while n:
        if n & 1:
            answer = square.copy() if answer is None else answer * square
        n >>= 1
        if n:
            square *= square
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
    positive = (law.weights > 0) & (x > 0)
    if not positive.any():
        return 0.0
    theta, log_m, weights, variance = _tilt(law)
    span = float(x[-1] - x[0])
    reach = span * _TAIL / 3 + math.sqrt((span * _TAIL / 3) ** 2 + 2 * n * variance * _TAIL)
    whole = n * (law.weights.size - 1) + 1
    window = 2 * math.ceil(reach / law.step) + 2
    length = fft.next_fast_len(min(whole, window), real=True)
    # Sums of the lattice: s = n * origin + step * j, j taken modulo the length of the transform.
    base = n * law.origin / law.step
    lowest = 0 if length >= whole else math.ceil(-base - length / 2)
    if length < weights.size:
        raise NumericalError("the transform is shorter than the law")
    spectrum = fft.rfft(weights, length)
    law_of_sum = fft.irfft(_power(spectrum, n), length)
    j = lowest + np.arange(length)
    s = law.step * (base + j)
    probability = np.maximum(law_of_sum[j % length], 0.0)
    use = s > 0
    tilted = float(np.sum(s[use] * np.exp(-theta * s[use]) * probability[use]))
    # What may have wrapped around, times the most that it can weigh.
    weigh = min(1.0 / (math.e * theta), n * float(x[-1])) if theta > 0 else n * float(x[-1])
    lost = 0.0 if length >= whole else weigh * math.exp(-_TAIL)
    noise = 1e-15 * float(np.sum(s[use] * np.exp(-theta * s[use])))
    if upper:
        value = (tilted * (1 + _ROUNDING) + lost + noise) * math.exp(n * log_m)
    else:
        value = max(0.0, tilted * (1 - _ROUNDING) - lost - noise) * math.exp(n * log_m)
    if not math.isfinite(value):
        raise NumericalError(f"expected positive part of {n} terms came out as {value}")
    return value
