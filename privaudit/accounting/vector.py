"""The whole noised subvector: the paper's Theorem 2, Theorem A, and certified shuffled bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from privaudit.accounting._blanket import blanket_epsilon
from privaudit.accounting._vector import (
    certified_renyi,
    clone_harmonic,
    first_orders,
    on_grid,
)
from privaudit.accounting.bracket import (
    Bracket,
    OutOfDomainError,
    agreeing_lower,
    check_count,
    check_delta,
    check_epsilon0,
    check_finite,
)
from privaudit.accounting.composition import (
    epsilon_from_rdp,
    epsilon_of_gaussian,
    epsilon_of_zcdp,
    local_zcdp,
    theorem2_delta_s,
)

__all__ = [
    "ShuffledVector",
    "VectorBudget",
    "best_orders",
    "compose_local_per_coordinate",
    "compose_theorem2",
    "compose_vectors",
    "theorem2",
    "vector_budget",
]

#: From so many coordinates on, spread inputs come within 3 % of their Gaussian limit (at 3,000
#: within 1 %), and the limit counts as a lower bound.
MANY_COORDINATES = 1000

#: Beyond so many users the bounds are also compared with those for so many.
MANY_USERS = 1000

#: Rounds of widening the Renyi orders tried; the bound holds however few there are.
_MOST_TRIES = 6

_UNIT = "the whole less important subvector of one user, the rest of the protocol given"


@dataclass(frozen=True, slots=True)
class ShuffledVector:
    """One round of one user: a noised vector among ``honest_users`` shuffled reports.

    ``honest_users = 1`` is a report that is not shuffled. The clipping is joint and the noise
    scale 2 * clip_norm / epsilon0 on each of ``dimension`` coordinates.
    """

    honest_users: int
    epsilon0: float
    dimension: int

    def __post_init__(self) -> None:
        check_count("honest_users", self.honest_users)
        check_epsilon0(self.epsilon0)
        check_count("dimension", self.dimension)


@dataclass(frozen=True, slots=True)
class VectorBudget:
    """Bounds on epsilon of the whole subvector over the rounds given.

    Attributes
    ----------
    local : Bracket
        Theorem A: no shuffling.
    basic, refined : Bracket
        After per-coordinate shuffling; refined also uses that the others are clipped.
    floor : Bracket
        Lower bound: inputs spread evenly over many coordinates.
    """

    local: Bracket
    basic: Bracket
    refined: Bracket
    floor: Bracket


def theorem2(rounds: Mapping[int, int], epsilon0: float, dimension: int, delta: float) -> Bracket:
    """Return the epsilon of PA-CFL's Theorem 2 for rounds with one epsilon0 and dimension.

    ``rounds`` maps numbers of honest users in the cluster to numbers of rounds, ``{4: 98, 2: 2}``;
    ``dimension`` is d2. See :func:`compose_theorem2`.

    Examples
    --------
    >>> f"{theorem2({4: 1}, 1.0, 582026, 1e-5).upper:.3g}"
    '2.73e+05'
    """
    return compose_theorem2(_releases(rounds, epsilon0, dimension), delta)


def compose_theorem2(releases: Mapping[ShuffledVector, int], delta: float) -> Bracket:
    r"""Return the epsilon of PA-CFL's Theorem 2, composed over the releases of one user.

    :math:`\sqrt{2\ln(1/\delta')\sum_j\varepsilon_j^2}+\sum_j\varepsilon_j\tanh(\varepsilon_j/2)`
    over all coordinates of all rounds, with :math:`\delta'=\delta/2`,
    :math:`\delta_s=\delta/(2 d_2 T)`, and :math:`\varepsilon_j` the exact-blanket bound at
    :math:`\delta_s` for the cluster size of the round. Proven; valid for per-coordinate clipping
    too.

    Raises
    ------
    OutOfDomainError
        If there is no release or delta is not in (0, 1).
    NumericalError
        If an intermediate value is not finite.
    """
    _check_releases(releases, delta)
    coordinates = sum(release.dimension * count for release, count in releases.items())
    delta_s = theorem2_delta_s(delta, coordinates)
    squares = line = 0.0
    amplified = False
    largest = 0.0
    for release, count in releases.items():
        epsilon_s = blanket_epsilon(release.honest_users, release.epsilon0, delta_s)
        squares += count * release.dimension * epsilon_s**2
        line += count * release.dimension * epsilon_s * math.tanh(epsilon_s / 2)
        largest = max(largest, epsilon_s)
        amplified = amplified or epsilon_s <= 0.99 * release.epsilon0
    upper = math.sqrt(2 * math.log(2 / delta) * squares) + line
    return Bracket(
        lower=None,
        upper=check_finite("epsilon of Theorem 2", upper),
        delta=delta,
        theorem="PA-CFL, Theorem 2 (advanced composition)",
        direction="upper rounded up",
        status="proven",
        domain_ok=True,
        unit=_UNIT,
        assumptions=("independent permutations of the coordinates", "fixed clipping threshold"),
        note=(
            f"delta_s = {delta_s:.3g}, epsilon_s = {largest:.4g} by the exact privacy blanket"
            + ("" if amplified else " (no amplification by shuffling)")
            + "; every coordinate is counted at its worst, which joint clipping rules out"
        ),
    )


def _releases(
    rounds: Mapping[int, int], epsilon0: float, dimension: int
) -> dict[ShuffledVector, int]:
    return {ShuffledVector(n, epsilon0, dimension): count for n, count in rounds.items()}


def _check_releases(releases: Mapping[ShuffledVector, int], delta: float) -> None:
    check_delta(delta)
    if not releases:
        raise OutOfDomainError("rounds must name at least one cluster size, e.g. {4: 100}")
    for count in releases.values():
        check_count("rounds", count)


def vector_budget(
    rounds: Mapping[int, int], epsilon0: float, delta: float, *, dimension: int = 10**9
) -> VectorBudget:
    """Bound epsilon of the jointly clipped vector over rounds with the cluster sizes given.

    Parameters
    ----------
    rounds : mapping of int to int
        Number of rounds by number of honest users in the cluster: ``{4: 98, 2: 2}``.
    epsilon0 : float
        Budget of one coordinate: noise scale 2 * clip_norm / epsilon0.
    delta : float
    dimension : int
        Coordinates, or more than there are; it matters only where there are few of them.

    Returns
    -------
    VectorBudget
        See :func:`compose_vectors`.

    Examples
    --------
    >>> budget = vector_budget({4: 1}, 1.0, 1e-5)
    >>> round(budget.local.upper, 2), round(budget.basic.upper, 2), round(budget.floor.lower, 2)
    (4.73, 2.83, 1.99)
    """
    return compose_vectors(_releases(rounds, epsilon0, dimension), delta)


def compose_vectors(releases: Mapping[ShuffledVector, int], delta: float) -> VectorBudget:
    """Bound epsilon of all jointly clipped vectors that one user released.

    Renyi divergences add over rounds, adaptively; the conversion to (epsilon, delta) is that of
    Canonne, Kamath and Steinke (2020). Where there are few coordinates, pure composition may be
    less: the joint clipping keeps the L1 norm of the change within ``epsilon0 * sqrt(dimension)``
    noise scales. The spread-input floor is a limit of many coordinates; below
    ``MANY_COORDINATES`` of them it is not used as a lower bound.

    Raises
    ------
    OutOfDomainError
        If there is no release or delta is not in (0, 1).
    NumericalError
        If an intermediate value is not finite.
    """
    _check_releases(releases, delta)
    rho = sum(count * local_zcdp(r.epsilon0) for r, count in releases.items())
    mu_squared = sum(count * r.epsilon0**2 / r.honest_users for r, count in releases.items())
    pure = sum(count * r.epsilon0 * math.sqrt(r.dimension) for r, count in releases.items())
    local = min(epsilon_of_zcdp(rho, delta), pure * (1 + 1e-12))
    (basic, _), (refined, _) = best_orders(releases, delta)
    if max(r.honest_users for r in releases) > MANY_USERS and max(r.epsilon0 for r in releases) > 1:
        # More users can only help; with fewer, other Renyi orders are within reach.
        fewer: dict[ShuffledVector, int] = {}
        for release, count in releases.items():
            one = replace(release, honest_users=min(release.honest_users, MANY_USERS))
            fewer[one] = fewer.get(one, 0) + count
        budget = compose_vectors(fewer, delta)
        assert budget.basic.upper is not None
        assert budget.refined.upper is not None
        basic, refined = min(basic, budget.basic.upper), min(refined, budget.refined.upper)
    basic = min(local, basic)
    refined = min(basic, refined)
    floor = epsilon_of_gaussian(math.sqrt(mu_squared), delta)
    unshuffled_floor = epsilon_of_gaussian(math.sqrt(2 * rho), delta)
    # At a tiny delta the limit may exceed what so few coordinates can lose at all.
    many = min(r.dimension for r in releases) >= MANY_COORDINATES and unshuffled_floor <= pure
    few = f"fewer than {MANY_COORDINATES} coordinates: the spread-input floor does not apply"
    floor_note = "lower: spread inputs, the others at zero, in the limit of many coordinates"
    floor_note = floor_note if many else few

    def below(lower: float, upper: float) -> float | None:
        return agreeing_lower(lower, upper, "the vector") if many else None

    shared = ("joint L2 clipping at a threshold fixed in advance", "noise scale 2 clip / epsilon0")
    shuffled = (*shared, "an independent secret permutation of each coordinate")
    return VectorBudget(
        local=Bracket(
            lower=below(unshuffled_floor, local),
            upper=local,
            delta=delta,
            theorem=(
                "Theorem A: zCDP rho = epsilon0^2 / 2 a round (Bun and Steinke 2016, Prop 1.4), or "
                "pure composition if less"
            ),
            direction="upper rounded up",
            status="proven",
            domain_ok=True,
            unit=_UNIT,
            assumptions=shared,
            note=floor_note.replace(", the others at zero", ""),
        ),
        basic=Bracket(
            lower=below(floor, basic),
            upper=basic,
            delta=delta,
            theorem="shuffled Renyi bound, the others anywhere in the interval",
            direction="upper rounded up",
            status="certified on a grid",
            domain_ok=True,
            unit=_UNIT,
            assumptions=shuffled,
            note=floor_note,
        ),
        refined=Bracket(
            lower=below(floor, refined),
            upper=refined,
            delta=delta,
            theorem="shuffled Renyi bound, the others jointly clipped too",
            direction="upper rounded up",
            status="certified on a grid",
            domain_ok=True,
            unit=_UNIT,
            assumptions=shuffled,
            note=floor_note,
        ),
        floor=Bracket(
            lower=floor,
            upper=None,
            delta=delta,
            theorem="spread inputs: Gaussian DP, mu^2 = sum of epsilon0^2 / n over rounds",
            direction="not rounded",
            status="numerical",
            domain_ok=many,
            unit=_UNIT,
            assumptions=shuffled,
            note="attained in the limit of many coordinates" if many else few,
        ),
    )


def best_orders(
    releases: Mapping[ShuffledVector, int], delta: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (epsilon, Renyi order) of the basic and of the refined bound, the least over orders.

    Any order gives a bound. Those likely best are tried first, then others next to the best one.
    """
    mu_squared = sum(count * r.epsilon0**2 / r.honest_users for r, count in releases.items())
    rho_high = sum(
        count * local_zcdp(r.epsilon0) * clone_harmonic(r.honest_users, math.exp(-r.epsilon0 / 2))
        for r, count in releases.items()
    )
    users = min(r.honest_users for r in releases)
    places = first_orders(mu_squared / 2, rho_high, users, delta)
    tried: dict[int, tuple[float, float]] = {}

    def tries(wanted: set[int]) -> None:
        new = sorted(wanted - set(tried))
        orders = tuple(on_grid(place) for place in new)
        total = np.zeros((2, len(new)))
        for release, count in releases.items():
            one = certified_renyi(release.honest_users, release.epsilon0, orders)
            total += count * np.array([one.basic, one.refined])
        for i, place in enumerate(new):
            basic, refined = (
                epsilon_from_rdp(orders[i : i + 1], [x], delta)[0] for x in total[:, i]
            )
            tried[place] = basic, refined

    def best(which: int) -> int:
        return min(tried, key=lambda place: tried[place][which])

    tries(set(places[0]) | set(places[1]))
    for _ in range(_MOST_TRIES):
        around = {best(which) + step for which in (0, 1) for step in (-1, 1)}
        if around <= set(tried):
            break
        tries(around)
    first, second = best(0), best(1)
    return (tried[first][0], on_grid(first)), (tried[second][1], on_grid(second))


def compose_local_per_coordinate(releases: Mapping[ShuffledVector, int], delta: float) -> Bracket:
    r"""Bound epsilon without shuffling when each coordinate is clipped by itself.

    Every coordinate is then :math:`\varepsilon_0`-DP, so the vector is
    :math:`d_2\varepsilon_0^2/2`-zCDP and :math:`d_2\varepsilon_0`-DP; the least of the two.
    """
    _check_releases(releases, delta)
    rho = sum(count * r.dimension * local_zcdp(r.epsilon0) for r, count in releases.items())
    pure = sum(count * r.dimension * r.epsilon0 for r, count in releases.items())
    return Bracket(
        lower=None,
        upper=min(pure, epsilon_of_zcdp(rho, delta)),
        delta=delta,
        theorem="zCDP rho = d2 epsilon0^2 / 2 a round, each coordinate at its worst",
        direction="upper rounded up",
        status="proven",
        domain_ok=True,
        unit=_UNIT,
        assumptions=("per-coordinate clipping at a threshold fixed in advance",),
    )
