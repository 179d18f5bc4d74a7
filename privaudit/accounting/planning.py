"""Inverse questions: which epsilon0, cluster size or number of rounds meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from privaudit.accounting._vector import clone_harmonic
from privaudit.accounting.bracket import (
    LEAST_EPSILON0,
    MOST_EPSILON0,
    OutOfDomainError,
    check_count,
    check_delta,
    check_epsilon0,
)
from privaudit.accounting.composition import epsilon_of_zcdp, local_zcdp
from privaudit.accounting.coordinate import coordinate_upper
from privaudit.accounting.rounds import compose_coordinate_upper
from privaudit.accounting.vector import ShuffledVector, vector_budget
from privaudit.errors import ConfigurationError

__all__ = [
    "ClusterPlan",
    "Level",
    "cluster_size_for",
    "epsilon0_for",
    "plan_clusters",
    "rounds_for",
    "upper_bound",
]

Level = Literal["coordinate", "local", "basic", "refined"]

#: Largest cluster and number of rounds that the searches look at.
_MOST_USERS = 2000
_MOST_ROUNDS = 1_000_000
#: Where epsilon0 is looked for.
_LEAST_EPSILON0, _MOST_EPSILON0 = 1e-10, MOST_EPSILON0


def upper_bound(level: Level, *, n: int, epsilon0: float, delta: float, rounds: int = 1) -> float:
    """Return the upper bound on epsilon at one level of the accounting.

    Parameters
    ----------
    level : {"coordinate", "local", "basic", "refined"}
        One coordinate, or the whole subvector, over all rounds.
    n : int
        Honest users in the cluster.
    epsilon0, delta : float
    rounds : int

    Raises
    ------
    OutOfDomainError
        If a parameter is out of range.
    """
    if level == "coordinate":
        check_count("rounds", rounds)
        if rounds == 1:
            return coordinate_upper(n, epsilon0, delta)
        return compose_coordinate_upper({ShuffledVector(n, epsilon0, 1): rounds}, delta)[0]
    if level not in ("local", "basic", "refined"):
        raise ConfigurationError(
            f"unknown level {level!r}; allowed are coordinate, local, basic, refined"
        )
    check_count("n", n)
    budget = vector_budget({1 if level == "local" else n: rounds}, epsilon0, delta)
    upper = {"local": budget.local, "basic": budget.basic, "refined": budget.refined}[level].upper
    assert upper is not None
    return upper


def _check_target(target: float, delta: float) -> None:
    check_delta(delta)
    if not (target > 0 and math.isfinite(target)):
        raise OutOfDomainError(f"the target epsilon must be finite and > 0, got {target}")


def epsilon0_for(
    target: float, *, delta: float, n: int, rounds: int = 1, level: Level = "refined"
) -> float:
    """Return the largest epsilon0 (to three digits, rounded down) whose bound meets the target.

    Examples
    --------
    >>> epsilon0_for(4.73, delta=1e-5, n=1, level="local")
    1.0
    """
    _check_target(target, delta)
    check_count("n", n)
    check_count("rounds", rounds)

    def bound(epsilon0: float) -> float:
        return upper_bound(level, n=n, epsilon0=epsilon0, delta=delta, rounds=rounds)

    def closed_form(epsilon0: float) -> float:
        if level == "coordinate" and rounds == 1:
            return bound(epsilon0)
        share = 1.0 if level == "local" else clone_harmonic(n, math.exp(-epsilon0 / 2))
        found = epsilon_of_zcdp(rounds * share * local_zcdp(epsilon0), delta)
        return min(found, rounds * epsilon0) if level == "coordinate" else found

    # The closed form has the shape of the bound: solve it for a goal moved by what it misses.
    goal, low, high = target, 0.0, math.inf
    for _ in range(8):
        guess = _solve(closed_form, goal)
        if not _LEAST_EPSILON0 <= guess <= _MOST_EPSILON0:
            raise OutOfDomainError(
                f"epsilon0 is looked for from {_LEAST_EPSILON0:g} to {_MOST_EPSILON0:g}; a target "
                f"of {target:g} at delta = {delta:g} needs one "
                + ("below" if guess < _LEAST_EPSILON0 else "above")
            )
        found = bound(guess)
        if found <= target:
            low = max(low, guess)
        else:
            high = min(high, guess)
        if low and high <= low * (1 + 1e-3):
            break
        # Aimed a little to the side of which nothing is known yet.
        aim = 1 + (3e-4 if found <= target else -3e-4)
        if found <= 0.5 * target or found >= 2 * target:
            break
        goal *= aim * target / found
    return _three_digits(bound, target, low, high)


def _three_digits(bound: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Return the largest number of three digits that meets the target, from what is known of it."""
    step = 1.01
    while not low:
        if high < _LEAST_EPSILON0:
            raise OutOfDomainError(
                f"no epsilon0 from {_LEAST_EPSILON0:g} keeps epsilon <= {target}"
            )
        trial, step = high / step, step * step
        low, high = (trial, high) if bound(trial) <= target else (0.0, trial)
    step = 1.01
    while high == math.inf:
        trial, step = min(low * step, _MOST_EPSILON0), step * step
        if bound(trial) > target:
            high = trial
        elif trial == _MOST_EPSILON0:
            return _MOST_EPSILON0
        else:
            low = trial
    digit = 10.0 ** (math.floor(math.log10(low)) - 2)
    meets, fails = math.floor(low / digit * (1 + 1e-12)), math.ceil(high / digit * (1 - 1e-12))
    if meets * digit > low:
        meets -= 1
    while fails - meets > 1:
        middle = (meets + fails) // 2
        meets, fails = (middle, fails) if bound(middle * digit) <= target else (meets, middle)
    return float(f"{meets * digit:.3g}")


