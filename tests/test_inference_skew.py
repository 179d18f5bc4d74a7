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
from privaudit.attacks.inference._simulation import TrainingParameters, simulate_users
from privaudit.attacks.inference._skew import (
    CONCENTRATIONS,
    dispersions,
    expected_dispersion,
    skew_weights,
)
from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError
from privaudit.models import build, flatten_parameters
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
    found = dispersions(drawn(concentration, 4000, np.random.default_rng(0)), EVEN).mean()
    assert found == pytest.approx(expected_dispersion(concentration, RECORDS, EVEN), rel=0.05)


@pytest.mark.parametrize("concentration", [0.1, 0.5, math.inf])
def test_the_skew_of_users_is_found_from_shrunken_and_noisy_predictions(concentration):
    rng = np.random.default_rng(1)

    def predicted(histograms):
        noise = rng.normal(scale=0.01, size=histograms.shape)
        return EVEN + 0.6 * (histograms - EVEN) + noise

    simulated = np.resize(CONCENTRATIONS, 120)
    own = np.concatenate([drawn(a, 1, rng) for a in simulated])
    weights = skew_weights(
        dispersions(predicted(own), EVEN),
        simulated,
        np.full(120, RECORDS),
        dispersions(predicted(drawn(concentration, 60, rng)), EVEN),
        sizes=(RECORDS,),
        population=EVEN,
    )
    assert weights.sum() == pytest.approx(1)
    at = CONCENTRATIONS.index(concentration)
    # Log dispersions of neighbouring concentrations overlap.
    assert weights[max(0, at - 2) : at + 3].sum() > 0.75


def test_predictions_that_tell_nothing_leave_every_skew_possible():
    rng = np.random.default_rng(2)
    simulated = np.resize(CONCENTRATIONS, 90)
    weights = skew_weights(
        np.exp(rng.normal(size=90)),
        simulated,
        np.full(90, RECORDS),
        np.exp(rng.normal(size=3)),
        sizes=(RECORDS,),
        population=EVEN,
    )
    assert weights.min() > 0.02
    assert weights.max() < 0.4


def test_regression_on_noise_is_given_up_for_the_prior():
    rng = np.random.default_rng(3)
    features, histograms = rng.normal(size=(80, 200)), drawn(math.inf, 80, rng)
    penalties = (0.1, 1.0, 10.0)
    chosen = choose(features, histograms, np.ones(80), EVEN, penalties=penalties, standard_errors=2)
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
        features, histograms, weights, EVEN, penalties=(0.1, 1.0, 1e6), standard_errors=2
    )
    assert chosen.penalty <= 1
    assert chosen.error < 0.3 * chosen.error_of_prior
    model = fit(features, histograms, weights, EVEN, 1.0)
    centre = weights @ features / weights.sum()
    known = Ridge(alpha=1.0, fit_intercept=False).fit(
        features - centre, histograms - EVEN, sample_weight=weights / weights.mean()
    )
    assert model.predict(features) == pytest.approx(EVEN + known.predict(features - centre))


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
            rng=np.random.default_rng(0),
        )

    users = simulated([0.05] * 8 + [math.inf] * 8)
    assert users.records.tolist() == [RECORDS] * 16
    largest = users.histograms.max(1)
    assert largest[:8].min() > 0.4 > largest[8:].max()
    assert all(len(set(s)) == 40 for s in users.sequences.tolist())
    with pytest.raises(ConfigurationError, match="at least two"):
        simulated([1.0])
