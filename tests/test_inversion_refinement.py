"""What known entries tell of the layers' inputs, and the images that are refined by it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import LENET, PAPER, SMALL, view_of, world

from privaudit.attacks.inversion import TopKMatching, _equations, _known_inputs, _search
from privaudit.attacks.inversion._convolutions import inputs_of
from privaudit.errors import ConfigurationError
from privaudit.models import ModelSpec
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl.kinds import AGGREGATION_SERVER
from privaudit.scoring.reconstruction import psnr

MLP = ModelSpec("mlp", (1, 8, 8), 10)


def engine_of(w):
    return _search.engine_for(w.spec, w.parameters, batch_norm="train", device="cpu")


def largest(w, user, share):
    gradient = torch.from_numpy(w.gradients[user])
    where = gradient.abs().topk(max(1, int(share * len(gradient)))).indices
    return where, gradient[where]


def run(attack, view, knowledge, seed=0):
    return attack.run(view, knowledge=knowledge, rng=np.random.default_rng(seed))


def decibels(guesses, truth):
    return np.array(list(psnr(guesses, truth).per_target.values()))


@pytest.mark.parametrize(("spec", "share"), [(PAPER, 0.0025), (PAPER, 0.01), (MLP, 0.2)])
def test_known_inputs_are_what_the_layers_saw_and_bounds_hold(spec, share):
    w = world(611, 3, spec)
    engine = engine_of(w)
    tail = _known_inputs.tail_of(engine)
    for user in range(3):
        found = _known_inputs.known_inputs(tail, *largest(w, user, share), largest=True)
        assert [one.layer for one in found] == [tail.classifier, tail.hidden]
        for one in found:
            with torch.no_grad():
                image = torch.from_numpy(w.records.images[user : user + 1])
                seen = inputs_of(one.layer, engine, image)[0].double()
            known = ~one.values.isnan()
            assert known.sum() >= 3
            # Entries are of single precision.
            assert one.values[known].numpy() == pytest.approx(seen[known].numpy(), rel=1e-3)
            assert (seen[~known].abs() <= one.bound * (1 + 1e-3)).all()
            assert math.isfinite(one.bound)


def test_nothing_bounds_inputs_where_another_entry_may_be_larger():
    w = world(611, 3, PAPER)
    tail = _known_inputs.tail_of(engine_of(w))
    found = _known_inputs.known_inputs(tail, *largest(w, 0, 0.0025), largest=False)
    assert [one.bound for one in found] == [math.inf, math.inf]


def test_without_a_derivative_of_the_classifier_nothing_is_known():
    w = world(611, 3, SMALL)
    tail = _known_inputs.tail_of(engine_of(w))
    where, values = largest(w, 0, 0.05)
    weights = where < tail.bias
    assert _known_inputs.known_inputs(tail, where[weights], values[weights], largest=True) == []


def test_the_last_of_ten_derivatives_follows_from_the_others():
    w = world(611, 3, PAPER)
    tail = _known_inputs.tail_of(engine_of(w))
    where, values = largest(w, 0, 0.0025)
    biases = where >= tail.bias
    assert biases.sum() == 10
    kept = where != where[biases][0]
    one, other = (
        _known_inputs.known_inputs(tail, where[part], values[part], largest=True)
        for part in (torch.ones_like(kept), kept)
    )
    for whole, fewer in zip(one, other, strict=True):
        assert fewer.values.numpy() == pytest.approx(whole.values.numpy(), rel=1e-3, nan_ok=True)


def test_the_classifier_of_other_units_is_known_and_the_layer_before_it_is_not():
    tail = _known_inputs.tail_of(engine_of(world(611, 3, LENET)))
    assert tail is not None
    assert tail.hidden is None


def test_the_variation_is_added_with_its_own_slope():
    equations = object.__new__(_equations.Equations)
    equations._first, equations._second = _equations._neighbours((2, 4, 3))
    x = torch.rand(24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x.requires_grad_(True)
    apart = x[equations._first] - x[equations._second]
    value = 0.7 * 2 * torch.hypot(apart, torch.tensor(_equations._SOFT)).mean()
    (wanted,) = torch.autograd.grad(value, x)
    curved, slope = torch.zeros(24, 24, dtype=torch.float64), torch.zeros(24, dtype=torch.float64)
    equations._add_variation(curved, slope, x.detach(), 0.7)
    assert equations._variation(x.detach(), 0.7) == pytest.approx(float(value.detach()))
    # Half of both, as of the residual's squares.
    assert 2 * slope.numpy() == pytest.approx(wanted.numpy())
    assert curved.numpy() == pytest.approx(curved.numpy().T)
    assert (curved @ x.detach()).numpy() == pytest.approx(slope.numpy())


def test_derivatives_are_the_same_by_copies_of_the_image_and_by_rows_mapped_over():
    w = world(611, 1, PAPER)
    engine = engine_of(w)
    tail = _known_inputs.tail_of(engine)
    found = _known_inputs.known_inputs(tail, *largest(w, 0, 0.0025), largest=True)
    equations = _equations.Equations(engine, found)
    x = torch.rand(784, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    residual, slopes = equations._linear(x)
    assert len(residual) > _equations._ROWS_AT_ONCE
    assert torch.equal(residual, equations._residual(x))
    assert engine.factored
    engine.way = "dense"
    again, mapped = equations._linear(x)
    assert torch.equal(residual, again)
    assert slopes.numpy() == pytest.approx(mapped.numpy(), rel=1e-4, abs=1e-6)


def test_a_step_stays_in_the_range_and_solves_for_the_pixels_that_can_move():
    generator = torch.Generator().manual_seed(2)
    root = torch.randn(6, 6, dtype=torch.float64, generator=generator)
    curved, slope = root.T @ root, torch.randn(6, dtype=torch.float64, generator=generator)
    x = torch.tensor([0, 0, 1, 1, 0.5, 0.5], dtype=torch.float64)
    step = _equations._step(curved, slope, x, 0.0)
    held = step == 0
    assert ((x + step)[:4] >= -1e-9).all() or held.any()
    free = ~held
    left = (curved @ step + slope)[free]
    assert left.numpy() == pytest.approx(np.zeros(int(free.sum())), abs=1e-6)
    assert (_equations._step(-curved, slope, x, 0.0) == 0).all()


def test_refined_images_are_nearer_to_the_records_than_those_of_matching_alone():
    w = world(612, 2, PAPER)
    view = view_of(w.transcript(0.0025), SERVER)
    attack = TopKMatching(source="update", prior="none", total_variation=0.03)
    plain = run(replace(attack, refinements=0), view, w.knowledge)
    better = run(replace(attack, refinements=2), view, w.knowledge)
    assert "refined" not in plain.diagnostics
    assert better.diagnostics["refined"] > 0
    assert better.diagnostics["layers known"] == 2
    gain = decibels(better, w.truth()) - decibels(plain, w.truth())
    assert gain.mean() > 0.5


def test_values_of_one_order_for_all_users_are_refined_too():
    w = world(613, 2, PAPER)
    view = view_of(w.transcript(0.0025), AGGREGATION_SERVER, "colluder")
    attack = TopKMatching(prior="none", total_variation=0.03, refinements=1)
    plain = run(replace(attack, refinements=0), view, w.knowledge)
    better = run(attack, view, w.knowledge)
    assert decibels(better, w.truth()).mean() > decibels(plain, w.truth()).mean()


def test_parameters_of_another_model_gain_nothing():
    w = world(612, 2, PAPER)
    view = view_of(w.transcript(0.0025), SERVER)
    other = replace(w.knowledge, parameters=world(99, 1, PAPER).parameters)
    attack = TopKMatching(source="update", prior="none", refinements=1)
    guesses = run(attack, view, other)
    means = w.auxiliary.images.mean(0)
    baseline = -10 * np.log10(np.square(w.records.images - means).mean((1, 2, 3)))
    assert decibels(guesses, w.truth()).mean() < baseline.mean()


@pytest.mark.parametrize("case", ["named prior", "several records"])
def test_what_cannot_be_refined_is_left_as_it_was(case):
    several = case == "several records"
    w = world(614, 3, SMALL, per_user=2 if several else 1)
    view = view_of(w.transcript(0.05), SERVER)
    prior = "none" if several else "gaussian"
    attack = TopKMatching(source="update", prior=prior, iterations=20)
    first, second = (run(replace(attack, refinements=turns), view, w.knowledge) for turns in (0, 3))
    assert second.diagnostics.get("refined", 0) == 0
    for one, other in zip(first.values, second.values, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("refinements", -1, "must not be negative"), ("refinement_steps", 0, "must be at least 1")],
)
def test_numbers_of_turns_and_steps_that_are_none_are_refused(name, value, words):
    with pytest.raises(ConfigurationError, match=f"{name} {words}, got {value}"):
        TopKMatching(**{name: value})


@pytest.mark.parametrize("what", ["weights", "biases"])
def test_nothing_is_known_of_entries_under_noise(what):
    w = world(611, 3, PAPER)
    tail = _known_inputs.tail_of(engine_of(w))
    where, values = largest(w, 0, 0.0025)
    assert _known_inputs.known_inputs(tail, where, values, largest=True)
    noised = where < tail.bias if what == "weights" else where >= tail.bias
    noise = torch.randn(len(values), generator=torch.Generator().manual_seed(3))
    values = torch.where(noised, values * (1 + 0.02 * noise), values)
    assert _known_inputs.known_inputs(tail, where, values, largest=True) == []


@pytest.mark.parametrize(("share", "gains"), [(0.0025, False), (0.05, True)])
def test_a_fitted_prior_is_left_only_where_that_helps_auxiliary_records(share, gains):
    w = world(615, 2)
    view = view_of(w.transcript(share), SERVER)
    attack = TopKMatching(source="update", k_fraction=share, refinements=2)
    told = run(attack, view, w.knowledge)
    plain = run(replace(attack, refinements=0), view, w.knowledge)
    gain = told.diagnostics["gain of refinement on auxiliary records"]
    assert (gain > 0) == gains
    assert ("refined" in told.diagnostics) == gains
    difference = decibels(told, w.truth()) - decibels(plain, w.truth())
    if gains:
        assert difference.mean() > 3
    else:
        assert difference == pytest.approx(0, abs=1e-3)


def test_a_fitted_prior_is_kept_where_too_few_records_could_tell():
    w = world(615, 4)
    view = view_of(w.transcript(0.05), SERVER)
    few = replace(w.knowledge, auxiliary=w.auxiliary.take(np.arange(25)))
    guesses = run(TopKMatching(source="update", k_fraction=0.05, iterations=5), view, few)
    assert guesses.diagnostics["gain of refinement on auxiliary records"] == 0
    assert "refined" not in guesses.diagnostics


def test_entries_under_noise_are_matched_as_without_refinement():
    w = world(616, 3)
    noise = np.random.default_rng(0).normal(size=w.gradients.shape).astype(np.float32)
    scale = 0.01 * np.abs(w.gradients).max()
    noised = replace(w, gradients=w.gradients + scale * noise)
    view = view_of(noised.transcript(0.05), SERVER)
    attack = TopKMatching(source="update", k_fraction=0.05, prior="none", iterations=20)
    plain = run(replace(attack, refinements=0), view, w.knowledge)
    told = run(attack, view, w.knowledge)
    assert told.diagnostics["refined"] == 0
    for one, other in zip(plain.values, told.values, strict=True):
        assert np.array_equal(one, other)
