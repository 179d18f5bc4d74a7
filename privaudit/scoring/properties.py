"""Scores of attacks that infer which share of a user's records has an attribute."""

from __future__ import annotations

import numpy as np

from privaudit.attacks.base import Guesses
from privaudit.datasets.attributes import RecordAttribute
from privaudit.datasets.base import LabelledImages
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Truth

__all__ = ["majority_accuracy", "share_error"]


def majority_accuracy(guesses: Guesses, truth: Truth, *, attribute: RecordAttribute) -> Scores:
    """Score 1 where it was told whether more than half of the user's records have the attribute.

    Raises
    ------
    KeyError
        If the truth does not hold a user's ``images`` and ``labels``.
    """
    return Scores(
        metric="majority told rightly",
        statistic="proportion",
        per_target={
            user: float((float(value) > 0.5) == (_share(user, truth, attribute) > 0.5))
            for user, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def share_error(guesses: Guesses, truth: Truth, *, attribute: RecordAttribute) -> Scores:
    """Score the absolute difference of guessed and true share; less is leakier.

    Raises
    ------
    KeyError
        As :func:`majority_accuracy`.
    """
    return Scores(
        metric="error of the share",
        statistic="mean",
        per_target={
            user: abs(float(value) - _share(user, truth, attribute))
            for user, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
        higher_is_leakier=False,
    )


def _share(user: str, truth: Truth, attribute: RecordAttribute) -> float:
    images = np.asarray(truth.get(user, "images"), dtype=np.float32)
    labels = np.asarray(truth.get(user, "labels"), dtype=np.int64)
    return attribute.share(LabelledImages(images, labels))
