"""Labels of many records where nobody says how skewed users are: estimated, and never trusted
below the prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_inference_labels import ALL, SPEC, record, sequence_of, train, view_of

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inference import LabelsFromPermutation
from privaudit.attacks.inference._ridge import choose, fit
from privaudit.attacks.inference._simulation import (
    TrainingParameters,
    simulate_users,
    split_records,
)
from privaudit.attacks.inference._skew import (
    CONCENTRATIONS,
    expected_dispersion,
    skew_features,
    skew_weights,
)
from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError
from privaudit.models import build, flatten_parameters
from privaudit.protocols.training import local_update
from privaudit.scoring.labels import total_variation
from privaudit.transcript import Capability

EVEN = np.full(10, 0.1)
RECORDS = 48


def drawn(concentration, users, rng, records=RECORDS):
    """Label histograms of users of one skew."""
    shares = [
        EVEN if math.isinf(concentration) else rng.dirichlet(np.full(10, concentration))
        for _ in range(users)
    ]
    return np.stack([rng.multinomial(records, share) / records for share in shares])


@pytest.mark.parametrize("concentration", [0.1, 1.0, math.inf])
def test_the_expected_dispersion_is_the_mean_over_users(concentration):
    histograms = drawn(concentration, 4000, np.random.default_rng(0))
    found = np.square(histograms - EVEN).sum(1).mean()
    assert found == pytest.approx(expected_dispersion(concentration, RECORDS, EVEN), rel=0.05)


def told(histograms, rng, offset=0.0):
    """Skew features of users of whom each class's total is seen with noise."""
    noise = np.exp(rng.normal(scale=0.2, size=histograms.shape))
    return skew_features(((histograms + 0.02 + offset) * noise)[:, None])


def weights_of(simulated, observed, groups=None):
    concentrations = np.resize(CONCENTRATIONS, len(simulated))
    return skew_weights(
        simulated,
        concentrations,
        np.full(len(simulated), RECORDS),
        observed,
        groups=np.arange(len(simulated)) % 5 if groups is None else groups,
        sizes=(RECORDS,),
        population=EVEN,
    )


def simulated_histograms(users, rng):
    return np.concatenate([drawn(a, 1, rng) for a in np.resize(CONCENTRATIONS, users)])


@pytest.mark.parametrize("concentration", [0.1, 0.5, math.inf])
def test_the_skew_of_users_is_found_from_shrunken_and_noisy_features(concentration):
    rng = np.random.default_rng(1)
    weights = weights_of(
        told(simulated_histograms(120, rng), rng), told(drawn(concentration, 60, rng), rng)
    )
    assert weights.sum() == pytest.approx(1)
    at = CONCENTRATIONS.index(concentration)
    # Log dispersions of neighbouring concentrations overlap.
    assert weights[max(0, at - 2) : at + 3].sum() > 0.75


def test_features_of_the_skew_do_not_depend_on_how_classes_are_named():
    totals = np.random.default_rng(0).uniform(size=(4, 3, 10))
    assert skew_features(totals[:, :, ::-1]) == pytest.approx(skew_features(totals))
    assert skew_features(totals).shape == (4, 36)
    assert np.isfinite(skew_features(np.zeros((2, 3, 10)))).all()


def test_features_that_tell_nothing_leave_every_skew_possible():
    rng = np.random.default_rng(2)
    weights = weights_of(rng.normal(size=(90, 12)), rng.normal(size=(3, 12)))
    assert weights.min() > 0.02
    assert weights.max() < 0.4


def test_skew_is_not_concluded_from_what_records_differ_by_as_a_whole():
    rng = np.random.default_rng(6)
    groups = np.arange(90) % 5
    histograms = simulated_histograms(90, rng)
    # Each group's records, and the users', show their shares through an offset of their own.
    offsets = np.array([0.0, 0.1, 0.2, 0.4, 0.8])
    simulated = np.concatenate(
        [told(h[None], rng, offsets[g]) for h, g in zip(histograms, groups, strict=True)]
    )
    observed = told(drawn(0.2, 60, rng), rng, 0.4)
    aware, unaware = (
        weights_of(simulated, observed, g)
        for g in (groups, np.random.default_rng(0).permutation(groups))
    )
    entropy = [-(w * np.log(w)).sum() for w in (aware, unaware)]
    assert entropy[0] > entropy[1]


def test_regression_on_noise_is_given_up_for_the_prior():
    rng = np.random.default_rng(3)
    features, histograms = rng.normal(size=(80, 200)), drawn(math.inf, 80, rng)
    penalties = (0.1, 1.0, 10.0)
    chosen = choose(
        features,
        histograms,
        np.ones(80),
        EVEN,
        groups=np.arange(80) % 5,
        penalties=penalties,
        standard_errors=2,
    )
    assert chosen.is_prior
    assert math.isinf(chosen.penalty)
    assert chosen.error == chosen.error_of_prior
    model = fit(features, histograms, np.ones(80), EVEN, chosen.penalty)
    assert model.predict(rng.normal(size=(3, 200))) == pytest.approx(np.tile(EVEN, (3, 1)))


