"""What linear algebra reads off whole gradients behind convolutions, and where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from inversion_runs import ALL, FACTS, PAPER, SMALL, World, median, view_of, world
from torch import nn

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import AnalyticInversion
from privaudit.attacks.inversion._convolutions import Stage, stages_before, window_rows, windows_of
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._layer_images import ImageEquations
from privaudit.attacks.inversion._layer_inputs import solve_inputs
from privaudit.attacks.inversion._layer_search import LayerSearch
from privaudit.attacks.inversion._layers import Behind, images_behind
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.models import ModelSpec, build, catalogue, load_parameters, networks
from privaudit.protocols.baselines.kinds import SERVER

Shape = tuple[int, int, int]

#: Networks that are stages only: modules by channels of the image, and its shape.
STAGES: dict[str, tuple[Callable[[int], list[nn.Module]], Shape]] = {
    "padded, pooled": (
        lambda c: [*stage(c, 16, 3, padding=1, pool=2), *stage(16, 32, 3, padding=1, pool=2)],
        (1, 8, 8),
    ),
    "no pooling": (lambda c: [*stage(c, 4, 3), *stage(4, 8, 3)], (1, 7, 7)),
    "several channels": (lambda c: stage(c, 24, 3, padding=1, pool=2), (3, 6, 6)),
    "windows that crop": (
        lambda c: [*stage(c, 8, 3, pool=2), *stage(8, 8, 2, pool=3)],
        (1, 11, 13),
    ),
    "one by one": (lambda c: [*stage(c, 8, 1, pool=2), *stage(8, 8, 1)], (1, 6, 6)),
    "oblong, much padding": (
        lambda c: [*stage(c, 8, (3, 2), padding=(3, 1), pool=2), *stage(8, 8, (1, 3), padding=2)],
        (1, 6, 8),
    ),
    "three stages": (
        lambda c: [*stage(c, 8, 3, padding=1, pool=2), *stage(8, 8, 3), *stage(8, 8, 2)],
        (1, 9, 9),
    ),
    "pooled before rectified": (
        lambda c: [nn.Conv2d(c, 8, 3), nn.MaxPool2d(2), nn.ReLU(), *stage(8, 8, 2)],
        (1, 8, 8),
    ),
}

#: Modules that are no stages, for one channel.
OTHERS: dict[str, Callable[[], list[nn.Module]]] = {
    "stride": lambda: [nn.Conv2d(1, 8, 3, stride=2), nn.ReLU()],
    "reflected": lambda: [nn.Conv2d(1, 8, 3, padding=1, padding_mode="reflect"), nn.ReLU()],
    "sigmoid": lambda: [nn.Conv2d(1, 8, 3), nn.Sigmoid()],
    "not rectified": lambda: [nn.Conv2d(1, 8, 3)],
    "average pooling": lambda: [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AvgPool2d(2)],
    "overlapping windows": lambda: [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 2)],
    "pooled twice": lambda: [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2)],
    "normalised": lambda: [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()],
    "no bias": lambda: [nn.Conv2d(1, 8, 3, bias=False), nn.ReLU()],
    "residual": lambda: [Residual()],
    "used twice": lambda: [*(2 * [nn.Conv2d(1, 1, 3)]), nn.ReLU()],
}


class Residual(nn.Module):
    """A convolution beside the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, padding=1)
        self.rectified = nn.ReLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rectified: torch.Tensor = self.rectified(self.convolution(images)) + images
        return rectified


def stage(inputs: int, outputs: int, size, *, padding=0, pool: int = 1) -> list[nn.Module]:
    modules: list[nn.Module] = [nn.Conv2d(inputs, outputs, size, padding=padding), nn.ReLU()]
    return [*modules, nn.MaxPool2d(pool)] if pool > 1 else modules


