"""Priors on batch statistics and on the agreement of restarts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import ALL, SMALL, attacked, recorder_of, view_of, world
from torch import Tensor, nn
from torch.nn import functional
from typer.testing import CliRunner

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import CosineInversion, RankProfileMatching
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import cosine
from privaudit.attacks.inversion._optimise import AdamSettings, adam
from privaudit.attacks.inversion._priors import Pixels
from privaudit.attacks.inversion._regularisers import (
    GroupConsistency,
    batch_statistics,
    statistics_of,
)
from privaudit.attacks.inversion._search import engine_for, search
from privaudit.cli._main import app
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.transcript import MemoryRecorder

RESNET = ModelSpec("resnet10", (1, 8, 8), 10)
RNG = np.random.default_rng


def normalised(*, records: int = 4, channels: int = 3) -> GradientEngine:
    """A small network with two batch normalisations."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(channels, 4, 3),
        nn.BatchNorm2d(4),
        nn.Tanh(),
        nn.Conv2d(4, 5, 3),
        nn.BatchNorm2d(5),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(80, 3),
    )
    return GradientEngine(model.double(), input_shape=(channels, 8, 8), classes=3, records=records)


def images(count: int, seed: int = 0) -> Tensor:
    return torch.rand((count, 3, 8, 8), generator=torch.Generator().manual_seed(seed)).double()


def labelled(values: Tensor) -> LabelledImages:
    return LabelledImages(values.float().numpy(), np.zeros(len(values), np.int64))


def term(engine: GradientEngine, recorded: Tensor | None = None, auxiliary: Tensor | None = None):
    return batch_statistics(
        engine,
        None if recorded is None else recorded.numpy(),
        None if auxiliary is None else labelled(auxiliary),
        weight=1.0,
        attack="some/attack",
        rng=RNG(0),
    )


def test_statistics_are_those_that_batch_normalisation_takes() -> None:
    engine = normalised(records=4)
    first, norm = engine.model[0], engine.model[1]
    x = images(8)
    norm.reset_running_stats()
    norm.momentum = 1.0  # running statistics become those of the last batch
    engine.model(x[4:])
    count = 4 * 8 * 8 * 36 // 64  # positions of four records
    unbiased = norm.running_var * (count - 1) / count
    found = statistics_of(engine, x)
    assert found.shape == (2, 2 * (4 + 5))
    assert torch.allclose(found[1, :4], first(x[4:]).mean((0, 2, 3)))
    assert torch.allclose(found[1, :4], norm.running_mean)
    assert torch.allclose(found[1, 4:8], unbiased)


def test_the_term_is_zero_at_the_true_statistics_and_only_there() -> None:
    engine = normalised()
    truth, other = images(8, 1), images(8, 2)
    regulariser = term(engine, recorded=statistics_of(engine, truth).detach())
    at_truth, elsewhere = regulariser(truth, 2), regulariser(other, 2)
    assert at_truth.shape == (2,)
    assert float(at_truth.detach().abs().max()) < 1e-12
    assert float(elsewhere.detach().min()) > 1e-4
    # Statistics do not tell an order: the records of an update may change places.
    assert float(regulariser(truth[[1, 0, 2, 3, 7, 6, 5, 4]], 2).detach().max()) < 1e-12
    # Each target has its own.
    swapped = regulariser.of(torch.tensor([1, 0]))(truth, 2)
    assert float(swapped.detach().min()) > 1e-4


def test_the_term_does_not_depend_on_the_scale_of_a_layer() -> None:
    engine = normalised()
    truth, other = images(4, 1), images(4, 2)
    before = term(engine, recorded=statistics_of(engine, truth).detach())(other, 1)
    with torch.no_grad():
        engine.model[0].weight *= 100
        engine.model[0].bias *= 100
    after = term(engine, recorded=statistics_of(engine, truth).detach())(other, 1)
    # What follows a normalisation is not scaled, but for its small constant.
    assert float(after.detach()) == pytest.approx(float(before.detach()), rel=1e-2)


def test_without_recorded_statistics_those_of_auxiliary_batches_are_taken() -> None:
    engine = normalised()
    auxiliary = images(40, 3)
    regulariser = term(engine, auxiliary=auxiliary)
    order = RNG(0).permutation(40)
    expected = statistics_of(engine, auxiliary.float().double()[order]).mean(0)
    assert torch.allclose(regulariser.wanted[0], expected, atol=1e-6)
    rows = torch.tensor([0, 5, 2])
    assert regulariser.of(rows).wanted.shape == (1, 18)


def test_descent_on_the_term_alone_brings_the_statistics_nearer() -> None:
    engine = normalised()
    regulariser = term(engine, recorded=statistics_of(engine, images(4, 1) ** 3).detach())
    x = images(4, 2).requires_grad_(True)
    first = float(regulariser(x, 1).detach())
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(60):
        (x.grad,) = torch.autograd.grad(regulariser(x, 1).sum(), x)
        optimiser.step()
    assert float(regulariser(x, 1).detach()) < 0.05 * first


def test_networks_without_batch_normalisation_make_the_attack_inapplicable() -> None:
    w = world(360, 2)
    view = view_of(w.transcript(), SERVER)
    attack = CosineInversion(iterations=2, batch_statistics=0.1)
    with pytest.raises(UnmetRequirementsError, match="batch normalisation, and the declared one"):
        attacked(attack, view, w.knowledge)


