"""Input that an attack cannot use well: a worse guess that says so, never a crash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import LENET, SMALL, attacked, view_of, world
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion import (
    AnalyticInversion,
    CosineInversion,
    DeepLeakage,
    SortedValueMatching,
    TopKMatching,
    ZeroFillMatching,
    _deep_leakage,
)
from privaudit.attacks.inversion._factors import Layer, UpdateGradients
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._memory import jobs_that_fit
from privaudit.attacks.inversion._objectives import cosine, relative_squared
from privaudit.attacks.inversion._optimise import AdamSettings, adam
from privaudit.attacks.inversion._priors import Pixels
from privaudit.attacks.inversion._search import engine_for
from privaudit.attacks.inversion._targets import prepare
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl.kinds import AGGREGATION_SERVER

RESNET = ModelSpec("resnet10", (3, 32, 32), 10)


@pytest.mark.parametrize(
    "attack",
    [
        CosineInversion(iterations=5, restarts=1),
        CosineInversion(iterations=5, restarts=1, labels="optimised"),
        DeepLeakage(iterations=3, restarts=1),
        AnalyticInversion(iterations=3, feature_iterations=3),
    ],
    ids=["cosine", "cosine-labels", "dlg", "analytic"],
)
@pytest.mark.parametrize("per_user", [1, 2])
def test_a_gradient_of_zeros_is_guessed_at_and_counted(attack, per_user: int) -> None:
    w = world(350, 2, per_user=per_user)
    gradients = w.gradients.copy()
    gradients[0] = 0
    view = view_of(replace(w, gradients=gradients).transcript(), SERVER)
    guesses, _ = attacked(attack, view, w.knowledge)
    assert guesses.diagnostics["zero updates"] == 1
    assert all(np.isfinite(v).all() for v in guesses.values)
    assert np.isfinite(guesses.scores).all()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_tiny_and_huge_gradients_are_matched_alike(scale: float) -> None:
    w = world(351, 2)
    attack = CosineInversion(iterations=40, restarts=1)
    scaled = replace(w, gradients=(w.gradients * scale).astype(np.float32))
    plain, other = (
        attacked(attack, view_of(x.transcript(), SERVER), w.knowledge)[0] for x in (w, scaled)
    )
    assert plain.scores == pytest.approx(other.scores, abs=1e-2)


def test_layers_without_factors_are_differentiated_plainly_and_it_is_said() -> None:
    engine = engine_for(
        RESNET,
        flatten_parameters(build(RESNET, seed=0)),
        batch_norm="train",
        device="cpu",
        records=2,
    )
    assert not engine.factored
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    labels = functional.one_hot(torch.tensor([1, 2]), 10).float()
    target = engine.gradients(images, labels).flat().detach()
    dot, squared = engine.gradients(images, labels).dot_and_norm(
        engine.targets(target).take(torch.arange(1))
    )
    assert dot.item() == pytest.approx(squared.item(), rel=1e-4)
    w = world(352, 1)
    guesses, _ = attacked(
        CosineInversion(iterations=2), view_of(w.transcript(), SERVER), w.knowledge
    )
    assert guesses.diagnostics["factored engine"] == 1


class _Small:
    """An engine on a machine whose memory holds few images at once."""

    def __init__(self, engine: GradientEngine, most: int) -> None:
        self.engine, self.most, self.seen = engine, most, []

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine, name)

    def gradients(self, images: Tensor, labels: Tensor) -> UpdateGradients:
        self.seen.append(len(images))
        if len(images) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return self.engine.gradients(images, labels)


@pytest.mark.parametrize("most", [4, 2])
def test_fewer_updates_are_searched_at_once_where_memory_runs_out(most: int) -> None:
    w = world(353, 8)
    engine = engine_for(SMALL, w.parameters, batch_norm="train", device="cpu")
    values = torch.from_numpy(w.gradients)
    labels = functional.one_hot(torch.from_numpy(w.records.labels), 10).float()[:, None]
    first = torch.rand((8, 1, 1, 8, 8), generator=torch.Generator().manual_seed(0))

    def found(source: object, at_once: int) -> tuple[Tensor, int]:
        outcome = adam(
            cosine(engine.targets(values)),
            source,  # type: ignore[arg-type]
            Pixels(),
            rows=torch.arange(8),
            first=first,
            labels=labels,
            settings=AdamSettings(5, 0.1, 0.01),
        )
        assert outcome.at_once <= at_once
        return outcome.images, outcome.evaluations

    small = _Small(engine, most)
    images, evaluations = found(small, most)
    expected, same = found(engine, 256)
    assert max(small.seen) > most
    assert evaluations == same
    assert torch.allclose(images, expected, atol=1e-4)


def test_memory_that_does_not_hold_one_update_is_an_error() -> None:
    w = world(353, 8)
    engine = engine_for(SMALL, w.parameters, batch_norm="train", device="cpu")
    labels = functional.one_hot(torch.from_numpy(w.records.labels[:1]), 10).float()[:, None]
    with pytest.raises(RuntimeError, match="out of memory"):
        adam(
            cosine(engine.targets(torch.from_numpy(w.gradients[:1]))),
            _Small(engine, 0),  # type: ignore[arg-type]
            Pixels(),
            rows=torch.arange(1),
            first=torch.zeros(1, 1, 1, 8, 8),
            labels=labels,
            settings=AdamSettings(5, 0.1, 0.01),
        )


def test_larger_updates_leave_room_for_fewer_at_once() -> None:
    parameters = world(353, 8).parameters
    fitting = [
        jobs_that_fit(
            engine_for(SMALL, parameters, batch_norm="train", device="cpu", records=r), 10_000
        )
        for r in (1, 8, 64)
    ]
    assert fitting[0] > fitting[1] > fitting[2] >= 1


def test_gradients_of_full_rank_are_not_taken_for_a_product() -> None:
    """Noise makes the gradient of a layer full: matching it by two factors would be wrong."""
    w = world(354, 2, ModelSpec("mlp", (1, 8, 8), 10))
    layers = {Layer(nn.Identity(), 0, None, 64, 64): 1}
    exact = torch.from_numpy(w.gradients)
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0))
    factors = prepare(exact, layers).layers[0].factors
    assert factors is not None
    left, right = factors
    block = exact[:, : 64 * 64].reshape(-1, 64, 64)
    assert torch.allclose(left @ right.transpose(1, 2), block, atol=1e-6 * float(block.abs().max()))
    noised = exact + 1e-3 * exact.abs().max() * noise
    left_whole = prepare(noised, layers).layers[0]
    assert left_whole.factors is None
    assert torch.equal(left_whole.block, noised[:, : 64 * 64].reshape(-1, 64, 64))


class _WithUnusedLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(64, 10), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.used(x.flatten(1))
        return found


def test_a_layer_that_the_loss_does_not_reach_has_a_gradient_of_zeros() -> None:
    torch.manual_seed(0)
    engine = GradientEngine(_WithUnusedLayer(), input_shape=(1, 8, 8), classes=10)
    assert engine.way == "dense"
    labels = functional.one_hot(torch.tensor([3]), 10).float()
    found = engine.gradients(torch.rand(1, 1, 8, 8), labels).flat().detach()[0]
    assert (found[-3 * 65 :] == 0).all()
    assert (found[: -3 * 65] != 0).any()


@pytest.mark.parametrize("per_user", [1, 2])
@pytest.mark.parametrize(
    ("attack", "members"),
    [
        (TopKMatching(iterations=3), (AGGREGATION_SERVER, "colluder")),
        (ZeroFillMatching(iterations=3), (AGGREGATION_SERVER, "colluder")),
        (SortedValueMatching(iterations=3), (AGGREGATION_SERVER,)),
    ],
    ids=lambda x: x.name if hasattr(x, "name") else "",
)
def test_values_of_zero_at_known_coordinates_are_guessed_at(attack, members, per_user) -> None:
    w = world(355, 2, per_user=per_user)
    gradients = w.gradients.copy()
    gradients[0] = 0
    view = view_of(replace(w, gradients=gradients).transcript(), *members)
    guesses, _ = attacked(attack, view, w.knowledge)
    assert all(np.isfinite(v).all() for v in guesses.values)
    assert np.isfinite(guesses.scores).all()


def test_a_search_that_diverges_is_started_anew_and_counted(monkeypatch) -> None:
    """The first losses of the first target are no numbers; its second start finds the record."""
    w = world(356, 2, LENET)
    calls = 0

    def broken(targets):
        whole = relative_squared(targets)

        def make(rows):
            objective = whole(rows)

            def evaluate(gradients):
                nonlocal calls
                calls += 1
                return objective(gradients) * torch.where(
                    (rows == 0) & (calls == 1), torch.nan, 1.0
                )

            return evaluate

        return make

    monkeypatch.setattr(_deep_leakage.objectives, "relative_squared", broken)
    view = view_of(w.transcript(), SERVER)
    guesses, _ = attacked(DeepLeakage(iterations=60, restarts=1), view, w.knowledge)
    assert guesses.diagnostics["diverged searches"] == 1
    assert guesses.diagnostics["restarts after divergence"] == 1
    assert guesses.scores.min() > -1e-2
    calls = 0
    alone, _ = attacked(DeepLeakage(iterations=60, restarts=0), view, w.knowledge)
    assert alone.diagnostics["diverged searches"] == 1
    assert alone.diagnostics["restarts after divergence"] == 0
    assert np.isfinite(alone.values[0]).all()
    assert alone.scores[0] < -1e6 < alone.scores[1]


def test_quasi_newton_searches_take_fewer_at_once_where_memory_runs_out(monkeypatch) -> None:
    w = world(357, 4, LENET)
    view = view_of(w.transcript(), SERVER)
    attack = DeepLeakage(iterations=2, restarts=0)
    expected, _ = attacked(attack, view, w.knowledge)
    gradients = GradientEngine.gradients

    def scarce(self, images, labels):
        if len(images) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return gradients(self, images, labels)

    monkeypatch.setattr(GradientEngine, "gradients", scarce)
    found, _ = attacked(attack, view, w.knowledge)
    assert found.diagnostics["updates at once"] == 1
    assert found.scores == pytest.approx(expected.scores, rel=1e-6)


def test_auxiliary_labels_outside_the_classes_are_an_error_that_says_so() -> None:
    w = world(358, 2)
    wrong = LabelledImages(w.auxiliary.images, w.auxiliary.labels + 5)
    view = view_of(w.transcript(), SERVER)
    with pytest.raises(InvalidDataError, match="labels up to 14 do not fit"):
        attacked(CosineInversion(iterations=1), view, replace(w.knowledge, auxiliary=wrong))


@pytest.mark.parametrize("labels", [(0, 10), (-1, 3)])
def test_declared_labels_outside_the_classes_name_the_user(labels) -> None:
    w = world(359, 1, per_user=2)
    view = view_of(w.transcript(), SERVER)
    attack = CosineInversion(iterations=1, known_labels={"user-0": labels})
    with pytest.raises(ConfigurationError, match="known_labels of 'user-0'"):
        attacked(attack, view, w.knowledge)
