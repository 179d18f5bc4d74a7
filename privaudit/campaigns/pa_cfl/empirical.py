"""What distinguishing attacks on the implemented protection show of epsilon, by cluster size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privaudit.attacks.distinguishing import empirical_bound, vector_game
from privaudit.protocols.pa_cfl import protection
from privaudit.reports.model import BudgetRow

__all__ = ["crossings", "empirical_rows"]

QUANTITY = "whole subvector: shown by a distinguishing attack on the implemented protection"

#: Coordinates of the game. Its lower bound grows with them only until the noise of a coordinate
#: dwarfs the canary's share, which it does at some hundreds.
DIMENSION = 500
TRIALS = 2000


def empirical_rows(
    budgets: Sequence[BudgetRow], *, seed: int, confidence: float
) -> tuple[BudgetRow, ...]:
    """Play the vector game for each cluster size of one round, through the protocol's own code.

    The bounds of all sizes hold together at the confidence (Bonferroni). The game has
    ``DIMENSION`` coordinates, or as many as the run if it has fewer.

    Returns
    -------
    tuple of BudgetRow
        With a lower bound only; unit and relation are those of the bracket's rows.
    """
    sizes = {b.cluster_size: b for b in budgets if b.rounds == 1 and b.role == "bracket"}
    level = 1 - (1 - confidence) / max(len(sizes), 1)
    rows = []
    for size, bracket in sorted(sizes.items()):
        rng = np.random.default_rng([seed, 6, size])
        dimension = min(DIMENSION, bracket.dimension)
        scores = vector_game(
            protection,
            users=size,
            epsilon0=bracket.epsilon0,
            dimension=dimension,
            trials=TRIALS,
            rng=rng,
        )
        bound = empirical_bound(scores, delta=bracket.delta, rng=rng, confidence=level)
        rows.append(
            bracket.model_copy(
                update={
                    "dimension": dimension,
                    "quantity": QUANTITY,
                    "lower": bound.lower,
                    "upper": None,
                    "theorem": bound.method,
                    "status": f"measured, confidence {level:.2%}",
                    "role": "other",
                    "note": f"{TRIALS} rounds a side, half of them to choose the threshold; "
                    f"{scores.description}",
                }
            )
        )
    return tuple(rows)


def crossings(budgets: Sequence[BudgetRow], shown: Sequence[BudgetRow]) -> tuple[str, ...]:
    """Return a sentence for each lower bound that lies above the proven upper bound.

    Such a crossing means that the implementation, the accountant, or the attack is wrong.
    """
    upper = {
        b.cluster_size: b.upper
        for b in budgets
        if b.rounds == 1 and b.role == "bracket" and b.upper is not None
    }
    return tuple(
        f"CONTRADICTION: an attack shows epsilon >= {row.lower:.4g} for clusters of "
        f"{row.cluster_size}, above the proven bound of {upper[row.cluster_size]:.4g}; the "
        "implementation of the protection, the accountant, or the attack is wrong"
        for row in shown
        if row.lower is not None
        and row.cluster_size in upper
        and row.lower > upper[row.cluster_size]
    )
