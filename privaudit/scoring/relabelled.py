"""Scores of label histograms whose classes have no names."""

from __future__ import annotations

import numpy as np

from privaudit.attacks.base import Guesses
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Truth

__all__ = ["relabelled_total_variation"]


def relabelled_total_variation(guesses: Guesses, truth: Truth) -> Scores:
    """Score the total variation distance under the best naming of the classes.

    One naming for all users, that of the least total distance. It flatters any guess, so that a
    baseline must be scored in the same way.

    Raises
    ------
    KeyError
        If the truth does not hold the ``labels`` of a target.

    Examples
    --------
    >>> guess = Guesses(("a",), (np.array([0.25, 0.75]),), np.zeros(1))
    >>> truth = Truth({"a": {"labels": np.array([0, 0, 0, 1])}})
    >>> relabelled_total_variation(guess, truth).per_target
    {'a': 0.0}
    """
    from scipy.optimize import linear_sum_assignment

    guessed = np.stack(guesses.values)
    classes = guessed.shape[1]
    true = np.stack(
        [
            np.bincount(np.atleast_1d(truth.get(t, "labels")), minlength=classes)
            / np.size(truth.get(t, "labels"))
            for t in guesses.target_ids
        ]
    )
    distance = np.abs(guessed[:, :, None] - true[:, None, :]).sum(0)
    _, names = linear_sum_assignment(distance)
    each = np.abs(guessed - true[:, names]).sum(1) / 2
    return Scores(
        "total variation of labels, best naming",
        "mean",
        dict(zip(guesses.target_ids, each.tolist(), strict=True)),
        higher_is_leakier=False,
    )
