"""Data sets are read as published, split by seed, and every failure says what to do."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privaudit.datasets import (
    DATA_ROOT_VARIABLE,
    DATASETS,
    Dataset,
    describe,
    load_dataset,
)
from privaudit.errors import ConfigurationError, DatasetNotFoundError, InvalidDataError

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.fixture(autouse=True)
def _no_data_root_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_ROOT_VARIABLE, raising=False)


def idx(array: np.ndarray) -> bytes:
    """Write an array in the IDX format, from the format's description."""
    extents = b"".join(int(extent).to_bytes(4, "big") for extent in array.shape)
    return bytes([0, 0, 8, array.ndim]) + extents + array.tobytes()


def compressed(content: bytes) -> bytes:
    """Gzip the same bytes to the same bytes: the header holds no time of day."""
    return gzip.compress(content, mtime=0)


def write_mnist(root: Path, *, records: int = 30, packed: bool = True) -> tuple[np.ndarray, ...]:
    """Write a small set in MNIST's layout and return its four arrays."""
    rng = np.random.default_rng(0)
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    arrays = []
    for part in ("train", "t10k"):
        arrays.append(rng.integers(0, 256, (records, 28, 28), dtype=np.uint8))
        arrays.append((np.arange(records) % 10).astype(np.uint8))
        for array, kind in zip(arrays[-2:], ("images-idx3", "labels-idx1"), strict=True):
            path = raw / f"{part}-{kind}-ubyte"
            if packed:
                path.with_name(path.name + ".gz").write_bytes(compressed(idx(array)))
            else:
                path.write_bytes(idx(array))
    return tuple(arrays)


def same(first: Dataset, second: Dataset) -> bool:
    return all(
        a.images.tobytes() == b.images.tobytes() and a.labels.tobytes() == b.labels.tobytes()
        for a, b in ((first.train, second.train), (first.test, second.test))
    )


# Embedded digits


@pytest.mark.parametrize("name", ["digits", "digits28"])
def test_embedded_digits_need_no_root_and_match_their_description(name: str) -> None:
    dataset, known = load_dataset(name), describe(name)
    assert dataset.name == name
    assert dataset.train.images.shape == (known.train, *known.image_shape)
    assert dataset.test.images.shape == (known.test, *known.image_shape)
    assert dataset.train.images.min() == 0
    assert dataset.train.images.max() == 1
    assert dataset.classes == known.classes == 10


def test_split_is_a_partition_of_the_digits_with_a_fifth_of_each_class_for_testing() -> None:
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    dataset = load_dataset("digits", seed=3)
    together = np.concatenate([dataset.train.images, dataset.test.images]).reshape(-1, 64) * 16
    assert sorted(map(tuple, together)) == sorted(map(tuple, values))
    share = np.bincount(dataset.test.labels) / np.bincount(labels)
    np.testing.assert_allclose(share, 0.2, atol=0.003)


def test_split_depends_on_the_seed_alone() -> None:
    assert same(load_dataset("digits", seed=1), load_dataset("digits", seed=1))
    assert not same(load_dataset("digits", seed=1), load_dataset("digits", seed=2))


def test_enlarged_digits_are_the_bilinear_interpolation_of_the_small_ones() -> None:
    import torch

    small, large = load_dataset("digits", seed=0), load_dataset("digits28", seed=0)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(small.train.images), size=(28, 28), mode="bilinear", align_corners=False
    )
    np.testing.assert_allclose(large.train.images, expected.numpy(), atol=1e-6)
    np.testing.assert_array_equal(large.train.labels, small.train.labels)


# MNIST and Fashion-MNIST


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    arrays = write_mnist(tmp_path, packed=packed)
    dataset = load_dataset("mnist", data_root=tmp_path)
    np.testing.assert_array_equal(dataset.train.images[:, 0] * np.float32(255), arrays[0])
    np.testing.assert_array_equal(dataset.train.labels, arrays[1])
    np.testing.assert_array_equal(dataset.test.images[:, 0] * np.float32(255), arrays[2])
    np.testing.assert_array_equal(dataset.test.labels, arrays[3])


def test_unpacked_files_give_what_torchvision_gives(tmp_path: Path) -> None:
    from torchvision.datasets import MNIST

    write_mnist(tmp_path, packed=False)
    dataset = load_dataset("mnist", data_root=tmp_path)
    for part, train in ((dataset.train, True), (dataset.test, False)):
        oracle = MNIST(tmp_path, train=train, download=False)
        np.testing.assert_array_equal(part.images[:, 0] * np.float32(255), oracle.data.numpy())
        np.testing.assert_array_equal(part.labels, oracle.targets.numpy())


