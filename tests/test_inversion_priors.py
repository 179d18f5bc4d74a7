"""What priors know, and when they would know too much."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from inversion_runs import PAPER, attacked, median, view_of, world

from privaudit.attacks.inversion import TopKMatching
from privaudit.attacks.inversion._decoder import train_decoder
from privaudit.attacks.inversion._priors import (
    class_gaussian,
    class_means,
    fills_its_space,
    principal_components,
)
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import SERVER

LIKE = torch.zeros(1, dtype=torch.float64)


def test_enlarged_digits_span_few_dimensions_and_native_ones_do_not() -> None:
    assert fills_its_space(world(113, 3).auxiliary, 10)
    assert not fills_its_space(world(113, 3, PAPER).auxiliary, 10)


def test_a_gaussian_prior_excludes_no_image() -> None:
    w = world(113, 3)
    prior = class_gaussian(w.auxiliary, w.records.labels, classes=10, weight=1.0, like=LIKE)
    noise = torch.from_numpy(np.random.default_rng(0).random((3, 1, 8, 8)))
    assert torch.allclose(prior.images(prior.variables(noise)), noise, atol=1e-9)


def test_a_gaussian_prior_prefers_the_class_mean_and_then_its_class() -> None:
    w = world(113, 200)
    labels = w.records.labels
    prior = class_gaussian(w.auxiliary, labels, classes=10, weight=1.0, like=LIKE)
    means = torch.from_numpy(class_means(w.auxiliary, 10)[labels]).double()
    records = torch.from_numpy(w.records.images).double()
    assert float(prior.penalty(prior.variables(means)).max()) < 1e-9
    own = prior.penalty(prior.variables(records))
    other = prior.penalty(prior.variables(records.roll(1, dims=0)))
    # Records of the population have a mean squared latent near one, by construction.
    assert 0.5 < float(own.mean()) < 2
    assert float(own.mean()) < float(other.mean())


def test_principal_components_keep_what_lies_in_their_span() -> None:
    w = world(113, 3)
    prior = principal_components(w.auxiliary, components=20, weight=1.0, like=LIKE)
    records = torch.from_numpy(w.records.images).double()
    once = prior.mean + prior.variables(records) @ prior.basis
    twice = prior.mean + prior.variables(once.reshape(records.shape)) @ prior.basis
    assert prior.basis.shape == (20, 64)
    assert torch.allclose(once, twice)
    assert not torch.allclose(once, records.flatten(1), atol=0.05)


def test_the_mean_of_an_absent_class_is_that_of_all() -> None:
    images = np.random.default_rng(0).random((4, 1, 2, 2), dtype=np.float32)
    means = class_means(LabelledImages(images, np.array([0, 0, 2, 2])), 3)
    assert means[0] == pytest.approx(images[:2].mean(0))
    assert means[1] == pytest.approx(images.mean(0))


def test_a_learned_decoder_rebuilds_unseen_records_better_than_means_do() -> None:
    w = world(113, 40)
    before = torch.random.get_rng_state()
    prior = train_decoder(w.auxiliary, latent=32, weight=1.0, like=LIKE)
    assert torch.equal(torch.random.get_rng_state(), before)
    records = torch.from_numpy(w.records.images).double()
    latent = prior.variables(records)
    rebuilt = prior.images(latent)
    means = torch.from_numpy(class_means(w.auxiliary, 10)[w.records.labels]).double()
    error = (rebuilt - records).square().mean()
    assert float(error) < 0.5 * float((means - records).square().mean())
    assert 0 <= float(rebuilt.min()) <= float(rebuilt.max()) <= 1
    assert 0.3 < float(prior.penalty(latent).mean()) < 3
    again = train_decoder(w.auxiliary, latent=32, weight=1.0, like=LIKE)
    assert torch.equal(again.images(latent), rebuilt)


def test_a_search_in_the_range_of_the_decoder_stays_there() -> None:
    w = world(113, 3)
    attack = TopKMatching(source="update", prior="decoder", iterations=80, components=32)
    guesses, baseline = attacked(attack, view_of(w.transcript(), SERVER), w.knowledge)
    assert median(guesses, w.truth()) > median(baseline, w.truth())


def test_a_prior_needs_records() -> None:
    single = world(113, 3).auxiliary.take(np.array([0]))
    with pytest.raises(ConfigurationError, match="at least two"):
        principal_components(single, components=2, weight=1.0, like=LIKE)
    with pytest.raises(ConfigurationError, match="at least two"):
        train_decoder(single, latent=2, weight=1.0, like=LIKE)
