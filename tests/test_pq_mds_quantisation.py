"""Product quantisation and multidimensional scaling, against brute force and other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from sklearn.decomposition import PCA

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.quantisation import (
    SCALINGS,
    Layout,
    ProductQuantiser,
    UploadTable,
    assign,
    classical_mds,
    decoded_upload,
    encode_upload,
    lloyd,
    scaled_table,
    smacof,
    stress,
    train_quantiser,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


clouds = arrays(
    np.float64,
    st.tuples(st.integers(3, 12), st.integers(1, 5)),
    elements=st.floats(-100, 100, width=32),
)


def aligned(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference up to the sign of each axis."""
    return float(np.minimum(np.abs(one - other).max(0), np.abs(one + other).max(0)).max())


@pytest.mark.parametrize("r", [1, 2, 3])
def test_classical_scaling_is_the_projection_on_the_principal_axes(r: int) -> None:
    points = rng().normal(size=(16, 6)) * [5, 4, 3, 2, 1, 0.5]
    assert aligned(classical_mds(points, r), PCA(r).fit_transform(points)) < 1e-9


@settings(max_examples=60, deadline=None)
@given(clouds, st.integers(1, 2))
def test_classical_scaling_contracts_every_distance(points: np.ndarray, r: int) -> None:
    embedded = classical_mds(points, r)
    assert (pdist(embedded) <= pdist(points) + 1e-6 * (1 + np.abs(points).max())).all()


def test_classical_scaling_keeps_every_distance_when_the_rank_allows() -> None:
    points = rng().normal(size=(20, 4))
    for r in (4, 7):
        assert np.abs(pdist(classical_mds(points, r)) - pdist(points)).max() < 1e-8


def test_classical_scaling_does_not_see_rotations_and_translations() -> None:
    points = rng().normal(size=(16, 5))
    rotation, _ = np.linalg.qr(rng(1).normal(size=(5, 5)))
    moved = points @ rotation + rng(2).normal(size=5)
    assert np.abs(classical_mds(points, 2) - classical_mds(moved, 2)).max() < 1e-9


def test_the_entry_of_largest_magnitude_is_positive_on_every_axis() -> None:
    for seed in range(20):
        embedded = classical_mds(rng(seed).normal(size=(9, 4)), 3)
        assert (embedded[np.abs(embedded).argmax(0), range(3)] > 0).all()


def test_weighted_scaling_is_that_of_points_repeated_by_their_weights() -> None:
    points, weights = rng().normal(size=(7, 4)), np.array([1, 5, 2, 9, 3, 1, 4])
    repeated = classical_mds(np.repeat(points, weights, axis=0), 2)
    first = np.concatenate([[0], np.cumsum(weights)[:-1]])
    assert aligned(classical_mds(points, 2, weights=weights), repeated[first]) < 1e-9


def test_a_point_without_weight_is_placed_and_does_not_move_the_others() -> None:
    points = rng().normal(size=(8, 3))
    weights = np.array([1.0, 2, 3, 1, 2, 3, 1, 0])
    embedded = classical_mds(points, 3, weights=weights)
    assert np.abs(pdist(embedded) - pdist(points)).max() < 1e-8
    alone = classical_mds(points[:7], 3, weights=weights[:7])
    assert aligned(embedded[:7], alone) < 1e-8


def test_smacof_lowers_the_stress_of_the_classical_start_as_sklearn_does() -> None:
    from sklearn.manifold import smacof as reference

    points = rng().normal(size=(12, 4))
    start = classical_mds(points, 1)
    ours = smacof(points, 1)
    theirs, _ = reference(
        cdist(points, points), n_components=1, init=start, n_init=1, max_iter=300, eps=1e-6
    )
    assert stress(points, ours) < stress(points, start)
    assert stress(points, ours) == pytest.approx(stress(points, theirs), rel=1e-2)


@pytest.mark.parametrize("r", [0, 4, 9])
def test_an_embedding_has_fewer_dimensions_than_points(r: int) -> None:
    with pytest.raises(ConfigurationError, match="1 to 3 dimensions"):
        classical_mds(rng().normal(size=(4, 8)), r)


def test_one_centre_is_embedded_at_zero() -> None:
    assert classical_mds(np.ones((1, 3)), 2).tolist() == [[0.0, 0.0]]


