"""Sending in one round of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.transcript import JSON, PartyId, Recorder

__all__ = ["Channel"]


@dataclass(frozen=True, slots=True)
class Channel:
    """The recorder, and the round whose messages and secrets it is given."""

    recorder: Recorder
    round: int

    def send(
        self,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        /,
        meta: Mapping[str, JSON] | None = None,
        **arrays: npt.ArrayLike,
    ) -> None:
        """Record one message of the round."""
        self.recorder.send(
            round=self.round,
            kind=kind,
            sender=sender,
            receiver=receiver,
            arrays={name: np.asarray(value) for name, value in arrays.items()},
            meta=meta,
        )

    def keep(self, party: PartyId, name: str, value: npt.ArrayLike) -> None:
        """Record what a party holds after the round, as ``round-T/name``."""
        self.recorder.keep_secret(party, f"round-{self.round}/{name}", np.asarray(value))
