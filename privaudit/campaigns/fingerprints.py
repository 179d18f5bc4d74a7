"""A digest of declared knowledge, so that a stored result belongs to one adversary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["fingerprint"]


def fingerprint(value: object) -> str:
    """Return the SHA-256 of a value made of arrays, dataclasses, mappings, sequences and scalars.

    Arrays count with type and shape, fields and keys with their names, so that two values with
    the same bytes in different places differ.

    Raises
    ------
    TypeError
        If there is something else in it.
    """
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: object) -> None:
    if isinstance(value, np.ndarray):
        _say(digest, "array", value.dtype.str, value.shape)
        digest.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        _say(digest, "record", type(value).__qualname__, len(fields(value)))
        for field in fields(value):
            _say(digest, field.name)
            _feed(digest, getattr(value, field.name))
    elif isinstance(value, Mapping):
        _say(digest, "mapping", len(value))
        for key in sorted(value):
            _say(digest, key)
            _feed(digest, value[key])
    elif isinstance(value, tuple | list):
        _say(digest, "sequence", len(value))
        for item in value:
            _feed(digest, item)
    elif value is None or isinstance(value, str | int | float | bool | np.generic):
        _say(digest, type(value).__name__, value)
    else:
        raise TypeError(f"a {type(value).__qualname__} has no fingerprint")


def _say(digest: Any, *words: object) -> None:
    digest.update("".join(f"{len(text)}:{text};" for text in map(repr, words)).encode())
