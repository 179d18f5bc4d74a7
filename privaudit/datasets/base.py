"""Labelled images, and how they are spread over the users of a federation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.transcript import PartyId

__all__ = ["ClientData", "Dataset", "FederatedData", "LabelledImages"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Images with one label each.

    Attributes
    ----------
    images : ndarray of float32, shape (n, channels, height, width)
        Values in [0, 1].
    labels : ndarray of int64, shape (n,)
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.float32:
            raise InvalidDataError(
                f"images must be float32 of shape (n, channels, height, width), got "
                f"{self.images.dtype} of shape {self.images.shape}"
            )
        if self.labels.shape != (len(self.images),) or self.labels.dtype != np.int64:
            raise InvalidDataError(
                f"labels must be int64 of shape ({len(self.images)},), got {self.labels.dtype} "
                f"of shape {self.labels.shape}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: npt.NDArray[np.integer]) -> LabelledImages:
        """Return the records at the given positions, in that order."""
        return LabelledImages(self.images[index], self.labels[index])


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set with its official or made split; ``classes`` is the number of labels."""

    name: str
    train: LabelledImages
    test: LabelledImages
    classes: int


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """What one user holds: training records and a test set of the same distribution."""

    party: PartyId
    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True, slots=True, eq=False)
class FederatedData:
    """The users of a federation and, where the partition has them, their known groups.

    Attributes
    ----------
    dataset : str
    classes : int
    clients : tuple of ClientData
    groups : ndarray of int64, shape (users,), or None
        The group of each user when the partition was made of groups; truth, never seen by a party.
    auxiliary : LabelledImages
        Records of the same source that no user holds, for adversaries that are granted some.
    """

    dataset: str
    classes: int
    clients: tuple[ClientData, ...]
    groups: npt.NDArray[np.int64] | None
    auxiliary: LabelledImages

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.auxiliary.images.shape[1:]
        return channels, height, width
