"""Updates of several local steps: simulated training matches the users', and is inverted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from inversion_runs import SMALL, attacked, median, world
from torch.nn import functional

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import LocalStepsInversion
from privaudit.attacks.inversion._search import engine_for
from privaudit.attacks.inversion._unrolled import UnrolledUpdates
from privaudit.datasets.base import ClientData, FederatedData
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines.fedavg import FedAvg
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.protocols.federation import TrainingConfig
from privaudit.protocols.training import local_update
from privaudit.scoring.prior_images import prior_images
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Truth, View

MLP = ModelSpec("mlp", (1, 8, 8), 10)


def federated(seed: int, *, records: int, users: int = 3, **training: Any) -> tuple[Any, ...]:
    """Run one round of FedAvg on digits; return the server's view, knowledge and truth."""
    w = world(seed, users, per_user=records)
    clients = tuple(
        ClientData(u, w.records.take(np.arange(records * i, records * (i + 1))), w.auxiliary)
        for i, u in enumerate(w.users)
    )
    recorder = MemoryRecorder()
    config = TrainingConfig(rounds=1, **training)
    data = FederatedData("digits", 10, clients, None, w.auxiliary)
    FedAvg(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    transcript = recorder.transcript()
    model = transcript.public["model"]
    assert isinstance(model, dict)
    knowledge = Knowledge(
        ModelSpec(str(model["name"]), (1, 8, 8), 10),
        transcript.public_arrays["initial-parameters"],
        w.auxiliary,
    )
    return (
        transcript.view(Coalition.of(SERVER, capabilities=Capability)),
        knowledge,
        recorder.truth(),
    )


def test_simulated_training_equals_the_users_training() -> None:
    w = world(340, 4)
    module = build(SMALL, seed=0)
    expected = local_update(
        module,
        w.records.images,
        w.records.labels,
        parameters=w.parameters,
        learning_rate=0.2,
        batch_size=4,
        epochs=3,
        mode="fedavg",
        rng=np.random.default_rng(0),
    )
    engine = engine_for(
        SMALL, w.parameters, batch_norm="train", device="cpu", records=4, dtype=torch.float64
    )
    simulated = UnrolledUpdates(engine, (np.arange(4),) * 3, 0.2)
    labels = functional.one_hot(torch.from_numpy(w.records.labels), 10).double()
    found = simulated.gradients(torch.from_numpy(w.records.images).double(), labels).flat()[0]
    assert np.abs(found.detach().numpy() - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("order", ["invariant", "sampled"])
def test_records_are_rebuilt_from_epochs_of_local_training(order) -> None:
    view, knowledge, truth = federated(
        341, records=2, model="mlp", local_epochs=3, batch_size=64, learning_rate=0.05
    )
    attack = LocalStepsInversion(order=order, iterations=120)
    guesses, baseline = attacked(attack, view, knowledge)
    beside = prior_images(guesses.target_ids, truth, knowledge.auxiliary)
    assert guesses.diagnostics["local steps"] == 3
    assert median(guesses, truth) >= median(baseline, truth) + 6
    assert median(guesses, truth) > median(beside["nearest auxiliary image"], truth)


def test_an_unknown_order_of_batches_is_averaged_over() -> None:
    view, knowledge, truth = federated(
        342, records=4, users=2, model="mlp", local_epochs=2, batch_size=2, learning_rate=0.02
    )
    guesses, baseline = attacked(LocalStepsInversion(iterations=120), view, knowledge)
    assert guesses.diagnostics["batch order unknown"] == 1
    assert guesses.diagnostics["local steps"] == 4
    assert median(guesses, truth) >= median(baseline, truth) + 3


def test_an_update_of_another_user_tells_nothing() -> None:
    view, knowledge, truth = federated(343, records=1, users=4, model="mlp", local_epochs=2)
    shifted = [f"user-{(i + 1) % 4}" for i in range(4)]
    swapped = Truth({u: truth.targets[v] for u, v in zip(truth.targets, shifted, strict=False)})
    guesses, baseline = attacked(LocalStepsInversion(iterations=80), view, knowledge)
    assert median(guesses, swapped) <= median(baseline, swapped) + 1
    assert median(guesses, truth) >= median(baseline, truth) + 6


def test_too_many_steps_are_refused_with_the_way_out() -> None:
    view, knowledge, _ = federated(344, records=8, model="mlp", local_epochs=3, batch_size=1)
    with pytest.raises(UnmetRequirementsError, match="24; raise 'most_steps'"):
        attacked(LocalStepsInversion(), view, knowledge)


@pytest.mark.parametrize(
    ("published", "error"),
    [
        (None, UnmetRequirementsError),
        ({"learning_rate": 0.1}, UnmetRequirementsError),
        ({"learning_rate": 0, "batch_size": 1, "local_epochs": 1}, InvalidDataError),
        ({"learning_rate": 0.1, "batch_size": "all", "local_epochs": 1}, InvalidDataError),
        ({"learning_rate": 0.1, "batch_size": True, "local_epochs": 1}, InvalidDataError),
    ],
)
def test_training_parameters_are_read_from_the_public_configuration(published, error) -> None:
    recorder = MemoryRecorder()
    from privaudit.transcript import Party

    recorder.declare(
        [Party(SERVER, "server"), Party("user-0", "user")],
        facts={
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
        },
    )
    if published is not None:
        recorder.publish("configuration", published)
    parameters = flatten_parameters(build(MLP, seed=0))
    recorder.send(
        kind=UPDATE,
        round=1,
        sender="user-0",
        receiver=SERVER,
        arrays={"values": parameters, "records": np.asarray(1)},
    )
    view: View = recorder.transcript().view(Coalition.of(SERVER, capabilities=Capability))
    with pytest.raises(error, match="configuration"):
        attacked(LocalStepsInversion(), view, Knowledge(MLP, parameters))
