"""The factored gradient engine computes what automatic differentiation computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._lbfgs import LBFGSSettings, minimise
from privaudit.attacks.inversion._objectives import cosine, total_variation
from privaudit.errors import ConfigurationError
from privaudit.models import ModelSpec, build

SPECS = [
    ModelSpec("small-cnn", (1, 8, 8), 10),
    ModelSpec("mlp", (1, 8, 8), 10),
    ModelSpec("lenet", (3, 12, 12), 7),
    ModelSpec("cnn", (1, 28, 28), 10),
]


def engine_of(module: nn.Module, spec: ModelSpec, *, records: int = 1) -> GradientEngine:
    return GradientEngine(
        module.double(), input_shape=spec.input_shape, classes=spec.classes, records=records
    )


def batch(spec: ModelSpec, count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((count, *spec.input_shape)))
    labels = torch.from_numpy(rng.integers(0, spec.classes, count))
    return images, functional.one_hot(labels, spec.classes).double()


def by_autograd(spec: ModelSpec, images: Tensor, labels: Tensor, *, records: int) -> Tensor:
    """Gradients by the textbook route: torch's own loss, one backward pass an update."""
    module = build(spec, seed=0).double().eval()
    rows = []
    for start in range(0, len(images), records):
        part = slice(start, start + records)
        loss = functional.cross_entropy(module(images[part]), labels[part].argmax(1))
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(rows)


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_factored_gradients_equal_automatic_differentiation(spec: ModelSpec, records: int) -> None:
    engine = engine_of(build(spec, seed=0), spec, records=records)
    images, labels = batch(spec, 3 * records)
    expected = by_autograd(spec, images, labels, records=records)

    found = engine.gradients(images, labels)

    assert engine.factored
    tolerance = 1e-9 * float(expected.abs().max())
    assert torch.allclose(found.flat().detach(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_products_norms_and_entries_need_no_whole_gradient(spec: ModelSpec) -> None:
    engine = engine_of(build(spec, seed=0), spec)
    images, labels = batch(spec, 3)
    expected = by_autograd(spec, images, labels, records=1)
    target = torch.from_numpy(np.random.default_rng(1).standard_normal(expected.shape))
    # Coordinates spread over every layer, weights and biases, other ones for each update.
    indices = torch.stack([torch.arange(offset, engine.dimension, 997) for offset in (0, 1, 2)])[
        :, : engine.dimension // 997
    ]
    indices = torch.cat([indices, torch.full((3, 1), engine.dimension - 1)], 1)

    found = engine.gradients(images, labels)

    dot, squared = found.dot_and_norm(engine.targets(target).take(torch.arange(3)))
    assert torch.allclose(dot.detach(), (expected * target).sum(1), rtol=1e-9)
    assert torch.allclose(squared.detach(), expected.square().sum(1), rtol=1e-9)
    assert torch.allclose(found.squared_norm().detach(), expected.square().sum(1), rtol=1e-9)
    assert torch.allclose(
        found.gather(indices).detach(), expected.gather(1, indices), rtol=1e-9, atol=1e-15
    )


def test_derivative_of_a_loss_through_factors_equals_finite_differences() -> None:
    spec = SPECS[2]
    engine = engine_of(build(spec, seed=0), spec)
    images, labels = batch(spec, 2)
    other, _ = batch(spec, 2, seed=5)
    targets = engine.gradients(other, labels).flat().detach()
    objective = cosine(engine.targets(targets))(torch.arange(2))

    def loss(x: Tensor) -> Tensor:
        return objective(engine.gradients(x, labels)).sum()

    variable = images.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(loss(variable), variable)
    direction = torch.from_numpy(np.random.default_rng(2).standard_normal(images.shape))
    step = 1e-4
    numeric = (loss(images + step * direction) - loss(images - step * direction)) / (2 * step)

    assert float((slope * direction).sum()) == pytest.approx(float(numeric.detach()), rel=1e-4)


class _SharedLayer(nn.Module):
    """Uses one layer twice, so that its gradient is not one product of factors."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(torch.tanh(self.first(x.flatten(1)))))
        out: Tensor = self.last(hidden)
        return out


def _with_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
    )


@pytest.mark.parametrize("make", [_SharedLayer, _with_batch_norm])
def test_networks_without_factors_fall_back_to_automatic_differentiation(make) -> None:
    torch.manual_seed(0)
    module = make().double().eval()
    spec = ModelSpec("stand-in", (1, 4, 4), 3)
    engine = engine_of(module, spec)
    engine.model.eval()
    images, labels = batch(spec, 3)

    found = engine.gradients(images, labels).flat()

    assert not engine.factored
    for row, image, label in zip(found, images, labels, strict=True):
        module.requires_grad_(True)
        loss = functional.cross_entropy(module(image[None]), label.argmax()[None])
        expected = torch.cat(
            [g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))]
        )
        assert torch.allclose(row.detach(), expected, rtol=1e-9, atol=1e-14)


def test_total_variation_of_known_images() -> None:
    flat = torch.full((1, 3, 4, 4), 0.7)
    stripes = torch.zeros(1, 1, 2, 4)
    stripes[..., 1::2] = 1.0  # every horizontal step is one, every vertical step zero
    assert float(total_variation(flat)) == 0.0
    assert float(total_variation(stripes)) == 1.0


def test_batch_statistics_of_a_single_value_are_refused_with_the_way_out() -> None:
    spec = ModelSpec("resnet10", (3, 32, 32), 10)
    with pytest.raises(ConfigurationError, match="batch_norm='eval'"):
        GradientEngine(build(spec, seed=0), input_shape=spec.input_shape, classes=10)


def test_many_problems_are_minimised_at_once_each_to_its_own_minimum() -> None:
    rng = np.random.default_rng(3)
    centres = torch.from_numpy(rng.standard_normal((5, 6)))
    scales = torch.from_numpy(10 ** rng.uniform(-2, 2, (5, 6)))  # condition numbers up to 1e4

    def quadratic(points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        offset = points - centres[which]
        return (scales[which] * offset**2).sum(1), 2 * scales[which] * offset

    found = minimise(quadratic, torch.zeros(5, 6).double(), LBFGSSettings(iterations=200))

    assert float(found.values.max()) <= 1e-12
    assert torch.allclose(found.points, centres, atol=1e-4)


def test_a_problem_that_is_not_finite_ends_alone() -> None:
    def evaluate(points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        broken = torch.where(which == 1, torch.nan, 1.0).double()
        return broken * points.square().sum(1), 2 * broken[:, None] * points

    found = minimise(evaluate, torch.ones(2, 3).double(), LBFGSSettings(iterations=50))

    assert float(found.values[0]) <= 1e-12
    assert found.values[1].isinf()


def test_the_curved_valley_of_rosenbrock_is_followed_to_its_end() -> None:
    def rosenbrock(points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        variable = points.detach().requires_grad_(True)
        x, y = variable[:, 0], variable[:, 1]
        value = (1 - x) ** 2 + 100 * (y - x**2) ** 2
        (slope,) = torch.autograd.grad(value.sum(), variable)
        return value.detach(), slope

    starts = torch.tensor([[-1.2, 1.0], [2.0, 2.0], [0.0, -3.0]], dtype=torch.float64)
    found = minimise(rosenbrock, starts, LBFGSSettings(iterations=200))
    assert torch.allclose(found.points, torch.ones(3, 2).double(), atol=1e-4)
