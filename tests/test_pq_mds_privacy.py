"""The private variants: what randomized response and noisy Lloyd steps do and release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pq_mds_runs import SEEDS, digits, execute, mean_of, numbers
from scipy.stats import chisquare

from privaudit.accounting.releases import compose_releases
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.ledger import GaussianMechanism, RandomizedResponse, UnprotectedRelease
from privaudit.protocols.pq_mds import PQMDS, kinds
from privaudit.protocols.pq_mds.coarse import rare_rows
from privaudit.quantisation.randomised import (
    SENSITIVITY,
    cell_statistics,
    noisy_lloyd,
    randomized_response,
    unit_ball,
)
from privaudit.transcript import Coalition


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("categories", "epsilon"), [(2, 0.5), (8, 1.0), (16, 3.0)])
def test_randomized_codes_have_the_stated_frequencies(categories: int, epsilon: float) -> None:
    for true in (0, categories - 1):
        codes = np.full(200_000, true, dtype=np.uint8)
        seen = randomized_response(codes, categories=categories, epsilon=epsilon, rng=rng(true))
        counts = np.bincount(seen, minlength=categories)
        shares = np.full(categories, 1 / (np.exp(epsilon) + categories - 1))
        shares[true] *= np.exp(epsilon)
        assert chisquare(counts, 200_000 * shares).pvalue > 1e-3
        assert seen.dtype == codes.dtype


def test_each_subspace_is_randomized_on_its_own() -> None:
    codes = np.zeros((100_000, 2), dtype=np.uint8)
    seen = randomized_response(codes, categories=4, epsilon=1.0, rng=rng())
    true = 1 / (1 + 3 * np.exp(-1.0))
    assert (seen == 0).all(axis=1).mean() == pytest.approx(true**2, abs=0.006)


def test_one_category_has_nothing_to_randomize() -> None:
    codes = np.zeros(5, dtype=np.uint8)
    assert (randomized_response(codes, categories=1, epsilon=1.0, rng=rng()) == codes).all()
    with pytest.raises(ConfigurationError, match="epsilon > 0"):
        randomized_response(codes, categories=2, epsilon=0.0, rng=rng())


def test_replacing_a_row_changes_counts_and_sums_by_at_most_two() -> None:
    """Brute force over random data, centres and replacements, the adversarial corners included."""
    stream, largest = rng(), 0.0
    for _ in range(5000):
        d, k, n = stream.integers(1, 6), stream.integers(1, 6), stream.integers(1, 12)
        low, high = np.sort(stream.normal(size=2))
        features = stream.uniform(low - 1, high + 1, size=(n, d))
        replaced = features.copy()
        replaced[0] = stream.choice([low - 5, high + 5], size=d)
        features[0] = stream.choice([low - 5, high + 5], size=d)
        centres = unit_ball(stream.uniform(low, high, size=(k, d)), (low, high))
        one, other = (
            cell_statistics(unit_ball(x, (low, high)), centres) for x in (features, replaced)
        )
        largest = max(largest, float(np.linalg.norm(one - other)))
    assert 1.9 < largest <= SENSITIVITY + 1e-6


def test_features_are_mapped_into_the_unit_ball() -> None:
    points = unit_ball(rng().normal(scale=9, size=(500, 7)), (0.0, 1.0))
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-6


def test_noisy_lloyd_finds_clusters_without_noise_and_loses_them_under_much() -> None:
    points = np.concatenate(
        [rng(i).normal(loc=c, scale=0.02, size=(300, 2)) for i, c in enumerate((0.1, 0.5, 0.9))]
    )
    found = noisy_lloyd(points, 3, bounds=(0.0, 1.0), noise_multiplier=1e-6, steps=15, rng=rng())
    assert np.abs(np.sort(found[:, 0]) - [0.1, 0.5, 0.9]).max() < 0.02
    lost = noisy_lloyd(points, 3, bounds=(0.0, 1.0), noise_multiplier=1e6, steps=15, rng=rng())
    assert np.abs(np.sort(lost[:, 0]) - [0.1, 0.5, 0.9]).max() > 0.05
    for centres in (found, lost):
        assert centres.min() >= -1e-6
        assert centres.max() <= 1 + 1e-6


def test_the_noise_of_each_step_is_the_multiplier_times_the_sensitivity() -> None:
    """One cell, one step: the centre is the noisy sum over the noisy count."""
    features = np.full((4000, 1), 0.5)
    centres = [
        noisy_lloyd(features, 1, bounds=(0.0, 1.0), noise_multiplier=20.0, steps=1, rng=rng(seed))[
            0, 0
        ]
        for seed in range(400)
    ]
    # The sum of y is 0 and R = 1/2, so the centre is 1/2 + N(0, 40^2) / 4000 / 2.
    assert np.std(centres) == pytest.approx(40 / 4000 / 2, rel=0.12)


def test_randomized_codes_and_noisy_codebooks_are_all_that_a_private_run_releases() -> None:
    run = execute(
        digits(rows=400),
        initialisations=1,
        reference=False,
        subspaces=2,
        codewords=8,
        defence="randomized-response",
        epsilon0=2.0,
        codebook="noisy-lloyd",
        noise_multiplier=30.0,
        noisy_steps=4,
    )
    mine = [e.mechanism for e in run.events if e.subjects == ("party-1",)]
    assert mine == [RandomizedResponse(8, 2.0, 2), GaussianMechanism(30.0, 2.0, 4 * 2)]
    assert {e.observers for e in run.events} == {("server", "party-1"), ("server", "party-2")}
    assert mine[1].rho == pytest.approx(8 / (2 * 30**2))


def test_a_private_codebook_alone_is_no_formal_guarantee() -> None:
    run = execute(
        digits(rows=400),
        initialisations=1,
        reference=False,
        codebook="noisy-lloyd",
        noise_multiplier=3.0,
    )
    assert {type(e.mechanism) for e in run.events} == {UnprotectedRelease}
    codes = run.truth.get("party-1", "codes/round-1")
    upload = run.transcript.view(Coalition.of(kinds.SERVER)).select(kinds.INDICES)[0]
    column = np.round(upload.arrays["indices"][:, 0], 6)
    pairs = np.unique(np.stack([column, codes[:, 0]]), axis=1).shape[1]
    assert pairs == len(np.unique(codes[:, 0]))


def test_randomized_codes_of_a_codebook_trained_on_the_rows_are_no_formal_guarantee() -> None:
    run = execute(
        digits(rows=400),
        initialisations=1,
        reference=False,
        defence="randomized-response",
        epsilon0=1.0,
    )
    assert [type(e.mechanism) for e in run.events] == 2 * [RandomizedResponse, UnprotectedRelease]


def test_public_codebooks_release_randomized_codes_alone() -> None:
    data = digits(rows=400, auxiliary=300)
    options = {"initialisations": 1, "reference": False, "codebook": "auxiliary"}
    run = execute(data, defence="randomized-response", epsilon0=1.0, **options)
    assert {type(e.mechanism) for e in run.events} == {RandomizedResponse}
    scaled = execute(data, defence="randomized-response", epsilon0=1.0, standardize=True, **options)
    assert UnprotectedRelease in {type(e.mechanism) for e in scaled.events}


@pytest.mark.parametrize(
    ("categories", "epsilon0", "subspaces", "pure", "loss_distribution", "renyi"),
    [
        (16, 0.5, 8, 4, 2.493, 2.823),
        (16, 1.0, 8, 8, 5.993, 6.655),
        (16, 1.0, 16, 16, 9.115, 9.998),
        (8, 2.0, 2, 4, 4.000, 4.014),
    ],
)
def test_codes_of_a_run_are_accounted_at_the_reference_values(
    categories: int,
    epsilon0: float,
    subspaces: int,
    pure: float,
    loss_distribution: float,
    renyi: float,
) -> None:
    data = numbers(rng().normal(size=(400, 64)), widths=(32, 32), auxiliary=100)
    run = execute(
        data,
        initialisations=1,
        reference=False,
        subspaces=subspaces,
        codewords=categories,
        codebook="auxiliary",
        defence="randomized-response",
        epsilon0=epsilon0,
    )
    (mechanism,) = [e.mechanism for e in run.events if e.subjects == ("party-2",)]
    assert isinstance(mechanism, RandomizedResponse)
    spent = compose_releases({mechanism: 1}, 1e-5)
    assert spent.pure is not None
    assert spent.loss_distribution is not None
    assert spent.pure.upper == pytest.approx(pure)
    assert spent.loss_distribution.upper == pytest.approx(loss_distribution, abs=0.02)
    # A finer grid of orders than that of the reference may come out below it.
    assert spent.loss_distribution.upper <= spent.renyi.upper + 0.01 <= renyi + 0.02
    assert spent.best.upper <= pure + 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public": {}}, "publishes no 'configuration'"),
        ({"configuration": {"epsilon0": -1}}, "epsilon0"),
        ({"configuration": {"codewords": 4}}, "from 1 to 4 are what was configured"),
        ({"configuration": {"subspaces": 3, "embedding_dimensions": 2}}, "1 numbers from 1 to 8"),
    ],
)
def test_messages_that_contradict_the_published_configuration_are_refused(
    change: dict[str, Any], message: str
) -> None:
    run = execute(
        digits(rows=100),
        initialisations=1,
        reference=False,
        subspaces=2,
        codewords=8,
        defence="randomized-response",
        epsilon0=1.0,
    )
    published: Any = run.transcript.public["configuration"]
    changed = {**published, **change.get("configuration", {})}
    public = change.get("public", {**run.transcript.public, "configuration": changed})
    with pytest.raises(ConfigurationError, match=message):
        PQMDS().events(replace(run.transcript, public=public))


def test_the_codes_that_are_uploaded_are_the_randomized_ones() -> None:
    run = execute(
        digits(rows=400),
        initialisations=1,
        reference=False,
        encoding="table",
        codewords=8,
        defence="randomized-response",
        epsilon0=1.0,
    )
    (first, _) = [m for m in run.transcript.messages if m.kind == kinds.INDICES]
    same = (first.arrays["codes"] == run.truth.get("party-1", "codes/round-1")).mean()
    assert same == pytest.approx(1 / (1 + 7 * np.exp(-1.0)), abs=0.03)


def test_clustering_under_randomized_response_needs_much_budget() -> None:
    options = {"subspaces": 1, "codewords": 8, "defence": "randomized-response"}
    assert mean_of("ari", digits(), **options, epsilon0=8.0) >= 0.35
    assert 0.20 <= mean_of("ari", digits(), **options, epsilon0=4.0) <= 0.32
    assert mean_of("ari", digits(), **options, epsilon0=2.0) <= 0.10


def test_the_coarse_variant_leaves_no_rare_tuple() -> None:
    sizes = []
    for seed in SEEDS:
        run = execute(digits(), seed=seed, subspaces=1, defence="coarse", reference=False)
        codes = np.concatenate(
            [run.truth.get(p, "codes/round-1") for p in ("party-1", "party-2")], axis=1
        )
        _, counts = np.unique(codes, axis=0, return_counts=True)
        assert counts.min() >= 5
        sizes.append(codes.max() + 1)
        assert {type(e.mechanism) for e in run.events} == {UnprotectedRelease}
    assert max(sizes) >= 4


def test_the_coarse_variant_may_leave_rows_out_and_counts_what_is_left() -> None:
    run = execute(digits(), subspaces=1, defence="coarse", most_suppressed=0.05, reference=False)
    left_out = next(
        m.arrays["suppressed"] for m in run.transcript.messages if m.kind == kinds.COUNTER_CHOICE
    )
    rows = run.transcript.public_arrays["rows"]
    assert 0 < len(left_out) <= 0.05 * 1797
    assert len(rows) == 1797 - len(left_out)
    assert not set(rows.tolist()) & set(left_out.tolist())
    assert run.values["rows"] == len(rows)
    codes = [run.truth.get(p, "codes/round-1") for p in ("party-1", "party-2")]
    assert not rare_rows(codes, k_anonymity=5).any()


def test_fewer_rows_than_an_anonymity_set_are_refused() -> None:
    data = numbers(np.random.default_rng(0).normal(size=(8, 2)))
    with pytest.raises(InvalidDataError, match="8 rows are fewer than k_anonymity = 9"):
        execute(data, subspaces=1, clusters=2, defence="coarse", k_anonymity=9)
