"""Games against a protection of PA-CFL's kind: tell from its output which of two inputs went in.

The code under audit is passed in and called as a protocol calls it: clip each user's vector, add
noise, shuffle. The adversary scores what the aggregation server receives; with ``users=1``, what
the mixing server receives.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from privaudit.attacks.distinguishing._likelihood import (
    DECIMALS,
    AssumedShuffle,
    column_ratios,
    report_ratio,
)
from privaudit.attacks.distinguishing.scores import GameScores
from privaudit.errors import ConfigurationError

__all__ = ["AssumedShuffle", "Others", "Protection", "coordinate_game", "vector_game"]

Array: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = npt.NDArray[np.float32]

Others = Literal["far", "near", "zero"]
_PLACES: dict[str, float] = {"far": -1.0, "near": 1.0, "zero": 0.0}

#: Inputs are this many times as long as the threshold, so that clipping has work to do.
_OVERSHOOT = 4.0
#: Reports drawn in one call of the coordinate game; bounds the memory.
_BLOCK = 2**20
#: exp of a larger budget leaves the range of float64.
_LARGEST_EPSILON0 = 300.0


class Protection(Protocol):
    """The code under audit; the module ``privaudit.protocols.pa_cfl.protection`` is one."""

    def clip(self, vector: npt.NDArray[np.floating], *, threshold: float) -> Array:
        """Scale a vector down to the Euclidean norm ``threshold`` if it is longer."""
        ...

    def noise(
        self, clipped: Array, *, threshold: float, epsilon0: float, rng: np.random.Generator
    ) -> Matrix:
        """Add Laplace noise of scale ``2 * threshold / epsilon0`` to each value."""
        ...

    def shuffle_per_coordinate(self, reports: Matrix, *, rng: np.random.Generator) -> Matrix:
        """Permute each column of ``reports``, shape (users, d2), independently."""
        ...


def coordinate_game(
    protection: Protection,
    *,
    users: int,
    epsilon0: float,
    trials: int,
    rng: np.random.Generator,
    others: Others = "far",
    assumed_shuffle: AssumedShuffle = "per-coordinate",
    threshold: float = 1.0,
) -> GameScores:
    r"""Play for the sign of one coordinate of one user, a pre-cluster of ``users`` being shuffled.

    The first user holds :math:`+\Phi` (alternative) or :math:`-\Phi` (null) after clipping, the
    others all hold the same. Each column of one matrix is one trial: noise and permutations of
    different columns are independent.

    Parameters
    ----------
    protection : Protection
        The code under audit.
    users : int
        Users of the pre-cluster; 1 is the local view, before shuffling.
    epsilon0 : float
        Budget that is declared to the protection, in (0, 300].
    trials : int
        Trials under each hypothesis.
    rng : Generator
        Source of the protection's randomness.
    others : {"far", "near", "zero"}
        Where the others are: at :math:`-\Phi`, far from the alternative's canary (the worst case
        in small pre-clusters); at :math:`+\Phi`, its mirror image; or at 0.
    assumed_shuffle : {"per-coordinate", "whole-report", "none"}
        The shuffle for which the score is the exact log-likelihood ratio. Every choice gives a
        valid lower bound; ``"none"`` finds a shuffle that leaves the canary where it was.
    threshold : float
        The clipping threshold :math:`\Phi`.

    Returns
    -------
    GameScores
        Log-likelihood ratios in nats, rounded to 1e-9, shape (trials,) each.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range.
    InvalidDataError
        If a score is not finite.

    Examples
    --------
    >>> from privaudit.protocols.pa_cfl import protection
    >>> rng = np.random.default_rng(1)
    >>> scores = coordinate_game(protection, users=4, epsilon0=1.0, trials=1000, rng=rng)
    >>> bool(scores.alternative.mean() > 0 > scores.null.mean())
    True
    """
    _check(users=users, epsilon0=epsilon0, trials=trials, threshold=threshold)
    _check_choice("others", others, get_args(Others))
    _check_choice("assumed_shuffle", assumed_shuffle, get_args(AssumedShuffle))
    scale = 2 * threshold / epsilon0
    bystander = _PLACES[others] * threshold
    at = {"canary": np.array([threshold / scale]), "others": np.array([bystander / scale])}

    def side(sign: float) -> Array:
        inputs = np.full((users, 1), _OVERSHOOT * bystander)
        inputs[0] = sign * _OVERSHOOT * threshold
        clipped = np.stack([protection.clip(vector, threshold=threshold) for vector in inputs])
        scores, width = np.empty(trials), max(1, _BLOCK // users)
        for start in range(0, trials, width):
            block = scores[start : start + width]
            reports = protection.noise(
                np.repeat(clipped, block.size, axis=1),
                threshold=threshold,
                epsilon0=epsilon0,
                rng=rng,
            )
            received = protection.shuffle_per_coordinate(reports, rng=rng)
            block[:] = column_ratios(
                received.astype(np.float64) / scale, **at, shuffle=assumed_shuffle
            )
        return np.round(scores, DECIMALS)

    return GameScores(
        null=side(-1.0),
        alternative=side(+1.0),
        description=(
            f"one coordinate, {_count(users)}, epsilon0 = {epsilon0:g}, canary at +threshold or "
            f"-threshold, others {others}; {_statistic(assumed_shuffle)}"
        ),
        unit="one coordinate of one user's report",
    )


def vector_game(
    protection: Protection,
    *,
    users: int,
    epsilon0: float,
    dimension: int,
    trials: int,
    rng: np.random.Generator,
    others: npt.NDArray[np.floating] | None = None,
    assumed_shuffle: AssumedShuffle = "per-coordinate",
    threshold: float = 1.0,
) -> GameScores:
    r"""Play for the sign of a canary that spreads over the whole vector of one user.

    The first user holds :math:`\pm(\Phi/\sqrt{d_2})\,s` after clipping, with signs s drawn once.
    Each trial is one round: its own noise, its own permutations. As :math:`d_2` grows the game
    with the others at 0 tends to that of two Gaussians at distance
    :math:`\mu = \varepsilon_0/\sqrt{n}`.

    Parameters
    ----------
    protection, users, epsilon0, trials, rng, threshold
        As in :func:`coordinate_game`.
    dimension : int
        d2, the coordinates of the vector.
    others : ndarray, shape (users - 1, dimension), optional
        What the other users hold before clipping; 0 by default. The score puts all of them at
        their mean, which is exact where they agree and a heuristic where not; the bound is valid
        either way.
    assumed_shuffle : {"per-coordinate", "whole-report", "none"}
        The shuffle for which the score is the exact log-likelihood ratio. ``"whole-report"``
        finds coordinates that stay linked, ``"none"`` reports that stay attributed.

    Returns
    -------
    GameScores
        Log-likelihood ratios in nats, rounded to 1e-9, shape (trials,) each.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range or ``others`` has the wrong shape.
    InvalidDataError
        If a score is not finite.

    Examples
    --------
    >>> from privaudit.protocols.pa_cfl import protection
    >>> scores = vector_game(
    ...     protection, users=4, epsilon0=1.0, dimension=64, trials=500,
    ...     rng=np.random.default_rng(1),
    ... )
    >>> bool(scores.alternative.mean() > 0 > scores.null.mean())
    True
    """
    _check(users=users, epsilon0=epsilon0, trials=trials, threshold=threshold)
    _check_count("dimension", dimension)
    _check_choice("assumed_shuffle", assumed_shuffle, get_args(AssumedShuffle))
    data = np.zeros((users - 1, dimension)) if others is None else np.asarray(others)
    if data.shape != (users - 1, dimension):
        raise ConfigurationError(
            f"others must have shape (users - 1, dimension) = {(users - 1, dimension)}, "
            f"got {data.shape}"
        )
    scale = 2 * threshold / epsilon0
    canary = rng.choice([-1.0, 1.0], dimension) * (threshold / math.sqrt(dimension))
    rest = [protection.clip(vector, threshold=threshold) for vector in data]
    centre = np.mean(rest, axis=0) if rest else np.zeros(dimension)
    at = {"canary": canary / scale, "others": centre / scale}

    def side(sign: float) -> Array:
        first = protection.clip(sign * _OVERSHOOT * canary, threshold=threshold)
        clipped, scores = np.stack([first, *rest]), np.empty(trials)
        for trial in range(trials):
            reports = protection.noise(clipped, threshold=threshold, epsilon0=epsilon0, rng=rng)
            received = protection.shuffle_per_coordinate(reports, rng=rng)
            scores[trial] = report_ratio(
                received.astype(np.float64) / scale, **at, shuffle=assumed_shuffle
            )
        return np.round(scores, DECIMALS)

    return GameScores(
        null=side(-1.0),
        alternative=side(+1.0),
        description=(
            f"vector of {dimension} coordinates, {_count(users)}, epsilon0 = {epsilon0:g}, canary "
            f"+x or -x of norm threshold, others {'at zero' if others is None else 'as given'}; "
            f"{_statistic(assumed_shuffle)}"
        ),
        unit="the whole less important subvector of one user, the rest of the protocol given",
    )


def _count(users: int) -> str:
    return "1 user (not shuffled)" if users == 1 else f"{users} users shuffled together"


def _statistic(shuffle: AssumedShuffle) -> str:
    exact_for = {
        "per-coordinate": "each coordinate permuted by itself",
        "whole-report": "whole reports permuted",
        "none": "no shuffling",
    }
    return f"log-likelihood ratio for {exact_for[shuffle]}"


def _check(*, users: int, epsilon0: float, trials: int, threshold: float) -> None:
    _check_count("users", users)
    _check_count("trials", trials)
    if not 0 < epsilon0 <= _LARGEST_EPSILON0:
        raise ConfigurationError(
            f"epsilon0 must be in (0, {_LARGEST_EPSILON0:g}] for a game, got {epsilon0}"
        )
    if not (threshold > 0 and math.isfinite(threshold)):
        raise ConfigurationError(f"threshold must be finite and > 0, got {threshold}")


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ConfigurationError(f"{name} must be an integer >= 1, got {value}")


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
