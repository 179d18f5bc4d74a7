"""How well PQ-MDS clusters, against the figures of the specification: means over five seeds."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pq_mds_runs import SEEDS, digits, execute, mean_of, numbers

from privaudit.datasets.columns import split_vertically
from privaudit.datasets.tables import load_table
from privaudit.datasets.vertical import VerticalData
from privaudit.protocols.pq_mds.quality import (
    agreement,
    clustering_quality,
    influence_shares,
    normalised_error,
)
from privaudit.protocols.pq_mds.server import cluster
from privaudit.quantisation import assign, classical_mds, smacof


def quality(**parameters: Any) -> dict[str, float]:
    runs = [execute(digits(), seed=seed, **parameters).values for seed in SEEDS]
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def test_the_papers_index_clusters_worse_than_the_centralised_features_on_digits() -> None:
    values = quality(subspaces=8, codewords=16)
    assert values["central_ari"] >= 0.655
    assert 0.54 <= values["ari"] <= 0.62
    assert values["agreement_ari"] < 0.8


@pytest.mark.slow
def test_two_dimensions_or_twice_the_subspaces_cluster_as_well_as_the_features() -> None:
    two = quality(subspaces=8, codewords=16, embedding_dimensions=2, reference=False)
    assert two["ari"] >= 0.65
    assert two["nmi"] >= 0.73
    more = quality(subspaces=16, codewords=8, reference=False)
    assert more["ari"] >= 0.63
    assert two["bytes_per_row"] == more["bytes_per_row"] == 128


@pytest.mark.slow
def test_few_subspaces_cluster_worse_than_a_party_alone() -> None:
    """Each half alone has an adjusted Rand index near .48."""
    data = digits()
    assert data.labels is not None
    alone = []
    for party in data.parties:
        scores = [
            agreement(
                cluster(
                    party.features, 10, initialisations=10, rng=np.random.default_rng(seed)
                ).labels,
                data.labels,
            )["ari"]
            for seed in SEEDS
        ]
        alone.append(float(np.mean(scores)))
    few = mean_of("ari", data, subspaces=4, reference=False)
    assert few <= min(*alone, 0.50)


@pytest.mark.slow
def test_random_starts_of_smacof_lose_what_the_classical_start_keeps() -> None:
    """One-dimensional scaling from a random start ends in local minima."""
    from sklearn.cluster import KMeans

    data = digits()
    scores: dict[str, list[float]] = {"classical": [], "random": []}
    assert data.labels is not None
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        columns: dict[str, list[np.ndarray]] = {"classical": [], "random": []}
        for party in data.parties:
            for block in np.array_split(party.features, 8, axis=1):
                centres = (
                    KMeans(min(16, len(np.unique(block, axis=0))), n_init=1, random_state=seed)
                    .fit(block)
                    .cluster_centers_.astype(np.float32)
                )
                codes = assign(block, centres)
                start = rng.normal(size=(len(centres), 1))
                columns["classical"].append(classical_mds(centres, 1)[codes])
                columns["random"].append(smacof(centres, 1, start=start)[codes])
        for name, parts in columns.items():
            labels = KMeans(10, n_init=10, random_state=seed).fit_predict(np.hstack(parts))
            scores[name].append(agreement(labels, data.labels)["ari"])
    assert np.mean(scores["random"]) <= np.mean(scores["classical"]) - 0.10


@pytest.mark.slow
def test_numbers_of_codes_are_no_distances_and_reconstruction_needs_codebooks() -> None:
    options = {"reference": False}
    assert mean_of("ari", digits(), release="codes", **options) <= 0.15
    assert 0.4 <= mean_of("ari", digits(), release="one-hot", **options) <= 0.6
    reconstruction = mean_of("ari", digits(), release="reconstruction", **options)
    assert reconstruction >= 0.65


def imbalanced(seed: int) -> tuple[VerticalData, np.ndarray]:
    """180 columns of a weak grouping, 6 of a strong one; standardised, so 6 / 186 of variance."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(4, size=(2, 1200))
    blocks = []
    for width, group, apart in zip((180, 6), groups, (0.5, 3.0), strict=True):
        centres = apart * rng.normal(size=(4, width))
        blocks.append(centres[group] + rng.normal(size=(1200, width)))
    features = np.hstack(blocks)
    features = (features - features.mean(0)) / features.std(0)
    return numbers(features, widths=(180, 6)), groups[1]


def test_scaling_by_party_gives_a_narrow_party_more_say_than_equal_subspaces_do() -> None:
    share, informed = defaultdict(list), defaultdict(list)
    variants = {
        "equal subspaces": {"subspaces": 4},
        "by width": {"subspaces": (60, 2)},
        "by party": {"subspaces": 4, "scaling": "party"},
    }
    for seed in range(3):
        data, grouping = imbalanced(seed)
        found = cluster(data.whole(), 4, initialisations=10, rng=np.random.default_rng(seed))
        share["central"].append(influence_shares([p.features for p in data.parties])[1])
        informed["central"].append(agreement(found.labels, grouping)["nmi"])
        for name, options in variants.items():
            run = execute(data, seed=seed, clusters=4, reference=False, **options)
            share[name].append(run.values["influence_share/party-2"])
            labels = run.transcript.secrets["server"]["labels/round-1"]
            informed[name].append(agreement(labels, grouping)["nmi"])
    assert np.mean(share["central"]) <= 0.05
    assert np.mean(share["equal subspaces"]) >= 0.12
    assert np.mean(share["by width"]) <= 0.10
    assert share["by party"] == pytest.approx([0.5] * 3, abs=0.01)
    assert np.mean(informed["central"]) <= 0.05
    assert np.mean(informed["by party"]) >= 0.40
    assert np.mean(informed["equal subspaces"]) <= np.mean(informed["by party"]) - 0.15


def test_quality_of_a_clustering_is_that_of_a_worked_example() -> None:
    truth = np.array([0, 0, 0, 1, 1, 1])
    found = np.array([5, 5, 7, 7, 7, 9])
    values = clustering_quality(found, truth)
    # Clusters {0,0}, {0,1,1}, {1}: the largest classes are 2 + 2 + 1 rows, one cluster is left out.
    assert values["purity"] == pytest.approx(5 / 6)
    assert values["clustering_accuracy"] == pytest.approx(4 / 6)
    assert clustering_quality(truth, truth) == {
        "ari": 1.0,
        "nmi": 1.0,
        "purity": 1.0,
        "clustering_accuracy": 1.0,
    }


def test_the_normalised_error_is_one_for_the_mean_row() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert normalised_error(x, np.tile(x.mean(0), (50, 1))) == pytest.approx(1)
    assert normalised_error(x, x) == 0


@pytest.mark.slow
def test_mnist_of_two_halves_keeps_the_labels_at_two_dimensions(shared: Path) -> None:
    table = load_table("mnist", data_root=shared / "data")
    data = split_vertically(table, rows=20_000, auxiliary_rows=0, rng=np.random.default_rng(0))
    options = {"subspaces": 14, "codewords": 64, "initialisations": 3}
    one = execute(data, **options).values
    two = execute(data, embedding_dimensions=2, **options).values
    assert one["bytes_per_row"] == 112
    assert two["nmi"] >= two["central_nmi"] - 0.02
    assert one["nmi"] >= 0.85 * one["central_nmi"]
