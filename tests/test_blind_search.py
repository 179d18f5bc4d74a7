"""The search for label shares among values of unknown order, on users of a known linear model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from privaudit.attacks.inversion import _blind_population
from privaudit.attacks.inversion._blind_moments import moments
from privaudit.attacks.inversion._blind_population import search, shares_of
from privaudit.attacks.inversion._blind_ranks import given_shares, likeliest
from privaudit.attacks.inversion._blind_templates import Templates
from privaudit.protocols.pa_cfl.sequences import global_permutation, permutation_sequence

USERS, CLASSES, CANDIDATES, K, DIRECTIONS = 16, 4, 240, 60, 2


def shares_drawn(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.full(CLASSES, 0.2), USERS)


@cache
def templates_of(seed: int) -> Templates:
    rng = np.random.default_rng([seed, 1])
    importance = np.exp(rng.normal(size=CANDIDATES))
    loadings = rng.normal(size=(CLASSES + DIRECTIONS, CANDIDATES)) * importance
    loadings[CLASSES:] *= 0.2
    covariance = np.eye(CLASSES + DIRECTIONS)
    covariance[:CLASSES, :CLASSES] = np.cov(shares_drawn(rng).T) + 1e-3 * np.eye(CLASSES)
    known = Templates(
        coordinates=np.arange(CANDIDATES),
        loadings=loadings,
        noise=np.square(0.05 * importance),
        mean=np.r_[np.full(CLASSES, 1 / CLASSES), np.zeros(DIRECTIONS)],
        precision=np.linalg.inv(covariance),
        log_rank=np.zeros(CANDIDATES),
        log_rank_variance=np.ones(CANDIDATES),
        biases=np.arange(CLASSES),
        classes=CLASSES,
        scale=1.0,
    )
    places = np.stack(
        [
            given_shares(known, shares_drawn(rng), k=K, variance=0.0, rng=rng).log_rank
            for _ in range(8)
        ]
    )
    return replace(known, log_rank=places.mean(0), log_rank_variance=places.var(0) + 0.1)


def federation(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return label shares, values in the order of importance, and their coordinates."""
    templates, rng = templates_of(seed), np.random.default_rng([seed, 2])
    shares = shares_drawn(rng)
    factors = np.hstack([shares, rng.normal(size=(USERS, DIRECTIONS))])
    updates = factors @ templates.loadings
    updates += rng.normal(size=updates.shape) * np.sqrt(templates.noise)
    sequences = np.stack([permutation_sequence(u, k=K) for u in updates])
    order = global_permutation(sequences, dimension=CANDIDATES, k=K)
    return shares, updates[:, order], order


@pytest.fixture
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blind_population, "_STARTS", 12)
    monkeypatch.setattr(_blind_population, "_KEPT", 3)


def test_values_are_placed_without_a_first_idea_of_the_labels() -> None:
    shares, values, order = federation(101)
    templates = templates_of(101)
    found = search(values, templates, generations=0, rng=np.random.default_rng(0)).placed
    assert np.mean(found.candidates == order) >= 0.8
    assert np.abs(shares_of(found.factors, CLASSES) - shares).sum(1).mean() / 2 <= 0.1


@pytest.mark.usefixtures("few_starts")
def test_an_order_of_its_own_for_each_user_leaves_nothing_to_place() -> None:
    _, values, order = federation(101)
    rng = np.random.default_rng(3)
    shuffled = np.stack([rng.permutation(own) for own in values])
    found = search(shuffled, templates_of(101), generations=0, rng=np.random.default_rng(0)).placed
    assert np.mean(found.candidates == order) <= 0.1


@pytest.mark.usefixtures("few_starts")
def test_a_search_is_the_same_for_the_same_seed() -> None:
    _, values, _ = federation(102)
    one, other = (
        search(values, templates_of(102), generations=0, rng=np.random.default_rng(5)).placed
        for _ in range(2)
    )
    assert np.array_equal(one.candidates, other.candidates)
    assert one.cost == other.cost


def test_label_shares_tell_the_order_of_importance() -> None:
    shares, _, order = federation(103)
    prior = templates_of(103)
    own = given_shares(prior, shares, k=K, variance=0.1, rng=np.random.default_rng(0))
    places = np.log1p(np.arange(K))
    errors = [np.square(t.log_rank[order] - places).mean() for t in (own, prior)]
    assert errors[0] <= 0.75 * errors[1]


def test_moments_fit_the_true_label_shares_better_than_others() -> None:
    shares, values, _ = federation(104)
    rng = np.random.default_rng(0)
    own = given_shares(templates_of(104), shares, k=K, variance=0.1, rng=rng)
    starts = np.stack([shares, *(shares_drawn(rng) for _ in range(5)), shares[:, ::-1]])
    _, losses = moments(values).fit(starts, [own], steps=0)
    assert losses.argmin() == 0
    fitted, lower = moments(values).fit(starts, [own], steps=100)
    assert np.all(lower < losses)
    assert np.allclose(fitted.sum(-1), 1, atol=1e-5)


def test_moments_do_not_depend_on_the_order_within_a_block() -> None:
    _, values, _ = federation(104)
    before = moments(values)
    rng = np.random.default_rng(1)
    parts = np.split(values, before.edges[1:-1] - 1, axis=1)
    after = moments(np.hstack([part[:, rng.permutation(part.shape[1])] for part in parts]))
    assert np.allclose(after.products, before.products)
    assert np.allclose(after.sums, before.sums)


def test_the_likeliest_candidates_keep_the_biases() -> None:
    templates = templates_of(104)
    few = likeliest(templates, 30)
    assert np.isin(templates.coordinates[templates.biases], few.coordinates).all()
    assert np.array_equal(few.coordinates[few.biases], templates.coordinates[templates.biases])
    assert 30 <= len(few.coordinates) <= 30 + CLASSES
