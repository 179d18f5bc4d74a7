"""From the scores of a game to a lower bound on epsilon."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from privaudit.accounting.empirical import (
    EmpiricalEpsilon,
    clopper_pearson_epsilon,
    credible_epsilon,
    gaussian_fit_epsilon,
)
from privaudit.attacks.distinguishing.scores import GameScores
from privaudit.errors import ConfigurationError

__all__ = ["BoundMethod", "empirical_bound"]

BoundMethod = Literal["clopper-pearson", "gaussian-fit", "credible"]
_METHODS = {
    "clopper-pearson": clopper_pearson_epsilon,
    "gaussian-fit": gaussian_fit_epsilon,
    "credible": credible_epsilon,
}


def empirical_bound(
    scores: GameScores,
    *,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    method: BoundMethod = "clopper-pearson",
) -> EmpiricalEpsilon:
    """Bound epsilon below from the scores of a game; half of the trials choose the threshold.

    Parameters
    ----------
    scores : GameScores
        Its ``unit`` and ``relation`` are those of the bound.
    delta, confidence : float
    rng : Generator
        Splits the trials (and draws from the posteriors of ``"credible"``).
    method : {"clopper-pearson", "gaussian-fit", "credible"}
        See :mod:`privaudit.accounting.empirical`. ``"gaussian-fit"`` presumes the trade-off of two
        Gaussians: justified for the vector game in high dimension, wrong for one coordinate.

    Raises
    ------
    ConfigurationError
        If the method is unknown, or delta or the confidence is not in (0, 1).
    InvalidDataError
        If a side has fewer than two trials.

    Examples
    --------
    >>> from privaudit.attacks.distinguishing import coordinate_game
    >>> from privaudit.protocols.pa_cfl import protection
    >>> rng = np.random.default_rng(1)
    >>> scores = coordinate_game(protection, users=1, epsilon0=1.0, trials=10_000, rng=rng)
    >>> 0.75 < empirical_bound(scores, delta=1e-5, rng=rng).lower < 1.0
    True
    """
    if method not in _METHODS:
        raise ConfigurationError(
            f"method must be one of {', '.join(get_args(BoundMethod))}, got {method!r}"
        )
    return _METHODS[method](
        scores.alternative, scores.null, delta=delta, rng=rng, confidence=confidence
    )
