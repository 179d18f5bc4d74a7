"""Tables by name or path: embedded ones, images as tables of pixels, CSV and Parquet files.

CSV (also ``.csv.gz``) and Parquet are read with pandas and pyarrow, which the extra ``tables``
installs. Columns of text, of booleans, and those that are named as such are categorical; all
others are numeric. See ``docs/data.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from privaudit.datasets._frames import Frame, read_frame
from privaudit.datasets.base import Dataset
from privaudit.datasets.catalogue import DATASETS
from privaudit.datasets.load import load_dataset
from privaudit.datasets.vertical import Column, Table
from privaudit.errors import ConfigurationError, InvalidDataError, did_you_mean

__all__ = ["TABLES", "TableOptions", "image_table", "load_table", "table_of_columns"]

#: Tables that come with scikit-learn, and what they are.
TABLES: Mapping[str, str] = {
    "breast-cancer": "Measures of cell nuclei of 569 biopsies, a table embedded in scikit-learn.",
    "wine": "Chemical analyses of 178 wines, a table embedded in scikit-learn.",
}

_ENDINGS = (".csv", ".csv.gz", ".parquet")
#: One-hot columns of one categorical column.
MOST_LEVELS = 256
#: Columns of a table after encoding.
MOST_COLUMNS = 16_384
_LARGEST = 2**31

#: The level of a value that is missing and was imputed.
MISSING_LEVEL = "(missing)"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a file becomes numbers.

    Attributes
    ----------
    label : str or None
        The column that is truth and no feature. None: the table has no labels.
    categorical : tuple of str
        Columns that are categorical although they look numeric.
    drop : tuple of str
        Columns to leave out.
    encoding : {"one-hot", "ordinal"}
        Of categorical columns: one column of 0 and 1 a level, or the number of the level, levels
        in ascending order of their text.
    missing : {"error", "drop-rows", "impute"}
        ``impute``: the median of a numeric column, a level of its own in a categorical one.
    missing_values : tuple of str
        Texts that mean a missing value, besides an empty field and what pandas knows.
    scaling : {"none", "standard", "min-max"}
        Of every column, by numbers computed from all rows. Constant columns become 0.
    """

    label: str | None = None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    encoding: Literal["one-hot", "ordinal"] = "one-hot"
    missing: Literal["error", "drop-rows", "impute"] = "error"
    missing_values: tuple[str, ...] = ("?",)
    scaling: Literal["none", "standard", "min-max"] = "none"


def load_table(
    name: str,
    *,
    options: TableOptions | None = None,
    data_root: Path | None = None,
    seed: int = 0,
) -> Table:
    """Return a table of numbers; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of :data:`TABLES`, an image set that :func:`privaudit.datasets.load_dataset` knows
        (training and test records together), or the path of a file that ends in ``.csv``,
        ``.csv.gz`` or ``.parquet``.
    options : TableOptions, optional
        Image sets take ``scaling`` only, embedded tables everything but ``label``.
    data_root : Path, optional
    seed : int
        As for :func:`privaudit.datasets.load_dataset`.

    Returns
    -------
    Table

    Raises
    ------
    ConfigurationError
        If the name or an option is unknown; names the column.
    InvalidDataError
        If a value is missing or not finite (names the column), or the table is empty or too large.
    PrivauditError
        If pandas or pyarrow is not installed; names the extra.
    """
    options = TableOptions() if options is None else options
    if name.endswith(_ENDINGS):
        return _encoded(read_frame(Path(name).expanduser(), options.missing_values), options)
    if name in TABLES:
        return _scaled(_embedded(name), options.scaling)
    if name in DATASETS or name.endswith(".npz"):
        images = load_dataset(name, data_root=data_root, seed=seed)
        return _scaled(image_table(images), options.scaling)
    known = (*TABLES, *DATASETS)
    raise ConfigurationError(
        f"unknown table '{name}'; known are {', '.join(known)}, or the path of a file that ends in "
        f"{', '.join(_ENDINGS)} or .npz.{did_you_mean(name, known)}"
    )


def image_table(dataset: Dataset) -> Table:
    """Return the training and test images of a set as one table of pixels."""
    images = np.concatenate([dataset.train.images, dataset.test.images])
    labels = np.concatenate([dataset.train.labels, dataset.test.labels])
    channels, height, width = images.shape[1:]
    columns = tuple(
        Column(f"pixel-{row}-{column}" + (f"-{channel}" if channels > 1 else ""))
        for channel in range(channels)
        for row in range(height)
        for column in range(width)
    )
    return Table(
        name=dataset.name,
        features=images.reshape(len(images), -1),
        columns=columns,
        labels=labels,
        classes=dataset.classes,
        image_shape=(channels, height, width),
    )


def table_of_columns(
    name: str,
    features: npt.NDArray[np.floating],
    names: Sequence[str],
    *,
    labels: npt.NDArray[np.integer] | None = None,
) -> Table:
    """Return a table of numeric columns from arrays."""
    numbers = None
    classes = 0
    if labels is not None:
        known, positions = np.unique(labels, return_inverse=True)
        numbers, classes = positions.ravel().astype(np.int64), len(known)
    columns = tuple(Column(str(n), "numeric", str(n)) for n in names)
    return Table(name, np.ascontiguousarray(features, np.float32), columns, numbers, classes)


