"""What a distinguishing game hands to the accountant: scores under both hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError

__all__ = ["GameScores"]


@dataclass(frozen=True, slots=True, eq=False)
class GameScores:
    """Scores of independent trials of one game, under either hypothesis.

    Attributes
    ----------
    null, alternative : ndarray of float64, shape (trials,)
        One score a trial; a larger one speaks for the alternative. Read-only.
    description : str
        The game, its parameters and its statistic.
    unit : str
        What differs between the hypotheses; that of the bound to compare with.
    relation : {"replace-one", "add-remove"}

    Raises
    ------
    InvalidDataError
        If a side is empty, not one-dimensional, or holds a value that is not finite.
    """

    null: npt.NDArray[np.float64]
    alternative: npt.NDArray[np.float64]
    description: str
    unit: str
    relation: Literal["replace-one", "add-remove"] = "replace-one"

    def __post_init__(self) -> None:
        for name in ("null", "alternative"):
            scores = np.array(getattr(self, name), dtype=np.float64)
            if scores.ndim != 1 or not scores.size:
                raise InvalidDataError(
                    f"{name} scores must be a non-empty vector, got shape {scores.shape}"
                )
            if not np.isfinite(scores).all():
                raise InvalidDataError(
                    f"{name} scores must be finite, {int((~np.isfinite(scores)).sum())} of "
                    f"{scores.size} are not: the reports overflow float32 or the statistic is wrong"
                )
            scores.flags.writeable = False
            object.__setattr__(self, name, scores)
