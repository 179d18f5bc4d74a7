"""One coordinate after shuffling: Theorem 1 of PA-CFL with a stated bound in place of the O(.)."""

from __future__ import annotations

from collections.abc import Sequence

from privaudit.accounting._blanket import dataset_epsilon
from privaudit.accounting._sweep import sweep, upper_epsilon
from privaudit.accounting.bracket import (
    Bracket,
    OutOfDomainError,
    agreeing_lower,
    check_count,
    check_delta,
    check_epsilon0,
)

__all__ = ["coordinate_bracket", "coordinate_brackets", "coordinate_upper"]

#: Beyond it a query takes minutes.
LARGEST_CLUSTER = 2_000_000

_THEOREM = (
    "upper: exact privacy blanket (Balle, Bell, Gascón, Nissim 2019, Lemma 5.3, evaluated by a "
    "tilted FFT); lower: divergence of one concrete pair of data sets"
)


def _check(n: int, epsilon0: float, delta: float) -> None:
    check_count("n", n)
    if n > LARGEST_CLUSTER:
        raise OutOfDomainError(
            f"clusters of up to {LARGEST_CLUSTER} users are computed, got {n}; the upper bound for "
            f"{LARGEST_CLUSTER} holds for more"
        )
    check_epsilon0(epsilon0)
    check_delta(delta)


def coordinate_upper(n: int, epsilon0: float, delta: float) -> float:
    """Return an upper bound on epsilon of one shuffled coordinate, rounded up.

    Parameters
    ----------
    n : int
        Honest users whose reports are shuffled together.
    epsilon0 : float
        Local budget of the coordinate: inputs in an interval, Laplace noise of scale length /
        epsilon0.
    delta : float

    Raises
    ------
    OutOfDomainError
        Unless 1 <= n <= 2,000,000, epsilon0 > 0 and 0 < delta < 1.
    NumericalError
        If an intermediate value is not finite.

    Examples
    --------
    >>> round(coordinate_upper(20, 1.0, 1e-5), 3)
    0.888
    """
    _check(n, epsilon0, delta)
    return upper_epsilon(n, epsilon0, delta)


def coordinate_bracket(n: int, epsilon0: float, delta: float) -> Bracket:
    """Bracket epsilon of one shuffled coordinate between a pair of data sets and the blanket.

    Parameters and errors are those of :func:`coordinate_upper`.

    Examples
    --------
    >>> bracket = coordinate_bracket(20, 1.0, 1e-5)
    >>> round(bracket.lower, 3), round(bracket.upper, 3)
    (0.871, 0.888)
    """
    upper = coordinate_upper(n, epsilon0, delta)
    lower, others = dataset_epsilon(n, epsilon0, delta)
    lower = agreeing_lower(lower, upper, f"one coordinate of {n} users")
    return _bracket(n, delta, lower, upper, others)


def coordinate_brackets(sizes: Sequence[int], epsilon0: float, delta: float) -> dict[int, Bracket]:
    """Bracket epsilon of one coordinate for many cluster sizes, faster than one by one.

    Every bound is shown by itself. Upper bounds may lie up to 1e-4 (relative) further out than
    those of :func:`coordinate_bracket`; lower bounds up to 2 %, since between sizes that are solved
    only the pair of data sets that is the best one around is tried.

    Parameters
    ----------
    sizes : sequence of int
        Honest users, in any order.
    epsilon0, delta : float

    Raises
    ------
    OutOfDomainError
        As :func:`coordinate_upper`, or if no size is given.

    Examples
    --------
    >>> found = coordinate_brackets(range(2, 40), 1.0, 1e-5)
    >>> round(found[20].lower, 3), round(found[20].upper, 3)
    (0.871, 0.888)
    """
    if not sizes:
        raise OutOfDomainError("sizes must name at least one cluster size")
    for n in sizes:
        _check(n, epsilon0, delta)
    return {
        n: _bracket(n, delta, swept.lower, swept.upper, swept.others)
        for n, swept in sweep(sizes, epsilon0, delta).items()
    }


def _bracket(n: int, delta: float, lower: float, upper: float, others: int) -> Bracket:
    place = {1: "the upper end", 0: "the middle", -1: "the lower end"}[others]
    return Bracket(
        lower=lower,
        upper=upper,
        delta=delta,
        theorem=_THEOREM,
        direction="both outwards",
        status="proven",
        domain_ok=True,
        unit="one coordinate of one user's report",
        assumptions=(
            "every user sends one report of this coordinate, Laplace noise on an interval",
            "the permutation of this coordinate is uniform, secret, and drawn afresh",
            f"all {n} users counted are honest",
        ),
        note=f"lower bound attained with the other users at {place} of the interval",
    )
