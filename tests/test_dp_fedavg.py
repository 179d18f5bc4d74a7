"""The defended reference clips, noises and states its budget as DP-SGD does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from privaudit.accounting.releases import compose_releases
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition, single_record_users
from privaudit.errors import ConfigurationError
from privaudit.ledger import GaussianMechanism, SubsampledGaussian
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines import kinds
from privaudit.protocols.baselines.dp_fedavg import DPFedAvg, DPFedAvgConfig
from privaudit.protocols.baselines.private_training import noised_update, private_local_update
from privaudit.protocols.training import local_update
from privaudit.transcript import MemoryRecorder, Transcript

SPEC = ModelSpec("mlp", (1, 8, 8), 10)


def records(n: int) -> tuple[Any, Any]:
    train = load_dataset("digits").train.take(np.arange(n))
    return train.images, train.labels


def arguments(n: int, **changes: Any) -> dict[str, Any]:
    images, labels = records(n)
    model = build(SPEC, seed=0)
    return {
        "model": model,
        "images": images,
        "labels": labels,
        "parameters": flatten_parameters(model),
        "learning_rate": 0.1,
        "batch_size": 8,
        "epochs": 1,
        "mode": "gradient",
        "rng": np.random.default_rng(0),
        **changes,
    }


def test_without_clipping_and_noise_the_private_gradient_is_the_gradient() -> None:
    plain = local_update(**arguments(12))
    private = private_local_update(**arguments(12), clip_norm=1e6, noise_multiplier=1e-12)
    np.testing.assert_allclose(private, plain, atol=1e-6)


def test_each_record_moves_the_sum_by_no_more_than_the_clipping_norm() -> None:
    clip = 0.05

    def total(n: int) -> Any:
        update = private_local_update(**arguments(n), clip_norm=clip, noise_multiplier=1e-12)
        return n * update.astype(np.float64)

    steps = [np.linalg.norm(total(n + 1) - total(n)) for n in range(1, 6)]
    np.testing.assert_allclose(steps, clip, rtol=1e-3)


def test_the_noise_has_the_stated_deviation() -> None:
    clip, multiplier, n = 0.01, 3.0, 4
    drawn = private_local_update(**arguments(n), clip_norm=clip, noise_multiplier=multiplier)
    d = len(drawn)
    # The clipped signal has norm at most clip / n; the noise has sd multiplier * clip / n.
    assert np.std(drawn) * n == pytest.approx(multiplier * clip, rel=6 / np.sqrt(2 * d))


def test_an_empty_sample_still_sends_noise() -> None:
    update = private_local_update(
        **arguments(3, mode="fedavg", batch_size=1, rng=np.random.default_rng(1)),
        clip_norm=1.0,
        noise_multiplier=1.0,
    )
    assert np.isfinite(update).all()
    assert np.count_nonzero(update) == len(update)


def test_a_users_update_is_clipped_and_noised_as_a_whole() -> None:
    plain = local_update(**arguments(20, mode="fedavg"))
    clip = float(np.linalg.norm(plain)) / 3
    clipped = noised_update(**arguments(20, mode="fedavg"), clip_norm=clip, noise_multiplier=1e-9)
    np.testing.assert_allclose(clipped, plain / 3, atol=1e-6)
    noised = noised_update(**arguments(20, mode="fedavg"), clip_norm=clip, noise_multiplier=2.0)
    spread = np.std(noised - clipped)
    assert spread == pytest.approx(2 * clip, rel=6 / np.sqrt(2 * len(plain)))


def test_a_network_that_mixes_records_is_refused() -> None:
    spec = ModelSpec("resnet10", (3, 32, 32), 10)
    model = build(spec, seed=0)
    images = np.zeros((2, 3, 32, 32), dtype=np.float32)
    with pytest.raises(ConfigurationError, match="batch normalisation"):
        private_local_update(
            **arguments(
                2,
                model=model,
                images=images,
                labels=np.zeros(2, dtype=np.int64),
                parameters=flatten_parameters(model),
            ),
            clip_norm=1.0,
            noise_multiplier=1.0,
        )


def run(data: FederatedData, seed: int = 0, **parameters: Any) -> tuple[DPFedAvg, Transcript]:
    protocol = DPFedAvg(DPFedAvgConfig(model="mlp", **parameters))
    recorder = MemoryRecorder()
    protocol.run(data, rng=np.random.default_rng(seed), recorder=recorder)
    return protocol, recorder.transcript()


def few_users() -> FederatedData:
    return partition(
        load_dataset("digits"),
        users=3,
        scheme="iid",
        records_per_user=20,
        groups=1,
        auxiliary_records=20,
        rng=np.random.default_rng(0),
    )


def test_the_ledger_follows_from_the_run() -> None:
    protocol, transcript = run(few_users(), rounds=2, batch_size=5, local_epochs=3)
    events = protocol.events(transcript)
    assert [e.round for e in events] == [1, 1, 1, 2, 2, 2]
    records = {
        m.sender: int(m.arrays["records"]) for m in transcript.messages if m.kind == kinds.UPDATE
    }
    for event in events:
        n = records[event.subjects[0]]
        steps = 3 * int(np.ceil(n / 5))
        assert event.mechanism == SubsampledGaussian(1.0, 5 / n, steps)
        assert (event.relation, event.observers) == ("add-remove", ("server",))


def test_at_user_level_replacement_doubles_the_sensitivity() -> None:
    protocol, transcript = run(few_users(), rounds=1, privacy_level="user", noise_multiplier=4.0)
    assert {e.mechanism for e in protocol.events(transcript)} == {GaussianMechanism(2.0, 2.0)}
    assert {e.relation for e in protocol.events(transcript)} == {"replace-one"}


def test_the_budget_of_dp_sgd_agrees_with_opacus() -> None:
    from opacus.accountants import PRVAccountant, RDPAccountant

    protocol, transcript = run(few_users(), rounds=2, batch_size=5, noise_multiplier=1.1)
    first = [e for e in protocol.events(transcript) if e.subjects == ("user-1",)]
    released: Counter[Any] = Counter(e.mechanism for e in first)
    ours = compose_releases(released, 1e-5, relation="add-remove")
    renyi, loss = RDPAccountant(), PRVAccountant()
    for event in first:
        mechanism = event.mechanism
        assert isinstance(mechanism, SubsampledGaussian)
        for accountant in (renyi, loss):
            accountant.history.append(
                (mechanism.noise_multiplier, mechanism.sampling_probability, mechanism.steps)
            )
    assert ours.renyi.upper == pytest.approx(renyi.get_epsilon(delta=1e-5), rel=0.02)
    assert ours.best.upper == pytest.approx(loss.get_epsilon(delta=1e-5), rel=0.02)
    # Opacus' figure lies within its error of 0.01 on either side of the truth.
    assert ours.best.upper >= loss.get_epsilon(delta=1e-5, eps_error=0.01) - 0.02


def test_the_same_seed_gives_the_same_bytes() -> None:
    data = single_record_users(
        load_dataset("digits"), users=3, auxiliary_records=20, rng=np.random.default_rng(0)
    )
    sent = [
        [m.arrays["values"].tobytes() for m in run(data, s, rounds=1, update="gradient")[1].messages
         if m.kind == kinds.UPDATE]
        for s in (0, 0, 1)
    ]  # fmt: skip
    assert sent[0] == sent[1] != sent[2]
