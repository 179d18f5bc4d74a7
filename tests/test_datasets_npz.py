"""A person's own arrays are read without pickle, bounded and checked."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaudit.datasets import load_dataset
from privaudit.errors import DatasetNotFoundError, InvalidDataError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 6, 7), dtype=np.uint8)
COLOURED = RNG.integers(0, 256, (40, 6, 7, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4


def write(folder: Path, **arrays: Any) -> str:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return str(path)


def all_images(name: str) -> np.ndarray:
    dataset = load_dataset(name)
    return np.concatenate([dataset.train.images, dataset.test.images])


def rows(images: np.ndarray) -> list[bytes]:
    return sorted(image.tobytes() for image in np.ascontiguousarray(images))


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (PIXELS, PIXELS[:, None]),
        (COLOURED, COLOURED.transpose(0, 3, 1, 2)),
        (COLOURED.transpose(0, 3, 1, 2), COLOURED.transpose(0, 3, 1, 2)),
        (PIXELS[..., None], PIXELS[:, None]),
    ],
    ids=["grey", "channels last", "channels first", "one channel last"],
)
def test_every_layout_of_bytes_becomes_channels_first_in_unit_range(
    tmp_path: Path, images: np.ndarray, expected: np.ndarray
) -> None:
    found = all_images(write(tmp_path, images=images, labels=LABELS))
    assert found.dtype == np.float32
    assert rows(np.rint(found * 255).astype(np.uint8)) == rows(expected)
    assert found.max() <= 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_in_unit_range_are_taken_as_they_are(tmp_path: Path, dtype: type) -> None:
    images = RNG.random((40, 6, 7)).astype(dtype)
    found = all_images(write(tmp_path, images=images, labels=LABELS))
    assert rows(found) == rows(images[:, None].astype(np.float32))


def test_split_is_seeded_stratified_and_named_after_the_file(tmp_path: Path) -> None:
    name = write(tmp_path, images=PIXELS, labels=LABELS)
    first, again, other = (load_dataset(name, seed=seed) for seed in (0, 0, 1))
    assert first.name == "own.npz"
    assert np.bincount(first.test.labels).tolist() == [2, 2, 2, 2]
    assert np.bincount(first.train.labels).tolist() == [8, 8, 8, 8]
    assert first.test.images.tobytes() == again.test.images.tobytes()
    assert first.test.images.tobytes() != other.test.images.tobytes()


def test_a_given_test_set_is_kept_apart_in_its_order(tmp_path: Path) -> None:
    name = write(
        tmp_path, images=PIXELS, labels=LABELS, test_images=PIXELS[:5] // 2, test_labels=LABELS[:5]
    )
    dataset = load_dataset(name)
    np.testing.assert_array_equal(dataset.train.labels, LABELS)
    found = np.rint(dataset.test.images[:, 0] * 255).astype(np.uint8)
    np.testing.assert_array_equal(found, PIXELS[:5] // 2)


def test_contiguous_labels_stay_and_others_are_numbered_in_ascending_order(tmp_path: Path) -> None:
    dataset = load_dataset(
        write(
            tmp_path,
            images=PIXELS,
            labels=np.array([30, -2, 7, 7] * 10),
            test_images=PIXELS[:2],
            test_labels=np.array([99, -2], dtype=np.int16),
        )
    )
    assert dataset.classes == 4
    assert dataset.train.labels[:4].tolist() == [2, 0, 1, 1]
    assert dataset.test.labels.tolist() == [3, 0]
    kept = load_dataset(
        write(tmp_path, images=PIXELS, labels=LABELS, test_images=PIXELS, test_labels=LABELS)
    )
    np.testing.assert_array_equal(kept.train.labels, LABELS)


def test_arrays_of_other_names_are_not_read(tmp_path: Path) -> None:
    name = write(tmp_path, images=PIXELS, labels=LABELS, notes=np.array([object()], dtype=object))
    assert load_dataset(name).classes == 4


UNIT = np.full((40, 6, 7), 0.5)


def spoiled(value: float) -> np.ndarray:
    images = UNIT.copy()
    images[3, 2, 1] = value
    images[30, 0, 0] = value
    return images


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": LABELS}, r"own\.npz has no array 'images'; needed are"),
        ({"images": PIXELS}, r"own\.npz has no array 'labels'; needed are"),
        (
            {"images": PIXELS, "labels": LABELS, "test_labels": LABELS},
            r"go together; only 'test_labels' is there",
        ),
        (
            {"images": spoiled(np.nan), "labels": LABELS},
            r"own\.npz: images\[3, 2, 1\] = nan is not finite",
        ),
        (
            {"images": spoiled(-np.inf), "labels": LABELS},
            r"images\[3, 2, 1\] = -inf is not finite",
        ),
        (
            {"images": spoiled(255.0), "labels": LABELS},
            r"images\[3, 2, 1\] = 255\.0 is not in \[0, 1\]; integers of 0\.\.255 must be uint8",
        ),
        (
            {
                "images": UNIT,
                "labels": LABELS,
                "test_images": spoiled(np.nan),
                "test_labels": LABELS,
            },
            r"test_images\[3, 2, 1\] = nan",
        ),
        ({"images": PIXELS.astype(np.int32), "labels": LABELS}, r"'images' must be uint8, or fl"),
        ({"images": PIXELS[0], "labels": LABELS}, r"'images' of shape \(6, 7\) must be"),
        (
            {"images": np.zeros((40, 6, 7, 9), np.uint8), "labels": LABELS},
            r"exactly one axis of 1 to 4 channels",
        ),
        (
            {"images": np.zeros((40, 3, 7, 3), np.uint8), "labels": LABELS},
            r"exactly one axis of 1 to 4 channels",
        ),
        ({"images": PIXELS, "labels": LABELS[1:]}, r"'images' has 40 records and 'labels' 39"),
        ({"images": PIXELS[:0], "labels": LABELS[:0]}, r"has 0 records and 'labels' 0"),
        ({"images": PIXELS, "labels": LABELS * 1.0}, r"'labels' must be integers .* got float64"),
        ({"images": PIXELS, "labels": LABELS[:, None]}, r"'labels' must be integers of shape"),
        ({"images": PIXELS, "labels": LABELS * 0 + 7}, r"'labels' has one distinct value, 7"),
        (
            {"images": PIXELS, "labels": LABELS.astype(np.uint64) + np.uint64(2**63)},
            r"'labels' holds 9223372036854775811, too large",
        ),
        (
            {"images": PIXELS, "labels": np.array([0] * 39 + [1])},
            r"class 1 has 1 record\(s\); a split .* 'test_images'",
        ),
        (
            {
                "images": PIXELS,
                "labels": LABELS,
                "test_images": PIXELS[:, 1:],
                "test_labels": LABELS,
            },
            r"'images' are \(1, 6, 7\) .* and 'test_images' \(1, 5, 7\)",
        ),
        (
            {"images": PIXELS, "labels": np.array([None] * 40, dtype=object)},
            r"array 'labels' cannot be read: it holds Python objects, which are never unpickled",
        ),
    ],
)
def test_unusable_arrays_are_named_with_what_is_wrong(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    name = write(tmp_path, **arrays)
    with pytest.raises(InvalidDataError, match=message):
        load_dataset(name)


def test_a_missing_file_is_reported_with_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetNotFoundError, match=rf"no data file at {tmp_path}/missing\.npz: "):
        load_dataset("missing.npz")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and then nothing"])
def test_a_file_that_is_no_archive_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"own\.npz is not a readable \.npz file: "):
        load_dataset(str(path))


def header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    description = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()


def write_members(folder: Path, **members: bytes) -> str:
    path = folder / "own.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return str(path)


def test_a_header_that_declares_more_than_follows_is_refused_before_memory_is_taken(
    tmp_path: Path,
) -> None:
    name = write_members(tmp_path, images=header((2**40, 2**10)) + b"few", labels=header((1,)))
    with pytest.raises(
        InvalidDataError, match=r"'images' .* it declares uint8 of shape .* shorter"
    ):
        load_dataset(name)


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privaudit.datasets._npz._LARGEST", 10_000)
    name = write_members(tmp_path, images=header((20_000,)) + bytes(20_000), labels=header((1,)))
    assert Path(name).stat().st_size < 1_000
    with pytest.raises(InvalidDataError, match=r"declares \d+ bytes of arrays; at most 10000"):
        load_dataset(name)


@pytest.mark.parametrize("cut", [0, 5, 60])
def test_a_cut_off_array_is_reported_with_its_name(tmp_path: Path, cut: int) -> None:
    name = write_members(tmp_path, images=header((5, 8, 8))[:cut], labels=header((1,)))
    with pytest.raises(InvalidDataError, match=r"array 'images' cannot be read: "):
        load_dataset(name)
