"""Numbers and texts for people: one notation for the HTML and the Markdown report."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

from pydantic import JsonValue

__all__ = [
    "byte_size",
    "duration",
    "flatten",
    "integer",
    "interval",
    "number",
    "odds",
    "percent",
    "plural",
    "quantity",
    "short_integer",
    "value_of",
    "visible",
]

#: Keeps a number and its unit on one line.
SPACE: Final = "\N{NO-BREAK SPACE}"
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Above this, a number is written with a power of ten.
_LARGE: Final = 1e4
_SMALL: Final = 1e-3
#: Characters that reorder the text around them; an identifier that holds one can mislead a reader.
_BIDIRECTIONAL: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def number(value: float | None) -> str:
    """Return ``value`` with three significant digits.

    Examples
    --------
    >>> [number(x) for x in (0.98765, 21.04, 272800.0, 1e-5, float("inf"), float("nan"), None)]
    ['0.988', '21.0', '2.73 × 10⁵', '1.00 × 10⁻⁵', '∞', 'not finite', '–']
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "not finite"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    sign = "−" if value < 0 else ""
    size = float(f"{abs(value):.2e}")
    exponent = math.floor(math.log10(size))
    if _SMALL <= size < _LARGE:
        return f"{sign}{size:.{max(0, 2 - exponent)}f}"
    mantissa, _, power = f"{size:.2e}".partition("e")
    return f"{sign}{mantissa} × 10{str(int(power)).translate(_SUPERSCRIPTS)}"


def integer(value: int) -> str:
    """Return a count with groups of three digits.

    Examples
    --------
    >>> integer(582026), integer(20)
    ('582,026', '20')
    """
    return f"{value:,}"


def short_integer(value: float) -> str:
    """Return a whole number as a count and any other number with three digits."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return integer(int(value))
    return number(value)


def percent(value: float | None) -> str:
    """Return a proportion in per cent; 100 and 0 are written only when they are exact.

    Examples
    --------
    >>> [percent(x).replace(SPACE, " ") for x in (0.25, 1.0, 0.99996, 0.00001)]
    ['25.0 %', '100 %', '> 99.9 %', '< 0.01 %']
    """
    if value is None or not math.isfinite(value):
        return number(value)
    if 0.9995 <= value < 1:
        return f">{SPACE}99.9{SPACE}%"
    if 0 < value < 1e-4:
        return f"<{SPACE}0.01{SPACE}%"
    return f"{number(100 * value)}{SPACE}%"


def quantity(value: float | None, unit: str) -> str:
    """Return a number with its unit; the unit ``proportion`` is written in per cent."""
    if unit == "proportion":
        return percent(value)
    text = number(value)
    return f"{text}{SPACE}{unit}" if unit and value is not None and math.isfinite(value) else text


def interval(value: float, low: float, high: float, unit: str) -> str:
    """Return ``value [low, high]``.

    Examples
    --------
    >>> interval(0.9, 0.8, 1.0, "proportion").replace(SPACE, " ")
    '90.0 % [80.0 %, 100 %]'
    """
    if unit == "proportion":
        return f"{percent(value)} [{percent(low)}, {percent(high)}]"
    inner = f"{number(value)} [{number(low)}, {number(high)}]"
    return f"{inner}{SPACE}{unit}" if unit else inner


def duration(seconds: float) -> str:
    """Return a time span in the two largest units that matter.

    Examples
    --------
    >>> [duration(s).replace(SPACE, " ") for s in (0.0421, 3.21, 75.0, 7322.0)]
    ['42 ms', '3.2 s', '1 min 15 s', '2 h 2 min']
    """
    if not math.isfinite(seconds):
        return number(seconds)
    if seconds < 1:
        return f"{round(1000 * seconds)}{SPACE}ms"
    if seconds < 60:
        return f"{seconds:.1f}{SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{SPACE}min {rest}{SPACE}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{SPACE}h {minutes}{SPACE}min"


def byte_size(count: int) -> str:
    """Return a number of bytes with a binary unit.

    Examples
    --------
    >>> [byte_size(n).replace(SPACE, " ") for n in (912, 4656208)]
    ['912 B', '4.44 MiB']
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{count}{SPACE}B" if unit == "B" else f"{number(size)}{SPACE}{unit}"
        size /= 1024
    return f"{number(size)}{SPACE}TiB"


def odds(epsilon: float) -> str:
    """Say in words by how much a budget lets the odds of any conclusion about a user move.

    Differential privacy bounds the likelihood ratio by exp(epsilon), so the odds of any
    hypothesis about one user, given the release, change by that factor at most (up to delta).
    """
    if not math.isfinite(epsilon):
        return "no bound at all"
    if epsilon <= math.log(1000):
        return f"the odds of any conclusion about a user change by a factor of {_factor(epsilon)}"
    return (
        "the odds of a conclusion about a user may change by a factor of more than 1,000, "
        "which in practice promises little"
    )


def _factor(epsilon: float) -> str:
    factor = math.exp(epsilon)
    if factor < 10:
        return f"at most {math.ceil(100 * factor) / 100:.2f}"
    return f"at most {math.ceil(factor)}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "user"), plural(20, "user"), plural(2, "party", "parties")
    ('1 user', '20 users', '2 parties')
    """
    return f"{integer(count)} {noun if count == 1 else nouns or noun + 's'}"


def visible(text: str) -> str:
    r"""Return ``text`` on one line with every control and reordering character made visible.

    Names come from strangers' recordings. An escape sequence in them could otherwise command a
    terminal, and a reordering character could show a name as what it is not.

    Examples
    --------
    >>> visible("user-1\x1b[2J")
    'user-1␛[2J'
    """
    spaced = re.sub(r"[\t\r\n\v\f\x85\u2028\u2029]+", " ", text)
    marked = _BIDIRECTIONAL.sub("\N{REPLACEMENT CHARACTER}", spaced)
    return "".join(
        _control_picture(c) if unicodedata.category(c) in {"Cc", "Cs"} else c for c in marked
    )


def _control_picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"


def value_of(key: str, value: JsonValue) -> str:
    """Return the value of a parameter; keys that end in bytes or seconds get their unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, int | float):
        if key.endswith("bytes") and isinstance(value, int):
            return byte_size(value)
        if key.endswith("seconds"):
            return duration(value)
        return str(value) if isinstance(value, int) else _exactly(value)
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return ", ".join(value_of("", item) for item in value) or "none"
    return "; ".join(f"{visible(k)} = {value_of(k, v)}" for k, v in value.items()) or "none"


def _exactly(value: float) -> str:
    """Return a parameter as it was set: rounding it would make the run irreproducible."""
    return repr(value) if math.isfinite(value) else number(value)


def flatten(values: dict[str, JsonValue], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested parameters as pairs of a dotted key and a text."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{visible(key)}"
        if isinstance(value, dict) and value:
            pairs += flatten(value, f"{name}.")
        else:
            pairs.append((name, value_of(key, value)))
    return pairs
