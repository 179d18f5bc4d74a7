"""A run of PQ-MDS, message by message: who sees what, how many bytes, and what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pq_mds_runs import digits, execute, numbers

from privaudit.configuration import validated
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.ledger import UnprotectedRelease
from privaudit.protocols.pq_mds import PQMDSConfig, kinds
from privaudit.quantisation import SCALINGS, decoded_upload
from privaudit.transcript import Coalition, Transcript

FAST: dict[str, Any] = {"initialisations": 1, "reference": False}


def small(**options: Any) -> VerticalData:
    return digits(rows=options.pop("rows", 400), auxiliary=100, **options)


def uploads(transcript: Transcript, *, round: int = 1) -> dict[str, np.ndarray]:
    view = transcript.view(Coalition.of(kinds.SERVER))
    return {m.sender: decoded_upload(m.arrays) for m in view.select(kinds.INDICES, round=round)}


def same_partition(one: np.ndarray, other: np.ndarray) -> bool:
    pairs = len(np.unique(np.stack([one, other]), axis=1).T)
    return pairs == len(np.unique(one)) == len(np.unique(other))


@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("mds", ["classical", "smacof"])
def test_the_upload_is_a_relabelling_of_the_codes(mds: str, scaling: str, r: int) -> None:
    """MDS hides nothing: equal coordinates in a subspace and equal codes are the same thing."""
    checked = 0
    for encoding in ("dense", "table"):
        run = execute(
            small(), mds=mds, scaling=scaling, embedding_dimensions=r, encoding=encoding, **FAST
        )
        for party, upload in uploads(run.transcript).items():
            codes = run.truth.get(party, "codes/round-1")
            for m in range(codes.shape[1]):
                columns = np.round(upload[:, r * m : r * m + r].astype(np.float64), 6)
                _, found = np.unique(columns, axis=0, return_inverse=True)
                assert same_partition(found.ravel(), codes[:, m])
                checked += 1
    assert checked == 2 * 2 * 8


def test_dense_and_table_uploads_hold_the_same() -> None:
    dense, table = (execute(small(), encoding=e, **FAST) for e in ("dense", "table"))
    for party, upload in uploads(dense.transcript).items():
        assert upload.tobytes() == uploads(table.transcript)[party].tobytes()


def test_what_the_server_sees_is_uploads_and_what_it_sends() -> None:
    run = execute(small(), **FAST)
    view = run.transcript.view(Coalition.of(kinds.SERVER))
    assert [(m.kind, m.sender, m.receiver) for m in view.messages] == [
        ("indices", "party-1", "server"),
        ("indices", "party-2", "server"),
        ("labels", "server", "party-1"),
        ("centroids", "server", "party-1"),
        ("labels", "server", "party-2"),
        ("centroids", "server", "party-2"),
    ]
    assert set(view.secrets) == {"server"}
    assert set(view.secrets["server"]) == {"labels/round-1", "centroids/round-1"}
    assert set(view.public_arrays) == {"rows"}
    assert not {"features", "layout", "columns"} & set(view.public)


def test_a_party_sees_its_own_upload_and_what_comes_back() -> None:
    run = execute(small(), return_centroids=False, **FAST)
    view = run.transcript.view(Coalition.of("party-2"))
    assert [(m.kind, m.sender) for m in view.messages] == [
        ("indices", "party-2"),
        ("labels", "server"),
    ]
    assert set(view.secrets["party-2"]) == {
        "features",
        "columns",
        "layout",
        "codes/round-1",
        "centres/round-1",
        "embedding/round-1",
    }


def test_without_returned_labels_nothing_goes_to_the_parties() -> None:
    run = execute(small(), return_labels=False, return_centroids=False, **FAST)
    assert {m.kind for m in run.transcript.messages} == {"indices"}
    assert run.events[0].observers == ("server",)


def test_rows_of_truth_secrets_and_uploads_are_in_the_order_of_the_public_ids() -> None:
    data = small()
    run = execute(data, alignment="salted-hash", **FAST)
    rows, truth = run.transcript.public_arrays["rows"], run.truth
    assert (truth.get("rows", "ids") == rows).all()
    identifiers = truth.get("rows", "identifiers")
    position = np.argsort(data.ids)[np.searchsorted(np.sort(data.ids), identifiers)]
    assert data.labels is not None
    assert (truth.get("rows", "labels") == data.labels[position]).all()
    for party in data.parties:
        held = truth.get(party.party, "features")
        assert (held == party.features[position]).all()
        secrets = run.transcript.secrets[party.party]
        assert (secrets["features"] == held).all()
        centres, layout = secrets["centres/round-1"], secrets["layout"]
        codes = secrets["codes/round-1"]
        decoded = centres[codes[:, layout], np.arange(held.shape[1])]
        assert ((held - decoded) ** 2).sum() < 0.3 * ((held - held.mean(0)) ** 2).sum()
        upload = uploads(run.transcript)[party.party]
        table = secrets["embedding/round-1"]
        assert (upload == table[np.arange(8), codes][:, :, 0]).all()


def test_salted_hashes_align_rows_and_fall_to_whoever_knows_the_salt() -> None:
    run = execute(small(), alignment="salted-hash", **FAST)
    server = run.transcript.view(Coalition.of(kinds.SERVER))
    tokens = {m.sender: m.arrays["tokens"] for m in server.select(kinds.ALIGNMENT_TOKENS)}
    orders = {m.receiver: m.arrays["order"] for m in server.select(kinds.ALIGNED_ORDER)}
    assert (tokens["party-1"][orders["party-1"]] == tokens["party-2"][orders["party-2"]]).all()
    # A party that colludes gives the salt; identifiers from a small set are then enumerated.
    colluding = run.transcript.view(Coalition.of(kinds.SERVER, "party-2"))
    salt = colluding.secrets["party-2"]["salt"].tobytes()
    found = {
        hashlib.sha256(salt + guess.to_bytes(8, "little")).digest(): guess for guess in range(400)
    }
    aligned = tokens["party-1"][orders["party-1"]]
    guesses = [found[token.tobytes()] for token in aligned]
    assert guesses == run.truth.get("rows", "identifiers").tolist()


def test_bytes_are_counted_exactly() -> None:
    dense = execute(digits(), encoding="dense", **FAST)
    assert dense.values["bytes_up"] == 4 * 1797 * 16
    sent = [m for m in dense.transcript.messages if m.kind == kinds.INDICES]
    assert sum(len(a.tobytes()) for m in sent for a in m.arrays.values()) == 4 * 1797 * 16
    assert dense.values["bytes_down"] == 2 * 1797 + 4 * 10 * 16
    table = execute(digits(), encoding="table", embedding_dimensions=2, **FAST)
    assert table.values["bytes_up"] == 1797 * 16 + 4 * 16 * 2 * 16


def test_an_upload_of_fourteen_subspaces_is_28_times_smaller_than_pixels() -> None:
    images = np.random.default_rng(0).normal(size=(200, 784))
    data = numbers(images, widths=(392, 392))
    run = execute(data, subspaces=14, clusters=4, **FAST)
    assert run.values["bytes_per_row"] == 112
    assert run.values["raw_bytes_per_row"] / run.values["bytes_per_row"] == 28
    assert (
        execute(data, subspaces=14, clusters=4, encoding="table", **FAST).values["bytes_up"]
        == 200 * 28 + 4 * 16 * 28
    )


def test_every_round_has_codebooks_of_its_own() -> None:
    run = execute(small(), rounds=2, **FAST)
    first, second = (uploads(run.transcript, round=t)["party-1"] for t in (1, 2))
    assert (first != second).any()
    assert run.outcome.rounds == 2
    assert [m.round for m in run.outcome.metrics] == [1, 2]


def test_references_upload_what_they_say() -> None:
    codes = execute(small(), release="codes", **FAST)
    assert {m.kind for m in codes.transcript.messages} >= {"codes"}
    assert codes.values["bytes_up"] == 400 * 16
    reconstruction = execute(small(), release="reconstruction", **FAST)
    sent = reconstruction.transcript.view(Coalition.of(kinds.SERVER))
    (book, _), (own, _) = sent.select(kinds.CODEBOOK), sent.select(kinds.CODES)
    centres, layout = book.arrays["centres"], book.arrays["layout"]
    decoded = centres[own.arrays["codes"][:, layout], np.arange(32)]
    truth = reconstruction.truth.get("party-1", "features")
    assert ((truth - decoded) ** 2).sum() < 0.2 * ((truth - truth.mean(0)) ** 2).sum()


def test_the_truth_has_no_influence_on_the_run() -> None:
    data = small()
    assert data.labels is not None
    poisoned = replace(data, labels=np.zeros_like(data.labels))
    one, other = execute(data, **FAST), execute(poisoned, **FAST)
    for party, upload in uploads(one.transcript).items():
        assert upload.tobytes() == uploads(other.transcript)[party].tobytes()


def test_there_are_as_many_clusters_as_classes_unless_it_is_said() -> None:
    for clusters, expected in ((None, 10), (4, 4)):
        run = execute(small(), clusters=clusters, **FAST)
        configuration: Any = run.transcript.public["configuration"]
        assert configuration["clusters"] == expected
        assert len(np.unique(run.transcript.secrets["server"]["labels/round-1"])) == expected


def test_tables_without_labels_run_and_have_no_quality_against_labels() -> None:
    run = execute(numbers(np.random.default_rng(0).normal(size=(60, 6))), subspaces=2, clusters=3)
    assert "ari" not in run.values
    assert -0.5 <= run.values["agreement_ari"] <= 1
    assert "labels" not in run.truth.targets["rows"]


# What is at the edge of the allowed, and beyond.


def test_fewer_rows_than_codewords_are_their_own_codewords() -> None:
    run = execute(numbers(np.arange(10.0)[:, None]), subspaces=1, clusters=2, codewords=64)
    assert run.values["quantisation_error"] == 0


def test_constant_columns_are_uploaded_as_zero() -> None:
    features = np.column_stack([np.full(50, 3.0), np.arange(50.0)])
    run = execute(numbers(features), subspaces=2, clusters=2, embedding_dimensions=2)
    upload = uploads(run.transcript)["party-1"]
    assert (upload[:, :2] == 0).all()
    assert len(np.unique(upload[:, 2])) == 16


def test_duplicate_rows_have_the_same_upload() -> None:
    features = np.repeat(np.random.default_rng(0).normal(size=(20, 4)), 3, axis=0)
    upload = uploads(execute(numbers(features), subspaces=2, clusters=2).transcript)["party-1"]
    assert (upload[0::3] == upload[1::3]).all()
    assert (upload[0::3] == upload[2::3]).all()


def test_all_rows_alike_leave_clusters_empty_and_the_run_says_so() -> None:
    run = execute(numbers(np.ones((20, 4))), subspaces=2, clusters=3)
    assert any("1 of 3 clusters are occupied" in w for w in run.outcome.warnings)


def test_one_codeword_tells_nothing() -> None:
    run = execute(numbers(np.arange(20.0)[:, None]), subspaces=1, codewords=1, clusters=1)
    assert (uploads(run.transcript)["party-1"] == 0).all()


def test_a_party_may_hold_a_single_column() -> None:
    features = np.random.default_rng(0).normal(size=(50, 5))
    run = execute(numbers(features, widths=(4, 1)), subspaces=(2, 1), clusters=2)
    assert [u.shape for u in uploads(run.transcript).values()] == [(50, 2), (50, 1)]


def test_a_single_party_runs_with_a_warning() -> None:
    run = execute(numbers(np.random.default_rng(0).normal(size=(50, 5))), subspaces=2, clusters=2)
    assert any("one party only" in warning for warning in run.outcome.warnings)


def test_whole_numbers_and_float64_run_alike() -> None:
    whole = np.random.default_rng(0).integers(16, size=(80, 4))
    one, other = (
        execute(numbers(f), subspaces=2, clusters=2) for f in (whole, whole.astype(np.float64))
    )
    assert uploads(one.transcript)["party-1"].tobytes() == (
        uploads(other.transcript)["party-1"].tobytes()
    )


def test_a_categorical_with_more_levels_than_codewords_is_named() -> None:
    from privaudit.datasets.vertical import Column

    data = numbers(np.arange(40.0)[:, None])
    column = Column("town", "categorical", "town")
    party = replace(data.parties[0], columns=(column,))
    run = execute(replace(data, parties=(party,)), subspaces=1, clusters=2)
    assert any("'town' of party 'party-1' has 40 levels" in w for w in run.outcome.warnings)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"subspaces": 40}, "party 'party-1' has 32 columns, too few for 40 subspaces"),
        ({"subspaces": (4, 40)}, "party 'party-2' has 32 columns"),
        ({"subspaces": (4, 4, 4)}, "for 3 parties; the data have 2: party-1, party-2"),
        (
            {"subspaces": 5, "layout": "equal"},
            "32 columns of party 'party-1' are not divisible by 5",
        ),
        ({"clusters": 401}, "clusters must be at most the number of rows, 400; got 401"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        execute(small(), **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"embedding_dimensions": 16}, r"less than codewords \(16\), got 16"),
        ({"subspaces": 0}, "subspaces must be at least 1"),
        ({"mds": "smacof", "weighted": True}, "weighted goes with mds = 'classical'"),
        ({"epsilon0": 1}, "epsilon0 goes with defence"),
        ({"defence": "randomized-response"}, "epsilon0 goes with defence"),
        ({"codebook": "noisy-lloyd"}, "noise_multiplier goes with"),
        ({"defence": "coarse"}, "subspaces = 1"),
        ({"defence": "coarse", "subspaces": 1, "rounds": 2}, "rounds = 1"),
        ({"defence": "coarse", "subspaces": 1, "release": "codes"}, "goes with release"),
        ({"feature_range": (1, 0)}, "feature_range must ascend"),
        ({"codewrods": 4}, "Did you mean 'codewords'"),
    ],
)
def test_contradicting_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        validated(PQMDSConfig, parameters, where="parameters")


def test_public_codebooks_need_auxiliary_rows() -> None:
    with pytest.raises(InvalidDataError, match="auxiliary rows, and there are none"):
        execute(digits(rows=100), codebook="auxiliary")


def test_undefended_uploads_are_released_as_they_are() -> None:
    run = execute(small(), **FAST)
    assert [type(e.mechanism) for e in run.events] == [UnprotectedRelease, UnprotectedRelease]
    assert [e.subjects for e in run.events] == [("party-1",), ("party-2",)]
    assert run.events[0].observers == ("server", "party-2")


def test_the_number_of_threads_of_matrix_products_changes_nothing_visible() -> None:
    from threadpoolctl import threadpool_limits

    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(uploads(execute(small(), **FAST).transcript))
    for party in found[0]:
        assert np.abs(found[0][party] - found[1][party]).max() <= 1e-5
