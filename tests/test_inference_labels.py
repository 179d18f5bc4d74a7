"""Labels from permutation sequences: the rule, the regression, and what they need."""

import numpy as np
import pytest

from privaudit.attacks.base import Knowledge
from privaudit.attacks.control import deranged
from privaudit.attacks.inference import LabelsFromPermutation
from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.models import ModelSpec, build, classifier_rows, flatten_parameters
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.training import local_update
from privaudit.scoring.labels import dominant_label, label_accuracy, total_variation
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party

SPEC = ModelSpec("small-cnn", (1, 8, 8), 10)
MS = kinds.MANAGEMENT_SERVER
ALL = frozenset(Capability)


def record(sequences, labels=None, *, single, images=None, update="fedavg"):
    """Record sequences of users, as the management server receives them."""
    recorder = MemoryRecorder()
    users = [f"user-{i}" for i in range(len(sequences))]
    facts = ALL if single else ALL - {Capability.SINGLE_RECORD_UPDATES}
    recorder.declare([*(Party(u, "user") for u in users), Party(MS, "server")], facts=facts)
    recorder.publish(
        "configuration",
        {"learning_rate": 0.01, "batch_size": 64, "local_epochs": 3, "update": update},
    )
    for i, (user, sequence) in enumerate(zip(users, sequences, strict=True)):
        recorder.send(
            kind=kinds.PERMUTATION_SEQUENCE,
            sender=user,
            receiver=MS,
            round=1,
            arrays={"indices": np.asarray(sequence, dtype=np.int64)},
        )
        if labels is not None:
            recorder.note_truth(user, labels=np.asarray(labels[i], dtype=np.int64))
        if images is not None:
            recorder.note_truth(user, images=images[i])
    return recorder


def view_of(recorder, capabilities=ALL, members=(MS,)):
    return recorder.transcript().view(Coalition.of(*members, capabilities=capabilities))


