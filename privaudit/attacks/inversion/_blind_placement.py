"""A placement of the aggregation server's values, and the guesses that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion._blind_search import Placed
from privaudit.attacks.inversion._blind_templates import Templates
from privaudit.attacks.inversion._observations import PartialUpdates

__all__ = ["PLACED", "Placement", "as_guesses", "placement"]

#: Element type of a guess, one element an important value.
PLACED = np.dtype([("coordinate", np.int64), ("value", np.float32)])


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where the columns of a round lie.

    Attributes
    ----------
    users : tuple of str
    round : int or None
    values : ndarray of float32, shape (users, k)
    coordinates : ndarray of int64, shape (k,)
    confidence : ndarray of float64, shape (k,)
        Probability of each coordinate, as the model has it.
    histograms : ndarray of float64, shape (users, classes)
        Label shares, rows sum to one.
    diagnostics : mapping of str to float
    """

    users: tuple[str, ...]
    round: int | None
    values: npt.NDArray[np.float32]
    coordinates: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float64]
    histograms: npt.NDArray[np.float64]
    diagnostics: Mapping[str, float]


def placement(
    seen: PartialUpdates,
    chosen: int | None,
    templates: Templates,
    placed: Placed,
    diagnostics: dict[str, float],
) -> Placement:
    shares = np.clip(placed.factors.mean[:, : templates.classes], 0, None)
    shares[shares.sum(1) == 0] = 1.0
    diagnostics["cost"] = placed.cost
    diagnostics["mean confidence"] = float(placed.confidence.mean())
    return Placement(
        seen.users,
        chosen,
        seen.values,
        templates.coordinates[placed.candidates],
        placed.confidence,
        shares / shares.sum(1, keepdims=True),
        diagnostics,
    )


def as_guesses(placed: Placement) -> Guesses:
    values = []
    for own in placed.values:
        value = np.empty(len(own), PLACED)
        value["coordinate"], value["value"] = placed.coordinates, own
        values.append(value)
    suffix = "" if placed.round is None else f"/round-{placed.round}"
    return Guesses(
        target_ids=tuple(f"{user}{suffix}" for user in placed.users),
        values=tuple(values),
        scores=np.full(len(placed.users), float(placed.confidence.mean())),
        diagnostics=placed.diagnostics,
    )