def test_without_any_statistics_the_attack_is_inapplicable() -> None:
    with pytest.raises(UnmetRequirementsError, match="told none with their updates"):
        term(normalised())
    with pytest.raises(UnmetRequirementsError, match="no auxiliary data"):
        term(normalised(records=4), auxiliary=images(3))


def resnet_run(statistics: int | None) -> tuple[MemoryRecorder, Knowledge, LabelledImages]:
    """One update of two records of a network with batch normalisation."""
    w = world(361, 1, SMALL, per_user=2)
    model = build(RESNET, seed=0)
    engine = engine_for(
        RESNET, flatten_parameters(model), batch_norm="train", device="cpu", records=2
    )
    known = functional.one_hot(torch.from_numpy(w.records.labels), 10).float()
    gradient = engine.gradients(torch.from_numpy(w.records.images), known).flat()[0].detach()
    arrays = {"values": gradient.numpy(), "records": np.asarray(2)}
    if statistics is not None:
        own = statistics_of(engine, torch.from_numpy(w.records.images))[0].detach().numpy()
        arrays["batch_statistics"] = own[: len(own) - statistics]
    recorder = recorder_of(["user-0"], facts=ALL[:3])
    recorder.send(kind=UPDATE, receiver=SERVER, arrays=arrays, round=1, sender="user-0")
    knowledge = Knowledge(RESNET, flatten_parameters(model), w.auxiliary.take(np.arange(20)))
    return recorder, knowledge, w.records


@pytest.mark.parametrize("statistics", [None, 0])
def test_a_residual_network_is_inverted_by_plain_differentiation_and_it_is_said(statistics) -> None:
    recorder, knowledge, _ = resnet_run(statistics)
    view = view_of(recorder.transcript(), SERVER)
    attack = CosineInversion(iterations=3, restarts=1, batch_statistics=0.1)
    guesses, _ = attacked(attack, view, knowledge)
    assert guesses.values[0].shape == (2, 1, 8, 8)
    assert guesses.diagnostics["factored engine"] == 0
    assert guesses.diagnostics["derivatives by hand"] == 0
    plain, _ = attacked(replace(attack, batch_statistics=0.0), view, knowledge)
    assert not np.allclose(plain.values[0], guesses.values[0])


def test_statistics_of_another_number_of_channels_are_refused() -> None:
    recorder, knowledge, _ = resnet_run(3)
    with pytest.raises(InvalidDataError, match=r"tell 5757 batch statistics.* has 5760"):
        attacked(
            CosineInversion(iterations=1, restarts=1, batch_statistics=0.1),
            view_of(recorder.transcript(), SERVER),
            knowledge,
        )


def test_a_group_that_agrees_costs_nothing_and_the_others_their_variance() -> None:
    one, other = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
    jobs = torch.cat([one, one, one, other])  # two targets of two starts
    found = GroupConsistency(2, 3.0)(jobs, 4)
    assert found.tolist() == [0, 0, 3 * 0.25, 3 * 0.25]


def test_restarts_are_pulled_together_and_the_one_of_lowest_loss_is_kept() -> None:
    w = world(362, 2)
    engine = engine_for(SMALL, w.parameters, batch_norm="train", device="cpu")
    targets = cosine(engine.targets(torch.from_numpy(w.gradients)))
    labels = functional.one_hot(torch.from_numpy(w.records.labels), 10).float()
    rows = torch.arange(2).repeat_interleave(3)
    first = torch.rand((6, 1, 1, 8, 8), generator=torch.Generator().manual_seed(0))

    def spread(weight: float) -> float:
        outcome = adam(
            targets,
            engine,
            Pixels(),
            rows=rows,
            first=first,
            labels=labels[rows][:, None],
            settings=AdamSettings(10, 0.05, 0.0),
            regularisers=(GroupConsistency(3, weight),),
            group=3,
        )
        return float(outcome.images.reshape(2, 3, -1).var(1).mean())

    assert spread(100.0) < 0.2 * spread(0.0)
    options = CosineInversion(iterations=10, restarts=3, group_consistency=0.01)
    found = search(
        engine, targets, w.records.labels[:, None], options=options, auxiliary=None, rng=RNG(1)
    )
    assert found.images.shape == (2, 1, 1, 8, 8)
    assert found.evaluations == 2 * 3 * 11
    assert found.at_once % 3 == 0
    assert torch.isfinite(found.losses).all()


def test_consistency_needs_several_restarts() -> None:
    with pytest.raises(ConfigurationError, match="at least 2, got restarts=1"):
        RankProfileMatching(group_consistency=0.1)
    with pytest.raises(ConfigurationError, match="batch_statistics must not be negative"):
        CosineInversion(batch_statistics=-1)


def test_the_priors_are_among_the_options_that_explain_lists() -> None:
    result = CliRunner().invoke(app, ["explain", "inversion/cosine"])
    assert result.exit_code == 0
    options = result.stdout.split("options (--option NAME=VALUE)")[1]
    assert "batch_statistics" in options
    assert "group_consistency" in options
    assert "auto, none, gaussian, pca, decoder" in options
    assert "those of auxiliary" in " ".join(result.stdout.split())
