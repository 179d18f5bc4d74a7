"""The rules that every inversion attack keeps, and the errors that it raises."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from inversion_runs import ALL, FACTS, attacked, recorder_of, view_of, world

import privaudit.attacks.inversion as inversion
from privaudit.attacks.base import Attack
from privaudit.attacks.inversion import (
    AnalyticInversion,
    CosineInversion,
    DeepLeakage,
    LocalStepsInversion,
    RankProfileMatching,
    SortedValueMatching,
    TopKMatching,
    ZeroFillMatching,
)
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.protocols.pa_cfl.kinds import (
    AGGREGATION_SERVER,
    GLOBAL_PERMUTATION,
    MANAGEMENT_SERVER,
    PERMUTATION_SEQUENCE,
)
from privaudit.testing import check_attack

#: Every attack, cheap, with the parties whose view it needs.
ATTACKS: list[tuple[Attack, tuple[str, ...]]] = [
    (CosineInversion(iterations=3, restarts=1), (SERVER,)),
    (DeepLeakage(iterations=4, restarts=0), (SERVER,)),
    (AnalyticInversion(iterations=3, feature_iterations=3), (SERVER,)),
    (TopKMatching(iterations=3), (AGGREGATION_SERVER, "colluder")),
    (TopKMatching(iterations=3, source="update"), (SERVER,)),
    (ZeroFillMatching(iterations=3), (AGGREGATION_SERVER, "colluder")),
    (ZeroFillMatching(iterations=3, placement="as-received"), (AGGREGATION_SERVER,)),
    (SortedValueMatching(iterations=3), (AGGREGATION_SERVER,)),
    (RankProfileMatching(iterations=3, profile_records=10, refinements=1), (MANAGEMENT_SERVER,)),
]
each_attack = pytest.mark.parametrize(
    ("attack", "parties"), ATTACKS, ids=[f"{a.name}-{i}" for i, (a, _) in enumerate(ATTACKS)]
)


@each_attack
def test_every_attack_passes_the_conformance_kit(attack: Attack, parties: tuple[str, ...]) -> None:
    w = world(109, 3)
    check_attack(attack, view_of(w.transcript(), *parties), w.knowledge, truth=w.truth())


@each_attack
def test_guesses_are_images_in_range_for_users_outside_the_coalition(attack, parties) -> None:
    w = world(109, 3)
    transcript = w.transcript()
    guesses, baseline = attacked(attack, view_of(transcript, *parties), w.knowledge)
    assert guesses.target_ids == baseline.target_ids == ("user-0", "user-1", "user-2")
    for image in (*guesses.values, *baseline.values):
        assert image.shape == (1, 8, 8)
        assert image.dtype == np.float32
        assert image.min() >= 0
        assert image.max() <= 1
    assert np.isfinite(guesses.scores).all()
    fewer, _ = attacked(attack, view_of(transcript, *parties, "user-1"), w.knowledge)
    assert fewer.target_ids == ("user-0", "user-2")


@each_attack
def test_same_seed_gives_same_bytes_and_leaves_threads_and_generators_alone(
    attack, parties
) -> None:
    w = world(109, 3)
    view = view_of(w.transcript(), *parties)
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    first, _ = attacked(attack, view, w.knowledge, seed=4)
    second, _ = attacked(attack, view, w.knowledge, seed=4)
    other, _ = attacked(attack, view, w.knowledge, seed=5)
    assert [v.tobytes() for v in first.values] == [v.tobytes() for v in second.values]
    assert first.scores.tobytes() == second.scores.tobytes()
    if isinstance(attack, CosineInversion | DeepLeakage):  # the others start at class means
        assert [v.tobytes() for v in first.values] != [v.tobytes() for v in other.values]
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_only_targets_that_are_not_matched_are_started_anew() -> None:
    w = world(109, 3)
    view = view_of(w.transcript(), SERVER)

    def evaluations(tolerance: float) -> float:
        attack = CosineInversion(iterations=4, restarts=3, tolerance=tolerance)
        return attacked(attack, view, w.knowledge)[0].diagnostics["evaluations"]

    assert evaluations(tolerance=2.0) == 3 * 5  # three targets, four steps and the last iterate
    assert evaluations(tolerance=0.0) == 3 * 3 * 5


@each_attack
def test_a_missing_capability_is_named(attack, parties) -> None:
    w = world(109, 3)
    for missing in attack.requires:
        granted = [c for c in ALL if c != missing]
        view = view_of(w.transcript(), *parties, capabilities=granted)
        with pytest.raises(UnmetRequirementsError, match=missing.value):
            attack.run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))


@each_attack
@pytest.mark.parametrize("field", ["model", "parameters"])
def test_undeclared_knowledge_is_named(attack, parties, field: str) -> None:
    w = world(109, 3)
    view = view_of(w.transcript(), *parties)
    with pytest.raises(UnmetRequirementsError, match=f"knowledge.{field}"):
        attack.run(
            view,
            knowledge=replace(w.knowledge, **{field: None}),
            rng=np.random.default_rng(0),
        )


@each_attack
def test_a_view_without_the_messages_is_refused(attack, parties) -> None:
    w = world(109, 3)
    empty = view_of(recorder_of(w.users).transcript(), *parties)
    with pytest.raises(UnmetRequirementsError, match=attack.name):
        attack.run(empty, knowledge=w.knowledge, rng=np.random.default_rng(0))


def test_placing_values_needs_the_global_permutation() -> None:
    w = world(109, 3)
    view = view_of(w.transcript(), AGGREGATION_SERVER)
    with pytest.raises(UnmetRequirementsError, match=f"{GLOBAL_PERMUTATION}.*add one user"):
        TopKMatching().run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    "attack", [TopKMatching(prior="gaussian"), TopKMatching(init="class-mean")]
)
def test_auxiliary_data_are_used_only_when_granted(attack: Attack) -> None:
    w = world(109, 3)
    parties = (AGGREGATION_SERVER, "colluder")
    view = view_of(w.transcript(), *parties, capabilities=FACTS)
    with pytest.raises(UnmetRequirementsError, match="auxiliary-data"):
        attack.run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))
    # Declared but not granted: the default attack must behave as if there were none.
    plain = TopKMatching(iterations=3)
    undeclared = replace(w.knowledge, auxiliary=None)
    with_records, grey = attacked(plain, view, w.knowledge)
    without, _ = attacked(plain, view, undeclared)
    assert [v.tobytes() for v in with_records.values] == [v.tobytes() for v in without.values]
    assert all((image == 0.5).all() for image in grey.values)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("attack", "party"),
    [(CosineInversion(), SERVER), (DeepLeakage(), SERVER)],
    ids=["cosine", "dlg"],
)
def test_a_gradient_that_is_not_finite_names_message_and_sender(attack, party, bad) -> None:
    w = world(109, 3)
    gradients = w.gradients.copy()
    gradients[1, 7] = bad
    view = view_of(replace(w, gradients=gradients).transcript(), party)
    seq = view.select(UPDATE, sender="user-1")[0].seq
    with pytest.raises(InvalidDataError, match=f"message {seq} .*'user-1'.*1 of 13706"):
        attack.run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))


def test_updates_of_another_model_are_refused() -> None:
    w = world(109, 3)
    short = replace(w, gradients=w.gradients[:, :-1])
    view = view_of(short.transcript(), SERVER)
    with pytest.raises(InvalidDataError, match="13705 entries"):
        CosineInversion().run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))


def test_declared_knowledge_that_does_not_fit_the_model_is_refused() -> None:
    w = world(109, 3)
    view = view_of(w.transcript(), SERVER)
    broken = w.parameters.copy()
    broken[5] = np.nan
    enlarged = w.auxiliary.images.repeat(2, axis=2)
    for changes, named in (
        ({"parameters": w.parameters[:-1]}, "13706 parameters of 'small-cnn'.*13705"),
        ({"parameters": broken}, "not finite"),
        ({"auxiliary": LabelledImages(enlarged, w.auxiliary.labels)}, "do not fit"),
        ({"auxiliary": LabelledImages(w.auxiliary.images, w.auxiliary.labels + 1)}, "up to 10"),
    ):
        with pytest.raises(InvalidDataError, match=named):
            CosineInversion().run(
                view, knowledge=replace(w.knowledge, **changes), rng=np.random.default_rng(0)
            )


@pytest.mark.parametrize(
    "indices", [[0, 0, 1], [-1, 0, 1], [0, 1, 13706], [0.0, 1.0, 2.0]], ids=str
)
def test_sequences_that_are_no_coordinates_are_refused(indices) -> None:
    w = world(109, 1)
    recorder = recorder_of(w.users)
    recorder.send(
        kind=PERMUTATION_SEQUENCE,
        sender="user-0",
        receiver=MANAGEMENT_SERVER,
        arrays={"indices": np.array(indices)},
    )
    view = view_of(recorder.transcript(), MANAGEMENT_SERVER)
    with pytest.raises(InvalidDataError, match="distinct integers"):
        RankProfileMatching().run(view, knowledge=w.knowledge, rng=np.random.default_rng(0))


def test_the_earliest_round_is_attacked_and_doubled_messages_are_refused() -> None:
    w = world(109, 1)
    recorder = recorder_of(w.users)
    for round_, scale in ((2, 0.0), (1, 1.0)):
        recorder.send(
            kind=UPDATE,
            sender="user-0",
            receiver=SERVER,
            round=round_,
            arrays={"values": w.gradients[0] * np.float32(scale) + np.float32(1 - scale)},
        )
    attack = CosineInversion(iterations=3, restarts=1)
    both, _ = attacked(attack, view_of(recorder.transcript(), SERVER), w.knowledge)
    alone, _ = attacked(attack, view_of(w.transcript(), SERVER), w.knowledge)
    assert both.values[0].tobytes() == alone.values[0].tobytes()
    recorder.send(
        kind=UPDATE,
        sender="user-0",
        receiver=SERVER,
        round=1,
        arrays={"values": w.gradients[0]},
    )
    with pytest.raises(InvalidDataError, match="twice"):
        attacked(attack, view_of(recorder.transcript(), SERVER), w.knowledge)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: CosineInversion(iterations=0), "iterations"),
        (lambda: CosineInversion(learning_rate=float("nan")), "learning_rate"),
        (lambda: TopKMatching(k_fraction=0), "k_fraction"),
        (lambda: TopKMatching(source="updates"), "Did you mean 'update'"),
        (lambda: TopKMatching(init="class_mean"), "Did you mean 'class-mean'"),
        (lambda: ZeroFillMatching(source="update", placement="as-received"), "as-received"),
        (lambda: DeepLeakage(labels="guessed"), "labels"),
        (lambda: DeepLeakage(restarts=-1), "restarts"),
        (lambda: RankProfileMatching(profile_records=0), "profile_records"),
        (lambda: CosineInversion(labels="idgl"), "Did you mean 'idlg'"),
        (lambda: CosineInversion(records=0), "records"),
        (lambda: DeepLeakage(most_records=0), "most_records"),
        (lambda: TopKMatching(prior="decode"), "Did you mean 'decoder'"),
        (lambda: AnalyticInversion(tries=0), "tries"),
        (lambda: AnalyticInversion(feature_learning_rate=0), "feature_learning_rate"),
        (lambda: LocalStepsInversion(order="random"), "order"),
        (lambda: LocalStepsInversion(most_steps=0), "most_steps"),
    ],
)
def test_options_that_are_not_allowed_are_named(make: Callable[[], Attack], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        make()


def test_an_absent_device_is_an_error_not_a_fallback() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    w = world(109, 3)
    view = view_of(w.transcript(), SERVER)
    with pytest.raises(ConfigurationError, match="cuda"):
        CosineInversion(device="cuda").run(
            view, knowledge=w.knowledge, rng=np.random.default_rng(0)
        )


def test_attack_code_never_names_the_truth() -> None:
    folder = Path(inversion.__file__).parent
    names = {
        node.name if isinstance(node, ast.alias) else node.id
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.alias | ast.Name)
    }
    assert "View" in names
    assert not names & {"Truth", "Transcript"}
    assert not any(name.startswith("privaudit.scoring") for name in names)
