"""Tables, their encoding as numbers, and their division over parties."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.datasets import _frames, tables
from privaudit.datasets.columns import SPLITS, divide_columns, split_vertically
from privaudit.datasets.tables import TableOptions, load_table, table_of_columns
from privaudit.datasets.vertical import (
    AuxiliaryRows,
    Column,
    Table,
    VerticalData,
    VerticalParty,
    align,
)
from privaudit.errors import (
    AlignmentError,
    ConfigurationError,
    DatasetNotFoundError,
    InvalidDataError,
    PrivauditError,
)

CSV = """age,town,income,member,label
39,Ulm,10.5,yes,a
50,Ulm,,no,b
38,Bonn,7.25,yes,a
53,?,3,no,c
"""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def people(tmp_path: Path) -> str:
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return str(path)


def read(path: str, **options: Any) -> Table:
    return load_table(path, options=TableOptions(**options))


def party(name: str, ids: list[int], width: int = 2) -> VerticalParty:
    columns = tuple(Column(f"{name}-{i}") for i in range(width))
    features = np.array(ids, np.float32)[:, None] + np.zeros((1, width), np.float32)
    return VerticalParty(name, np.array(ids), features, columns, np.arange(width))


# Encoding.


def test_columns_of_a_file_become_numbers(people: str) -> None:
    table = read(people, label="label", missing="impute")
    assert [c.name for c in table.columns] == [
        "age",
        "town=(missing)",
        "town=Bonn",
        "town=Ulm",
        "income",
        "member=no",
        "member=yes",
    ]
    assert [c.kind for c in table.columns] == ["numeric"] + 3 * ["categorical"] + ["numeric"] + (
        2 * ["categorical"]
    )
    # The missing income is the median of the others.
    assert table.features.tolist() == [
        [39, 0, 0, 1, 10.5, 0, 1],
        [50, 0, 0, 1, 7.25, 1, 0],
        [38, 0, 1, 0, 7.25, 0, 1],
        [53, 1, 0, 0, 3, 1, 0],
    ]
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1, 0, 2]
    assert table.classes == 3
    assert "1 values of 'income' imputed" in table.notes


def test_ordinal_levels_are_numbered_by_their_text(people: str) -> None:
    table = read(people, label="label", missing="drop-rows", encoding="ordinal")
    assert table.features.tolist() == [[39, 1, 10.5, 0], [38, 0, 7.25, 0]]
    assert "2 rows with missing values dropped" in table.notes


def test_a_numeric_column_may_be_named_categorical(people: str) -> None:
    table = read(people, drop=("town", "income", "member", "label"), categorical=("age",))
    assert [c.name for c in table.columns] == ["age=38", "age=39", "age=50", "age=53"]
    assert table.labels is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "column 'town' lacks 1 of 4 values, the first in row 4"),
        ({"drop": ("town",)}, "column 'income' lacks 1 of 4 values, the first in row 2"),
        ({"label": "lable"}, "no column 'lable'.*Did you mean 'label'"),
        ({"drop": ("twon",)}, "no column 'twon'.*Did you mean 'town'"),
        ({"categorical": ("x",)}, "no column 'x'"),
        ({"drop": ("age", "town", "income", "member", "label")}, "no column left"),
    ],
)
def test_what_is_missing_or_unknown_is_named(
    people: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PrivauditError, match=message):
        read(people, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,a\n1,2\n", "column 'a' twice"),
        ("a,\n1,2\n", "column without a name"),
        ("a,b\n", "0 rows"),
        ("", "cannot be read"),
        ("a,b\n1,2,3,4\n1\n1,2,3,4,5,6\n", "cannot be read"),
        ("a\ninf\n1\n", "column 'a' holds inf in row 1"),
        ("a\n1e300\n1\n", "column 'a' holds 1e\\+300 in row 1"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InvalidDataError, match=message):
        load_table(str(path))


def test_a_column_without_any_value_cannot_be_imputed(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,\n2,\n")
    with pytest.raises(InvalidDataError, match="column 'b' holds no value"):
        read(str(path), missing="impute")


def test_compressed_and_parquet_files_hold_the_same_table(people: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    options = {"label": "label", "missing": "impute"}
    compressed, parquet = tmp_path / "p.csv.gz", tmp_path / "p.parquet"
    compressed.write_bytes(gzip.compress(CSV.encode()))
    pandas.read_csv(people).to_parquet(parquet)
    expected = read(people, **options)
    for path in (compressed, parquet):
        table = read(str(path), **options)
        assert (table.features == expected.features).all()
        assert [c.name for c in table.columns] == [c.name for c in expected.columns]


def test_sizes_are_bounded_before_they_are_read(
    tmp_path: Path, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet, bomb = tmp_path / "p.parquet", tmp_path / "bomb.csv.gz"
    pandas.DataFrame({"a": np.zeros(5000)}).to_parquet(parquet)
    bomb.write_bytes(gzip.compress(b"a\n" + b"1\n" * 5000))
    monkeypatch.setattr(_frames, "MOST_BYTES", 4000)
    for path in (parquet, bomb):
        with pytest.raises(InvalidDataError, match="4000"):
            load_table(str(path))
    monkeypatch.setattr(_frames, "MOST_COLUMNS", 3)
    with pytest.raises(InvalidDataError, match="5 columns; at most 3"):
        load_table(people)


def test_too_many_levels_for_one_hot_encoding_are_named(
    people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_LEVELS", 2)
    with pytest.raises(InvalidDataError, match="'town' has 3 levels, more than 2"):
        read(people, missing="impute")
    assert read(people, missing="impute", encoding="ordinal").features.shape == (4, 5)


def test_garbage_is_no_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1 and no table")
    with pytest.raises(InvalidDataError, match="not a readable Parquet file"):
        load_table(str(path))


def test_missing_files_and_unknown_names_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"no table at .*none\.csv"):
        load_table(str(tmp_path / "none.csv"))
    with pytest.raises(ConfigurationError, match="Did you mean 'breast-cancer'"):
        load_table("breast-cancr")


def test_the_extra_is_named_where_pandas_is_missing(
    people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(PrivauditError, match=r"pip install 'privaudit\[tables\]'"):
        load_table(people)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "classes"), [("breast-cancer", 569, 30, 2), ("wine", 178, 13, 3)]
)
def test_embedded_tables_need_no_files(name: str, rows: int, columns: int, classes: int) -> None:
    table = load_table(name)
    assert table.features.shape == (rows, columns)
    assert (table.classes, table.scaled) == (classes, False)


def test_images_are_tables_of_pixels() -> None:
    table = load_table("digits")
    assert table.features.shape == (1797, 64)
    assert table.columns[9].name == "pixel-1-1"
    assert table.image_shape == (1, 8, 8)


@pytest.mark.parametrize(("scaling", "low", "high"), [("standard", -9, 9), ("min-max", 0, 1)])
def test_scaling_is_noted_and_constant_columns_become_zero(
    scaling: Any, low: float, high: float
) -> None:
    table = load_table("digits", options=TableOptions(scaling=scaling))
    raw = load_table("digits").features
    constant = raw.min(0) == raw.max(0)
    assert constant.any()
    assert (table.features[:, constant] == 0).all()
    assert table.features.min() >= low
    if scaling == "standard":
        assert np.abs(table.features.mean(0)).max() < 1e-5
    else:
        assert table.features.max() == high
    assert table.scaled


def test_adult_is_read_with_its_missing_values(shared: Path) -> None:
    path = shared / "data" / "tabular" / "adult_train.csv.gz"
    if not path.is_file():
        pytest.skip("the Adult table is not there")
    pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(InvalidDataError, match="'workclass' lacks 1836 of 32561"):
        read(str(path), label="income")
    table = read(str(path), label="income", missing="impute")
    assert table.features.shape == (32561, 108)
    assert table.labels is not None
    assert table.labels.sum() == 7841


# Division over parties.


@pytest.mark.parametrize("split", [s for s in SPLITS if s != "groups"])
def test_every_column_goes_to_one_party(split: Any) -> None:
    parties = 4 if split == "quarters" else 2
    data = split_vertically(load_table("digits"), split=split, parties=parties, rng=rng())
    held = np.concatenate([p.positions for p in data.parties])
    assert sorted(held) == list(range(64))
    table = load_table("digits")
    for p in data.parties:
        assert [c.name for c in p.columns] == [table.columns[i].name for i in p.positions]


def test_halves_and_quarters_are_pieces_of_the_image() -> None:
    table = load_table("digits")
    left, right = divide_columns(table, split="halves", parties=2, rng=rng()).values()
    assert set(left % 8) == {0, 1, 2, 3}
    assert set(right % 8) == {4, 5, 6, 7}
    quarters = list(divide_columns(table, split="quarters", parties=4, rng=rng()).values())
    corners = [(set(q // 8), set(q % 8)) for q in quarters]
    first, second = {0, 1, 2, 3}, {4, 5, 6, 7}
    assert corners == [(first, first), (first, second), (second, first), (second, second)]


def test_groups_take_columns_by_name_source_or_pattern(people: str) -> None:
    table = read(people, missing="impute")
    found = divide_columns(
        table,
        split="groups",
        parties=2,
        groups={"bank": ["income", "a*"], "town hall": ["town", "member", "label"]},
        rng=rng(),
    )
    assert [table.columns[i].name for i in found["bank"]] == ["age", "income"]
    assert len(found["town hall"]) == len(table.columns) - 2


def test_a_party_may_hold_what_the_others_leave() -> None:
    table = load_table("breast-cancer")
    groups = {"rest": ["*"], "means": ["mean *"]}
    found = divide_columns(table, split="groups", parties=2, groups=groups, rng=rng())
    assert list(found) == ["rest", "means"]
    assert found["means"].tolist() == list(range(10))
    assert found["rest"].tolist() == list(range(10, 30))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "groups", "groups": {"a": ["mean *"]}}, "in no group: radius error"),
        ({"split": "groups", "groups": {"a": ["m*"], "b": ["mean *"]}}, "'mean radius' is in the"),
        ({"split": "groups", "groups": {"a": ["*"], "b": []}}, "group 'b' has no column"),
        ({"split": "groups", "groups": {"a": ["*"], "b": ["*"]}}, "both hold what is left"),
        ({"split": "groups", "groups": {"a": ["mean radus"]}}, "Did you mean 'mean radius'"),
        ({"split": "groups", "groups": {}}, "at least one party"),
        ({"split": "groups"}, "groups go with split"),
        ({"groups": {"a": ["*"]}}, "groups go with split"),
        ({"split": "halves"}, "split 'halves' needs images"),
        ({"split": "contigous"}, "Did you mean 'contiguous'"),
        ({"parties": 31}, "too few for 31 parties"),
        ({"parties": 0}, "at least 1"),
        ({"widths": (10, 10)}, "with the sum 30"),
        ({"widths": (30, 0)}, "at least 1"),
        ({"auxiliary_rows": 569}, "from 0 to 568"),
        ({"rows": 400, "auxiliary_rows": 300}, "rows must be from 1 to 269"),
    ],
)
def test_divisions_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        split_vertically(load_table("breast-cancer"), rng=rng(), **options)


def test_images_are_quartered_among_four_only() -> None:
    with pytest.raises(ConfigurationError, match="'quarters' is for 4 parties, got 2"):
        split_vertically(load_table("digits"), split="quarters", rng=rng())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 40), st.integers(0, 10**6))
def test_rows_are_held_or_auxiliary_and_never_both(parties: int, auxiliary: int, seed: int) -> None:
    features = np.arange(250.0).reshape(50, 5)
    table = table_of_columns("t", features, list("abcde"), labels=np.arange(50) % 3)
    data = split_vertically(table, parties=parties, auxiliary_rows=auxiliary, rng=rng(seed))
    held = data.whole()[:, 0]
    apart = data.auxiliary.features[:, 0]
    assert sorted([*held, *apart]) == features[:, 0].tolist()
    assert (np.diff(held) > 0).all()
    assert sorted(data.ids) == list(range(50 - auxiliary))
    assert data.labels is not None
    assert (data.labels == (held / 5) % 3).all()
    for p in data.parties:
        assert (data.auxiliary_of(p.party) == data.auxiliary.features[:, p.positions]).all()


def test_pseudonyms_do_not_tell_the_order_of_the_source() -> None:
    data = split_vertically(load_table("wine"), auxiliary_rows=0, rng=rng())
    assert abs(np.corrcoef(data.ids, np.arange(178))[0, 1]) < 0.2


# Alignment.


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([1, 2], "party 'b' has 2 rows where 'a' has 3"),
        ([3, 2, 1], "party 'b' has the rows of 'a' in another order"),
        ([1, 2, 9], r"party 'b' lacks rows of 'a', for example \[3\]"),
    ],
)
def test_rows_that_do_not_line_up_are_refused(other: list[int], message: str) -> None:
    with pytest.raises(AlignmentError, match=message):
        VerticalData(
            "t",
            (party("a", [1, 2, 3]), party("b", other)),
            None,
            0,
            AuxiliaryRows(np.zeros((0, 2), np.float32)),
        )


def test_an_id_twice_is_refused_with_the_party_and_the_id() -> None:
    with pytest.raises(AlignmentError, match=r"party 'a' has rows with the same id.*\[7\]"):
        party("a", [7, 1, 7])


def test_parties_are_aligned_on_the_rows_that_all_have() -> None:
    one, other = align([party("a", [5, 3, 1, 9]), party("b", [1, 5, 2, 9])])
    assert one.ids.tolist() == other.ids.tolist() == [1, 5, 9]
    assert one.features[:, 0].tolist() == other.features[:, 0].tolist() == [1, 5, 9]
    with pytest.raises(AlignmentError, match="no row id is common to the parties 'a', 'b'"):
        align([party("a", [1]), party("b", [2])])


def test_values_that_are_not_finite_name_column_and_party() -> None:
    features = np.ones((3, 2), np.float32)
    features[1, 1] = np.nan
    with pytest.raises(InvalidDataError, match=r"column 'y' of party 'a' is missing.*row 1"):
        VerticalParty("a", np.arange(3), features, (Column("x"), Column("y")), np.arange(2))