def test_regression_that_predicts_is_kept_and_is_ridge():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(4)
    histograms = drawn(0.5, 80, rng)
    features = histograms @ rng.normal(size=(10, 200)) + 0.05 * rng.normal(size=(80, 200))
    weights = rng.uniform(0.5, 2, 80)
    chosen = choose(
        features,
        histograms,
        weights,
        EVEN,
        groups=np.arange(80) % 5,
        penalties=(0.1, 1.0, 1e6),
        standard_errors=2,
    )
    assert chosen.penalty <= 1
    assert chosen.error < 0.3 * chosen.error_of_prior
    model = fit(features, histograms, weights, EVEN, 1.0)
    centre = weights @ features / weights.sum()
    known = Ridge(alpha=1.0, fit_intercept=False).fit(
        features - centre, histograms - EVEN, sample_weight=weights / weights.mean()
    )
    assert model.predict(features) == pytest.approx(EVEN + known.predict(features - centre))


def remembered(users, groups, rng):
    """Users whose features are those of few large records each, which do not tell labels."""
    records, per_group = 60, 12
    vectors, labels = rng.normal(size=(records, 400)), rng.integers(10, size=records)
    features, histograms = np.empty((users, 400)), np.empty((users, 10))
    for user in range(users):
        own = groups[user] * per_group + rng.choice(per_group, 3)
        features[user] = vectors[own].sum(0)
        histograms[user] = np.bincount(labels[own], minlength=10) / 3
    return features, histograms


def test_what_is_remembered_of_records_is_not_rewarded():
    rng = np.random.default_rng(7)
    groups = np.arange(150) % 5
    features, histograms = remembered(150, groups, rng)
    shared, disjoint = (
        choose(
            features,
            histograms,
            np.ones(150),
            EVEN,
            groups=folds,
            penalties=(1.0, 10.0, 100.0),
            standard_errors=2,
        )
        for folds in (rng.permutation(groups), groups)
    )
    # Users who share records with those that taught make memory look like knowledge.
    assert not shared.is_prior
    assert shared.error < 0.5 * shared.error_of_prior
    assert disjoint.is_prior


@pytest.mark.parametrize(("share", "given_up"), [(0.5, True), (0.02, False)])
def test_what_helps_skewed_users_is_not_done_to_users_who_may_be_even(share, given_up):
    rng = np.random.default_rng(8)
    strata = np.arange(200) % 2
    histograms = np.concatenate([drawn(0.1 if s else math.inf, 1, rng) for s in strata])
    # Too noisy for users whose labels are even: for them the prior is nearer.
    features = histograms @ rng.normal(size=(10, 40)) + rng.normal(scale=0.9, size=(200, 40))
    weights = np.where(strata == 1, 1 - share, share)
    chosen = choose(
        features,
        histograms,
        weights,
        EVEN,
        groups=np.arange(200) // 2 % 5,
        strata=strata,
        penalties=(1.0, 10.0),
        standard_errors=2,
    )
    assert chosen.is_prior == given_up
    assert chosen.worst_gain >= 0


def test_a_single_group_validates_nothing():
    rng = np.random.default_rng(9)
    histograms = drawn(0.1, 20, rng)
    chosen = choose(
        histograms,
        histograms,
        np.ones(20),
        EVEN,
        groups=np.zeros(20, np.int64),
        penalties=(1.0,),
        standard_errors=2,
    )
    assert chosen.is_prior


@pytest.fixture(scope="module")
def adversary():
    data = load_dataset("digits").train
    order = np.random.default_rng(0).permutation(len(data))
    parameters = flatten_parameters(build(SPEC, seed=7))
    return data.take(order[700:]), Knowledge(SPEC, parameters, data.take(order[:700]))


def histograms_of(adversary, alpha):
    """Attack 30 users of 48 records; return guesses, truth, and the prior's guesses."""
    held, knowledge = adversary
    rng = np.random.default_rng(5)
    users = []
    for counts in (drawn(alpha, 30, rng) * RECORDS).round().astype(int):
        index = [rng.choice(np.flatnonzero(held.labels == c), n) for c, n in enumerate(counts)]
        users.append(held.take(np.concatenate(index)))
    sequences = [sequence_of(train(u, knowledge.parameters, "fedavg", rng), k=120) for u in users]
    recorder = record(sequences, [u.labels for u in users], single=False)
    view = view_of(recorder, ALL - {Capability.SINGLE_RECORD_UPDATES})
    attack = LabelsFromPermutation(simulated_users=150, records=(RECORDS,))
    guesses, prior = (
        getattr(attack, how)(view, knowledge=knowledge, rng=np.random.default_rng(0))
        for how in ("run", "baseline")
    )
    return guesses, recorder.truth(), prior


