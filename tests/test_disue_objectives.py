"""Equations 5, 6 and 8 to 13, each against an independent computation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, rel_entr, softmax
from torch.autograd import gradcheck
from torch.nn import functional

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.models.generators import build_generator
from privaudit.protocols.disue import DisUEConfig, objectives
from privaudit.protocols.disue.distillation import Distiller, Sample, draw_labels
from privaudit.protocols.disue.labels import (
    class_counts,
    cluster_counts,
    label_distribution,
    teacher_weights,
)

COUNTS = arrays(np.int64, (3, 5), elements=st.integers(0, 50)).filter(np.any)
RNG = np.random.default_rng(0)
TEACHERS, BATCH, CLASSES = 3, 6, 4


def logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape) * 2)


STUDENT, EXPERTS = logits(BATCH, CLASSES), logits(TEACHERS, BATCH, CLASSES, seed=1)
WEIGHTS = torch.from_numpy(np.random.default_rng(2).dirichlet(np.ones(TEACHERS), BATCH).T.copy())
LABELS = torch.tensor([0, 3, 1, 1, 2, 0])


@given(COUNTS)
def test_the_label_distribution_is_the_share_of_each_class_among_all_records(
    counts: np.ndarray,
) -> None:
    p = label_distribution(counts)
    assert p.sum() == pytest.approx(1.0)
    for y in range(5):
        held = sum(int(counts[k, y]) for k in range(3))
        assert p[y] == pytest.approx(held / int(counts.sum()))
        assert (p[y] == 0) == (held == 0)


@given(COUNTS)
def test_teacher_weights_of_a_class_sum_to_one_over_the_clusters_that_hold_it(
    counts: np.ndarray,
) -> None:
    alpha = teacher_weights(counts)
    held = counts.sum(axis=0) > 0
    assert alpha[:, held].sum(axis=0) == pytest.approx(np.ones(held.sum()))
    assert not alpha[:, ~held].any()
    assert alpha * counts.sum(axis=0) == pytest.approx(counts)


def test_counts_of_a_cluster_are_the_sum_over_its_members() -> None:
    counts = {
        "u": class_counts(np.array([0, 0, 2]), classes=3),
        "v": class_counts(np.array([1]), classes=3),
        "w": class_counts(np.array([2, 2]), classes=3),
    }
    assert cluster_counts(counts, [["u", "w"], ["v"]]).tolist() == [[2, 0, 3], [0, 1, 0]]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, "'u' sent no class counts"),
        ({"v": np.array([1, 2])}, "'u' sent no class counts"),
        ({"u": np.array([0, 0])}, "'u' must be non-negative and not all zero"),
        ({"u": np.array([2, -1])}, "'u' must be non-negative and not all zero"),
        ({"u": np.array([1, 2]), "v": np.array([1])}, "differ in shape"),
    ],
)
def test_absent_counts_are_an_error_and_never_uniform(counts: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        cluster_counts(counts, [["u"]])


@pytest.mark.parametrize("function", [label_distribution, teacher_weights])
def test_no_record_at_all_is_an_error(function: Any) -> None:
    with pytest.raises(InvalidDataError, match="at least one record"):
        function(np.zeros((2, 3), dtype=np.int64))


@pytest.mark.parametrize("direction", ["student_teacher", "teacher_student"])
def test_the_divergence_is_that_of_scipy_in_the_direction_asked_for(direction: Any) -> None:
    found = objectives.divergences(STUDENT, EXPERTS, direction=direction)
    s, t = softmax(STUDENT.numpy(), axis=-1), softmax(EXPERTS.numpy(), axis=-1)
    first, second = (s[None], t) if direction == "student_teacher" else (t, s[None])
    assert found.numpy() == pytest.approx(rel_entr(first, second).sum(axis=-1))


def test_the_divergence_from_an_equal_teacher_is_zero_and_from_another_positive() -> None:
    same = objectives.divergences(STUDENT, STUDENT[None], direction="student_teacher")
    assert same.numpy() == pytest.approx(np.zeros((1, BATCH)), abs=1e-12)
    other = objectives.divergences(STUDENT, EXPERTS, direction="student_teacher")
    assert (other > 0).all()


def test_with_one_cluster_distillation_is_the_mean_divergence_from_the_only_teacher() -> None:
    weights = torch.from_numpy(teacher_weights(np.array([[3, 1, 2, 5]]))[:, LABELS])
    found = objectives.distillation_loss(STUDENT, EXPERTS[:1], weights, direction="student_teacher")
    expected = functional.kl_div(
        functional.log_softmax(EXPERTS[0], -1), functional.softmax(STUDENT, -1), reduction="none"
    )
    assert float(found) == pytest.approx(float(expected.sum(dim=1).mean()))


def test_distillation_and_fidelity_are_the_weighted_sums_written_out() -> None:
    s, t = softmax(STUDENT.numpy(), axis=-1), softmax(EXPERTS.numpy(), axis=-1)
    divergence = entropy = 0.0
    for i in range(BATCH):
        for k in range(TEACHERS):
            w = float(WEIGHTS[k, i])
            divergence += w * float((s[i] * np.log(s[i] / t[k, i])).sum()) / BATCH
            entropy += w * -math.log(t[k, i, int(LABELS[i])]) / BATCH
    found = objectives.distillation_loss(STUDENT, EXPERTS, WEIGHTS, direction="student_teacher")
    assert float(found) == pytest.approx(divergence)
    assert float(objectives.fidelity_loss(EXPERTS, LABELS, WEIGHTS)) == pytest.approx(entropy)


def test_diversity_is_the_double_sum_written_out() -> None:
    images, noise = logits(4, 1, 2, 3), logits(4, 5, seed=3)
    total = sum(
        -float((images[i] - images[j]).abs().mean()) * float(((noise[i] - noise[j]) ** 2).mean())
        for i in range(4)
        for j in range(4)
    )
    assert float(objectives.diversity_loss(images, noise)) == pytest.approx(math.exp(total / 16))


@settings(deadline=None)
@given(
    arrays(np.float64, (3, 4), elements=st.floats(-5, 5)),
    arrays(np.float64, (3, 2), elements=st.floats(-5, 5)),
)
def test_diversity_lies_in_zero_to_one_and_is_one_for_images_that_are_alike(
    images: np.ndarray, noise: np.ndarray
) -> None:
    x, z = torch.from_numpy(images), torch.from_numpy(noise)
    assert 0 < float(objectives.diversity_loss(x, z)) <= 1
    assert float(objectives.diversity_loss(x[:1].expand(3, 4), z)) == 1.0


def test_the_generator_maximises_distillation_and_minimises_the_other_two() -> None:
    cd, cf, div = (torch.tensor(v) for v in (5.0, 3.0, 0.5))
    found = objectives.generator_objective(cd, cf, div, beta_fidelity=2.0, beta_diversity=4.0)
    assert float(found) == 5.0 - 2.0 * 3.0 - 4.0 * 0.5


def test_the_released_losses_are_those_of_the_code_written_out() -> None:
    teacher, weight = EXPERTS[0], WEIGHTS[0]
    gap = (STUDENT - teacher).abs().numpy()
    expected = np.mean([gap[i].mean() * float(weight[i]) for i in range(BATCH)])
    found = objectives.released_discrepancy(STUDENT, teacher, weight)
    assert float(found) == pytest.approx(float(expected))
    surprise = -log_softmax(teacher.numpy(), axis=-1)[np.arange(BATCH), LABELS.numpy()]
    assert float(objectives.released_fidelity(teacher, LABELS, weight)) == pytest.approx(
        float(surprise.mean() * weight.numpy().mean())
    )
    target = np.einsum("kb,kbc->bc", WEIGHTS.numpy(), softmax(EXPERTS.numpy(), axis=-1))
    expected = -(target * log_softmax(STUDENT.numpy(), axis=-1)).mean()
    found = objectives.released_student_loss(STUDENT, EXPERTS, WEIGHTS)
    assert float(found) == pytest.approx(float(expected))


GRADIENTS: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "eq 8, 9": (
        lambda s, t: objectives.distillation_loss(s, t, WEIGHTS, direction="student_teacher"),
        (STUDENT, EXPERTS),
    ),
    "eq 8, 9 reversed": (
        lambda s, t: objectives.distillation_loss(s, t, WEIGHTS, direction="teacher_student"),
        (STUDENT, EXPERTS),
    ),
    "eq 10, 11": (lambda t: objectives.fidelity_loss(t, LABELS, WEIGHTS), (EXPERTS,)),
    "eq 12": (objectives.diversity_loss, (logits(4, 1, 2, 2), logits(4, 3, seed=5))),
    "released discrepancy": (
        lambda s, t: objectives.released_discrepancy(s, t, WEIGHTS[0]),
        (STUDENT, EXPERTS[0]),
    ),
    "released student": (
        lambda s, t: objectives.released_student_loss(s, t, WEIGHTS),
        (STUDENT, EXPERTS),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, inputs = GRADIENTS[name]
    assert gradcheck(function, tuple(i.clone().requires_grad_() for i in inputs))


def test_labels_without_records_are_never_drawn() -> None:
    p = np.array([0.0, 0.7, 0.0, 0.3, 0.0])
    for stratified in (False, True):
        labels = draw_labels(p, 500, stratified=stratified, rng=np.random.default_rng(0))
        assert set(np.unique(labels)) == {1, 3}
        # Four standard deviations of a share of 500 draws.
        assert (labels == 1).mean() == pytest.approx(0.7, abs=0.0 if stratified else 0.082)


def distiller(**parameters: Any) -> Distiller:
    config = DisUEConfig(
        noise_dimension=8, generator_width=4, distillation_batch_size=16, **parameters
    )
    return Distiller(
        config,
        model=build(ModelSpec("mlp", (1, 8, 8), 10), seed=0),
        generator=build_generator((1, 8, 8), 10, noise=8, width=4, seed=1),
        classes=10,
    )


def models(count: int) -> np.ndarray:
    spec = ModelSpec("mlp", (1, 8, 8), 10)
    # Five times the usual start, so that softmaxes differ.
    return np.stack([flatten_parameters(build(spec, seed=i)) * 5 for i in range(count)])


COUNTED = np.random.default_rng(3).integers(1, 20, (2, 10))


def discrepancy(server: Distiller, student: Any, experts: Any, sample: Sample) -> float:
    images = server.images(sample).detach()
    return float(
        objectives.distillation_loss(
            student(images),
            torch.stack([e(images) for e in experts]),
            sample.weights,
            direction="student_teacher",
        ).detach()
    )


def test_a_generator_step_raises_the_discrepancy_and_leaves_the_student_alone() -> None:
    server = distiller(beta_fidelity=0, beta_diversity=0)
    student, *experts = (server._loaded(m) for m in models(3))
    sample = next(server.draw(COUNTED, rng=np.random.default_rng(0)))
    before, parameters = discrepancy(server, student, experts, sample), flatten_parameters(student)
    optimiser = torch.optim.SGD(server.generator.parameters(), lr=1e-3)
    server.step_generator(optimiser, student, experts, sample)
    assert discrepancy(server, student, experts, sample) > before
    np.testing.assert_array_equal(flatten_parameters(student), parameters)
    assert all(p.requires_grad for p in student.parameters())


@pytest.mark.parametrize("mode", ["paper", "fedftg_code"])
def test_the_generator_steps_once_or_once_a_teacher(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, steps = distiller(distillation=mode, distillation_iterations=3), []
    adam, descent = torch.optim.Adam.step, torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda o: (steps.append("G"), adam(o)))
    monkeypatch.setattr(torch.optim.SGD, "step", lambda o: (steps.append("S"), descent(o)))
    server.refine(models(1)[0], models(2), COUNTED, decay=1.0, rng=np.random.default_rng(0))
    once = ["G"] * (1 if mode == "paper" else 2) + ["S"] * 5
    assert steps == once * 3


@pytest.mark.parametrize("mode", ["paper", "fedftg_code"])
def test_the_student_comes_closer_to_the_teachers_on_generated_images(mode: str) -> None:
    server = distiller(
        distillation=mode, generator_steps=0, student_learning_rate=0.05, student_weight_decay=0
    )
    start, teachers = models(3)[0], models(3)[1:]
    after = server.refine(start, teachers, COUNTED, decay=1.0, rng=np.random.default_rng(0))
    sample = next(server.draw(COUNTED, rng=np.random.default_rng(1)))
    experts = [server._loaded(t) for t in teachers]
    gaps = [discrepancy(server, server._loaded(m), experts, sample) for m in (start, after)]
    assert gaps[1] < gaps[0]


def test_distillation_is_the_same_for_the_same_seed_and_no_other() -> None:
    def refined(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return distiller().refine(models(1)[0], models(2), COUNTED, decay=0.9, rng=rng)

    np.testing.assert_array_equal(refined(0), refined(0))
    assert (refined(0) != refined(1)).any()


def test_the_ablations_sample_and_weigh_alike() -> None:
    counts = np.array([[9, 1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0, 0, 5]])
    equal = distiller(teacher_weighting="equal").draw(counts, rng=np.random.default_rng(0))
    assert all((sample.weights == 0.5).all() for sample in equal)
    server = distiller(label_sampler="uniform", distillation="fedftg_code")
    samples = server.draw(counts, rng=np.random.default_rng(0))
    labels = torch.cat([sample.labels for sample in samples])
    # Ten iterations of 16; what rounding leaves over is of the last class.
    assert torch.bincount(labels, minlength=10).tolist() == [53, 53, 0, 0, 0, 0, 0, 0, 0, 54]


def test_batch_norm_of_the_server_has_no_memory_of_other_batches() -> None:
    spec = ModelSpec("resnet10", (1, 8, 8), 4)
    config = DisUEConfig(noise_dimension=4, generator_width=2, distillation_batch_size=4)
    model = build(spec, seed=0)
    generator = build_generator((1, 8, 8), 4, noise=4, width=2, seed=0)
    server = Distiller(config, model=model, generator=generator, classes=4)
    network = server._loaded(flatten_parameters(model))
    images = torch.from_numpy(RNG.random((4, 1, 8, 8), dtype=np.float32))
    first = network(images)
    network(images * 7 - 1)
    assert torch.equal(network(images), first)
    assert not list(network.buffers())


@pytest.mark.parametrize(
    ("shape", "classes", "noise", "parameters"),
    [((3, 32, 32), 10, 100, 682_499), ((3, 32, 32), 100, 256, 1_690_115)],
)
def test_the_generator_has_the_published_size(
    shape: Any, classes: int, noise: int, parameters: int
) -> None:
    generator = build_generator(shape, classes, noise=noise, seed=0)
    assert flatten_parameters(generator).shape == (parameters,)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (2, 5, 9)])
def test_generated_images_have_the_shape_of_the_data(shape: Any) -> None:
    before = torch.random.get_rng_state()
    noise, label = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.eye(6)
    published, unit, other = (
        build_generator(shape, 6, noise=3, width=2, image_range=kind, seed=seed)
        for kind, seed in (("standardised", 4), ("unit", 4), ("unit", 5))
    )
    assert published(noise, label).shape == (6, *shape)
    images = published(noise, label)
    assert images.mean(dim=(0, 2, 3)).detach().numpy() == pytest.approx(0, abs=1e-5)
    images = unit(noise, label).detach()
    assert float(images.min()) > 0
    assert float(images.max()) < 1
    assert (flatten_parameters(unit) != flatten_parameters(other)).any()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((1, 8, 8), {"noise": 0}), ((1, 8, 8), {"width": 0}), ((1, 0, 8), {})],
)
def test_a_generator_of_nothing_is_refused(shape: Any, sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"at least 1|positive size"):
        build_generator(shape, 10, seed=0, **sizes)
