"""The vector's upper bound, evaluated again with every step rounded outwards."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, Literal

from privaudit.accounting._certificate import certified_divergence
from privaudit.accounting._outward import balls, rounded_up
from privaudit.accounting.bracket import (
    Bracket,
    OutOfDomainError,
    check_count,
    check_delta,
    check_epsilon0,
)
from privaudit.accounting.vector import ShuffledVector, best_orders, compose_vectors

__all__ = ["LARGEST_CERTIFIED_CLUSTER", "certify"]

#: Beyond it the table would have to leave counts out, whose allowance is in float64 only.
LARGEST_CERTIFIED_CLUSTER: Final = 50
#: Beyond it Renyi moments leave float64 for the orders that matter.
LARGEST_CERTIFIED_EPSILON0: Final = 16.0

_NOTE = (
    "upper: moments, mixing weights, majorant, premise on all cells and conversion evaluated in "
    "ball arithmetic (python-flint) or float64 rounded outwards; relied on besides: the proofs, "
    "and IEEE 754 arithmetic. The lower bound is not part of it"
)


def certify(
    n: int,
    epsilon0: float,
    delta: float,
    *,
    rounds: int = 1,
    dimension: int = 10**9,
    bound: Literal["basic", "refined"] = "refined",
) -> Bracket:
    """Return the vector's bracket, its upper bound certified by interval arithmetic.

    The float64 path proposes a Renyi order and (lambda, K); nothing else of it is used. The
    result may be larger than that of :func:`privaudit.accounting.vector_budget` by rounding only.

    Parameters
    ----------
    n : int
        Honest users in the cluster, the same in every round; at most 50.
    epsilon0 : float
        At most 16.
    delta : float
    rounds : int
    dimension : int
        Coordinates; it matters only where there are few.
    bound : {"refined", "basic"}
        Whether the other users are jointly clipped too.

    Raises
    ------
    OutOfDomainError
        Outside the domain above.
    UnmetRequirementsError
        If python-flint (extra ``crypto``) is not installed.
    NumericalError
        If a value is not finite, or the premise could not be shown.

    Examples
    --------
    >>> found = certify(4, 1.0, 1e-5)  # doctest: +SKIP
    >>> round(found.upper, 2), found.status  # doctest: +SKIP
    (2.25, 'certified by interval arithmetic')
    """
    check_count("n", n)
    check_epsilon0(epsilon0)
    check_delta(delta)
    check_count("rounds", rounds)
    check_count("dimension", dimension)
    if n > LARGEST_CERTIFIED_CLUSTER:
        raise OutOfDomainError(
            f"bounds are certified for n <= {LARGEST_CERTIFIED_CLUSTER}, got {n}; the one for "
            f"{LARGEST_CERTIFIED_CLUSTER} holds for more users"
        )
    if epsilon0 > LARGEST_CERTIFIED_EPSILON0:
        raise OutOfDomainError(
            f"bounds are certified for epsilon0 <= {LARGEST_CERTIFIED_EPSILON0:g}, got {epsilon0:g}"
        )
    arb = balls()
    releases = {ShuffledVector(n, epsilon0, dimension): rounds}
    budget = compose_vectors(releases, delta)
    float_path = budget.refined if bound == "refined" else budget.basic
    squared = arb(epsilon0) ** 2

    def epsilon(order: float, divergence: Any) -> Any:
        a = arb(order)
        return rounds * divergence + (1 - 1 / a).log() - (arb(delta) * a).log() / (a - 1)

    rho = rounds * epsilon0**2 / 2
    middle = math.sqrt(math.log(1 / delta) / rho)
    candidates = [rounds * arb(epsilon0) * arb(dimension).sqrt()]
    candidates += [
        epsilon(order, order * squared / 2)
        for order in (1 + middle * 2.0 ** (i / 64) for i in range(-96, 97))
    ]
    if n > 1:
        order = best_orders(releases, delta)[1 if bound == "refined" else 0][1]
        divergence = certified_divergence(n, epsilon0, order, refined=bound == "refined")
        candidates.append(epsilon(order, arb(divergence)))
    upper = max(0.0, float(rounded_up(candidates, "epsilon").min()))
    lower = float_path.lower
    return replace(
        float_path,
        lower=None if lower is None else min(lower, upper),
        upper=upper,
        status="certified by interval arithmetic",
        note="; ".join(x for x in (_NOTE, float_path.note) if x),
    )