@settings(max_examples=40, deadline=None)
@given(clouds, st.integers(0, 10**6))
def test_assignment_is_the_nearest_centre_of_brute_force(points: np.ndarray, seed: int) -> None:
    x = points.astype(np.float32)
    centres = rng(seed).normal(scale=50, size=(5, x.shape[1])).astype(np.float32)
    squares = cdist(x, centres, "sqeuclidean")
    codes = assign(x, centres)
    chosen = squares[np.arange(len(x)), codes]
    assert (chosen <= squares.min(1) + 1e-5 * (1 + squares.max())).all()


def test_kmeans_ends_at_a_fixed_point_as_good_as_sklearns() -> None:
    from sklearn.cluster import KMeans

    points = np.concatenate([rng(i).normal(loc=4 * i, size=(150, 3)) for i in range(6)])
    centres = lloyd(points, 6, iterations=100, rng=rng())
    codes = assign(points.astype(np.float32), centres)
    means = np.stack([points[codes == i].mean(0) for i in range(6)])
    assert np.abs(means - centres).max() < 1e-4
    ours = ((points - centres[codes]) ** 2).sum()
    assert ours <= 1.02 * KMeans(6, n_init=5, random_state=0).fit(points).inertia_


def test_kmeans_gives_equal_bytes_for_equal_seeds_only() -> None:
    points = rng().normal(size=(500, 4))
    first, again = (lloyd(points, 8, iterations=20, rng=rng(1)) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != lloyd(points, 8, iterations=20, rng=rng(2)).tobytes()


def test_an_offset_of_the_points_does_not_cost_precision() -> None:
    points = rng().normal(size=(400, 4)).astype(np.float32)
    far = points + np.float32(2048)
    near = train_quantiser(points, Layout.of(4, 1), codewords=8, rng=rng())
    moved = train_quantiser(far, Layout.of(4, 1), codewords=8, rng=rng())
    assert (near.encode(points) == moved.encode(far)).mean() > 0.99


@pytest.mark.parametrize(("columns", "subspaces"), [(10, 3), (7, 7), (8, 1)])
def test_layouts_hold_every_column_once(columns: int, subspaces: int) -> None:
    for rule in ("contiguous", "permuted"):
        layout = Layout.of(columns, subspaces, rule=rule, rng=rng())
        assert sorted(np.concatenate(layout.blocks)) == list(range(columns))
        assert {len(b) for b in layout.blocks} <= {columns // subspaces, -(-columns // subspaces)}
        for m, block in enumerate(layout.blocks):
            assert (layout.subspace_of[block] == m).all()


def test_a_remainder_is_refused_where_the_layout_must_be_equal() -> None:
    with pytest.raises(ConfigurationError, match="10 columns leave 1 over 3"):
        Layout.of(10, 3, rule="equal")
    assert [len(b) for b in Layout.of(9, 3, rule="equal").blocks] == [3, 3, 3]


def test_more_subspaces_than_columns_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="from 1 to the number of columns, 3; got 4"):
        Layout.of(3, 4)


def test_fewer_distinct_rows_than_codewords_are_kept_exactly() -> None:
    rows = np.array([[0, 1], [2, 3], [0, 1], [-0.0, 1]], dtype=np.float32)
    quantiser = train_quantiser(rows, Layout.of(2, 1), codewords=16, rng=rng())
    assert quantiser.codewords == (2,)
    assert (quantiser.decode(quantiser.encode(rows)) == rows).all()


def test_a_constant_block_gets_one_codeword() -> None:
    rows = np.column_stack([np.full(50, 7.0), rng().normal(size=50)])
    quantiser = train_quantiser(rows, Layout.of(2, 2), codewords=4, rng=rng())
    assert quantiser.codewords == (1, 4)
    assert (quantiser.encode(rows)[:, 0] == 0).all()


def test_rare_values_beyond_the_first_rows_are_codewords_too() -> None:
    column = np.zeros((9000, 1), dtype=np.float32)
    column[-3:, 0] = [1, 2, 3]
    quantiser = train_quantiser(column, Layout.of(1, 1), codewords=4, rng=rng())
    assert quantiser.codebooks[0].ravel().tolist() == [0, 1, 2, 3]


def test_codes_take_two_bytes_only_where_needed() -> None:
    column = np.arange(600, dtype=np.float64)[:, None]
    for codewords, kind in ((256, np.uint8), (300, np.uint16)):
        quantiser = train_quantiser(
            column, Layout.of(1, 1), codewords=codewords, points_per_codeword=None, rng=rng()
        )
        assert quantiser.encode(column).dtype == kind


def test_values_that_are_not_finite_are_named() -> None:
    rows = rng().normal(size=(5, 3))
    rows[3, 1] = np.nan
    with pytest.raises(InvalidDataError, match="column 1 is not finite in row 3"):
        train_quantiser(rows, Layout.of(3, 1), codewords=2, rng=rng())


def data_for_oracles() -> np.ndarray:
    basis = rng().normal(size=(4, 32))
    return (rng(1).normal(size=(3000, 4)) @ basis + 0.1 * rng(2).normal(size=(3000, 32))).astype(
        np.float32
    )


def test_nanopq_encodes_and_decodes_alike_with_the_same_codebooks() -> None:
    nanopq = pytest.importorskip("nanopq", reason="nanopq is not installed")
    x = data_for_oracles()
    ours = train_quantiser(x, Layout.of(32, 4), codewords=16, rng=rng())
    theirs = nanopq.PQ(M=4, Ks=16, verbose=False)
    theirs.codewords, theirs.Ds, theirs.code_dtype = np.stack(ours.codebooks), 8, np.uint8
    codes = theirs.encode(x)
    assert (codes == ours.encode(x)).mean() > 0.9999
    assert np.allclose(theirs.decode(codes), ours.decode(codes))


def test_codebooks_are_as_good_as_those_of_faiss() -> None:
    faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    faiss.omp_set_num_threads(1)
    x = data_for_oracles()

    def error(decoded: np.ndarray) -> float:
        return float(((x - decoded) ** 2).sum() / ((x - x.mean(0)) ** 2).sum())

    theirs = faiss.ProductQuantizer(32, 4, 4)
    theirs.cp.niter = 20
    theirs.train(x)
    ours = train_quantiser(x, Layout.of(32, 4), codewords=16, iterations=20, rng=rng())
    assert error(ours.decode(ours.encode(x))) <= 1.05 * error(
        theirs.decode(theirs.compute_codes(x))
    )


def quantised(r: int = 2) -> tuple[ProductQuantiser, np.ndarray, tuple[np.ndarray, ...]]:
    x = rng().normal(size=(300, 6)) * [1, 1, 1, 5, 5, 5]
    x[:, 5] = x[:, 4] = x[:, 3] = 2
    quantiser = train_quantiser(x, Layout.of(6, 2), codewords=8, rng=rng())
    codes = quantiser.encode(x)
    books = tuple(classical_mds(c, min(r, max(1, len(c) - 1))) for c in quantiser.codebooks)
    return quantiser, codes, tuple(np.pad(b, ((0, 0), (0, r - b.shape[1]))) for b in books)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaling_the_table_is_scaling_the_columns(scaling: str) -> None:
    _, codes, books = quantised()
    raw = scaled_table(books, codes, codewords=8, scaling="raw").dense().astype(np.float64)
    scaled = scaled_table(books, codes, codewords=8, scaling=scaling).dense()
    centred = raw - raw.mean(0)
    safe = np.where(raw.std(0) > 0, raw.std(0), 1)
    width = np.where(np.ptp(raw, axis=0) > 0, np.ptp(raw, axis=0), 1)
    expected = {
        "raw": raw,
        "unit": centred / safe,
        "minmax": (raw - raw.min(0)) / width,
        "party": centred / np.sqrt(raw.var(0).sum()),
        "rank": np.stack([np.unique(c, return_inverse=True)[1] for c in raw.T], axis=1),
    }[scaling]
    assert np.abs(scaled - expected).max() < 1e-5


def test_both_encodings_decode_to_the_same_upload() -> None:
    _, codes, books = quantised()
    upload = scaled_table(books, codes, codewords=8, scaling="unit")
    dense = decoded_upload(encode_upload(upload, "dense"))
    assert dense.tobytes() == decoded_upload(encode_upload(upload, "table")).tobytes()
    assert dense.shape == (300, 4)


@pytest.mark.parametrize(
    "arrays_",
    [
        {},
        {"codes": np.zeros((2, 1), np.uint8)},
        {"codes": np.full((2, 1), 9, np.uint8), "table": np.zeros((1, 4, 1), np.float32)},
        {"codes": np.zeros((2, 3), np.uint8), "table": np.zeros((1, 4, 1), np.float32)},
    ],
)
def test_uploads_that_do_not_fit_are_refused(arrays_: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidDataError):
        decoded_upload(arrays_)


def test_an_upload_table_looks_up_rows() -> None:
    table = UploadTable(
        np.array([[0, 1], [1, 0]], np.uint8), np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    )
    assert table.dense().tolist() == [[0, 1, 6, 7], [2, 3, 4, 5]]
