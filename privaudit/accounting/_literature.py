r"""Closed-form bounds on amplification by shuffling, each with the domain of its theorem.

All are for n users with an epsilon0-DP local randomizer, neighbours by replacement of one user.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from privaudit.accounting.bracket import (
    OutOfDomainError,
    check_count,
    check_delta,
    check_epsilon0,
    check_finite,
)

__all__ = [
    "bennett_blanket",
    "erlingsson_2019",
    "fmt21_closed_form",
    "fmt21_minimum_users",
    "hoeffding_blanket",
]


def _check(n: int, epsilon0: float, delta: float) -> None:
    check_count("n", n)
    check_epsilon0(epsilon0)
    check_delta(delta)


def erlingsson_2019(n: int, epsilon0: float, delta: float) -> float:
    r"""Return :math:`12\varepsilon_0\sqrt{\ln(1/\delta)/n}` (Erlingsson et al., SODA 2019).

    Raises
    ------
    OutOfDomainError
        Unless epsilon0 <= 1/2, n >= 1000 and delta <= 0.01.
    """
    _check(n, epsilon0, delta)
    if epsilon0 > 0.5 or n < 1000 or delta > 0.01:
        raise OutOfDomainError(
            "the bound of Erlingsson et al. 2019 needs epsilon0 <= 1/2, n >= 1000 and "
            f"delta <= 0.01; here epsilon0 = {epsilon0}, n = {n}, delta = {delta}"
        )
    return min(epsilon0, 12 * epsilon0 * math.sqrt(math.log(1 / delta) / n))


def fmt21_minimum_users(epsilon0: float, delta: float) -> int:
    """Return the least n for which the closed form of Feldman et al. 2021 is stated.

    ``ceil(16 exp(epsilon0) ln(2 / delta))``.

    Examples
    --------
    >>> fmt21_minimum_users(1.0, 1e-5)
    531
    """
    check_epsilon0(epsilon0)
    check_delta(delta)
    return math.ceil(check_finite("n", 16 * math.exp(epsilon0) * math.log(2 / delta)))


def fmt21_closed_form(n: int, epsilon0: float, delta: float) -> float:
    r"""Return the closed form of Feldman, McMillan, Talwar (FOCS 2021), Theorem 3.1.

    .. math:: \ln\Big(1 + \frac{e^{\varepsilon_0}-1}{e^{\varepsilon_0}+1}\Big(
       8\sqrt{e^{\varepsilon_0}\ln(4/\delta)/n} + 8 e^{\varepsilon_0}/n\Big)\Big)

    Any epsilon0-DP local randomizer. Proven.

    Raises
    ------
    OutOfDomainError
        Unless ``n >= 16 exp(epsilon0) ln(2/delta)``.
    """
    _check(n, epsilon0, delta)
    least = fmt21_minimum_users(epsilon0, delta)
    if n < least:
        raise OutOfDomainError(
            f"the closed form of Feldman, McMillan and Talwar 2021 needs n >= {least} here "
            f"(16 exp(epsilon0) ln(2/delta) at epsilon0 = {epsilon0:g}, delta = {delta:g}); n = {n}"
        )
    e = math.exp(epsilon0)
    inner = 8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n
    return min(epsilon0, math.log1p((e - 1) / (e + 1) * inner))


def _smallest(profile: Callable[[float], float], delta: float, epsilon0: float) -> float:
    """Return, rounded up, the smallest epsilon at which a decreasing profile is at most delta."""
    low, high = 0.0, epsilon0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if profile(middle) <= delta:
            high = middle
        else:
            low = middle
        if high - low <= 1e-9 * high:
            break
    return high


def hoeffding_blanket(n: int, epsilon0: float, delta: float, *, laplace: bool) -> float:
    r"""Return the Hoeffding form of the privacy blanket (Balle et al. 2019, Theorem 5.1 style).

    .. math:: \delta \le \frac{1}{\gamma n}\frac{b^2}{4a}\big(1-\gamma(1-e^{-2a^2/b^2})\big)^n,
       \quad a = e^\varepsilon - 1

    with b the range of the loss. Generic: blanket mass exp(-epsilon0). Laplace on an interval:
    mass exp(-epsilon0/2). Never more than epsilon0. Proven for every n >= 1.
    """
    _check(n, epsilon0, delta)
    scale = epsilon0 / 2 if laplace else epsilon0
    gamma = math.exp(-scale)

    def profile(epsilon: float) -> float:
        a = math.expm1(epsilon)
        if a <= 0:
            return 1.0
        b = (math.exp(epsilon) + 1) * 2 * math.sinh(scale)
        log_decay = n * math.log1p(gamma * math.expm1(-2 * a * a / (b * b)))
        return b * b / (4 * a * gamma * n) * math.exp(log_decay)

    return _smallest(profile, delta, epsilon0)


def bennett_blanket(n: int, epsilon0: float, delta: float, *, laplace: bool) -> float:
    r"""Return the Bennett form of the privacy blanket (Balle et al. 2019, Lemma 5.3 and on).

    .. math:: \delta \le \frac{1}{\gamma n}\sum_{m\ge1} P(Bin(n,\gamma)=m)
       \frac{b}{\ln(1+ab/c)} e^{-m (c/b^2)\varphi(ab/c)},\quad \varphi(s)=(1+s)\ln(1+s)-s

    with b the greatest loss and c its second moment. Proven for every n >= 1; the sum over m is
    closed by the binomial theorem.
    """
    _check(n, epsilon0, delta)
    gamma = math.exp(-epsilon0 / 2) if laplace else math.exp(-epsilon0)

    def profile(epsilon: float) -> float:
        a, e = math.expm1(epsilon), math.exp(epsilon)
        if a <= 0:
            return 1.0
        if laplace:
            h = epsilon0 / 2
            b = math.exp(h) * -math.expm1(epsilon - epsilon0)
            c = (e * e + 1) * (2 * math.exp(h) + math.exp(-epsilon0)) / 3
            c -= 2 * e * (2 * math.exp(-h) - math.exp(-epsilon0))
        else:
            b = math.exp(epsilon0) * -math.expm1(epsilon - 2 * epsilon0)
            c = math.exp(epsilon0) * (e * e + 1) - 2 * gamma * math.exp(epsilon - 2 * epsilon0)
        if b <= 0:
            return 0.0
        s = a * b / c
        exponent = c / (b * b) * ((1 + s) * math.log1p(s) - s)
        # sum over m >= 1 of Bin(m) e^{-m x} = (1 - gamma + gamma e^{-x})^n - (1 - gamma)^n.
        whole = n * math.log1p(gamma * math.expm1(-exponent))
        none = n * math.log1p(-gamma)
        total = math.exp(whole) * -math.expm1(min(none - whole, 0.0))
        return b / math.log1p(s) / (gamma * n) * total

    return _smallest(profile, delta, epsilon0)