def before_linear(modules: list[nn.Module], shape: Shape, hidden: int, classes: int) -> nn.Module:
    front = nn.Sequential(*modules, nn.Flatten()).eval()
    device = next(front.parameters()).device
    columns = front(torch.zeros((2, *shape), device=device)).shape[1]
    return nn.Sequential(*front, nn.Linear(columns, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@dataclass(frozen=True)
class Case:
    """A network in double precision, images, and what a server would know of them exactly."""

    stages: tuple[Stage, ...]
    images: torch.Tensor
    inputs: list[torch.Tensor]
    slopes: list[torch.Tensor]
    values: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        return self.images.flatten(1).numpy()

    def search(self, steps: int = 25) -> LayerSearch:
        last = self.stages[-1]
        gradient = last.gradient(self.values)
        return LayerSearch(
            self.stages, self.inputs[-1], self.slopes[-1], gradient, steps=steps, solves=200
        )

    def behind(self, start: np.ndarray) -> Behind:
        features, slopes = (x[-1].flatten(1).numpy() for x in (self.inputs, self.slopes))
        return images_behind(
            self.stages, features, slopes, self.values, start, steps=25, solves=200
        )


def case(modules: list[nn.Module], shape: Shape, *, records: int = 1, seed: int = 0) -> Case:
    """Inputs of each stage, last outputs, and the derivatives at them by automatic differentiation.

    ``modules`` are taken with the parameters that they have.
    """
    model = before_linear(modules, shape, 64, 10)
    engine = GradientEngine(model, input_shape=shape, classes=10, records=records)
    layer = next(m for m in model.modules() if isinstance(m, nn.Linear))
    stages = stages_before(layer, engine)
    assert stages is not None
    model.double().requires_grad_(True)
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((records, *shape)))
    seen: list[torch.Tensor] = []
    for module in model:
        if isinstance(module, nn.Conv2d | nn.Flatten):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = model(images.clone().requires_grad_(True))
    loss = nn.functional.cross_entropy(logits, torch.arange(records) % 10)
    slopes = torch.autograd.grad(loss, seen, retain_graph=True)
    gradient = torch.autograd.grad(loss, list(model.parameters()))
    values = torch.cat([g.flatten() for g in gradient]).float().numpy()
    return Case(stages, images, [s.detach() for s in seen], list(slopes), values)


def named(name: str, *, records: int = 1, seed: int = 0) -> Case:
    make, shape = STAGES[name]
    torch.manual_seed(seed)
    return case(make(shape[0]), shape, records=records, seed=seed)


@pytest.fixture
def as_small_cnn(monkeypatch: pytest.MonkeyPatch):
    """Make ``small-cnn`` another network: modules before the two linear layers."""

    def replaced(modules: Callable[[], list[nn.Module]], hidden: int = 64) -> None:
        def make(shape: Shape, classes: int) -> nn.Module:
            return before_linear(modules(), shape, hidden, classes)

        monkeypatch.setattr(networks, "NETWORKS", {**networks.NETWORKS, "small-cnn": make})
        catalogue._layout.cache_clear()

    yield replaced
    catalogue._layout.cache_clear()


def fresh(seed: int, users: int = 1, spec: ModelSpec = SMALL, per_user: int = 1) -> World:
    """A world that is not remembered, as the network of its name is another one later."""
    return world.__wrapped__(seed, users, spec, per_user=per_user)


def run(w: World, *, seed: int = 0, facts=ALL, **options) -> Guesses:
    attack = AnalyticInversion(**{"iterations": 3, "feature_iterations": 10, **options})
    view = view_of(w.transcript(), SERVER, capabilities=facts)
    return attack.run(view, knowledge=w.knowledge, rng=np.random.default_rng(seed))


def solved(guesses: Guesses) -> float:
    return float(guesses.diagnostics["updates solved exactly"])


def with_records(w: World, images: np.ndarray) -> World:
    """The world with other images for the same labels."""
    module = build(w.spec, seed=0).eval()
    load_parameters(module, w.parameters)
    gradients = []
    for i in range(len(w.gradients)):
        labels = torch.from_numpy(w.records.labels[w.of(i)])
        loss = nn.functional.cross_entropy(module(torch.from_numpy(images[w.of(i)])), labels)
        parts = torch.autograd.grad(loss, list(module.parameters()))
        gradients.append(torch.cat([p.flatten() for p in parts]).numpy())
    records = replace(w.records, images=images)
    return replace(w, records=records, gradients=np.stack(gradients))


@pytest.mark.parametrize("name", STAGES)
def test_stages_compute_what_the_modules_do(name: str) -> None:
    c = named(name, records=2)
    for one, given, wanted in zip(c.stages, c.inputs[:-1], c.inputs[1:], strict=True):
        assert one.input_shape == given.shape[1:]
        outputs = one.outputs(given)
        assert torch.allclose(outputs.flatten(1), wanted.flatten(1), atol=1e-12)
        convolved = windows_of(one, one.convolved(given[:1])).flatten().numpy()
        bias = one.bias.repeat_interleave(convolved.size // len(one.bias)).numpy()
        assert np.allclose(window_rows(one) @ given[0].numpy().ravel(), convolved - bias)


@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_than_stages_is_not_taken_for_them(name: str) -> None:
    torch.manual_seed(0)
    shape = (1, 8, 8)
    model = before_linear(OTHERS[name](), shape, 16, 10)
    engine = GradientEngine(model, input_shape=shape, classes=10, records=2)
    layer = next(m for m in model.modules() if isinstance(m, nn.Linear))
    assert stages_before(layer, engine) is None


@pytest.mark.parametrize("name", ["stride", "sigmoid", "no bias", "residual"])
def test_other_networks_are_left_to_the_search_over_features(name: str, as_small_cnn) -> None:
    as_small_cnn(OTHERS[name])
    guesses = run(fresh(340))
    assert solved(guesses) == 0
    assert guesses.diagnostics["records separated"] == 1
    assert all(np.isfinite(v).all() for v in guesses.values)


@pytest.mark.parametrize("name", STAGES)
def test_inputs_of_each_stage_follow_once_positions_are_right(name: str) -> None:
    """The inputs to single precision; derivatives at them as automatic differentiation has them."""
    c = named(name)
    for depth in range(1, len(c.stages)):
        one, shape = c.stages[depth], (1, *c.stages[depth].output_shape)
        outputs, slopes = (x[depth + 1].reshape(shape) for x in (c.inputs, c.slopes))
        found = solve_inputs(one, outputs, slopes, one.gradient(c.values), c.inputs[depth])
        assert found.residual < 1e-5
        assert (found.inputs - c.inputs[depth]).norm() <= 1e-5 * c.inputs[depth].norm()
        assert torch.allclose(found.derivatives, c.slopes[depth], atol=1e-9)


def test_inputs_with_many_equations_are_found_from_nothing() -> None:
    c = named("padded, pooled")
    one = c.stages[1]
    start = torch.zeros_like(c.inputs[1])
    found = solve_inputs(one, c.inputs[2], c.slopes[2], one.gradient(c.values), start)
    assert (found.inputs - c.inputs[1]).norm() <= 1e-4 * c.inputs[1].norm()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pool", [1, 2])
def test_an_image_follows_from_what_the_first_stage_gave_whatever_the_start(pool, seed) -> None:
    torch.manual_seed(seed)
    one = case(stage(1, 32, 3, padding=1, pool=pool), (1, 8, 8)).stages[0]
    digit = torch.from_numpy(world(360 + seed, 1).records.images[:1]).double()
    noise = np.random.default_rng(seed).random(64)
    image, residual = ImageEquations.of(one).solve(one.outputs(digit)[0].numpy(), noise)
    assert residual < 1e-5
    assert np.abs(image - digit.numpy().ravel()).max() < 1e-4


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("name", STAGES)
def test_only_the_records_themselves_deviate_in_nothing(name: str, records: int) -> None:
    c = named(name, records=records)
    rng = np.random.default_rng(2)
    search = c.search()
    assert search.deviation(c.flat) < 1e-6
    assert search.deviation(rng.random(c.flat.shape)) > 1e-2
    assert search.deviation(np.clip(c.flat + 0.01, 0, 1)) > 1e-4


@pytest.mark.parametrize("name", STAGES)
def test_the_search_never_ends_further_off_than_it_began(name: str) -> None:
    c = named(name, records=2)
    for seed in range(2):
        start = np.random.default_rng(seed).random(c.flat.shape)
        images, deviation = (search := c.search(steps=4)).run(start, done=lambda _: False)
        assert deviation <= search.deviation(start) * (1 + 1e-9)
        assert deviation == pytest.approx(search.deviation(images))
        assert images.min() >= 0
        assert images.max() <= 1


def test_what_equations_leave_open_is_told() -> None:
    """Windows of a 1x1 convolution show their largest and smallest pixel, and hide two of four."""
    c = named("one by one")
    assert c.search().undetermined(c.flat) == pytest.approx(0.5, abs=0.25)
    c = named("padded, pooled")
    assert c.search().undetermined(c.flat) < 1e-10


@pytest.mark.parametrize(
    ("modules", "shape"),
    [
        (lambda: stage(1, 4, 3, padding=1, pool=4), (1, 8, 8)),
        (lambda: stage(1, 16, 1, pool=2), (1, 9, 9)),
        (lambda: [*stage(1, 8, 1, pool=2), *stage(8, 16, 3, padding=1, pool=2)], (1, 8, 8)),
    ],
    ids=["fewer features than pixels", "pixels that no window sees", "1x1 windows"],
)
def test_images_are_not_claimed_where_others_give_the_same_gradient(modules, shape) -> None:
    torch.manual_seed(0)
    c = case(modules(), shape)
    noise = np.random.default_rng(0).random((1, *shape))
    assert not c.behind(noise).exact
    assert not c.behind(c.images.numpy()).exact


def test_a_small_output_keeps_its_derivative() -> None:
    """One of a million may be on: without its derivative the gradient fits no image at all."""
    c = named("padded, pooled")
    outputs = c.inputs[2].clone()
    place = outputs.flatten().nonzero()[0]
    outputs.view(-1)[place] = 1e-6 * outputs.max()
    one = c.stages[1]
    found = solve_inputs(one, outputs, c.slopes[2], one.gradient(c.values), c.inputs[1])
    assert found.residual < 1e-5


def test_one_record_of_the_paper_network_is_exact_from_its_gradient_alone() -> None:
    guesses = run(w := world(342, 1, PAPER), facts=FACTS)
    assert solved(guesses) == 1
    assert median(guesses, w.truth()) > 60


@pytest.mark.parametrize("records", [2, 4])
def test_records_of_a_small_network_are_exact_together(records: int, as_small_cnn) -> None:
    as_small_cnn(lambda: STAGES["padded, pooled"][0](1), hidden=512)
    w = fresh(354, per_user=records)
    guesses = run(w)
    assert solved(guesses) == 1
    assert median(guesses, w.truth()) > 60
    assert solved(run(w, layer_records=records - 1)) == 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    w = world(344, 2)
    one, two = run(w, seed=5), run(w, seed=5)
    for a, b in zip(one.values, two.values, strict=True):
        assert a.tobytes() == b.tobytes()
    assert one.scores.tobytes() == two.scores.tobytes()


def test_the_gradient_of_another_user_gives_the_image_of_that_user() -> None:
    w = world(345, 2)
    swapped = replace(w, gradients=w.gradients[::-1].copy())
    guesses = run(swapped)
    assert solved(guesses) == 1
    assert median(guesses, w.truth()) < 20
    assert np.allclose(np.squeeze(guesses.values[0]), w.records.images[1, 0], atol=1e-3)


def test_other_parameters_than_those_of_the_gradient_solve_nothing() -> None:
    w = world(346, 1)
    guesses = run(replace(w, parameters=world(347, 1).parameters))
    assert solved(guesses) == 0
    assert median(guesses, w.truth()) < 25


@pytest.mark.parametrize("kind", ["zeros", "half precision"])
def test_updates_of_zeros_or_half_precision_are_not_claimed_to_be_exact(kind: str) -> None:
    w = world(352, 1)
    half = w.gradients.astype(np.float16).astype(np.float32)
    guesses = run(replace(w, gradients=half * (kind != "zeros")))
    assert solved(guesses) == 0
    assert np.isfinite(guesses.scores).all()
    assert all(np.isfinite(v).all() for v in guesses.values)


def test_updates_that_are_not_finite_are_refused() -> None:
    w = world(349, 1)
    broken = w.gradients.copy()
    broken[0, 7] = np.nan
    with pytest.raises(InvalidDataError, match="finite"):
        run(replace(w, gradients=broken))


def test_one_record_twice_is_not_told_apart_and_not_a_crash() -> None:
    w = world(350, 1, per_user=2)
    guesses = run(with_records(w, np.repeat(w.records.images[:1], len(w.records.images), axis=0)))
    assert all(np.isfinite(v).all() for v in guesses.values)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_images_of_one_level_are_exact(level: float) -> None:
    w = world(351, 1)
    w = with_records(w, np.full_like(w.records.images, level))
    guesses = run(w)
    assert solved(guesses) == 1
    assert median(guesses, w.truth()) > 60


@pytest.mark.parametrize("name", ["layer_iterations", "layer_starts", "layer_records"])
@pytest.mark.parametrize("value", [0, -1])
def test_options_that_leave_nothing_to_do_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=name):
        AnalyticInversion(**{name: value})
