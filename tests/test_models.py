"""The networks have the papers' sizes, are seeded, and go to a flat vector and back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from privaudit.errors import ConfigurationError
from privaudit.models import (
    MODELS,
    ModelSpec,
    build,
    classifier_rows,
    default_model,
    flatten_parameters,
    has_batch_norm,
    load_parameters,
    parameter_count,
)
from privaudit.models.networks import NETWORKS

CNN = ModelSpec("cnn", (1, 28, 28), 10)
RESNET = ModelSpec("resnet10", (3, 32, 32), 10)
DIGITS = ModelSpec("small-cnn", (1, 8, 8), 10)
SPECS = [
    CNN,
    RESNET,
    DIGITS,
    ModelSpec("cnn", (3, 17, 40), 7),
    ModelSpec("small-cnn", (3, 5, 9), 3),
    ModelSpec("resnet10", (1, 28, 28), 5),
    ModelSpec("resnet18", (3, 32, 32), 10),
    ModelSpec("mlp", (2, 3, 4), 6),
    ModelSpec("lenet", (3, 32, 32), 100),
    ModelSpec("lenet", (1, 27, 29), 10),
]


def test_every_listed_model_has_a_network_and_no_other_has() -> None:
    assert set(MODELS) == set(NETWORKS)
    assert {spec.name for spec in SPECS} == set(MODELS)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (CNN, 582_026),  # PA-CFL, table 1
        (RESNET, 4_910_922),  # PA-CFL, table 1
        (ModelSpec("resnet18", (3, 32, 32), 10), 11_181_642),  # torchvision's, ten classes
        (ModelSpec("resnet18", (3, 32, 32), 100), 11_227_812),
        (ModelSpec("lenet", (3, 32, 32), 100), 85_036),  # counted by hand from the layers of DLG
        (DIGITS, 13_706),  # 160 + 4,640 + 8,256 + 650
    ],
)
def test_parameter_count_is_the_published_or_hand_counted_one(spec: ModelSpec, count: int) -> None:
    assert parameter_count(spec) == count


def test_classifier_of_the_papers_cnn_starts_at_576896_and_582016() -> None:
    assert classifier_rows(CNN) == (576_896, 582_016, 512)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_classifier_rows_move_one_logit_each(spec: ModelSpec) -> None:
    """Changing the row and bias of one class changes the logit of that class alone."""
    model = build(spec, seed=0).eval()
    images = torch.from_numpy(
        np.random.default_rng(0).random((2, *spec.input_shape), dtype=np.float32)
    )
    weight, bias, features = classifier_rows(spec)
    vector = flatten_parameters(model)
    with torch.no_grad():
        before = model(images)
        chosen = spec.classes - 2
        vector[weight + chosen * features : weight + (chosen + 1) * features] = 0
        vector[bias + chosen] = 7
        load_parameters(model, vector)
        after = model(images)
    assert before.shape == (2, spec.classes)
    assert torch.all(after[:, chosen] == 7)
    others = [label for label in range(spec.classes) if label != chosen]
    torch.testing.assert_close(after[:, others], before[:, others])
    assert bias + spec.classes == len(vector) == parameter_count(spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_same_seed_gives_same_bytes_and_another_seed_others(spec: ModelSpec) -> None:
    first, second, other = (flatten_parameters(build(spec, seed=seed)) for seed in (3, 3, 4))
    assert first.dtype == np.float32
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_building_and_counting_leave_the_global_generator_alone(spec: ModelSpec) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    build(spec, seed=5)
    parameter_count(ModelSpec(spec.name, spec.input_shape, spec.classes + 1))
    assert torch.equal(torch.rand(3), expected)


def test_the_seed_alone_decides_whatever_the_global_generator_holds() -> None:
    torch.manual_seed(1)
    first = flatten_parameters(build(DIGITS, seed=0))
    torch.manual_seed(2)
    assert flatten_parameters(build(DIGITS, seed=0)).tobytes() == first.tobytes()


def test_vector_is_in_the_order_of_parameters_and_comes_back() -> None:
    source, target = build(DIGITS, seed=0), build(DIGITS, seed=1)
    vector = flatten_parameters(source)
    joined = np.concatenate([p.detach().numpy().ravel() for p in source.parameters()])
    np.testing.assert_array_equal(vector, joined)
    vector.flags.writeable = False
    load_parameters(target, vector)
    np.testing.assert_array_equal(flatten_parameters(target), vector)


def test_flat_vector_is_a_copy() -> None:
    model = build(DIGITS, seed=0)
    vector = flatten_parameters(model)
    before = vector.copy()
    load_parameters(model, np.zeros_like(vector))
    np.testing.assert_array_equal(vector, before)


def test_loading_keeps_batch_norm_buffers_and_does_not_count_them() -> None:
    model = build(RESNET, seed=0)
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    assert any("running_mean" in name for name in buffers)
    load_parameters(model, np.ones(parameter_count(RESNET), dtype=np.float32))
    for name, value in model.named_buffers():
        assert torch.equal(value, buffers[name])


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_batch_norm_is_declared_where_it_is(spec: ModelSpec) -> None:
    assert has_batch_norm(spec) == spec.name.startswith("resnet")


def test_defaults_are_the_papers_networks_and_the_small_one_for_digits() -> None:
    assert default_model((1, 28, 28), 10) == CNN
    assert default_model((3, 32, 32), 10) == RESNET
    assert default_model((1, 8, 8), 10) == DIGITS


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec("cn", (1, 28, 28), 10), r"unknown model 'cn'; models are cnn, .*Did you mean"),
        (ModelSpec("cnn", (1, 8, 8), 10), r"at least 16x16, got 8x8; use 'small-cnn'"),
        (ModelSpec("small-cnn", (1, 3, 8), 10), r"at least 4x4, got 3x8; use 'mlp'"),
        (ModelSpec("mlp", (0, 3, 8), 10), r"input_shape must be .* got \(0, 3, 8\)"),
        (ModelSpec("mlp", (1, 3, 8), 1), r"classes must be at least 2, got 1"),
    ],
)
def test_impossible_models_say_what_is_allowed(spec: ModelSpec, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(spec, seed=0)
    with pytest.raises(ConfigurationError, match=message):
        parameter_count(spec)


def test_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"seed must be from 0 .* got -1"):
        build(DIGITS, seed=-1)


@pytest.mark.parametrize(
    "vector", [np.zeros(5, dtype=np.float32), np.zeros(13_706, dtype=np.int64)]
)
def test_vector_of_wrong_length_or_type_is_refused(vector: np.ndarray) -> None:
    with pytest.raises(ConfigurationError, match=r"floats of shape \(13706,\), got"):
        load_parameters(build(DIGITS, seed=0), vector)


def test_importing_models_and_datasets_imports_neither_torch_nor_scikit_learn() -> None:
    heavy = "{'torch', 'torchvision', 'sklearn', 'scipy', 'skimage'}"
    code = (
        "import sys, privaudit.models, privaudit.datasets, privaudit.datasets.partition; "
        f"sys.exit(repr({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