@pytest.mark.parametrize(("alpha", "skewed"), [(math.inf, False), (0.1, True)])
def test_users_of_either_skew_are_named_better_than_by_the_prior(adversary, alpha, skewed):
    guesses, truth, prior = histograms_of(adversary, alpha)
    weights = [guesses.diagnostics[f"users-of-concentration-{a:g}"] for a in CONCENTRATIONS]
    # Which skew was assumed is told, and it is the users'.
    assert sum(weights) == pytest.approx(1)
    assert sum(weights[:4] if skewed else weights[5:]) > 0.7
    ours, theirs = (
        np.array(list(total_variation(found, truth).per_target.values()))
        for found in (guesses, prior)
    )
    gain = theirs - ours
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))


def test_simulated_users_follow_the_skew_asked_for(adversary):
    _, knowledge = adversary

    def simulated(concentrations, rate=0.01):
        return simulate_users(
            concentrations,
            k=40,
            records=(RECORDS,),
            training=TrainingParameters(rate, 64, 1, "fedavg"),
            knowledge=knowledge,
            parts=split_records(knowledge.auxiliary, 4, rng=np.random.default_rng(1)),
            rng=np.random.default_rng(0),
        )

    users = simulated([0.05] * 8 + [math.inf] * 8)
    assert users.groups.tolist() == [0, 1, 2, 3] * 4
    assert users.records.tolist() == [RECORDS] * 16
    largest = users.histograms.max(1)
    assert largest[:8].min() > 0.4 > largest[8:].max()
    assert all(len(set(s)) == 40 for s in users.sequences.tolist())
    with pytest.raises(ConfigurationError, match="at least two"):
        simulated([1.0])


def test_parts_hold_every_label_and_have_no_record_in_common(adversary):
    _, knowledge = adversary
    auxiliary = knowledge.auxiliary
    rare = np.flatnonzero(auxiliary.labels == 4)[:3]
    some = auxiliary.take(np.concatenate([np.flatnonzero(auxiliary.labels != 4), rare]))
    parts = split_records(some, 5, rng=np.random.default_rng(0))
    counts = np.stack([np.bincount(p.labels, minlength=10) for p in parts])
    # A label with fewer records than parts is whole in each.
    assert (counts[:, 4] == 3).all()
    others = np.delete(counts, 4, axis=1)
    assert (np.ptp(others, axis=0) <= 1).all()
    assert others.sum() == (some.labels != 4).sum()
    seen = [image.tobytes() for p in parts for image in p.images[p.labels != 4]]
    assert len(set(seen)) == len({i.tobytes() for i in some.images[some.labels != 4]})


@pytest.fixture(scope="module")
def trained():
    """Parameters after 300 steps, records of users and what the adversary knows."""
    data = load_dataset("digits").train
    order = np.random.default_rng(1).permutation(len(data))
    others, held, known = np.split(order, [500, 900])
    rng = np.random.default_rng(2)
    many = data.take(rng.choice(others, 300 * 64))
    model = build(SPEC, seed=7)
    start = flatten_parameters(model)
    update = local_update(
        model,
        many.images,
        many.labels,
        parameters=start,
        learning_rate=0.1,
        batch_size=64,
        epochs=1,
        mode="fedavg",
        rng=rng,
    )
    return data.take(held), Knowledge(SPEC, start + update, data.take(known))


def late_gains(trained, records, k=120):
    """Attack 60 users of a trained model; return how much more than the prior is guessed right."""
    held, knowledge = trained
    rng = np.random.default_rng(3)
    users = [held.take(rng.choice(len(held), records, replace=False)) for _ in range(60)]
    sequences = [sequence_of(train(u, knowledge.parameters, "gradient", rng), k=k) for u in users]
    recorder = record(sequences, [u.labels for u in users], single=False, update="gradient")
    view = view_of(recorder, ALL - {Capability.SINGLE_RECORD_UPDATES})
    attack = LabelsFromPermutation(simulated_users=200, records=(records,))
    ours, theirs = (
        getattr(attack, how)(view, knowledge=knowledge, rng=np.random.default_rng(0))
        for how in ("run", "baseline")
    )
    truth = recorder.truth()
    distance = [
        np.array(list(total_variation(found, truth).per_target.values()))
        for found in (ours, theirs)
    ]
    return distance[1] - distance[0], ours.diagnostics


@pytest.mark.parametrize("records", [16, 48])
def test_after_training_the_guess_is_not_worse_than_the_prior(trained, records):
    gains, _ = late_gains(trained, records)
    assert gains.mean() > -2 * gains.std() / np.sqrt(len(gains))


def test_where_sequences_tell_nothing_the_prior_is_the_guess_and_the_attack_says_so(trained):
    gains, diagnostics = late_gains(trained, 48, k=1)
    assert diagnostics["prior-chosen"] == 1
    assert gains == pytest.approx(np.zeros(len(gains)))
    assert diagnostics["gain-over-the-prior-at-the-least-favourable-skews"] == 0


def test_after_training_few_records_are_still_named_better_than_by_the_prior(trained):
    gains, diagnostics = late_gains(trained, 4)
    assert gains.mean() > 4 * gains.std() / np.sqrt(len(gains))
    assert diagnostics["prior-chosen"] == 0
    assert diagnostics["gain-over-the-prior-at-the-least-favourable-skews"] > 0