def _solve(function: Callable[[float], float], goal: float) -> float:
    """Return epsilon0 at which an increasing function reaches the goal."""
    low, high = LEAST_EPSILON0, 1.0
    while high <= _MOST_EPSILON0 and function(high) < goal:
        low, high = high, 2 * high
    if high > _MOST_EPSILON0:
        return high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) < goal else (low, middle)
    return high


def _least(meets: Callable[[int], bool], most: int) -> int | None:
    """Return the least integer in [1, most] from which ``meets`` holds, by doubling and halving."""
    high = 1
    while not meets(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def cluster_size_for(
    target: float, *, epsilon0: float, delta: float, rounds: int = 1, level: Level = "refined"
) -> int | None:
    """Return the least number of honest users whose bound meets the target; None if none does.

    Looks up to 2,000 users.

    Examples
    --------
    >>> cluster_size_for(0.9, epsilon0=1.0, delta=1e-5, level="coordinate")
    20
    """
    _check_target(target, delta)
    check_epsilon0(epsilon0)

    def meets(n: int) -> bool:
        return upper_bound(level, n=n, epsilon0=epsilon0, delta=delta, rounds=rounds) <= target

    return _least(meets, _MOST_USERS)


def rounds_for(
    target: float,
    *,
    epsilon0: float,
    delta: float,
    n: int,
    level: Level = "refined",
) -> int:
    """Return the largest number of rounds whose total meets the target; 0 if not even one does.

    Looks up to a million rounds.
    """
    _check_target(target, delta)
    check_epsilon0(epsilon0)

    def exceeds(rounds: int) -> bool:
        return upper_bound(level, n=n, epsilon0=epsilon0, delta=delta, rounds=rounds) > target

    first = _least(exceeds, _MOST_ROUNDS)
    return _MOST_ROUNDS if first is None else first - 1


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What a rule for small clusters does to sizes, coverage and the worst bound.

    Attributes
    ----------
    rule : {"as is", "merge", "withhold"}
    sizes : tuple of int
        Clusters that are shuffled and sent.
    users_served, users_withheld : int
    worst_epsilon : float or None
        Largest bound over the clusters sent; None if none is.
    """

    rule: Literal["as is", "merge", "withhold"]
    sizes: tuple[int, ...]
    users_served: int
    users_withheld: int
    worst_epsilon: float | None


def plan_clusters(
    sizes: Sequence[int],
    *,
    least: int,
    epsilon0: float,
    delta: float,
    rounds: int = 1,
    level: Level = "refined",
) -> tuple[ClusterPlan, ClusterPlan, ClusterPlan]:
    """Compare sending clusters as they are, merging those below ``least``, and withholding them.

    Merging joins the smallest cluster with the next smallest until none is below ``least`` (or one
    is left). Withholding sends nothing of a small cluster.

    Examples
    --------
    >>> [plan.sizes for plan in plan_clusters([2, 3, 9], least=4, epsilon0=1.0, delta=1e-5)]
    [(2, 3, 9), (5, 9), (9,)]
    """
    check_count("least", least)
    if not sizes:
        raise ConfigurationError("sizes must name at least one cluster")
    for size in sizes:
        check_count("cluster size", size)
    merged = sorted(sizes)
    while len(merged) > 1 and merged[0] < least:
        merged = sorted([merged[0] + merged[1], *merged[2:]])
    kept = sorted(size for size in sizes if size >= least)

    def plan(rule: Literal["as is", "merge", "withhold"], sent: list[int]) -> ClusterPlan:
        worst = None
        if sent:
            worst = upper_bound(level, n=sent[0], epsilon0=epsilon0, delta=delta, rounds=rounds)
        return ClusterPlan(rule, tuple(sent), sum(sent), sum(sizes) - sum(sent), worst)

    return plan("as is", sorted(sizes)), plan("merge", merged), plan("withhold", kept)
