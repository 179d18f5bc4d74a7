"""Models that clients send as they are: no attack, only reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks._messages import array_of
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Capability, Message, View

__all__ = ["SentModels"]


@dataclass(frozen=True, slots=True)
class SentModels:
    """Read the trained models that clients send in the clear.

    Algorithm 1 of DisUE says that the server receives encrypted models only, and lets it average
    and distil from the models themselves. Whoever receives them knows them; under secure
    aggregation that holds for a client that is alone in its cluster.

    Attributes
    ----------
    round : int or None
        The round to read; None for all.
    """

    round: int | None = None

    name: ClassVar[str] = "reconstruction/sent-models"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (kinds.PARAMETERS,)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Return the model of every client outside the coalition that sent it.

        Returns
        -------
        Guesses
            Targets are ``CLIENT/round-T``; values are the models, (d,) float32.

        Raises
        ------
        UnmetRequirementsError
            If the coalition received no model.
        """
        sent = self._sent(view)
        return Guesses(
            tuple(f"{m.sender}/round-{m.round}" for m in sent),
            tuple(array_of(m, "parameters") for m in sent),
            np.ones(len(sent)),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the global model that the round started from."""
        sent = self._sent(view)
        start = {m.round: array_of(m, "parameters") for m in view.select(kinds.GLOBAL_MODEL)}
        initial = view.public_arrays["initial-parameters"]
        return Guesses(
            tuple(f"{m.sender}/round-{m.round}" for m in sent),
            tuple(start.get(m.round, initial) for m in sent),
            np.zeros(len(sent)),
        )

    def _sent(self, view: View) -> tuple[Message, ...]:
        sent = tuple(
            m
            for m in view.select(kinds.PARAMETERS, round=self.round)
            if m.sender not in view.coalition.members
        )
        if not sent:
            raise UnmetRequirementsError(
                f"attack '{self.name}' reads models sent in the clear, and {view.coalition} "
                "received none of another party"
            )
        return sent
