"""The aggregation server alone: what its values say of their coordinates, labels and records.

Federations of digits, one gradient a user, ``small-cnn`` at its initial parameters; seeds differ
from those with which the attack was made (1 to 14).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.inference import LabelsFromValues, LabelsFromZeroSums
from privaudit.attacks.inversion import BlindCoordinates, BlindMatching
from privaudit.attacks.inversion._blind_groups import zero_sum_group
from privaudit.attacks.inversion._blind_search import Placing
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData
from privaudit.datasets.partition import partition, single_record_users
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec, build, classifier_rows, flatten_parameters
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig, kinds
from privaudit.scoring.coordinates import coordinate_accuracy, placed_energy
from privaudit.scoring.labels import label_accuracy, total_variation
from privaudit.scoring.reconstruction import psnr
from privaudit.scoring.relabelled import relabelled_total_variation
from privaudit.transcript import (
    Capability,
    Coalition,
    MemoryRecorder,
    Transcript,
    Truth,
    View,
)

AS = kinds.AGGREGATION_SERVER
SPEC = ModelSpec("small-cnn", (1, 8, 8), 10)
ATTACK = BlindCoordinates(simulated_users=100, starts=8, generations=0)


@cache
def federation(seed: int, users: int = 20, single: bool = False) -> FederatedData:
    rng = np.random.default_rng(seed)
    if single:
        return single_record_users(
            load_dataset("digits"), users=users, auxiliary_records=700, rng=rng
        )
    return partition(
        load_dataset("digits"),
        users=users,
        scheme="dirichlet",
        alpha=0.1,
        records_per_user=32,
        test_records_per_user=4,
        auxiliary_records=600,
        rng=rng,
    )


@cache
def run(seed: int, *, rounds: int = 1, single: bool = False) -> tuple[Transcript, Truth]:
    recorder = MemoryRecorder()
    config = PACFLConfig(
        rounds=rounds, update="gradient", top_k_fraction=0.05, similarity="jaccard"
    )
    data = federation(seed, single=single)
    PACFL(config).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    return recorder.transcript(), recorder.truth()


def view_of(transcript: Transcript) -> View:
    return transcript.view(Coalition.of(AS, capabilities=Capability))


def knowledge_of(transcript: Transcript, seed: int, *, single: bool = False) -> Knowledge:
    initial = transcript.public_arrays["initial-parameters"]
    return Knowledge(SPEC, initial, federation(seed, single=single).auxiliary)


@cache
def placed(seed: int) -> Guesses:
    transcript, _ = run(seed)
    return ATTACK.run(
        view_of(transcript),
        knowledge=knowledge_of(transcript, seed),
        rng=np.random.default_rng(0),
    )


def accuracy(guesses: Guesses, truth: Truth) -> float:
    return float(np.mean(list(coordinate_accuracy(guesses, truth).per_target.values())))


def test_values_of_an_untrained_network_are_placed_without_the_permutation() -> None:
    transcript, truth = run(31)
    view = view_of(transcript)
    assert not view.select(kinds.GLOBAL_PERMUTATION)
    assert accuracy(placed(31), truth) >= 0.9
    baseline = ATTACK.baseline(
        view, knowledge=knowledge_of(transcript, 31), rng=np.random.default_rng(0)
    )
    assert accuracy(baseline, truth) <= 0.05
    assert min(placed_energy(placed(31), truth).per_target.values()) >= 0.9


def columns_shuffled_by_each_user(view: View) -> View:
    rng = np.random.default_rng(3)
    return replace(
        view,
        messages=tuple(
            replace(m, arrays={"values": rng.permutation(m.arrays["values"])})
            if m.kind == kinds.IMPORTANT_VALUES
            else m
            for m in view.messages
        ),
    )


def test_an_order_of_its_own_for_each_user_defeats_the_attack() -> None:
    transcript, truth = run(31)
    guesses = ATTACK.run(
        columns_shuffled_by_each_user(view_of(transcript)),
        knowledge=knowledge_of(transcript, 31),
        rng=np.random.default_rng(0),
    )
    assert accuracy(guesses, truth) <= 0.05


def test_another_users_values_are_not_the_targets() -> None:
    transcript, truth = run(31)
    swapped = deranged(view_of(transcript), kinds=ATTACK.reads, rng=np.random.default_rng(1))
    guesses = ATTACK.run(
        swapped, knowledge=knowledge_of(transcript, 31), rng=np.random.default_rng(0)
    )
    assert accuracy(guesses, truth) <= 0.05


def test_parameters_of_another_network_place_nothing() -> None:
    transcript, truth = run(31)
    other = replace(
        knowledge_of(transcript, 31), parameters=flatten_parameters(build(SPEC, seed=999))
    )
    guesses = ATTACK.run(view_of(transcript), knowledge=other, rng=np.random.default_rng(0))
    assert accuracy(guesses, truth) <= 0.05


def test_label_shares_come_from_values_alone_up_to_the_names_of_classes() -> None:
    transcript, truth = run(32)
    attack, rng = LabelsFromZeroSums(), np.random.default_rng(0)
    knowledge = Knowledge(SPEC)
    guesses = attack.run(view_of(transcript), knowledge=knowledge, rng=rng)
    baseline = attack.baseline(view_of(transcript), knowledge=knowledge, rng=rng)
    scores = [relabelled_total_variation(g, truth).per_target.values() for g in (guesses, baseline)]
    assert max(scores[0]) <= 0.1
    assert min(scores[1]) >= 0.3


def test_label_shares_get_their_names_from_the_coordinates() -> None:
    transcript, truth = run(31)
    attack = LabelsFromValues(ATTACK)
    knowledge, rng = knowledge_of(transcript, 31), np.random.default_rng(0)
    guesses = attack.run(view_of(transcript), knowledge=knowledge, rng=rng)
    baseline = attack.baseline(view_of(transcript), knowledge=knowledge, rng=rng)
    found, prior = (
        np.mean(list(total_variation(g, truth).per_target.values())) for g in (guesses, baseline)
    )
    assert found <= 0.1
    assert prior >= 0.5


def test_the_zero_sum_group_is_that_of_the_biases() -> None:
    transcript, _ = run(33)
    permutation = transcript.messages[
        next(i for i, m in enumerate(transcript.messages) if m.kind == kinds.GLOBAL_PERMUTATION)
    ].arrays["indices"]
    sent = [m for m in transcript.messages if m.kind == kinds.IMPORTANT_VALUES]
    group = zero_sum_group(np.stack([m.arrays["values"] for m in sent]).astype(np.float64), 10)
    assert group is not None
    first = classifier_rows(SPEC).bias_offset
    assert sorted(permutation[group.columns]) == list(range(first, first + 10))


def test_values_without_structure_hold_no_zero_sum_group() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 60))
    assert zero_sum_group(values, 10) is None
    planted = rng.choice(60, 4, replace=False)
    values[:, planted[0]] = -values[:, planted[1:]].sum(1)
    found = zero_sum_group(values, 4)
    assert found is not None
    assert sorted(found.columns) == sorted(planted)


def test_what_is_missing_is_named() -> None:
    transcript, _ = run(31)
    view, knowledge = view_of(transcript), knowledge_of(transcript, 31)
    rng = np.random.default_rng(0)
    unpublished = replace(view, public_arrays={})
    with pytest.raises(UnmetRequirementsError, match="initial-parameters"):
        replace(ATTACK, start="first-round").run(unpublished, knowledge=knowledge, rng=rng)
    with pytest.raises(UnmetRequirementsError, match="needs placements of other rounds"):
        replace(ATTACK, start="other-rounds").run(view, knowledge=knowledge, rng=rng)
    with pytest.raises(UnmetRequirementsError, match="auxiliary"):
        ATTACK.run(view, knowledge=replace(knowledge, auxiliary=None), rng=rng)
    with pytest.raises(ConfigurationError, match="start must be one of"):
        BlindCoordinates(start="nowhere")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="generations must not be negative"):
        BlindCoordinates(generations=-1)
    with pytest.raises(ConfigurationError, match="confidence"):
        BlindMatching(confidence=2.0)


def test_the_cost_of_an_order_is_that_of_its_nearest_candidates() -> None:
    """Against the definition, computed from the factors of each order anew."""
    transcript, _ = run(33)
    seen, _, templates = ATTACK._learned(
        view_of(transcript), knowledge_of(transcript, 33), None, np.random.default_rng(0)
    )
    placing = Placing(seen.values.astype(np.float64), templates)
    group = zero_sum_group(seen.values.astype(np.float64), 10)
    assert group is not None
    score = placing._order_cost(group.columns)
    columns = placing.values[:, placing._some].astype(np.float64)
    rng = np.random.default_rng(1)
    for order in (rng.permutation(10) for _ in range(3)):
        factors = placing.of_group(group.columns, order)
        wide = factors.covariance + 0.3 * np.linalg.inv(templates.precision)
        spread = (templates.loadings * (wide @ templates.loadings)).sum(0)
        variance = templates.noise + spread
        error = columns[:, :, None] - (factors.mean @ templates.loadings)[:, None, :]
        cost = (np.square(error) / variance).sum(0) + len(columns) * np.log(variance)
        place = np.log1p(placing._some)[:, None] - templates.log_rank
        cost += np.square(place) / templates.log_rank_variance
        assert score(order) == pytest.approx(cost.min(1).sum(), rel=1e-4)


@pytest.mark.parametrize("attack", [ATTACK, LabelsFromZeroSums(), LabelsFromValues(ATTACK)])
def test_fewer_values_than_classes_do_not_apply(attack: Any) -> None:
    transcript, _ = run(33)
    view = view_of(transcript)
    few = replace(
        view,
        messages=tuple(
            replace(m, arrays={"values": m.arrays["values"][:9]})
            if m.kind == kinds.IMPORTANT_VALUES
            else m
            for m in view.messages
        ),
    )
    with pytest.raises(UnmetRequirementsError, match="9 values for 10 classes"):
        attack.run(few, knowledge=knowledge_of(transcript, 33), rng=np.random.default_rng(0))


def test_more_pairs_than_memory_holds_do_not_apply() -> None:
    transcript, _ = run(33)
    with pytest.raises(UnmetRequirementsError, match="lower 'candidates'"):
        replace(ATTACK, candidates=10**6).run(
            wide_view(view_of(transcript), 12_000),
            knowledge=knowledge_of(transcript, 33),
            rng=np.random.default_rng(0),
        )


def wide_view(view: View, k: int) -> View:
    values = {"values": np.zeros(k, np.float32)}
    return replace(
        view,
        messages=tuple(
            replace(m, arrays=values) if m.kind == kinds.IMPORTANT_VALUES else m
            for m in view.messages
        ),
    )


def test_a_coordinate_outside_the_update_is_refused() -> None:
    value = np.array([(9, 1.0)], [("coordinate", np.int64), ("value", np.float32)])
    guesses = Guesses(("a",), (value,), np.zeros(1))
    with pytest.raises(InvalidDataError, match="reach 9"):
        coordinate_accuracy(guesses, Truth({"a": {"update": np.ones(3, np.float32)}}))


@pytest.mark.slow
def test_the_aggregation_server_alone_rebuilds_single_records() -> None:
    transcript, truth = run(38, single=True)
    attack = BlindMatching(placing=BlindCoordinates())
    knowledge, rng = knowledge_of(transcript, 38, single=True), np.random.default_rng(0)
    view = view_of(transcript)
    guesses = attack.run(view, knowledge=knowledge, rng=rng)
    baseline = attack.baseline(view, knowledge=knowledge, rng=rng)
    found, prior = (
        np.median(list(psnr(g, truth).per_target.values())) for g in (guesses, baseline)
    )
    assert found >= prior + 3
    labels = LabelsFromValues(attack.placing).run(view, knowledge=knowledge, rng=rng)
    assert np.mean(list(label_accuracy(labels, truth).per_target.values())) >= 0.8
