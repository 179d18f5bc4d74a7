"""What an accountant answers: an interval for epsilon, with the theorem it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from privaudit.errors import ConfigurationError, PrivauditError

__all__ = ["Bracket", "Direction", "NumericalError", "OutOfDomainError", "Status"]

LEAST_EPSILON0: Final = 1e-12
MOST_EPSILON0: Final = 100.0

Status = Literal[
    "proven", "certified on a grid", "numerical", "conjectured", "claimed by the paper"
]
Direction = Literal["upper rounded up", "lower rounded down", "both outwards", "not rounded"]


class OutOfDomainError(ConfigurationError):
    """A theorem was asked for an answer outside the domain in which it is stated."""


class NumericalError(PrivauditError, ArithmeticError):
    """A computation left the finite numbers; no bound is given rather than a doubtful one."""


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
        If a bound is NaN or negative, or the lower bound exceeds the upper one.
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
            raise ConfigurationError(
                f"the lower bound {self.lower} on epsilon exceeds the upper bound {self.upper}"
            )


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
