"""Attributes of single records, of whose share in a user's data an adversary asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError

__all__ = ["RecordAttribute"]


@dataclass(frozen=True, slots=True)
class RecordAttribute:
    """Something that a record has or has not.

    Attributes
    ----------
    classes : tuple of int
        The record's label is one of these; empty for the next.
    brightness : float or None
        The mean of the record's pixels is greater than this. It is not what the network learns.
    """

    classes: tuple[int, ...] = ()
    brightness: float | None = None

    def __post_init__(self) -> None:
        if bool(self.classes) == (self.brightness is not None):
            raise ConfigurationError(
                "an attribute is a group of classes or a brightness, exactly one of them: got "
                f"classes {self.classes} and brightness {self.brightness}"
            )

    def of(self, records: LabelledImages) -> npt.NDArray[np.bool_]:
        """Return whether each record has it, bool of shape (records,)."""
        if self.classes:
            return np.isin(records.labels, self.classes)
        held: npt.NDArray[np.bool_] = records.images.mean(axis=(1, 2, 3)) > self.brightness
        return held

    def share(self, records: LabelledImages) -> float:
        """Return the share of records that have it."""
        return float(self.of(records).mean())
