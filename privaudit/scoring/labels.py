"""Scores of attacks that infer which labels a user trained on.

A guess is either one class, () int64, or a histogram over the classes, (classes,) float64 that
sums to one. The truth is the user's ``labels``, (n,) int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import ConfigurationError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["dominant_label", "label_accuracy", "label_overlap", "total_variation"]

Histogram = npt.NDArray[np.float64]


def label_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the label of the user's only record was guessed.

    Raises
    ------
    ConfigurationError
        If a user has more than one record: use :func:`dominant_label` or :func:`label_overlap`.
    """

    def correct(guess: Array, labels: npt.NDArray[np.int64]) -> float:
        if labels.size != 1:
            raise ConfigurationError(
                f"label accuracy is for updates of one record, a user has {labels.size}; "
                f"use dominant_label or label_overlap"
            )
        return float(_class(guess) == int(labels[0]))

    return _score("label accuracy", "proportion", guesses, truth, correct)


def dominant_label(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where a most frequent label of the user was guessed; any of several tied counts."""

    def correct(guess: Array, labels: npt.NDArray[np.int64]) -> float:
        counts = np.bincount(labels)
        label = _class(guess)
        return float(label < counts.size and counts[label] == counts.max())

    return _score("dominant label", "proportion", guesses, truth, correct)


def label_overlap(guesses: Guesses, truth: Truth) -> Scores:
    """Score the common mass of the guessed and the true histogram, ``sum(min(guess, true))``."""
    return _score("label overlap", "mean", guesses, truth, _overlap)


def total_variation(guesses: Guesses, truth: Truth) -> Scores:
    """Score the total variation distance of the two histograms, half their L1 distance."""
    return _score(
        "total variation of labels",
        "mean",
        guesses,
        truth,
        lambda guess, labels: 1.0 - _overlap(guess, labels),
        higher_is_leakier=False,
    )


def _score(
    metric: str,
    statistic: Literal["proportion", "mean"],
    guesses: Guesses,
    truth: Truth,
    measure: Callable[[Array, npt.NDArray[np.int64]], float],
    *,
    higher_is_leakier: bool = True,
) -> Scores:
    return Scores(
        metric=metric,
        statistic=statistic,
        per_target={
            target: measure(value, np.atleast_1d(truth.get(target, "labels")))
            for target, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
        higher_is_leakier=higher_is_leakier,
    )


def _class(guess: Array) -> int:
    return int(guess) if guess.ndim == 0 else int(np.argmax(guess))


def _overlap(guess: Array, labels: npt.NDArray[np.int64]) -> float:
    classes = guess.size if guess.ndim == 1 else max(int(guess), int(labels.max())) + 1
    guessed: Histogram
    if guess.ndim == 1:
        guessed = guess.astype(np.float64)
    else:
        guessed = np.zeros(classes)
        guessed[int(guess)] = 1.0
    true = np.bincount(labels, minlength=classes) / labels.size
    if true.size != guessed.size or not np.isclose(guessed.sum(), 1.0):
        raise ConfigurationError(
            f"a guessed histogram has one entry a class and sums to one, got {guessed.size} "
            f"entries that sum to {guessed.sum():.6g} for labels up to {labels.max()}"
        )
    return float(np.minimum(guessed, true).sum())
