"""Derivatives by hand equal automatic differentiation, on every kind of layer they take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._chain import chain_of
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import cosine, masked_cosine
from privaudit.models import ModelSpec, build


def _head(features: int) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(features, 6), nn.Tanh(), nn.Linear(6, 4)]


NETWORKS = {
    "padding, stride and pooling": (
        (3, 9, 8),
        [nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 4, (2, 3), 2)],
        8,
    ),
    "dilation and smooth layers": (
        (2, 9, 9),
        [nn.Conv2d(2, 3, 3, dilation=2, padding=(1, 2)), nn.Sigmoid(), nn.Conv2d(3, 4, 3, 3, 1)],
        36,
    ),
    "overlapping pools": (
        (1, 10, 10),
        [nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(3, 2, 2, bias=False)],
        18,
    ),
    "large convolution": (
        (1, 6, 6),
        [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, (3, 3), padding=1), nn.ReLU()],
        1024,
    ),
    "no convolution": ((1, 4, 4), [nn.Identity()], 16),
}


def engine_of(name: str, *, records: int = 1) -> tuple[GradientEngine, tuple[int, int, int]]:
    torch.manual_seed(0)
    shape, body, features = NETWORKS[name]
    model = nn.Sequential(*body, *_head(features)).double()
    return GradientEngine(model, input_shape=shape, classes=4, records=records), shape


def slopes(engine: GradientEngine, images: Tensor, soft: Tensor, way: str) -> tuple[Tensor, ...]:
    """Return loss and derivatives of an objective of everything that gradients can be asked for."""
    source = {"chain": engine._chained, "dense": engine._dense}[way]
    updates = len(images) // engine.records
    generator = torch.Generator().manual_seed(3)
    wanted = torch.rand((updates, engine.dimension), generator=generator).double() - 0.4
    where = torch.stack(
        [torch.randperm(engine.dimension, generator=generator)[:40] for _ in range(updates)]
    )
    x, y = images.clone().requires_grad_(True), soft.clone().requires_grad_(True)
    gradients = source(x, y)
    rows = torch.arange(updates)
    if way == "dense":
        flat = gradients.flat()
        whole = 1 - functional.cosine_similarity(flat, wanted)
        known = 1 - functional.cosine_similarity(flat.gather(1, where), wanted.gather(1, where))
    else:
        whole = cosine(engine.targets(wanted))(rows)(gradients)
        known = masked_cosine(where, wanted.gather(1, where))(rows)(gradients)
    loss = (whole + known).sum()
    return loss.detach(), *torch.autograd.grad(loss, (x, y))


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_derivatives_by_hand_equal_automatic_ones(name: str, records: int) -> None:
    engine, shape = engine_of(name, records=records)
    assert engine.way == "chain"
    generator = torch.Generator().manual_seed(1)
    images = torch.rand((2 * records, *shape), generator=generator).double()
    soft = torch.softmax(torch.randn((2 * records, 4), generator=generator).double(), 1)
    found = slopes(engine, images, soft, "chain")
    expected = slopes(engine, images, soft, "dense")
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12 * float(theirs.abs().max()))


def test_maxima_that_are_tied_pass_slopes_where_torch_passes_them() -> None:
    """Blank margins tie all values of a window; another choice among them gives other slopes."""
    engine, shape = engine_of("padding, stride and pooling")
    images = torch.zeros((2, *shape)).double()
    images[:, :, 4, 4] = 0.7
    soft = torch.eye(4).double()[:2]
    found = slopes(engine, images, soft, "chain")
    expected = slopes(engine, images, soft, "dense")
    assert torch.allclose(found[1], expected[1], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["cnn", "small-cnn", "lenet", "mlp"])
def test_sequential_networks_of_the_catalogue_are_differentiated_by_hand(name: str) -> None:
    spec = ModelSpec(name, (3, 20, 20), 10)
    engine = GradientEngine(build(spec, seed=0), input_shape=spec.input_shape, classes=10)
    assert engine.way == "chain"
    assert engine.factored


@pytest.mark.parametrize(
    "layer", [nn.Softplus(), nn.AvgPool2d(2, 1), nn.Conv2d(2, 2, 1, padding="same"), nn.GELU()]
)
def test_other_layers_are_left_to_automatic_differentiation(layer: nn.Module) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 2, 3), layer, nn.AdaptiveMaxPool2d(2), nn.Flatten())
    model = nn.Sequential(*body, nn.Linear(8, 4)).double()
    engine = GradientEngine(model, input_shape=(1, 6, 6), classes=4)
    named_padding = isinstance(layer, nn.Conv2d)
    assert engine.way == ("dense" if named_padding else "factored")


def test_a_layer_used_twice_has_no_chain_of_its_own() -> None:
    shared = nn.Linear(16, 16)
    model = nn.Sequential(nn.Flatten(), shared, nn.Tanh(), shared, nn.Linear(16, 3)).double()
    assert chain_of(model, records=1) is not None
    assert GradientEngine(model, input_shape=(1, 4, 4), classes=3).way == "dense"
