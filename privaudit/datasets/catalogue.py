"""The data sets that are known by name: what they hold, where they lie, how to get them."""

from __future__ import annotations

from dataclasses import dataclass

from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["DATASETS", "DatasetDescription", "describe"]


@dataclass(frozen=True, slots=True)
class DatasetDescription:
    """What is known of a data set without reading it.

    Attributes
    ----------
    name : str
    summary : str
        One sentence for people.
    image_shape : tuple of int
        Channels, height, width.
    classes : int
    train, test : int
        Numbers of records of the complete set.
    licence : str
    files : tuple of str
        Paths below the data root; empty for sets that need none. For MNIST and Fashion-MNIST the
        same names without ``.gz`` do as well.
    fetch : str
        Command for a machine with network access that fetches the files, with ``ROOT`` for the
        data root; empty for sets that need none.
    """

    name: str
    summary: str
    image_shape: tuple[int, int, int]
    classes: int
    train: int
    test: int
    licence: str
    files: tuple[str, ...] = ()
    fetch: str = ""

    @property
    def embedded(self) -> bool:
        """Whether the set comes with an installed library and needs no data root."""
        return not self.files


def _idx_files(folder: str) -> tuple[str, ...]:
    kinds = ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")
    return tuple(f"{folder}/raw/{part}-{kind}" for part in ("train", "t10k") for kind in kinds)


def _fetch(call: str) -> str:
    return f'python -c "from torchvision.datasets import *; {call}"'


_DESCRIPTIONS: tuple[DatasetDescription, ...] = (
    DatasetDescription(
        name="digits",
        summary="Handwritten digits of 43 people, embedded in scikit-learn.",
        image_shape=(1, 8, 8),
        classes=10,
        train=1438,
        test=359,
        licence="CC BY 4.0 (UCI, Alpaydin and Kaynak 1998)",
    ),
    DatasetDescription(
        name="digits28",
        summary="The embedded digits, enlarged bilinearly to the size of MNIST.",
        image_shape=(1, 28, 28),
        classes=10,
        train=1438,
        test=359,
        licence="CC BY 4.0 (UCI, Alpaydin and Kaynak 1998)",
    ),
    DatasetDescription(
        name="mnist",
        summary="Handwritten digits, grey.",
        image_shape=(1, 28, 28),
        classes=10,
        train=60_000,
        test=10_000,
        licence="CC BY-SA 3.0 is commonly stated (LeCun, Cortes, Burges)",
        files=_idx_files("MNIST"),
        fetch=_fetch("MNIST('ROOT', download=True)"),
    ),
    DatasetDescription(
        name="fashion-mnist",
        summary="Pieces of clothing, grey.",
        image_shape=(1, 28, 28),
        classes=10,
        train=60_000,
        test=10_000,
        licence="MIT (Zalando Research)",
        files=_idx_files("FashionMNIST"),
        fetch=_fetch("FashionMNIST('ROOT', download=True)"),
    ),
    DatasetDescription(
        name="cifar10",
        summary="Small photographs of ten kinds of thing, coloured.",
        image_shape=(3, 32, 32),
        classes=10,
        train=50_000,
        test=10_000,
        licence="none stated; cite Krizhevsky 2009",
        files=(
            *(f"cifar-10-batches-py/data_batch_{number}" for number in range(1, 6)),
            "cifar-10-batches-py/test_batch",
            "cifar-10-batches-py/batches.meta",
        ),
        fetch=_fetch("CIFAR10('ROOT', download=True)"),
    ),
    DatasetDescription(
        name="cifar100",
        summary="Small photographs of a hundred kinds of thing, coloured.",
        image_shape=(3, 32, 32),
        classes=100,
        train=50_000,
        test=10_000,
        licence="none stated; cite Krizhevsky 2009",
        files=tuple(f"cifar-100-python/{name}" for name in ("train", "test", "meta")),
        fetch=_fetch("CIFAR100('ROOT', download=True)"),
    ),
    DatasetDescription(
        name="svhn",
        summary="House numbers in street views, cropped to one digit, coloured.",
        image_shape=(3, 32, 32),
        classes=10,
        train=73_257,
        test=26_032,
        licence="non-commercial use only (Netzer et al. 2011)",
        files=("train_32x32.mat", "test_32x32.mat"),
        fetch=_fetch("[SVHN('ROOT', split=s, download=True) for s in ('train', 'test')]"),
    ),
)

#: Names that :func:`load_dataset` knows, besides paths that end in ``.npz``.
DATASETS: tuple[str, ...] = tuple(description.name for description in _DESCRIPTIONS)


def describe(name: str) -> DatasetDescription:
    """Return what is known of a named data set without reading it.

    Raises
    ------
    ConfigurationError
        If no data set has this name.

    Examples
    --------
    >>> describe("mnist").train
    60000
    """
    for description in _DESCRIPTIONS:
        if description.name == name:
            return description
    raise ConfigurationError(
        f"unknown data set '{name}'; data sets are {', '.join(DATASETS)}, or the path of a file "
        f"that ends in .npz.{did_you_mean(name, DATASETS)}"
    )