def _embedded(name: str) -> Table:
    from sklearn.datasets import load_breast_cancer, load_wine

    bunch = {"breast-cancer": load_breast_cancer, "wine": load_wine}[name]()
    return table_of_columns(name, bunch.data, list(bunch.feature_names), labels=bunch.target)


def _encoded(frame: Frame, options: TableOptions) -> Table:
    names = list(frame.columns)
    for option, wanted in (
        ("label", () if options.label is None else (options.label,)),
        ("categorical", options.categorical),
        ("drop", options.drop),
    ):
        for column in wanted:
            if column not in names:
                raise ConfigurationError(
                    f"{frame.name} has no column '{column}' ({option}); columns are "
                    f"{', '.join(names[:20])}.{did_you_mean(column, names)}"
                )
    keep = np.ones(frame.rows, dtype=bool)
    notes = []
    features = [n for n in names if n != options.label and n not in options.drop]
    if not features:
        raise InvalidDataError(f"{frame.name} has no column left for features")
    for column in (*features, *(() if options.label is None else (options.label,))):
        absent = frame.columns[column].missing
        if not absent.any():
            continue
        if options.missing == "drop-rows":
            keep &= ~absent
        elif options.missing == "error" or column == options.label:
            hint = "missing = 'impute' or 'drop-rows'"
            raise InvalidDataError(
                f"{frame.name}: column '{column}' lacks {int(absent.sum())} of {frame.rows} "
                f"values, the first in row {int(absent.argmax()) + 1}: say {hint}, or drop it"
            )
        else:
            notes.append(f"{int(absent.sum())} values of '{column}' imputed")
    if not keep.all():
        notes.append(f"{int((~keep).sum())} rows with missing values dropped")
    if not keep.any():
        raise InvalidDataError(f"{frame.name} has no row left")
    blocks: list[npt.NDArray[np.float32]] = []
    columns: list[Column] = []
    for column in features:
        series = frame.columns[column]
        if series.kind == "numeric" and column not in options.categorical:
            blocks.append(_numbers(series.values, series.missing, keep, column, frame.name))
            columns.append(Column(column, "numeric", column))
            continue
        levels, codes = _levels(series.texts(), series.missing, keep)
        if options.encoding == "ordinal":
            blocks.append(codes[:, None].astype(np.float32))
            columns.append(Column(column, "categorical", column))
            continue
        if len(levels) > MOST_LEVELS:
            raise InvalidDataError(
                f"{frame.name}: categorical column '{column}' has {len(levels)} levels, more than "
                f"{MOST_LEVELS} that one-hot encoding allows: use encoding 'ordinal', or drop it"
            )
        blocks.append((codes[:, None] == np.arange(len(levels))).astype(np.float32))
        columns += [Column(f"{column}={level}", "categorical", column) for level in levels]
        if len(columns) > MOST_COLUMNS or len(columns) * int(keep.sum()) * 4 > _LARGEST:
            raise InvalidDataError(
                f"{frame.name} becomes larger than {MOST_COLUMNS} columns or {_LARGEST} bytes at "
                f"column '{column}': use encoding 'ordinal', or drop columns"
            )
    labels, classes = None, 0
    if options.label is not None:
        series = frame.columns[options.label]
        known, labels = _levels(series.texts(), series.missing, keep)
        classes = len(known)
    table = Table(
        name=frame.name,
        features=np.concatenate(blocks, axis=1),
        columns=tuple(columns),
        labels=labels,
        classes=classes,
        notes=tuple(notes),
    )
    return _scaled(table, options.scaling)


def _numbers(
    values: npt.NDArray[Any],
    missing: npt.NDArray[np.bool_],
    keep: npt.NDArray[np.bool_],
    column: str,
    name: str,
) -> npt.NDArray[np.float32]:
    numbers = values.astype(np.float64)
    present = ~missing & keep
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    bad = present & ~np.isfinite(small)
    if bad.any():
        raise InvalidDataError(
            f"{name}: column '{column}' holds {numbers[bad][0]} in row {int(bad.argmax()) + 1}, "
            "which is not a finite float32"
        )
    if not present.any():
        raise InvalidDataError(f"{name}: column '{column}' holds no value: drop it")
    small = np.where(present, small, np.float32(np.median(numbers[present])))
    return np.asarray(small[keep][:, None], dtype=np.float32)


def _levels(
    texts: npt.NDArray[Any], missing: npt.NDArray[np.bool_], keep: npt.NDArray[np.bool_]
) -> tuple[list[str], npt.NDArray[np.int64]]:
    filled = np.where(missing, MISSING_LEVEL, texts)[keep].astype(str)
    levels, codes = np.unique(filled, return_inverse=True)
    return [str(level) for level in levels], codes.ravel().astype(np.int64)


def _scaled(table: Table, scaling: str) -> Table:
    if scaling == "none":
        return table
    values = table.features.astype(np.float64)
    if scaling == "standard":
        low, spread = values.mean(axis=0), values.std(axis=0)
    else:
        low = values.min(axis=0)
        spread = values.max(axis=0) - low
    constant = spread <= 1e-12 * np.maximum(1.0, np.abs(low))
    scaled = np.where(constant, 0.0, (values - low) / np.where(constant, 1.0, spread))
    return Table(
        name=table.name,
        features=scaled.astype(np.float32),
        columns=table.columns,
        labels=table.labels,
        classes=table.classes,
        image_shape=table.image_shape,
        scaled=True,
        notes=(*table.notes, f"columns scaled ({scaling}) by numbers computed from all rows"),
    )
