"""What an accountant answers: an interval for epsilon, with the theorem it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from privaudit.errors import ConfigurationError, PrivauditError

__all__ = [
    "Bracket",
    "ContradictionError",
    "Direction",
    "NumericalError",
    "OutOfDomainError",
    "Status",
]

LEAST_EPSILON0: Final = 1e-12
MOST_EPSILON0: Final = 100.0

Status = Literal[
    "proven",
    "certified by interval arithmetic",
    "certified on a grid",
    "numerical",
    "conjectured",
    "claimed by the paper",
]
Direction = Literal["upper rounded up", "lower rounded down", "both outwards", "not rounded"]


class OutOfDomainError(ConfigurationError):
    """A theorem was asked for an answer outside the domain in which it is stated."""


class NumericalError(PrivauditError, ArithmeticError):
    """A computation left the finite numbers; no bound is given rather than a doubtful one."""


class ContradictionError(PrivauditError):
    """A lower bound lies above an upper bound: one of them is wrong, and neither is given."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Bracket:
    """An interval ``[lower, upper]`` that holds the smallest epsilon at a given delta.

    Attributes
    ----------
    lower, upper : float or None
        Bounds on the smallest epsilon for which the mechanism is (epsilon, delta)-DP. ``None``
        where nothing is known; ``upper`` is ``inf`` where no finite epsilon holds.
    delta : float
    theorem : str
        The source of each bound.
    direction : str
        To which side numbers were rounded. An upper bound is never rounded down.
    status : str
        How well founded the upper bound is, or the lower one where there is no upper bound; the
        note tells of the other.
    domain_ok : bool
        Whether the parameters lie in the domain of the theorem.
    unit : str
        What may change between neighbouring inputs.
    relation : {"replace-one", "add-remove"}
    assumptions : tuple of str
    note : str

    Raises
    ------
    ConfigurationError
        If a bound is NaN or negative.
    ContradictionError
        If the lower bound exceeds the upper one.
    """

    lower: float | None
    upper: float | None
    delta: float
    theorem: str
    direction: Direction
    status: Status
    domain_ok: bool
    unit: str
    relation: Literal["replace-one", "add-remove"] = "replace-one"
    assumptions: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if value is not None and not value >= 0:
                raise ConfigurationError(f"{name} bound on epsilon must be >= 0, got {value}")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise _contradiction(self.lower, self.upper, self.unit)


def _contradiction(lower: float, upper: float, what: str) -> ContradictionError:
    return ContradictionError(
        f"CONTRADICTION: the lower bound {lower:.9g} on epsilon of {what} lies above the upper "
        f"bound {upper:.9g}. One of the two is wrong; rely on neither, and report it"
    )


def agreeing_lower(lower: float, upper: float, what: str) -> float:
    """Return the lower bound, taken down to the upper one where only rounding sets it above.

    Raises
    ------
    ContradictionError
        If it lies above by more than 1e-6 of it.
    """
    if lower > upper * (1 + 1e-6) + 1e-9:
        raise _contradiction(lower, upper, what)
    return min(lower, upper)


def check_delta(delta: float) -> None:
    """Raise :class:`OutOfDomainError` unless ``0 < delta < 1``."""
    if not 0 < delta < 1:
        raise OutOfDomainError(f"delta must be in (0, 1), got {delta}")


def check_epsilon0(epsilon0: float) -> None:
    """Raise :class:`OutOfDomainError` unless epsilon0 is in [1e-12, 100].

    Below, differences of exp(epsilon0) and 1 lose their digits; above, powers of exp(epsilon0) in
    some bounds leave double precision.
    """
    if not LEAST_EPSILON0 <= epsilon0 <= MOST_EPSILON0:
        raise OutOfDomainError(
            f"epsilon0 must be finite and > 0, from {LEAST_EPSILON0:g} to {MOST_EPSILON0:g} (where "
            f"double precision holds the bounds), got {epsilon0:g}"
        )


def check_count(name: str, value: int, *, least: int = 1) -> None:
    """Raise :class:`OutOfDomainError` unless ``value`` is an integer >= ``least``."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise OutOfDomainError(f"{name} must be an integer >= {least}, got {value}")


def check_finite(what: str, value: float) -> float:
    """Return ``value``; raise :class:`NumericalError` if it is NaN or infinite."""
    if not math.isfinite(value):
        raise NumericalError(f"{what} came out as {value}; no bound is given")
    return value
