"""One coordinate over rounds: Theorem 1 of PA-CFL composed, from both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from privaudit.accounting._blanket import LARGEST_EPSILON0, blanket_epsilon
from privaudit.accounting._optimal import optimal_composition
from privaudit.accounting._rounds import MOST_ROUNDS, composed_lower_epsilon
from privaudit.accounting.bracket import (
    Bracket,
    OutOfDomainError,
    Status,
    agreeing_lower,
    check_count,
    check_delta,
    check_finite,
)
from privaudit.accounting.composition import epsilon_of_zcdp, local_zcdp
from privaudit.accounting.coordinate import coordinate_bracket
from privaudit.accounting.vector import ShuffledVector, compose_vectors

__all__ = ["compose_coordinate", "compose_coordinate_upper"]

#: In larger clusters the certified bound takes long, and it is that of so many users anyway.
_MOST_CERTIFIED: Final = 2000

Upper = tuple[float, str, Status]


def compose_coordinate(releases: Mapping[ShuffledVector, int], delta: float) -> Bracket:
    r"""Bracket epsilon of one coordinate of all vectors that one user released.

    For several rounds the upper bound is the least of

    - the sum of the local budgets, and that of the shuffled ones at :math:`\delta/T`;
    - advanced composition of the shuffled ones at :math:`\delta_s=\delta/(2T)`, or their optimal
      composition (Kairouz, Oh, Viswanath 2015) where all rounds are alike;
    - zero-concentrated composition without shuffling (Theorem A for one coordinate);
    - the shuffled Renyi bound with the others anywhere in the interval ("basic"): one coordinate is
      a vector of which only that coordinate changes.

    The lower bound is the composition of one explicit pair of data sets, each report reduced to
    its cell, or that of the worst single round if it is more.

    Raises
    ------
    OutOfDomainError
        If there is no release, or delta is not in (0, 1).
    NumericalError
        If an intermediate value is not finite.

    Examples
    --------
    >>> found = compose_coordinate({ShuffledVector(4, 1.0, 1): 100}, 1e-5)
    >>> round(found.lower, 1), found.upper < 50
    (28.3, True)
    """
    brackets = _check(releases, delta)
    first = next(iter(brackets.values()))
    total = sum(releases.values())
    if total == 1:
        return first
    upper, source, status = compose_coordinate_upper(releases, delta)
    single = max(bracket.lower or 0.0 for bracket in brackets.values())
    lower, told = single, "lower bound: that of the worst single round"
    rounds: dict[tuple[int, float], int] = {}
    for release, count in releases.items():
        key = release.honest_users, release.epsilon0
        rounds[key] = rounds.get(key, 0) + count
    if all(epsilon0 <= LARGEST_EPSILON0 for _, epsilon0 in rounds):
        composed, others = composed_lower_epsilon(rounds, delta)
        if composed > single:
            place = {1: "the upper end", 0: "the middle", -1: "the lower end"}[others]
            lower = composed
            told = (
                f"lower bound: one pair of data sets composed over {min(total, MOST_ROUNDS):,} "
                f"rounds, the other users at {place}, reports reduced to cells"
            )
    return replace(
        first,
        lower=agreeing_lower(lower, upper, "one coordinate over rounds"),
        upper=upper,
        theorem=f"upper, {total:,} rounds: {source}; lower: divergence of one concrete pair of "
        "data sets",
        status=status,
        note=told,
    )


def compose_coordinate_upper(
    releases: Mapping[ShuffledVector, int], delta: float, *, certified: bool = True
) -> Upper:
    """Return (upper bound, its source, its status) of :func:`compose_coordinate`.

    Parameters
    ----------
    certified : bool
        Whether to evaluate the shuffled Renyi bound too, which may take seconds.
    """
    check_delta(delta)
    total = sum(releases.values())
    if total == 1:
        (release,) = (r for r, count in releases.items() if count)
        single = blanket_epsilon(release.honest_users, release.epsilon0, delta)
        return single, "exact privacy blanket", "proven"
    pure = sum(count * r.epsilon0 for r, count in releases.items())
    line = sum(
        count * blanket_epsilon(r.honest_users, r.epsilon0, delta / total)
        for r, count in releases.items()
    )
    half = delta / (2 * total)
    shuffled = [
        (blanket_epsilon(r.honest_users, r.epsilon0, half), count) for r, count in releases.items()
    ]
    squares = sum(count * e * e for e, count in shuffled)
    advanced = math.sqrt(2 * math.log(2 / delta) * squares)
    advanced += sum(count * e * math.tanh(e / 2) for e, count in shuffled)
    rho = sum(count * local_zcdp(r.epsilon0) for r, count in releases.items())
    found: list[Upper] = [
        (pure, "sum of the local budgets", "proven"),
        (line, "sum of the exact blankets at delta / T", "proven"),
        (advanced, "advanced composition of the exact blankets", "proven"),
        (epsilon_of_zcdp(rho, delta), "zCDP without shuffling (Theorem A)", "proven"),
    ]
    if len(shuffled) == 1 and shuffled[0][0] > 0:
        optimal = optimal_composition(shuffled[0][0], compositions=total, delta=delta, delta_s=half)
        found.append((optimal, "optimal composition of the exact blankets", "proven"))
    if certified and max(r.honest_users for r in releases) <= _MOST_CERTIFIED:
        narrow: dict[ShuffledVector, int] = {}
        for release, count in releases.items():
            one = ShuffledVector(release.honest_users, release.epsilon0, 1)
            narrow[one] = narrow.get(one, 0) + count
        basic = compose_vectors(narrow, delta).basic
        if basic.upper is not None:
            found.append((basic.upper, basic.theorem, basic.status))
    upper, source, status = min(found, key=lambda item: item[0])
    return check_finite("epsilon of one coordinate over rounds", upper), source, status


def _check(releases: Mapping[ShuffledVector, int], delta: float) -> dict[ShuffledVector, Bracket]:
    check_delta(delta)
    if not releases:
        raise OutOfDomainError("no round is named, e.g. {ShuffledVector(4, 1.0, 1): 100}")
    for count in releases.values():
        check_count("rounds", count)
    return {r: coordinate_bracket(r.honest_users, r.epsilon0, delta) for r in releases}
