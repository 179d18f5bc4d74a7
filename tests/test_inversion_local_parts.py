"""Known entries and ranks of updates of several records and of several local steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from inversion_runs import SMALL, attacked, median, world
from torch.nn import functional

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import (
    LocalStepsRanks,
    LocalStepsTopK,
    RankProfileMatching,
    TopKMatching,
)
from privaudit.attacks.inversion._ranks import magnitude_profile
from privaudit.attacks.inversion._regressed_labels import regressed_labels
from privaudit.attacks.inversion._search import engine_for
from privaudit.attacks.inversion._unrolled import UnrolledUpdates
from privaudit.datasets.base import ClientData, FederatedData
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.models import classifier_rows
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig
from privaudit.protocols.pa_cfl.kinds import AGGREGATION_SERVER, MANAGEMENT_SERVER
from privaudit.scoring.prior_images import prior_images
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Transcript, Truth, View

AS, MS = AGGREGATION_SERVER, MANAGEMENT_SERVER


def pa_cfl(
    seed: int, *, records: int = 1, users: int = 5, share: float = 0.05, **training: Any
) -> tuple[Transcript, Knowledge, Truth]:
    """One round of PA-CFL on digits."""
    w = world(seed, users, per_user=records)
    clients = tuple(
        ClientData(
            f"user-{i + 1}", w.records.take(np.arange(records * i, records * (i + 1))), w.auxiliary
        )
        for i in range(users)
    )
    settings = {"model": "small-cnn", "rounds": 1, "similarity": "jaccard", **training}
    config = PACFLConfig(top_k_fraction=share, **settings)
    recorder = MemoryRecorder()
    data = FederatedData("digits", 10, clients, None, w.auxiliary)
    PACFL(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    transcript = recorder.transcript()
    parameters = transcript.public_arrays["initial-parameters"]
    return transcript, Knowledge(SMALL, parameters, w.auxiliary), recorder.truth()


def seen_by(transcript: Transcript, *parties: str, without: Capability | None = None) -> View:
    capabilities = frozenset(Capability) - {without}
    return transcript.view(Coalition.of(*parties, capabilities=capabilities))


def margins(guesses: Any, truth: Truth, knowledge: Knowledge) -> tuple[float, float]:
    """Median PSNR, and that of the class means of the true labels."""
    priors = prior_images(guesses.target_ids, truth, knowledge.auxiliary)
    return median(guesses, truth), median(priors["class mean"], truth)


@pytest.mark.parametrize(
    ("attack", "parties"),
    [
        (LocalStepsTopK(iterations=40), (AS, "user-1")),
        (LocalStepsRanks(iterations=40, records=1), (MS,)),
    ],
    ids=["values", "ranks"],
)
def test_parts_of_three_local_epochs_rebuild_records(attack, parties) -> None:
    transcript, knowledge, truth = pa_cfl(370, users=4, local_epochs=3, learning_rate=0.01)
    view = seen_by(transcript, *parties)
    guesses, baseline = attacked(attack, view, knowledge)
    found, class_mean = margins(guesses, truth, knowledge)
    assert guesses.diagnostics["local steps"] == 3
    assert guesses.diagnostics["factored engine"] == 0
    assert found > median(baseline, truth) + 3
    assert found > class_mean + 1


@pytest.mark.parametrize("attack", [LocalStepsTopK(iterations=3), TopKMatching(iterations=3)])
def test_one_local_step_is_the_gradient_up_to_scale(attack) -> None:
    transcript, knowledge, _ = pa_cfl(371, users=3, local_epochs=1, learning_rate=0.5)
    view = seen_by(transcript, AS, "user-1")
    if isinstance(attack, TopKMatching):
        with pytest.raises(UnmetRequirementsError, match="single-local-step"):
            attacked(attack, view, knowledge)
    else:
        guesses, _ = attacked(attack, view, knowledge)
        assert guesses.diagnostics["local steps"] == 1


def test_what_is_missing_is_named() -> None:
    transcript, knowledge, _ = pa_cfl(372, users=3, records=4, local_epochs=3)
    few = {"iterations": 1}
    told = seen_by(transcript, AS, "user-1")
    for attack, view, reason in (
        (LocalStepsRanks(**few), seen_by(transcript, MS), "declare it with the option 'records'"),
        (LocalStepsTopK(**few), seen_by(transcript, AS), "did not see it; add one user"),
        (LocalStepsTopK(most_steps=2, **few), told, "at most 2 local steps"),
        (LocalStepsTopK(most_records=3, **few), told, "at most 3 records"),
        (
            LocalStepsTopK(**few),
            seen_by(transcript, AS, "user-1", without=Capability.TRAINING_PARAMETERS),
            "training-parameters",
        ),
    ):
        with pytest.raises(UnmetRequirementsError, match=reason):
            attacked(attack, view, knowledge)
    with pytest.raises(ConfigurationError, match="order must be one of"):
        LocalStepsRanks(order="random")
    with pytest.raises(ConfigurationError, match="profile_records"):
        LocalStepsRanks(profile_records=0)


def test_several_records_are_paired_with_guesses_of_their_number() -> None:
    transcript, knowledge, truth = pa_cfl(373, users=3, records=4, update="gradient")
    top_k, _ = attacked(TopKMatching(iterations=20), seen_by(transcript, AS, "user-1"), knowledge)
    ranks, _ = attacked(
        RankProfileMatching(iterations=20, records=4), seen_by(transcript, MS), knowledge
    )
    for guesses, targets in ((top_k, 2), (ranks, 3)):
        assert len(guesses.values) == targets
        assert all(value.shape == (4, 1, 8, 8) for value in guesses.values)
        assert np.isfinite(median(guesses, truth))


@pytest.mark.parametrize("with_values", [True, False])
def test_labels_of_four_records_are_predicted_from_what_simulated_users_show(with_values) -> None:
    """Another user's update, hence another's labels, must give other predictions."""
    w = world(374, 12, per_user=4)
    engine = engine_for(SMALL, w.parameters, batch_norm="train", device="cpu", records=4)
    count = len(w.parameters) // 100
    order = np.argsort(-np.abs(w.gradients), axis=1, kind="stable")[:, :count]
    if with_values:
        order = np.tile(order[:1], (12, 1))  # one user's coordinates, known for all
    values = np.take_along_axis(w.gradients, order, 1) if with_values else None
    found = regressed_labels(
        order,
        values,
        engine,
        w.auxiliary,
        classifier_rows(SMALL),
        source=engine,
        rng=np.random.default_rng(0),
    )
    true = np.sort(w.records.labels.reshape(12, 4), axis=1)
    assert found.shape == (12, 4)

    def overlap(one: np.ndarray, other: np.ndarray) -> float:
        counts = [np.stack([np.bincount(r, minlength=10) for r in x]) for x in (one, other)]
        return float(np.minimum(*counts).sum(1).mean() / 4)

    assert overlap(found, true) > 0.9
    assert overlap(found, np.roll(true, 1, axis=0)) < 0.5


def test_a_profile_of_local_training_is_that_of_its_updates() -> None:
    w = world(375, 1)
    engine = engine_for(SMALL, w.parameters, batch_norm="train", device="cpu", records=4)
    steps = UnrolledUpdates(engine, (np.arange(4),) * 6, 0.5)
    four = w.auxiliary.take(np.arange(4))
    found, gradient = (
        magnitude_profile(
            engine, four, count=30, records=4, rng=np.random.default_rng(0), simulated=source
        )
        for source in (steps, None)
    )
    labels = functional.one_hot(torch.from_numpy(four.labels), 10).float()
    update = steps.gradients(torch.from_numpy(four.images), labels).flat().detach().abs()
    top = update.topk(30, dim=1).values[0]
    assert torch.allclose(found, top / top.norm(), atol=1e-6)
    assert not torch.allclose(found, gradient, atol=1e-3)
