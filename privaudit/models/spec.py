"""Which network is meant, without importing torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelSpec"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A network by name, with the shape of its input and its number of classes.

    ``name`` is one that :func:`privaudit.models.build` knows.
    """

    name: str
    input_shape: tuple[int, int, int]
    classes: int
