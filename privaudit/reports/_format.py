"""Numbers and texts for people: one notation for the HTML and the Markdown report."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Final, Literal

from pydantic import JsonValue

__all__ = [
    "SPACE",
    "byte_size",
    "duration",
    "equals",
    "flatten",
    "integer",
    "interval",
    "level",
    "number",
    "odds",
    "percent",
    "plural",
    "quantity",
    "sentence",
    "setting",
    "short_integer",
    "span",
    "value_of",
    "visible",
]

#: Keeps a number and its unit on one line.
SPACE: Final = "\N{NO-BREAK SPACE}"
_TIMES: Final = f"{SPACE}×{SPACE}"
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ROUNDING: Final[Mapping[str, str]] = {
    "nearest": ROUND_HALF_EVEN,
    "above": ROUND_CEILING,
    "below": ROUND_FLOOR,
}
#: Above this, a number is written with a power of ten.
_LARGE: Final = 1e4
_SMALL: Final = 1e-3
#: Characters that reorder the text around them; an identifier that holds one can mislead a reader.
_BIDIRECTIONAL: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def number(value: float | None, *, toward: Literal["nearest", "above", "below"] = "nearest") -> str:
    """Return ``value`` with three significant digits.

    A bound is rounded ``toward`` its safe side: an upper bound above, a lower bound below.

    Examples
    --------
    >>> [number(x) for x in (0.98765, 21.04, float("inf"), float("nan"), None)]
    ['0.988', '21.0', '∞', 'not finite', '–']
    >>> number(272800.0).replace(SPACE, " ")
    '2.73 × 10⁵'
    >>> number(2.231), number(2.231, toward="above")
    ('2.23', '2.24')
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "not finite"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    rounded = Context(prec=3, rounding=_ROUNDING[toward]).create_decimal(repr(float(value)))
    sign, size, exponent = "−" if value < 0 else "", abs(rounded), rounded.adjusted()
    if _SMALL <= size < _LARGE:
        return f"{sign}{size:.{max(0, 2 - exponent)}f}"
    return f"{sign}{size.scaleb(-exponent):.2f}{_TIMES}{_power_of_ten(exponent)}"


def _power_of_ten(exponent: int) -> str:
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def setting(value: float) -> str:
    """Return a number that was set rather than measured, without padding zeros.

    Examples
    --------
    >>> [setting(x).replace(SPACE, " ") for x in (1.0, 0.5, 1e-5, 2.5e-06)]
    ['1', '0.5', '10⁻⁵', '2.5 × 10⁻⁶']
    """
    if not math.isfinite(value) or value == 0 or _SMALL <= abs(value) < _LARGE:
        return f"{value:g}" if math.isfinite(value) else number(value)
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    power, factor = _power_of_ten(int(exponent)), f"{float(mantissa):g}"
    return power if factor == "1" else f"{factor}{_TIMES}{power}"


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


def level(confidence: float) -> str:
    """Return a confidence level in per cent, as it was set.

    Examples
    --------
    >>> level(0.95).replace(SPACE, " "), level(1 - 0.05 / 11).replace(SPACE, " ")
    ('95 %', '99.545 %')
    """
    return f"{100 * confidence:.5g}{SPACE}%" if math.isfinite(confidence) else number(confidence)


def equals(name: str, value: str) -> str:
    """Return ``name = value`` such that no line breaks inside it."""
    return f"{name}{SPACE}={SPACE}{value}"


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
    '90.0 [80.0, 100] %'
    """
    if not any(map(math.isfinite, (value, low, high))):
        return number(value)
    shown, ends = _bare(value, unit), span(low, high, unit, separator=f",{SPACE}")
    return f"{shown} [{ends}]{_suffix(unit)}"


def span(low: float, high: float, unit: str, *, separator: str = " to ") -> str:
    """Return the two ends of a range without their unit, which is written once behind both."""
    return f"{_bare(low, unit)}{separator}{_bare(high, unit)}"


def _bare(value: float, unit: str) -> str:
    return percent(value).removesuffix(_suffix(unit)) if unit == "proportion" else number(value)


def _suffix(unit: str) -> str:
    if not unit:
        return ""
    return f"{SPACE}%" if unit == "proportion" else f"{SPACE}{unit}"


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
    return "this allows the odds of a conclusion about a user to change by more than 1,000 times"


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


def listing(items: Sequence[str]) -> str:
    """Return texts as an enumeration in words.

    Examples
    --------
    >>> listing([]), listing(["a"]), listing(["a", "b", "c"])
    ('', 'a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


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


def sentence(text: str) -> str:
    """Return ``text``, on one line, with a capital first letter."""
    shown = visible(text)
    return shown[:1].upper() + shown[1:]


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
