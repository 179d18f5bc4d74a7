"""Files of tables by strangers: what is odd in them is refused by name, in bounded time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privaudit.datasets.tables import load_table
from privaudit.datasets.vertical import Column, VerticalParty
from privaudit.errors import InvalidDataError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2,3\n4,5,6\n", "rows have more values than the header's 2"),
        ("a,b\n1,2,3\n3,5,6\n9,1,1\n", "rows have more values than the header's 2"),
        ("\n\na,a\n1,2\n", "column 'a' twice"),
        ("x" * 200_000 + ",b\n1,2\n", "cannot be read: header"),
        (",".join(f"c{i}" for i in range(300_000)) + "\n1\n", "300000 columns; at most 4096"),
    ],
    ids=[
        "more values than names",
        "the same unevenly",
        "after blank lines",
        "a long name",
        "many columns",
    ],
)
def test_odd_headers_are_refused(tmp_path: Path, text: str, message: str) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InvalidDataError, match=message):
        load_table(str(path))


def test_values_whose_squares_overflow_name_column_and_party() -> None:
    features = np.ones((3, 2), np.float32)
    features[2, 0] = -1e18
    columns = (Column("x"), Column("y"))
    with pytest.raises(InvalidDataError, match=r"column 'x' of party 'a' holds -1e\+18 in row 2"):
        VerticalParty("a", np.arange(3), features, columns, np.arange(2))
    features[2, 0] = -1e16
    assert VerticalParty("a", np.arange(3), features, columns, np.arange(2)).features.shape


def test_names_may_span_lines_and_follow_blank_ones(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf\r\n"a\nb",  c\r\n1,2\r\n3,4\r\n')
    table = load_table(str(path))
    assert [column.name for column in table.columns] == ["a\nb", "c"]
    assert table.features.tolist() == [[1, 2], [3, 4]]
