"""JSON as bundles hold it: canonical when written, strict when read.

Canonical: keys sorted, no spaces, ASCII only, one value a line, so that equal values are equal
bytes. JSON has no NaN or infinity; they are written ``{"$float": "nan"}``, ``"inf"``, ``"-inf"``.
Keys that begin with ``$`` are reserved for this.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.recording._problems import DEFAULT_LIMITS, Limits, Refusal
from privaudit.transcript import JSON

__all__ = ["canonical", "check_fields", "check_text", "decode", "is_count"]

_NONE: Mapping[str, Any] = MappingProxyType({})
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

# Below the 4,300 decimal digits that Python converts by default (sys.int_info).
_MAX_INTEGER_BITS = 14_000


def canonical(value: Mapping[str, JSON], *, what: str, ordered: Sequence[str] = ()) -> bytes:
    """Return the canonical JSON of an object, without a newline.

    Keys are sorted, but for those of the members named by ``ordered``, whose order means something.

    Raises
    ------
    ConfigurationError
        If the value is not JSON or is nested too deeply; ``what`` and the path name the place.
    """
    plain = _plain(value, what, DEFAULT_LIMITS.max_depth)
    for key in ordered:
        plain[key] = {name: plain[key][name] for name in value[key]}  # type: ignore[union-attr]
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode(
        "ascii"
    )


def _plain(value: Any, path: str, depth: int) -> Any:
    """Return a value made of dict, list, str, int, finite float, bool and None."""
    if depth < 0:
        raise ConfigurationError(f"{path}: nested more than {DEFAULT_LIMITS.max_depth} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, str):
        if not _is_text(value):
            raise ConfigurationError(f"{path}: text with a lone surrogate cannot be written")
        return str(value)
    if isinstance(value, int | np.integer):
        integer = int(value)
        if integer.bit_length() > _MAX_INTEGER_BITS:
            raise ConfigurationError(
                f"{path}: an integer of {integer.bit_length()} bits; at most {_MAX_INTEGER_BITS} "
                "are allowed in JSON, longer ones belong in arrays of bytes"
            )
        return integer
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isfinite(number):
            return number
        return {"$float": "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"}
    if isinstance(value, Mapping):
        return {
            key: _plain(value[key], f"{path}.{key}", depth - 1)
            for key in sorted(_plain_key(key, path) for key in value)
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    raise ConfigurationError(
        f"{path}: {type(value).__name__} is not JSON; allowed are None, booleans, numbers, text, "
        "sequences and mappings (arrays go in `arrays`)"
    )


def _plain_key(key: Any, path: str) -> str:
    if not isinstance(key, str) or key.startswith("$") or not _is_text(key):
        raise ConfigurationError(f"{path}: key {key!r}; keys are text that does not begin with '$'")
    return str(key)


def _is_text(value: str) -> bool:
    """Tell whether text can be encoded, which lone surrogates cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode(data: bytes, *, limits: Limits) -> Any:
    """Parse JSON strictly.

    Raises
    ------
    Refusal
        If the bytes are not one JSON value in UTF-8, a key occurs twice, a number is not finite,
        or the nesting exceeds the limit.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        _check_depth(value, limits.max_depth)
    except UnicodeDecodeError:
        raise Refusal("not text in UTF-8") from None
    except RecursionError:
        raise Refusal(f"nested more than {limits.max_depth} levels deep") from None
    except ValueError as error:
        raise Refusal(f"not JSON: {str(error)[:200]}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> Any:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise Refusal(f"the key {key[:80]!r} occurs twice")
        result[key] = value
    if "$float" in result:
        name = result["$float"]
        if len(result) != 1 or not isinstance(name, str) or name not in _FLOATS:
            raise Refusal('"$float" stands alone and is "nan", "inf" or "-inf"')
        return _FLOATS[name]
    for key in result:
        if key.startswith("$"):
            raise Refusal(f"the key {key[:80]!r} begins with '$', which is reserved")
    return result


def _refuse_constant(name: str) -> Any:
    raise Refusal(f'{name} is not JSON; write {{"$float": "nan"}}, "inf" or "-inf"')


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refusal(f"the number {text[:40]} is out of range")
    return number


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if not _is_text(value):
            raise Refusal("text holds a lone surrogate")
    elif isinstance(value, dict | list):
        if depth <= 0:
            raise Refusal("nested too deeply")
        for item in value:
            _check_depth(item, depth - 1)
        if isinstance(value, dict):
            for item in value.values():
                _check_depth(item, depth - 1)


def check_fields(
    value: Any, required: Sequence[str], *, what: str, optional: Mapping[str, Any] = _NONE
) -> dict[str, Any]:
    """Return an object's required keys and its optional ones, which default to the given values.

    Raises
    ------
    Refusal
        Names a key that is unknown or missing.
    """
    if not isinstance(value, dict):
        raise Refusal(f"{what} must be a JSON object")
    allowed = (*required, *optional)
    for key in value:
        if key not in allowed:
            raise Refusal(f"unknown key {key[:80]!r} in {what}.{did_you_mean(key, allowed)}")
    for key in required:
        if key not in value:
            raise Refusal(f"{what} lacks the key '{key}'")
    return {**optional, **value}


def check_text(value: Any, *, what: str, limits: Limits, empty: bool = False) -> str:
    """Return printable text of bounded length, or raise Refusal."""
    if not isinstance(value, str):
        raise Refusal(f"{what} must be text")
    if not value and not empty:
        raise Refusal(f"{what} must not be empty")
    if len(value) > limits.max_name_length:
        raise Refusal(f"{what} has {len(value)} characters, more than {limits.max_name_length}")
    if not value.isprintable():
        raise Refusal(f"{what} holds characters that cannot be printed")
    return value


def is_count(value: Any) -> bool:
    """Tell whether a JSON value is a non-negative integer that fits in 63 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
