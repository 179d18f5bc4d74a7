"""What linear algebra reads off a fully connected layer's gradient, and where it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inversion_runs import LENET, PAPER, attacked, median, view_of, world

from privaudit.attacks.inversion import AnalyticInversion
from privaudit.attacks.inversion._alternation import Head
from privaudit.attacks.inversion._convolutions import stages_before
from privaudit.attacks.inversion._features import enough_outputs
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._separation import separate
from privaudit.models import ModelSpec, build
from privaudit.protocols.baselines.kinds import SERVER

MLP = ModelSpec("mlp", (1, 8, 8), 10)


@settings(max_examples=25, deadline=None)
@given(records=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_inputs_of_a_rectified_layer_are_separated_whatever_they_are(records, seed) -> None:
    rng = np.random.default_rng(seed)
    inputs = rng.random((records, 20))
    derivatives = rng.standard_normal((60, records)) * (rng.random((60, records)) < 0.5)
    found = separate(
        derivatives @ inputs, derivatives.sum(1), records=records, tries=20_000, rng=rng
    )
    assert found.residual < 1e-9
    distances = np.linalg.norm(found.inputs[:, None] - inputs, axis=2)
    assert sorted(distances.argmin(1)) == list(range(records))
    assert distances.min(1).max() < 1e-4


def test_dense_derivatives_do_not_tell_records_apart() -> None:
    """Without rectified units any rotation of the factors is as good: nothing is claimed."""
    rng = np.random.default_rng(0)
    inputs, derivatives = rng.random((3, 20)), rng.standard_normal((60, 3))
    found = separate(derivatives @ inputs, derivatives.sum(1), records=3, tries=5000, rng=rng)
    assert len(found.inputs) == 0
    assert found.residual == 1


def gradient_of(
    records: int, rng: np.random.Generator, *, classes: int = 10, rows: int = 300
) -> tuple[np.ndarray, np.ndarray, Head]:
    """Inputs and derivatives of rectified units before a last layer, and what is guessed of it."""
    inputs = rng.random((records, records + 20))
    weights = rng.standard_normal((classes, rows))
    slopes = (
        rng.dirichlet(np.ones(classes), records)
        - np.eye(classes)[rng.integers(classes, size=records)]
    )
    derivatives = (slopes @ weights * (rng.random((records, rows)) < 0.6)).T
    guesses = (
        rng.dirichlet(np.ones(classes), 500) - np.eye(classes)[rng.integers(classes, size=500)]
    )
    return inputs, derivatives, Head(weights, guesses)


@settings(max_examples=10, deadline=None)
@given(records=st.integers(2, 24), seed=st.integers(0, 10_000))
def test_a_known_last_layer_tells_dozens_of_records_apart_without_choosing_rows(
    records, seed
) -> None:
    rng = np.random.default_rng(seed)
    inputs, derivatives, head = gradient_of(records, rng)
    found = separate(
        derivatives @ inputs,
        derivatives.sum(1),
        records=records,
        tries=1,
        rng=rng,
        head=head,
        starts=20_000,
    )
    assert found.residual < 1e-9
    distances = np.linalg.norm(found.inputs[:, None] - inputs, axis=2)
    assert sorted(distances.argmin(1)) == list(range(records))
    assert distances.min(1).max() < 1e-4


def test_another_last_layer_explains_nothing_and_nothing_is_claimed() -> None:
    rng = np.random.default_rng(1)
    inputs, derivatives, head = gradient_of(12, rng)
    other = replace(head, weights=rng.permuted(head.weights, axis=1))
    found = separate(
        derivatives @ inputs,
        derivatives.sum(1),
        records=12,
        tries=1,
        rng=rng,
        head=other,
        starts=2000,
    )
    assert len(found.inputs) == 0


@pytest.mark.parametrize("per_user", [1, 6, 12])
def test_a_network_without_convolutions_gives_its_records_away_exactly(per_user: int) -> None:
    w = world(330, 3, MLP, per_user=per_user)
    guesses, baseline = attacked(AnalyticInversion(), view_of(w.transcript(), SERVER), w.knowledge)
    assert guesses.diagnostics["records separated"] == 1
    assert median(guesses, w.truth()) >= 80
    assert median(baseline, w.truth()) <= 14


def test_features_behind_convolutions_lead_to_the_record() -> None:
    w = world(331, 4)
    attack = AnalyticInversion(iterations=150, feature_iterations=150)
    guesses, baseline = attacked(attack, view_of(w.transcript(), SERVER), w.knowledge)
    assert median(guesses, w.truth()) >= median(baseline, w.truth()) + 8


def test_a_sigmoid_network_gives_single_records_only() -> None:
    w = world(332, 2, LENET, per_user=3)
    attack = AnalyticInversion(iterations=3, feature_iterations=3, tries=5000)
    guesses, _ = attacked(attack, view_of(w.transcript(), SERVER), w.knowledge)
    assert guesses.diagnostics["records separated"] == 0
    assert all(np.isfinite(v).all() for v in guesses.values)


def test_the_gradient_of_another_user_tells_nothing() -> None:
    w = world(333, 4, MLP)
    swapped = replace(w, gradients=np.roll(w.gradients, 1, axis=0))
    guesses, baseline = attacked(
        AnalyticInversion(), view_of(swapped.transcript(), SERVER), w.knowledge
    )
    assert median(guesses, w.truth()) <= median(baseline, w.truth()) + 1


def test_an_update_of_zeros_is_a_poor_guess_and_not_a_crash() -> None:
    w = world(334, 2, MLP, per_user=2)
    silent = replace(w, gradients=np.zeros_like(w.gradients))
    guesses, _ = attacked(
        AnalyticInversion(iterations=3), view_of(silent.transcript(), SERVER), w.knowledge
    )
    assert guesses.diagnostics["zero updates"] == 2
    assert guesses.diagnostics["records separated"] == 0
    assert np.isfinite(guesses.scores).all()


@pytest.mark.parametrize("spec", [MLP, PAPER])
def test_under_noise_nothing_is_called_exact(spec: ModelSpec) -> None:
    w = world(335, 2, spec)
    noise = np.random.default_rng(0).normal(0, 0.01, w.gradients.shape).astype(np.float32)
    blurred = replace(w, gradients=w.gradients + noise)
    attack = AnalyticInversion(iterations=3, feature_iterations=3)
    guesses, _ = attacked(attack, view_of(blurred.transcript(), SERVER), w.knowledge)
    assert guesses.diagnostics["largest residual"] > 0.1
    assert guesses.diagnostics["updates solved exactly"] == 0


@pytest.mark.parametrize("records", [4, 24])
def test_features_of_many_records_are_separated_through_the_paper_network(records: int) -> None:
    w = world(335, 1, PAPER, per_user=records)
    module = build(PAPER, seed=335).eval()
    layer = module.fc1
    assert isinstance(layer, torch.nn.Linear)
    seen: list[np.ndarray] = []
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().numpy()))
    module(torch.from_numpy(w.records.images))
    start = 832 + 51_264  # the convolutions come first
    weight, rest = np.split(w.gradients[0, start:].astype(np.float64), [512 * 1024])
    found = separate(
        weight.reshape(512, 1024),
        rest[:512],
        records=records,
        tries=1,
        rng=np.random.default_rng(0),
        head=Head(
            module.fc2.weight.detach().numpy().astype(np.float64),
            np.full((10, 10), 0.1) - np.eye(10),
        ),
        starts=5000,
    )
    distances = np.linalg.norm(found.inputs[:, None] - seen[0], axis=2)
    assert sorted(distances.argmin(1)) == list(range(records))
    assert (distances.min(1) < 1e-3 * np.linalg.norm(seen[0], axis=1).min()).all()


@pytest.mark.parametrize(
    ("shape", "solved"), [((1, 28, 28), True), ((1, 16, 16), True), ((3, 32, 32), False)]
)
def test_convolutions_are_solved_where_they_give_enough_for_each_pixel(shape, solved) -> None:
    """Three channels of colour leave hardly more outputs on than there are pixels."""
    model = build(ModelSpec("cnn", shape, 10), seed=0)
    engine = GradientEngine(model, input_shape=shape, classes=10)
    layer = next(m for m in engine.model.modules() if isinstance(m, torch.nn.Linear))
    stages = stages_before(layer, engine)
    assert stages is not None
    assert enough_outputs(stages[0]) is solved