def test_reading_writes_nothing(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    load_dataset("mnist", data_root=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_full_mnist_in_a_read_only_folder_of_packed_files_is_the_published_one(
    shared: Path,
) -> None:
    root = shared / "data"
    assert not list((root / "MNIST" / "raw").glob("*ubyte")), "the folder holds .gz files only"
    dataset = load_dataset("mnist", data_root=root)
    assert dataset.train.images.shape == (60_000, 1, 28, 28)
    assert dataset.test.images.shape == (10_000, 1, 28, 28)
    assert dataset.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert dataset.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(dataset.train.labels).tolist() == MNIST_COUNTS
    # Mean and deviation with which the field standardises MNIST.
    assert round(float(dataset.train.images.mean(dtype=np.float64)), 4) == 0.1307
    assert round(float(dataset.train.images.std(dtype=np.float64)), 4) == 0.3081


def test_full_fashion_mnist_is_the_published_one(shared: Path) -> None:
    dataset = load_dataset("fashion-mnist", data_root=shared / "data")
    assert np.bincount(dataset.train.labels).tolist() == [6000] * 10
    assert np.bincount(dataset.test.labels).tolist() == [1000] * 10
    assert dataset.train.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert round(float(dataset.train.images.mean(dtype=np.float64)), 4) == 0.2860


IMAGES = "train-images-idx3-ubyte.gz"
LABELS = "train-labels-idx1-ubyte.gz"
BLANK = np.zeros((30, 28, 28), np.uint8)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (IMAGES, b"not gzip at all", r"train-images-idx3-ubyte\.gz cannot be read: "),
        (IMAGES, compressed(idx(BLANK))[:-20], r"train-images-idx3-ubyte\.gz cannot be read: "),
        (IMAGES, compressed(b""), r"begins with nothing, expected 00000803"),
        (IMAGES, compressed(idx(BLANK[0])), r"begins with 00000802, expected 00000803"),
        (IMAGES, compressed(idx(BLANK)[:-9]), r"that is 23520 bytes, and holds 23511"),
        (IMAGES, compressed(idx(BLANK) + b"0"), r"that is 23520 bytes, and holds more"),
        (
            IMAGES,
            compressed(bytes([0, 0, 8, 3]) + b"\xff" * 12),
            r"declares 79228162458924105385300197375 bytes; at most 536870912 are read",
        ),
        (IMAGES, compressed(idx(BLANK[:, 1:])), r"has one label for each image of 28x28"),
        (IMAGES, compressed(idx(BLANK[1:])), r"\(29, 28, 28\) and train-labels.* \(30,\)"),
        (LABELS, compressed(idx(np.full(30, 10, np.uint8))), r"holds the label 10; labels are"),
    ],
    ids=[
        "not gzip",
        "cut stream",
        "empty stream",
        "wrong magic",
        "short data",
        "long data",
        "huge extents",
        "wrong extents",
        "missing image",
        "unknown label",
    ],
)
def test_damaged_idx_files_are_named_with_what_is_wrong(
    tmp_path: Path, file: str, content: bytes, message: str
) -> None:
    write_mnist(tmp_path)
    (tmp_path / "MNIST" / "raw" / file).write_bytes(content)
    with pytest.raises(InvalidDataError, match=message):
        load_dataset("mnist", data_root=tmp_path)


# CIFAR and SVHN


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn"])
def test_files_that_are_not_the_official_ones_are_never_unpickled(
    tmp_path: Path, name: str
) -> None:
    """A pickle that would leave a mark when loaded stays unloaded."""
    mark = tmp_path / "mark"
    hostile = f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()
    for file in describe(name).files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(hostile)
    with pytest.raises(InvalidDataError, match=rf"data set '{name}' .*MD5 differs"):
        load_dataset(name, data_root=tmp_path)
    assert not mark.exists()
    subprocess.run(
        [sys.executable, "-c", "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"],
        input=hostile,
        check=True,
    )
    assert mark.exists(), "the pickle would have left its mark, so the test can fail"


def test_only_the_official_sums_let_a_cifar_batch_be_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the sums of a small set in CIFAR's format in place of the official ones, it is read."""
    import hashlib
    import pickle

    from torchvision import datasets

    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = {}
    sums = {}
    for file in describe("cifar10").files:
        name = Path(file).name
        pixels[name] = rng.integers(0, 256, (10, 3072), dtype=np.uint8)
        content = {
            "data": pixels[name],
            "labels": list(range(10)),
            "label_names": list("abcdefghij"),
        }
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    for attribute in ("train_list", "test_list"):
        official = getattr(datasets.CIFAR10, attribute)
        monkeypatch.setattr(
            datasets.CIFAR10, attribute, [[name, sums[name]] for name, _ in official]
        )
    monkeypatch.setitem(datasets.CIFAR10.meta, "md5", sums["batches.meta"])
    dataset = load_dataset("cifar10", data_root=tmp_path)
    assert dataset.train.images.shape == (50, 3, 32, 32)
    # Each row of a batch is the red, then the green, then the blue plane.
    first = dataset.train.images[0].reshape(3072) * np.float32(255)
    np.testing.assert_array_equal(first, pixels["data_batch_1"][0])
    assert dataset.test.labels.tolist() == list(range(10))


