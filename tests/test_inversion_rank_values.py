"""The values that ranks tell, and the images that are refined by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import LENET, PAPER, SMALL, view_of, world

from privaudit.attacks.inversion import RankProfileMatching, _known_inputs, _rank_values, _search
from privaudit.attacks.inversion._convolutions import inputs_of
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._ranks import magnitude_profile
from privaudit.errors import ConfigurationError
from privaudit.protocols.pa_cfl.kinds import MANAGEMENT_SERVER
from privaudit.scoring.reconstruction import psnr

COUNT = 1455  # 0.25 % of the paper's network


@pytest.fixture(scope="module")
def paper():
    return world(711, 3, PAPER)


@pytest.fixture(scope="module")
def seen(paper):
    """Engine, tail, profile, and ranks, magnitudes and derivatives of each user."""
    engine = _search.engine_for(paper.spec, paper.parameters, batch_norm="train", device="cpu")
    tail = _known_inputs.tail_of(engine)
    profile = magnitude_profile(
        engine, paper.auxiliary, count=COUNT, records=100, rng=np.random.default_rng(0)
    )
    users = []
    for gradient in torch.from_numpy(paper.gradients):
        top = gradient.abs().topk(COUNT)
        derivatives = gradient[tail.bias : tail.bias + 10].double()
        users.append((top.indices.numpy(), top.values.double().numpy(), derivatives))
    return engine, tail, profile, users


def run(attack, view, knowledge, seed=0):
    return attack.run(view, knowledge=knowledge, rng=np.random.default_rng(seed))


def decibels(guesses, truth):
    return np.array(list(psnr(guesses, truth).per_target.values()))


def test_entries_between_two_marks_are_known_nearly_as_if_sent(seen):
    _, tail, profile, users = seen
    for ranks, magnitudes, derivatives in users:
        told = _rank_values.rank_values(tail, ranks, derivatives, profile.double().numpy())
        trusted = told.weights == 1
        assert trusted.mean() > 0.7
        apart = np.abs(np.log(told.magnitudes / magnitudes))
        by_profile = profile.double().numpy() * magnitudes.sum() / float(profile.sum())
        assert apart[trusted].max() < 0.05
        assert np.median(apart[trusted]) < 0.005
        assert np.median(apart) < np.median(np.abs(np.log(by_profile / magnitudes)))
        assert told.least >= magnitudes[-1]


def test_marks_have_the_magnitudes_of_the_derivatives(seen):
    _, tail, profile, users = seen
    ranks, magnitudes, derivatives = users[0]
    told = _rank_values.rank_values(tail, ranks, derivatives, profile.double().numpy())
    biases = (ranks >= tail.bias) | (
        (ranks >= tail.hidden_bias) & (ranks < tail.hidden_bias + tail.hidden.out_features)
    )
    assert biases.sum() > 50
    assert told.magnitudes[biases] == pytest.approx(magnitudes[biases], rel=1e-4)


def test_another_factor_of_the_profile_changes_nothing(seen):
    _, tail, profile, users = seen
    ranks, _, derivatives = users[0]
    one, other = (
        _rank_values.rank_values(tail, ranks, derivatives, factor * profile.double().numpy())
        for factor in (1, 7)
    )
    assert one.magnitudes == pytest.approx(other.magnitudes)


def test_ranks_without_biases_tell_no_values(seen):
    _, tail, profile, users = seen
    ranks, _, derivatives = users[0]
    weights = ranks[ranks < tail.hidden_weight]
    shorter = profile.double().numpy()[: len(weights)]
    assert _rank_values.rank_values(tail, weights, derivatives, shorter) is None


def test_what_the_layers_saw_is_read_off_ranks(paper, seen):
    engine, _, profile, users = seen
    ranks = np.stack([user[0] for user in users])
    signs = torch.zeros(ranks.shape)
    read = _rank_values.read_ranks(engine, ranks, paper.records.labels, signs, profile)
    images = torch.from_numpy(paper.records.images)
    told = read(images)
    for image, layers in zip(images, told.inputs, strict=True):
        for layer in layers:
            with torch.no_grad():
                wanted = inputs_of(layer.layer, engine, image[None])[0].double()
            trusted = ~layer.values.isnan() & (layer.weights == 1)
            assert trusted.sum() >= 3
            apart = (layer.values - wanted)[trusted].norm() / wanted[trusted].norm()
            assert apart < 0.02
            assert (wanted[layer.values.isnan()].abs() <= 1.02 * layer.bound).all()
    # The record itself is at the objective's minimum, another one is not.
    rows, labels = torch.arange(3), one_hot(paper.records.labels, engine)
    own = told.make(rows)(engine.gradients(images, labels))
    other = told.make(rows)(engine.gradients(images.flip(3), labels))
    assert (own < 0.01 * other).all()


def test_networks_without_rectified_units_before_the_classifier_tell_none():
    w = world(712, 1, LENET)
    engine = _search.engine_for(w.spec, w.parameters, batch_norm="train", device="cpu")
    ranks = np.arange(20)[None]
    signs, profile = torch.zeros(ranks.shape), torch.ones(20)
    assert _rank_values.read_ranks(engine, ranks, np.zeros(1, np.int64), signs, profile) is None


def test_refined_images_are_nearer_to_the_records_than_those_of_matching_alone():
    w = world(713, 2, PAPER)
    view = view_of(w.transcript(0.0025), MANAGEMENT_SERVER)
    attack = RankProfileMatching(prior="none", refinements=1, refinement_steps=3)
    plain = run(replace(attack, refinements=0), view, w.knowledge)
    better = run(attack, view, w.knowledge)
    assert "refined" not in plain.diagnostics
    assert better.diagnostics["refined"] > 0
    rules = [name for name in better.diagnostics if name.startswith("gain of refinement")]
    assert len(rules) == 2
    assert max(better.diagnostics[name] for name in rules) > 0
    assert (decibels(better, w.truth()) - decibels(plain, w.truth())).mean() > 0.5


@pytest.mark.parametrize("case", ["named prior", "several records"])
def test_what_cannot_be_refined_is_left_as_it_was(case):
    several = case == "several records"
    w = world(714, 3, SMALL, per_user=2 if several else 1)
    view = view_of(w.transcript(0.05), MANAGEMENT_SERVER)
    attack = RankProfileMatching(
        prior="none" if several else "gaussian", iterations=20, records=2 if several else 1
    )
    first, second = (run(replace(attack, refinements=turns), view, w.knowledge) for turns in (0, 3))
    assert "refined" not in second.diagnostics
    for one, other in zip(first.values, second.values, strict=True):
        assert np.array_equal(one, other)


def test_images_are_left_as_they_are_where_too_few_records_could_tell():
    w = world(715, 2, PAPER)
    view = view_of(w.transcript(0.0025), MANAGEMENT_SERVER)
    few = replace(w.knowledge, auxiliary=w.auxiliary.take(np.arange(25)))
    guesses = run(RankProfileMatching(prior="none", iterations=5), view, few)
    assert "refined" not in guesses.diagnostics


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("refinements", -1, "must not be negative"), ("refinement_steps", 0, "must be at least 1")],
)
def test_numbers_of_turns_and_steps_that_are_none_are_refused(name, value, words):
    with pytest.raises(ConfigurationError, match=f"{name} {words}, got {value}"):
        RankProfileMatching(**{name: value})
