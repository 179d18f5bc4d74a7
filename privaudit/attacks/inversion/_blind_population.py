"""The search for factors where nothing gives the labels away: moments, then a population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privaudit.attacks.inversion._blind_moments import moments
from privaudit.attacks.inversion._blind_ranks import given_shares, likeliest
from privaudit.attacks.inversion._blind_search import Factors, Placed, Placing
from privaudit.attacks.inversion._blind_templates import Templates

__all__ = ["NOISE", "Found", "refine", "search", "shares_of"]

Float64 = npt.NDArray[np.float64]

#: Random starts whose moments are fitted, and how many of them go on.
_STARTS, _KEPT = 96, 16

#: Added to the variance of logarithmic places while moments are fitted again and again.
_DOUBT = (0.5, 0.3, 0.2, 0.1)

#: Children of a generation, and how many of them are annealed.
_CHILDREN, _ANNEALED = 24, 10

_POPULATION = 12

#: Candidates for each of the k values while annealing.
_CANDIDATES = 2

#: Mean total variation below which two members are one.
_SAME = 0.02

#: Noise is widened by this: that of auxiliary users is less than that of others.
NOISE = 2.0

#: Concentration of the label shares of random starts.
_SKEW = 0.3

#: Users whose shares a mutation draws anew.
_DRAWN_ANEW = 5

#: Shares of the factors' prior variance at which columns are annealed; see `Placing.widened`.
_COARSE = tuple(np.geomspace(0.3, 3e-3, 9).tolist())
_FINE = tuple(np.geomspace(0.05, 1e-4, 6).tolist())

#: Mean confidence at which a placement is taken and the search ends: in development those above
#: placed nine in ten or more.
_ENOUGH = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The best placement, and how many starts were annealed for it."""

    placed: Placed
    annealed: int


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    cost: float
    shares: Float64
    factors: Factors


def search(
    values: Float64,
    templates: Templates,
    *,
    generations: int,
    rng: np.random.Generator,
    also: Sequence[Float64] = (),
    starts: int = _KEPT,
) -> Found:
    """Place columns without a first idea of the labels.

    1. Moments of the values (:func:`.moments`) are fitted from random label shares, and again with
       the order of importance that the shares found would give.
    2. The best are annealed: a few columns are assigned softly and factors estimated, in turn,
       under a variance that falls from a share of the factors' prior variance to the model's own.
    3. A population goes on from there. Children exchange two classes, take users from two parents
       or draw some users anew, and pass steps 1 and 2. The cheapest survive.
    4. The cheapest is placed. The search ends once the model believes the placement.

    Parameters
    ----------
    values : ndarray of float64, shape (users, k)
        In the order of importance.
    templates : Templates
    generations : int
        At most.
    rng : numpy.random.Generator
    also : sequence of ndarray of float64, shape (users, classes)
        Label shares from elsewhere that join the first population.
    starts : int
        Random label shares that are annealed for the first population, no more than 16; six times
        as many are drawn.
    """
    wide = replace(templates, noise=templates.noise * NOISE)
    scaled = values / templates.scale
    seen = moments(scaled)
    users, k, classes = len(values), values.shape[1], templates.classes

    def ordered(shares: Float64, doubt: float) -> Templates:
        return given_shares(wide, shares, k=k, variance=doubt, rng=rng)

    def refitted(shares: Float64, doubts: Sequence[float], steps: int) -> tuple[Float64, Float64]:
        losses = np.zeros(len(shares))
        for doubt in doubts:
            shares, losses = seen.fit(shares, [ordered(s, doubt) for s in shares], steps=steps)
        return shares, losses

    def annealed(shares: Float64) -> _Member:
        for doubt, schedule in ((0.2, _COARSE), (0.1, _FINE)):
            near = likeliest(ordered(shares, doubt), _CANDIDATES * k)
            placing = Placing(values, near)
            factors = placing.widened(placing.of_histograms(shares, variance=0.01), schedule)
            shares = shares_of(factors, classes)
        return _Member(placing.misfit(factors), shares, factors)

    kept = min(starts, _KEPT)
    random = rng.dirichlet(np.full(classes, _SKEW), (kept * _STARTS // _KEPT, users))
    doubtful = replace(wide, log_rank_variance=wide.log_rank_variance + 0.3)
    first, losses = seen.fit(random, [doubtful], steps=400)
    first, _ = refitted(first[np.argsort(losses)[:kept]], _DOUBT, 200)
    population = _survivors([annealed(s) for s in (*also, *first)])
    count, best = kept + len(also), refine(values, wide, population[0].shares, rng=rng)
    for _ in range(generations):
        if best.confidence.mean() >= _ENOUGH:
            break
        children = np.stack([_child(population, i, rng) for i in range(_CHILDREN)])
        children, losses = refitted(children, _DOUBT[2:], 150)
        chosen = children[np.argsort(losses)[:_ANNEALED]]
        before = population[0].cost
        population = _survivors([*population, *(annealed(child) for child in chosen)])
        count += _ANNEALED
        if population[0].cost < before:
            placed = refine(values, wide, population[0].shares, rng=rng)
            best = min(best, placed, key=lambda one: one.cost)
    return Found(best, count)


def shares_of(factors: Factors, classes: int) -> Float64:
    """Return the label shares among factors: not negative, rows sum to one."""
    shares: Float64 = np.clip(factors.mean[:, :classes], 0, None) + 1e-9
    shares /= shares.sum(1, keepdims=True)
    return shares


def refine(
    values: Float64, templates: Templates, shares: Float64, *, rng: np.random.Generator
) -> Placed:
    """Place columns near label shares, with the order of importance that these would give."""
    placed: Placed | None = None
    for doubt in (0.1, 0.05, 0.05):
        ordered = given_shares(templates, shares, k=values.shape[1], variance=doubt, rng=rng)
        placing = Placing(values, ordered)
        found = placing.place(placing.of_histograms(shares))
        if placed is None or found.cost < placed.cost:
            placed = found
        shares = shares_of(found.factors, templates.classes)
    assert placed is not None
    return placed


def _survivors(members: Sequence[_Member]) -> list[_Member]:
    """Return the cheapest members, without those that are nearly the same as a cheaper one."""
    kept: list[_Member] = []
    for member in sorted(members, key=lambda one: one.cost):
        apart = (np.abs(member.shares - one.shares).sum(1).mean() / 2 > _SAME for one in kept)
        if all(apart):
            kept.append(member)
    return kept[:_POPULATION]


def _child(population: Sequence[_Member], turn: int, rng: np.random.Generator) -> Float64:
    weights = 1.0 / np.arange(1, len(population) + 1)
    weights /= weights.sum()
    first, second = rng.choice(len(population), 2, p=weights)
    shares: Float64 = population[first].shares.copy()
    users, classes = shares.shape
    if turn % 3 == 0:
        pair = rng.choice(classes, 2, replace=False)
        shares[:, pair] = shares[:, pair[::-1]]
    elif turn % 3 == 1:
        of_second = rng.random(users) < 0.5
        shares[of_second] = population[second].shares[of_second]
    else:
        count = min(_DRAWN_ANEW, users)
        anew = rng.choice(users, count, replace=False)
        shares[anew] = rng.dirichlet(np.full(classes, _SKEW), count)
    return shares
