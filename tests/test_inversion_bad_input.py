"""Input that an attack cannot use well: a worse guess that says so, never a crash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import SMALL, attacked, view_of, world
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion import AnalyticInversion, CosineInversion, DeepLeakage
from privaudit.attacks.inversion._factors import Layer, UpdateGradients
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._memory import jobs_that_fit
from privaudit.attacks.inversion._objectives import cosine
from privaudit.attacks.inversion._optimise import AdamSettings, adam
from privaudit.attacks.inversion._priors import Pixels
from privaudit.attacks.inversion._search import engine_for
from privaudit.attacks.inversion._targets import prepare
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines.kinds import SERVER

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
