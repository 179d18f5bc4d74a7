"""Values of an option: comma lists, and ranges of whole numbers ``a..b`` or ``a..b:step``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from privaudit.errors import ConfigurationError

__all__ = [
    "MOST_CELLS",
    "MOST_EPSILON",
    "MOST_USERS",
    "check_size",
    "cluster_list",
    "counts",
    "deltas",
    "epsilons",
]

#: Most cells of a table, and most values of one option.
MOST_CELLS: Final = 100_000
#: The domain of the bounds (privaudit.accounting.bracket), which is not imported to stay light.
LEAST_EPSILON: Final = 1e-12
MOST_EPSILON: Final = 100.0
#: Most users of a cluster: more only cost time.
MOST_USERS: Final = 10_000_000
_MOST_COUNT: Final = 10**12

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_RANGE = re.compile(r"(?P<first>[^:]*?)\.\.(?P<last>[^:]*)(:(?P<step>.*))?", re.DOTALL)
_FORMS = "as a list (2,4,8) or a range of whole numbers (2..50 or 2..50:4)"


def epsilons(option: str, text: str, *, most: float = MOST_EPSILON) -> tuple[float, ...]:
    """Return the values of an epsilon: ``LEAST_EPSILON`` <= value <= ``most``.

    Examples
    --------
    >>> epsilons("--eps0", "0.5,1..3,1")
    (0.5, 1.0, 2.0, 3.0)

    Raises
    ------
    ConfigurationError
        Naming the option, the value, and what is allowed.
    """
    values = _reals(option, text, f"numbers > 0 and <= {most:,g}", most)
    for value in values:
        if value < LEAST_EPSILON:
            raise _refusal(option, f"{value:g}", f"numbers >= {LEAST_EPSILON:g} and <= {most:,g}")
    return values


def deltas(option: str, text: str) -> tuple[float, ...]:
    """Return the values of a delta: 0 < value < 1."""
    return _reals(option, text, "numbers > 0 and < 1", math.nextafter(1.0, 0.0))


def counts(option: str, text: str, *, most: int = _MOST_COUNT) -> tuple[int, ...]:
    """Return whole numbers >= 1, each once, in the order given.

    Examples
    --------
    >>> counts("--cluster-size", "2,4..10:3,4,1e3")
    (2, 4, 7, 10, 1000)
    """
    return tuple(dict.fromkeys(cluster_list(option, text, most=most)))


def cluster_list(option: str, text: str, *, most: int = MOST_USERS) -> tuple[int, ...]:
    """Return whole numbers >= 1 with repetitions: two clusters may have one size."""
    allowed = f"whole numbers from 1 to {most:,}"
    return tuple(
        _whole(option, v, shown, allowed, most) for shown, v in _split(option, text, allowed)
    )


def check_size(values: Mapping[str, Sequence[object]]) -> int:
    """Return the number of cells of a grid.

    Raises
    ------
    ConfigurationError
        If there are more than 100,000.
    """
    cells = math.prod(len(v) for v in values.values())
    if cells > MOST_CELLS:
        product = " x ".join(f"{len(v):,} of {name}" for name, v in values.items() if len(v) > 1)
        raise ConfigurationError(
            f"the table would have {cells:,} cells ({product}); allowed are {MOST_CELLS:,}: give "
            "fewer values, or a range with a step (2..50000:100)"
        )
    return cells


def _refusal(option: str, value: str, allowed: str) -> ConfigurationError:
    shown = value if len(value) <= 40 else value[:40] + "..."
    return ConfigurationError(
        f"{option}: {shown!r} is not allowed; allowed are {allowed}, {_FORMS}"
    )


def _split(option: str, text: str, allowed: str) -> list[tuple[str, Decimal]]:
    """Return the values with the words that they were given in."""
    values: list[tuple[str, Decimal]] = []
    for piece in text.split(","):
        piece = piece.strip()
        spanned = _RANGE.fullmatch(piece)
        if spanned is None:
            values.append((piece, _number(option, piece, piece, allowed)))
        else:
            values += [(piece, value) for value in _spanned(option, piece, spanned, allowed)]
        if len(values) > MOST_CELLS:
            raise ConfigurationError(
                f"{option}: more than the {MOST_CELLS:,} values that are allowed; give fewer, or a "
                "range with a step (2..50000:100)"
            )
    return values


def _number(option: str, part: str, piece: str, allowed: str) -> Decimal:
    if _NUMBER.fullmatch(part) is None:
        raise _refusal(option, piece, allowed)
    return Decimal(part)


def _spanned(option: str, piece: str, spanned: re.Match[str], allowed: str) -> list[Decimal]:
    ends = [_number(option, spanned[name].strip(), piece, allowed) for name in ("first", "last")]
    step = spanned["step"]
    ends.append(Decimal(1) if step is None else _number(option, step.strip(), piece, allowed))
    if any(abs(end) > _MOST_COUNT or end != int(end) for end in ends):
        raise _refusal(option, piece, allowed)
    first, last, by = (int(end) for end in ends)
    if by < 1 or last < first:
        raise ConfigurationError(
            f"{option}: the range {piece!r} is empty; allowed is a..b or a..b:step with whole "
            "numbers, a <= b and step >= 1"
        )
    inside = range(first, last + 1, by)
    if len(inside) > MOST_CELLS:
        raise ConfigurationError(
            f"{option}: the range {piece!r} has {len(inside):,} values; allowed are "
            f"{MOST_CELLS:,}: give a step, as in 2..50000:100"
        )
    return [Decimal(value) for value in inside]


def _reals(option: str, text: str, allowed: str, most: float) -> tuple[float, ...]:
    numbers = []
    for shown, value in _split(option, text, allowed):
        if not 0 < float(value) <= most:
            raise _refusal(option, shown, allowed)
        numbers.append(float(value))
    return tuple(dict.fromkeys(numbers))


def _whole(option: str, value: Decimal, shown: str, allowed: str, most: int) -> int:
    # Bounded before it is made an integer: 1e999999 has a million digits.
    if not 1 <= value <= most or value != int(value):
        raise _refusal(option, shown, allowed)
    return int(value)