def run(view, knowledge, attack=None, method="run"):
    attack = attack or LabelsFromPermutation()
    return getattr(attack, method)(view, knowledge=knowledge, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def digits():
    data = load_dataset("digits").train
    order = np.random.default_rng(0).permutation(len(data))
    return data.take(order[:700]), data.take(order[700:])


@pytest.fixture(scope="module")
def parameters():
    return flatten_parameters(build(SPEC, seed=7))


def sequence_of(update, k=40):
    return np.argsort(-np.abs(update), kind="stable")[:k]


def train(data, parameters, mode, rng):
    return local_update(
        build(SPEC, seed=0),
        data.images,
        data.labels,
        parameters=parameters,
        learning_rate=0.01,
        batch_size=64,
        epochs=3,
        mode=mode,
        rng=rng,
    )


def test_reciprocal_rank_rule_on_a_sequence_worked_out_by_hand(digits):
    rows = classifier_rows(SPEC)
    row = [rows.weight_offset + c * rows.features for c in range(10)]
    # Class 4 once at the front (1) against class 2 at positions 1, 2 and 5 (1/2 + 1/3 + 1/6 = 1),
    # and class 2's bias at position 7 decides; position 3 is no part of the last layer.
    sequence = [row[4], row[2], row[2] + 1, 0, 1, row[2] + 2, 2, rows.bias_offset + 2]
    knowledge = Knowledge(model=SPEC, auxiliary=digits[0])
    guesses = run(
        view_of(record([sequence, [*sequence[:-1], 3, rows.bias_offset + 4]], single=True)),
        knowledge,
    )
    assert [int(v) for v in guesses.values] == [2, 4]
    assert guesses.scores[0] == pytest.approx((1 + 1 / 8 - 1) / (1 + 1 / 8))


def test_class_of_a_single_record_is_read_off_nearly_always(digits, parameters):
    auxiliary, held = digits
    records = [held.take(np.array([i])) for i in range(40)]
    rng = np.random.default_rng(0)
    sequences = [sequence_of(train(r, parameters, "gradient", rng)) for r in records]
    recorder = record(
        sequences,
        [r.labels for r in records],
        single=True,
        images=[r.images for r in records],
    )
    knowledge = Knowledge(SPEC, parameters, auxiliary)
    view = view_of(recorder)
    score = label_accuracy(run(view, knowledge), recorder.truth())
    assert np.mean(list(score.per_target.values())) >= 0.95
    control = deranged(view, kinds=LabelsFromPermutation.reads, rng=np.random.default_rng(1))
    chance = label_accuracy(run(control, knowledge), recorder.truth())
    assert np.mean(list(chance.per_target.values())) <= 0.3
    check_attack(LabelsFromPermutation(), view, knowledge, truth=recorder.truth())


@pytest.fixture(scope="module")
def many_records(digits, parameters):
    auxiliary, held = digits
    rng = np.random.default_rng(3)
    users = []
    for _ in range(12):
        share = rng.dirichlet(np.full(10, 0.1))
        counts = rng.multinomial(32, share)
        index = [rng.choice(np.flatnonzero(held.labels == c), n) for c, n in enumerate(counts)]
        users.append(held.take(np.concatenate(index)))
    sequences = [sequence_of(train(u, parameters, "fedavg", rng)) for u in users]
    recorder = record(
        sequences, [u.labels for u in users], single=False, images=[u.images for u in users]
    )
    return recorder, Knowledge(SPEC, parameters, auxiliary)


def test_histograms_of_skewed_users_are_far_better_than_the_auxiliary_histogram(many_records):
    recorder, knowledge = many_records
    view, truth = view_of(recorder), recorder.truth()
    attack = LabelsFromPermutation(simulated_users=120)
    guesses = run(view, knowledge, attack)
    for value in guesses.values:
        assert value.sum() == pytest.approx(1.0)
        assert (value >= 0).all()
    baseline = run(view, knowledge, attack, "baseline")

    def mean(score):
        return np.mean(list(score.per_target.values()))

    assert mean(total_variation(guesses, truth)) < mean(total_variation(baseline, truth)) - 0.2
    assert mean(dominant_label(guesses, truth)) >= 0.8
    assert guesses.diagnostics["ridge-penalty"] in attack.penalties


def test_the_attack_on_many_records_conforms(many_records):
    recorder, knowledge = many_records
    attack = LabelsFromPermutation(simulated_users=8, records=(16,))
    check_attack(attack, view_of(recorder), knowledge, truth=recorder.truth())


def test_members_of_the_coalition_are_no_targets(digits):
    recorder = record([[0, 1], [1, 0]], single=True)
    knowledge = Knowledge(model=SPEC, auxiliary=digits[0])
    assert run(view_of(recorder, members=(MS, "user-0")), knowledge).target_ids == ("user-1",)


@pytest.mark.parametrize(
    "missing",
    [
        Capability.MODEL_ARCHITECTURE,
        Capability.AUXILIARY_DATA,
        Capability.MODEL_PARAMETERS,
        Capability.TRAINING_PARAMETERS,
    ],
)
def test_histograms_need_each_capability(many_records, missing):
    recorder, knowledge = many_records
    with pytest.raises(UnmetRequirementsError, match=missing.value):
        run(view_of(recorder, ALL - {missing}), knowledge)


def test_knowledge_that_is_granted_but_not_declared_is_named():
    with pytest.raises(UnmetRequirementsError, match="declared knowledge does not hold"):
        run(view_of(record([[0, 1]], single=True)), Knowledge(model=SPEC))


def test_a_view_without_sequences_is_refused(digits):
    recorder = record([[0, 1]], single=True)
    with pytest.raises(UnmetRequirementsError, match=r"round 4; rounds with some: \[1\]"):
        run(
            view_of(recorder),
            Knowledge(model=SPEC, auxiliary=digits[0]),
            LabelsFromPermutation(round=4),
        )


def test_a_run_that_does_not_publish_how_users_train_is_refused(many_records):
    _, knowledge = many_records
    bare = MemoryRecorder()
    bare.declare([Party("user-0", "user"), Party(MS, "server")], facts=ALL)
    bare.send(
        kind=kinds.PERMUTATION_SEQUENCE,
        sender="user-0",
        receiver=MS,
        round=1,
        arrays={"indices": np.arange(5)},
    )
    with pytest.raises(ConfigurationError, match="learning_rate"):
        run(view_of(bare, ALL - {Capability.SINGLE_RECORD_UPDATES}), knowledge)


@pytest.mark.parametrize(
    "parameters_of_the_attack",
    [{"simulated_users": 4}, {"records": ()}, {"records": (0,)}, {"penalties": (0.0,)}],
)
def test_parameters_out_of_range_are_refused(parameters_of_the_attack):
    with pytest.raises(ConfigurationError):
        LabelsFromPermutation(**parameters_of_the_attack)


def test_auxiliary_data_without_a_class_still_simulates_users(many_records):
    recorder, knowledge = many_records
    auxiliary = knowledge.auxiliary
    some = auxiliary.take(np.flatnonzero(auxiliary.labels != 3))
    guesses = run(
        view_of(recorder),
        Knowledge(SPEC, knowledge.parameters, some),
        LabelsFromPermutation(simulated_users=8, records=(16,)),
    )
    assert len(guesses.values) == 12
