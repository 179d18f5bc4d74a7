"""Which map from indices to records is fitted: few codes, and columns that need no guess."""

from __future__ import annotations

import numpy as np
import pytest
from index_runs import attacked, digits_run, mean
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from privaudit.attacks.indices import AuxiliaryAlignment, KnownSampleReconstruction
from privaudit.attacks.indices._regression import Pairs, _merged, fit
from privaudit.campaigns.pq_mds.adversaries import declared_cell
from privaudit.campaigns.runs import RecordedRun
from privaudit.errors import UnmetRequirementsError
from privaudit.scoring.records import normalised_error
from privaudit.transcript import Coalition, Transcript, Truth


def pairs_of(indices: np.ndarray, records: np.ndarray) -> Pairs:
    subspaces = tuple(np.array([m]) for m in range(indices.shape[1]))
    return Pairs(indices, records, subspaces, ())


def test_pairs_of_the_same_indices_count_as_one_of_their_weight() -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(3, size=(50, 2)).astype(np.float64)
    records = rng.normal(size=(50, 4))
    merged, weight = _merged(pairs_of(indices, records))
    assert weight.sum() == 50
    for row, record, count in zip(merged.indices, merged.records, weight, strict=True):
        same = (indices == row).all(axis=1)
        assert same.sum() == count
        np.testing.assert_allclose(records[same].mean(axis=0), record, atol=1e-12)


def test_weights_give_the_map_that_all_pairs_would() -> None:
    """A Gaussian process with noise lambda on all pairs has one with noise lambda / count."""
    rng = np.random.default_rng(1)
    indices = rng.integers(4, size=(60, 1)).astype(np.float64)
    records = np.sin(indices) + 0.1 * rng.normal(size=(60, 1))
    merged, weight = _merged(pairs_of(indices, records))
    at = rng.uniform(0, 3, size=(9, 1))
    mean_record = records.mean()

    def predicted(x: np.ndarray, y: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
        model = GaussianProcessRegressor(RBF(1.0), alpha=noise, optimizer=None)
        return np.asarray(model.fit(x, y - mean_record).predict(at))

    np.testing.assert_allclose(
        predicted(merged.indices, merged.records, 0.3 / weight),
        predicted(indices, records, 0.3),
        atol=1e-10,
    )


def test_few_codes_are_not_fitted_so_closely_that_the_map_goes_astray() -> None:
    run = digits_run(1, 8, rows=898)
    guesses, truth = attacked(run, AuxiliaryAlignment(), "server_aux")
    assert mean(normalised_error(guesses, truth)) < 2  # 21 where pairs are left out one by one
    assert guesses.diagnostics["agreement"] == 0.0


def test_a_map_is_smooth_between_few_codes() -> None:
    rng = np.random.default_rng(2)
    indices = np.repeat(np.linspace(0, 1, 6), 50)[:, None]
    records = rng.normal(size=(300, 3)) + indices
    between = fit("gp", pairs_of(indices, records))(np.linspace(0, 1, 101)[:, None])
    assert np.abs(between - np.linspace(0, 1, 101)[:, None]).max() < 1


@pytest.mark.parametrize("seed", [0, 1])
def test_own_columns_do_not_decide_on_the_map_for_those_of_others(seed: int) -> None:
    run, other = digits_run(rows=900, seed=seed), ("party-2",)
    errors = {
        method: mean(
            normalised_error(
                *attacked(run, KnownSampleReconstruction(method=method), "server_plus_A"),
                parties=other,
            )
        )
        for method in ("auto", "ridge", "procrustes", "gp", "table")
    }
    chosen = errors.pop("auto")
    assert chosen <= 1.1 * min(errors.values())


def test_a_run_of_another_protocol_is_not_applicable() -> None:
    run = RecordedRun(Transcript((), ()), Truth(), None, {}, "", True, "")
    with pytest.raises(UnmetRequirementsError, match=r"reads runs of pq-mds"):
        declared_cell(
            run, KnownSampleReconstruction(), Coalition.of("server"), label="server", seed=0
        )
