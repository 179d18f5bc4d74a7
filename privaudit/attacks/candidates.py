"""Records of which an adversary asks whether a user trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError
from privaudit.transcript import PartyId

__all__ = ["Candidates"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Records that are known, some of them in the data of the user whom they are asked of.

    Attributes
    ----------
    ids : tuple of str
        Distinct names of the questions, ``USER/candidate-N``; they say nothing of the answer.
    records : LabelledImages
        The record of each question.
    """

    ids: tuple[str, ...]
    records: LabelledImages

    def __post_init__(self) -> None:
        if len(set(self.ids)) != len(self.ids) or len(self.ids) != len(self.records):
            raise InvalidDataError(
                f"candidates have distinct ids, one a record: got {len(set(self.ids))} distinct "
                f"of {len(self.ids)} ids for {len(self.records)} records"
            )
        nameless = [i for i in self.ids if "/" not in i]
        if nameless:
            raise InvalidDataError(
                f"a candidate's id starts with the user and a slash, as in 'user-3/candidate-7'; "
                f"got {nameless[0]!r}"
            )

    @property
    def users(self) -> tuple[PartyId, ...]:
        """The user whom each record is asked of."""
        return tuple(i.split("/", 1)[0] for i in self.ids)

    def of(self, user: PartyId) -> npt.NDArray[np.int64]:
        """Return the positions of a user's candidates."""
        return np.flatnonzero([u == user for u in self.users]).astype(np.int64)
