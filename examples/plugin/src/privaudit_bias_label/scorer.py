"""How much of a user's data has the label that was guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Attack, Guesses
from privaudit.scoring.base import Metric, ScoredRun
from privaudit.scoring.estimate import Scores
from privaudit.scoring.labels import dominant_label
from privaudit.transcript import Truth

__all__ = ["GuessedLabel"]


def share_of_label(guesses: Guesses, truth: Truth) -> Scores:
    """Score each user by the share of its records that has the guessed label."""
    shares = {
        target: float(np.mean(truth.get(target, "labels") == int(value)))
        for target, value in zip(guesses.target_ids, guesses.values, strict=True)
    }
    return Scores("share of the guessed label", "mean", shares)


@dataclass(frozen=True, slots=True)
class GuessedLabel:
    """Whether it is the user's most frequent label, and how much of the data has it."""

    name: ClassVar[str] = "example-label"
    attacks: ClassVar[tuple[str, ...]] = ("example/bias-label",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return both metrics; the first gives the headline figure."""
        return (
            ("dominant label", dominant_label, "proportion"),
            ("share of the guessed label", share_of_label, "proportion of the records"),
        )
