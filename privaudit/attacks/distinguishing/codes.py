"""A game against randomised codes: tell from the released codes of a row which record it was."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from privaudit.attacks.distinguishing.scores import GameScores
from privaudit.errors import ConfigurationError

__all__ = ["CodeRelease", "code_game"]

#: Codes drawn in one call of the release; bounds the memory.
_BLOCK = 2**20


class CodeRelease(Protocol):
    """The code under audit; ``privaudit.quantisation.randomised.randomized_response`` is one."""

    def __call__(
        self,
        codes: npt.NDArray[np.integer],
        *,
        categories: int,
        epsilon: float,
        rng: np.random.Generator,
    ) -> npt.NDArray[np.integer]:
        """Return the codes as released, each with budget ``epsilon``."""
        ...


def code_game(
    release: CodeRelease,
    *,
    categories: int,
    epsilon: float,
    subspaces: int,
    trials: int,
    rng: np.random.Generator,
) -> GameScores:
    r"""Play for one row whose codes are all 0 (null) or all 1 (alternative) in every subspace.

    Records may differ in all of a row's codes, so that this is the worst case, and the bound to
    compare with is ``subspaces * epsilon``. The score is the exact log-likelihood ratio of k-ary
    randomised response, :math:`\varepsilon(\#\{m:c_m=1\}-\#\{m:c_m=0\})`. Its largest value occurs
    with probability :math:`p^M` only: with many subspaces too rarely to be counted, and a smaller
    threshold shows more. Choose it on runs of its own
    (:func:`privaudit.accounting.empirical.clopper_pearson_epsilon` with ``rng``).

    Parameters
    ----------
    release : CodeRelease
        The code under audit.
    categories : int
        Codewords of each subspace, 2 or more.
    epsilon : float
        Budget of one code that is declared to the release.
    subspaces : int
        Codes of one row.
    trials : int
        Trials under each hypothesis.
    rng : Generator

    Returns
    -------
    GameScores
        Log-likelihood ratios in nats, shape (trials,) each.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range, or the release returns other codes than it may.
    """
    if categories < 2 or subspaces < 1 or trials < 1 or not epsilon > 0:
        raise ConfigurationError(
            "the game needs 2 categories or more, a subspace, a trial and epsilon > 0; got "
            f"{categories}, {subspaces}, {trials} and {epsilon}"
        )
    sides = []
    for code in (0, 1):
        scores = np.empty(trials)
        rows = max(1, _BLOCK // subspaces)
        for start in range(0, trials, rows):
            count = min(rows, trials - start)
            codes = np.full((count, subspaces), code, dtype=np.int64)
            seen = np.asarray(release(codes, categories=categories, epsilon=epsilon, rng=rng))
            if seen.shape != codes.shape or seen.min() < 0 or seen.max() >= categories:
                raise ConfigurationError(
                    f"the release returned codes of shape {seen.shape} from {seen.min()} to "
                    f"{seen.max()}; expected shape {codes.shape} within {categories} categories"
                )
            votes = (seen == 1).sum(axis=1) - (seen == 0).sum(axis=1)
            scores[start : start + count] = epsilon * votes
        sides.append(scores)
    return GameScores(
        null=sides[0],
        alternative=sides[1],
        description=(
            f"codes of one row, {subspaces} subspaces of {categories} codewords, epsilon "
            f"{epsilon:g} a code; log-likelihood ratio of randomised response"
        ),
        unit="codes of one row",
    )