# What is missing


@pytest.mark.parametrize("name", [name for name in DATASETS if not describe(name).embedded])
def test_a_missing_set_says_which_files_where_and_how_to_get_them(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset(name, data_root=tmp_path)
    message = str(caught.value)
    for file in describe(name).files:
        assert file in message
    assert f"under {tmp_path}" in message
    assert "download=True" in message
    assert f"--data-root {tmp_path}" in message
    assert f"{DATA_ROOT_VARIABLE}={tmp_path}" in message
    assert message.endswith("Data sets that need no files: 'digits', 'digits28'")


def test_the_exact_message_for_a_missing_mnist_file(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset("mnist", data_root=tmp_path)
    assert str(caught.value) == (
        f"data set 'mnist' is not complete under {tmp_path}: looked for "
        "MNIST/raw/t10k-labels-idx1-ubyte.gz (or without .gz). On a machine with network access "
        'run: python -c "from torchvision.datasets import *; '
        f"MNIST('{tmp_path}', download=True)\" ; then pass --data-root {tmp_path} or set "
        f"PRIVAUDIT_DATA={tmp_path}. Data sets that need no files: 'digits', 'digits28'"
    )


def test_the_suggested_command_is_python_that_names_a_torchvision_class() -> None:
    import torchvision.datasets

    for name in DATASETS:
        fetch = describe(name).fetch
        if describe(name).embedded:
            assert fetch == ""
            continue
        code = fetch.removeprefix('python -c "').removesuffix('"')
        compile(code, name, "exec")
        assert any(f"{known}('ROOT'" in code for known in torchvision.datasets.__all__)


def test_without_any_root_the_message_says_so() -> None:
    with pytest.raises(DatasetNotFoundError, match=r"'mnist' needs a data root with .* none is"):
        load_dataset("mnist")


@pytest.mark.parametrize("source", ["--data-root", DATA_ROOT_VARIABLE])
@pytest.mark.parametrize(
    ("name", "problem"), [("nowhere", "does not exist"), ("file", "is not a folder")]
)
def test_a_root_that_is_no_folder_is_named_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str, problem: str
) -> None:
    (tmp_path / "file").write_text("")
    root = tmp_path / name
    if source == DATA_ROOT_VARIABLE:
        monkeypatch.setenv(DATA_ROOT_VARIABLE, str(root))
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset("mnist", data_root=root if source == "--data-root" else None)
    assert str(caught.value) == (
        f"the data root {root} (from {source}) {problem}; give the folder that holds "
        "MNIST/raw/train-images-idx3-ubyte.gz"
    )


def test_the_environment_gives_the_root_and_the_argument_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "a", records=30)
    write_mnist(tmp_path / "b", records=20)
    monkeypatch.setenv(DATA_ROOT_VARIABLE, str(tmp_path / "a"))
    assert len(load_dataset("mnist").train) == 30
    assert len(load_dataset("mnist", data_root=tmp_path / "b").train) == 20


def test_a_relative_root_is_reported_as_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetNotFoundError, match=rf"the data root {tmp_path}/here "):
        load_dataset("mnist", data_root=Path("here"))


def test_unknown_names_get_the_list_and_the_nearest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_dataset("fashion_mnist")
    assert str(caught.value) == (
        "unknown data set 'fashion_mnist'; data sets are digits, digits28, mnist, fashion-mnist, "
        "cifar10, cifar100, svhn, or the path of a file that ends in .npz. "
        "Did you mean 'fashion-mnist'?"
    )


def test_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="seed must be at least 0, got -1"):
        load_dataset("digits", seed=-1)


def test_reading_digits_and_mnist_does_not_import_torch(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    code = (
        "import sys, pathlib; from privaudit.datasets import load_dataset; "
        "load_dataset('digits28'); "
        f"load_dataset('mnist', data_root=pathlib.Path({str(tmp_path)!r})); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_read_only_root_is_enough(tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path / "writable")
    root = tmp_path / "root"
    shutil.copytree(tmp_path / "writable", root)
    for path in (*root.rglob("*"), root):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        dataset = load_dataset("mnist", data_root=root)
    finally:
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)
    np.testing.assert_array_equal(dataset.train.labels, arrays[1])
