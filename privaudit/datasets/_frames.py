"""A bounded reader of CSV and Parquet files through pandas and pyarrow."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from privaudit.errors import DatasetNotFoundError, InvalidDataError, PrivauditError

__all__ = ["Frame", "Series", "read_frame"]

#: Bytes of a file's text, uncompressed, or of a Parquet file's columns.
MOST_BYTES = 2**30
MOST_COLUMNS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One column: its values and which are missing."""

    kind: Literal["numeric", "categorical"]
    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]

    def texts(self) -> npt.NDArray[Any]:
        """Return the values as text, whole numbers without a fraction."""
        values = self.values
        if values.dtype.kind == "f":
            present = values[~self.missing]
            if (present == np.floor(present)).all() and (np.abs(present) < 2**53).all():
                values = np.where(self.missing, 0, values).astype(np.int64)
        return np.array([str(value) for value in values.tolist()], dtype=object)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A file's columns by name, in order."""

    name: str
    rows: int
    columns: Mapping[str, Series]


def read_frame(path: Path, missing_values: Sequence[str]) -> Frame:
    """Read a CSV file with a header, plain or gzip-compressed, or a Parquet file.

    Raises
    ------
    DatasetNotFoundError
        If there is no such file.
    InvalidDataError
        If it cannot be read, is empty or too large, or names a column twice or not at all.
    PrivauditError
        If pandas, or pyarrow for Parquet, is not installed.
    """
    if not path.is_file():
        raise DatasetNotFoundError(
            f"no table at {path.absolute()}: a name that ends in .csv, .csv.gz or .parquet is the "
            "path of a file, relative to the working directory"
        )
    try:
        import pandas
    except ImportError as error:
        raise _extra("pandas", path) from error
    try:
        parquet = path.suffix == ".parquet"
        frame = _parquet(path) if parquet else _csv(path, pandas, missing_values)
    except (OSError, EOFError, zlib.error, ValueError, UnicodeDecodeError) as error:
        if isinstance(error, PrivauditError):
            raise
        raise InvalidDataError(f"{path} cannot be read: {error}") from error
    names = [str(column) for column in frame.columns]
    if len(frame) == 0 or not names:
        raise InvalidDataError(f"{path} has {len(frame)} rows and {len(names)} columns")
    _check_names(path, names)
    columns = {n: _series(frame.iloc[:, i], missing_values) for i, n in enumerate(names)}
    return Frame(path.name, len(frame), columns)


def _extra(library: str, path: Path) -> PrivauditError:
    return PrivauditError(
        f"{path.name} needs {library}, which is not installed: pip install 'privaudit[tables]'"
    )


def _csv(path: Path, pandas: Any, missing_values: Sequence[str]) -> Any:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise InvalidDataError(f"{path} holds more than {MOST_BYTES} bytes of text")
    # pandas renames a column that occurs twice; the header is read to notice it.
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8-sig", errors="replace", newline="")
    try:
        names = next((row for row in csv.reader(lines, skipinitialspace=True) if row), [])
    except csv.Error as error:
        raise InvalidDataError(f"{path} cannot be read: header: {error}") from error
    _check_names(path, names)
    frame = pandas.read_csv(
        io.BytesIO(text),
        na_values=list(missing_values),
        skipinitialspace=True,
        low_memory=False,
        encoding="utf-8-sig",
    )
    if len(frame.columns) != len(names) or not frame.index.equals(pandas.RangeIndex(len(frame))):
        # pandas takes the first values of such rows for their names, and shifts all others.
        raise InvalidDataError(f"{path}: rows have more values than the header's {len(names)}")
    return frame


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise InvalidDataError(f"{path} has {len(names)} columns; at most {MOST_COLUMNS} are read")
    for name, count in Counter(names).items():
        if not name.strip() or count > 1:
            problem = "without a name" if not name.strip() else f"'{name}' twice"
            raise InvalidDataError(f"{path} has a column {problem}: name each column once")


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise _extra("pyarrow", path) from error
    try:
        file = parquet.ParquetFile(path)
        meta = file.metadata
        groups = range(meta.num_row_groups)
        size = max(
            sum(meta.row_group(i).total_byte_size for i in groups),
            # A column of one value compresses to nothing and still takes eight bytes a row.
            8 * meta.num_rows * meta.num_columns,
        )
        if size > MOST_BYTES or meta.num_columns > MOST_COLUMNS:
            raise InvalidDataError(
                f"{path} declares {size} bytes in {meta.num_columns} columns; at most "
                f"{MOST_BYTES} and {MOST_COLUMNS} are read"
            )
        return file.read().to_pandas()
    except ArrowException as error:
        raise InvalidDataError(f"{path} is not a readable Parquet file: {error}") from error


def _series(column: Any, missing_values: Sequence[str]) -> Series:
    missing = column.isna().to_numpy(dtype=bool)
    if column.dtype.kind in "iuf" and not hasattr(column, "cat"):
        return Series("numeric", column.to_numpy(dtype=np.float64, na_value=np.nan), missing)
    values = np.array([str(v).strip() for v in column.tolist()], dtype=object)
    return Series("categorical", values, missing | np.isin(values, list(missing_values)))
