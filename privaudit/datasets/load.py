"""Read a data set by name or path; nothing is ever downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.datasets._idx import read_idx
from privaudit.datasets._npz import read_npz
from privaudit.datasets.base import Dataset, LabelledImages
from privaudit.datasets.catalogue import DATASETS, DatasetDescription, describe
from privaudit.errors import ConfigurationError, DatasetNotFoundError, InvalidDataError

__all__ = ["DATA_ROOT_VARIABLE", "load_dataset"]

#: Environment variable that names the data root where no argument does.
DATA_ROOT_VARIABLE = "PRIVAUDIT_DATA"

_TEST_FRACTION = 0.2


def load_dataset(name: str, *, data_root: Path | None = None, seed: int = 0) -> Dataset:
    """Read a data set; nothing is downloaded and nothing is written.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`, or the path of a file that ends in ``.npz`` with arrays ``images``
        and ``labels`` and, optionally, ``test_images`` and ``test_labels``.
    data_root : Path, optional
        Folder with the files of the named sets in torchvision's layout. By default that of the
        environment variable ``PRIVAUDIT_DATA``. Sets that come with a library need none.
    seed : int
        Decides the stratified 80/20 split of sets that come without one.

    Returns
    -------
    Dataset

    Raises
    ------
    ConfigurationError
        If the name is unknown or the seed negative.
    DatasetNotFoundError
        If files are missing; the message says which, where, and how to get them.
    InvalidDataError
        If files are damaged or hold something else.
    """
    if seed < 0:
        raise ConfigurationError(f"seed must be at least 0, got {seed}")
    if name.endswith(".npz"):
        return _load_npz(Path(name).expanduser(), seed)
    description = describe(name)
    if description.embedded:
        return _load_digits(description, seed)
    root = _find_root(description, data_root)
    if description.name in ("mnist", "fashion-mnist"):
        return _load_idx(description, root)
    return _load_torchvision(description, root)


def _load_npz(path: Path, seed: int) -> Dataset:
    train, test, classes = read_npz(path)
    if test is None:
        return _split(path.name, LabelledImages(*train), classes, seed)
    return Dataset(path.name, LabelledImages(*train), LabelledImages(*test), classes)


def _load_digits(description: DatasetDescription, seed: int) -> Dataset:
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    images = (values / 16).reshape(-1, 8, 8)
    if description.name == "digits28":
        from scipy.ndimage import zoom

        # grid_mode aligns the outer edges of the images, not the centres of their outer pixels.
        images = zoom(images, (1, 3.5, 3.5), order=1, mode="nearest", grid_mode=True)
    images = np.clip(images, 0, 1).astype(np.float32)[:, None]
    everything = LabelledImages(images, labels.astype(np.int64))
    return _split(description.name, everything, description.classes, seed)


def _split(name: str, everything: LabelledImages, classes: int, seed: int) -> Dataset:
    """Put a fifth of each class, at least one record, into the test set."""
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label in range(classes):
        members = rng.permutation(np.flatnonzero(everything.labels == label))
        if len(members) < 2:
            raise InvalidDataError(
                f"{name}: class {label} has {len(members)} record(s); a split into training and "
                "test needs two of each class. Give 'test_images' and 'test_labels', or drop it"
            )
        count = max(1, round(_TEST_FRACTION * len(members)))
        test.append(members[:count])
        train.append(members[count:])
    # Ascending, so that the split keeps the order of the source.
    parts = [everything.take(np.sort(np.concatenate(part))) for part in (train, test)]
    return Dataset(name, parts[0], parts[1], classes)


def _find_root(description: DatasetDescription, data_root: Path | None) -> Path:
    """Return the data root, from the argument or else the environment; it must be a folder."""
    variable = os.environ.get(DATA_ROOT_VARIABLE)
    if data_root is not None:
        root, source = Path(data_root), "--data-root"
    elif variable:
        root, source = Path(variable), DATA_ROOT_VARIABLE
    else:
        raise DatasetNotFoundError(
            f"data set '{description.name}' needs a data root with {', '.join(description.files)}, "
            "and none is given. "
            f"{_how_to_get(description, Path('data'))}"
        )
    root = root.expanduser().absolute()
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "does not exist"
        raise DatasetNotFoundError(
            f"the data root {root} (from {source}) {problem}; give the folder that holds "
            f"{description.files[0]}"
        )
    return root


def _how_to_get(description: DatasetDescription, root: Path) -> str:
    embedded = ", ".join(f"'{name}'" for name in DATASETS if describe(name).embedded)
    return (
        f"On a machine with network access run: {description.fetch.replace('ROOT', str(root))} ; "
        f"then pass --data-root {root} or set {DATA_ROOT_VARIABLE}={root}. "
        f"Data sets that need no files: {embedded}"
    )


def _not_found(description: DatasetDescription, root: Path, missing: list[str]) -> Exception:
    return DatasetNotFoundError(
        f"data set '{description.name}' is not complete under {root}: looked for "
        f"{', '.join(missing)}. {_how_to_get(description, root)}"
    )


def _load_idx(description: DatasetDescription, root: Path) -> Dataset:
    paths, missing = [], []
    for name in description.files:
        plain = root / name.removesuffix(".gz")
        paths.append(plain if plain.is_file() else root / name)
        if not paths[-1].is_file():
            missing.append(f"{name} (or without .gz)")
    if missing:
        raise _not_found(description, root, missing)
    parts = [
        _idx_part(description, images, labels)
        for images, labels in ((paths[0], paths[1]), (paths[2], paths[3]))
    ]
    return Dataset(description.name, parts[0], parts[1], description.classes)


def _idx_part(
    description: DatasetDescription, image_file: Path, label_file: Path
) -> LabelledImages:
    images, labels = read_idx(image_file, ndim=3), read_idx(label_file, ndim=1)
    if images.shape[1:] != description.image_shape[1:] or len(images) != len(labels):
        height, width = description.image_shape[1:]
        raise InvalidDataError(
            f"{image_file} has shape {images.shape} and {label_file.name} {labels.shape}; "
            f"'{description.name}' has one label for each image of {height}x{width}"
        )
    if len(labels) == 0 or labels.max() >= description.classes:
        found = f"the label {labels.max()}" if len(labels) else "no label"
        raise InvalidDataError(
            f"{label_file} holds {found}; labels are 0 to {description.classes - 1}"
        )
    return LabelledImages(_unit(images[:, None]), labels.astype(np.int64))


def _load_torchvision(description: DatasetDescription, root: Path) -> Dataset:
    """Read CIFAR or SVHN through torchvision.

    CIFAR's batches are pickles. torchvision compares the MD5 of every batch, and of the meta file,
    with the official one before it unpickles any, so that only the official bytes are unpickled;
    a test holds this. SVHN is checked in the same way before SciPy reads it.
    """
    missing = [name for name in description.files if not (root / name).is_file()]
    if missing:
        raise _not_found(description, root, missing)
    from torchvision import datasets

    try:
        if description.name == "svhn":
            parts = [
                datasets.SVHN(root, split=split, download=False) for split in ("train", "test")
            ]
            arrays = [(part.data, part.labels) for part in parts]
        else:
            source = datasets.CIFAR10 if description.name == "cifar10" else datasets.CIFAR100
            parts = [source(root, train=train, download=False) for train in (True, False)]
            arrays = [(part.data.transpose(0, 3, 1, 2), part.targets) for part in parts]
    except RuntimeError as error:
        raise InvalidDataError(
            f"files of data set '{description.name}' under {root} are not the official ones: their "
            f"MD5 differs, so they were not opened. Delete them. {_how_to_get(description, root)}"
        ) from error
    train, test = (
        LabelledImages(_unit(images), np.asarray(labels, dtype=np.int64))
        for images, labels in arrays
    )
    return Dataset(description.name, train, test, description.classes)


def _unit(images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Map bytes to [0, 1]."""
    result = np.ascontiguousarray(images, dtype=np.float32)
    result /= np.float32(255)
    return result
