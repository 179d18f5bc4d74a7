"""Which class a user has most records of, read off the bias of its update's last layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.transcript import Capability, View

__all__ = ["BiasLabel"]


@dataclass(frozen=True, slots=True)
class BiasLabel:
    """Guess a user's most frequent label: the class whose output bias is pushed up the most.

    The gradient of the cross entropy at the bias of class c is the mean over the records of
    ``p_c - [label is c]``. Early in training all ``p_c`` are alike, so that the most negative entry
    belongs to the most frequent label. The bias of the last layer is the end of the update.
    """

    name: ClassVar[str] = "example/bias-label"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.MODEL_ARCHITECTURE})
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the label of every user outside the coalition that sent an update in round 1."""
        users, classes = self._users(view, knowledge)
        biases = [update[-classes:] for update in users.values()]
        return Guesses(
            target_ids=tuple(users),
            values=tuple(np.asarray(np.argmin(bias), dtype=np.int64) for bias in biases),
            scores=np.array([np.sort(bias)[1] - bias.min() for bias in biases], dtype=np.float64),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess a label at random."""
        users, classes = self._users(view, knowledge)
        guesses = rng.integers(classes, size=len(users))
        return Guesses(
            target_ids=tuple(users),
            values=tuple(np.asarray(label, dtype=np.int64) for label in guesses),
            scores=np.zeros(len(users)),
        )

    def _users(self, view: View, knowledge: Knowledge) -> tuple[dict[str, np.ndarray], int]:
        view.require(self.requires, attack=self.name)
        users = {
            message.sender: message.arrays["values"]
            for message in view.select(UPDATE, round=1)
            if message.sender not in view.coalition.members
        }
        if knowledge.model is None or not users:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs the architecture and users' updates of round 1; "
                f"{view.coalition} has {len(users)} of these"
            )
        return users, knowledge.model.classes
