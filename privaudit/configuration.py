"""Checking configurations: every wrong key or value is named, with what is allowed."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["constructed", "parse_assignment", "read_toml", "validated"]

#: What people write, for the types of Python that a checker names.
_LIST = "must be a list, written [...]"
_TABLE = "must be a table, written {key = value}"
_WORDS = MappingProxyType(
    {
        "dict_type": _TABLE,
        "dataclass_type": _TABLE,
        "model_type": _TABLE,
        "model_attributes_type": _TABLE,
        "list_type": _LIST,
        "tuple_type": _LIST,
        "set_type": _LIST,
        "frozen_set_type": _LIST,
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "string_type": "must be text in quotes",
    }
)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def validated(kind: type[M], values: Mapping[str, Any], *, where: str) -> M:
    """Return the configuration that ``values`` describe.

    Parameters
    ----------
    kind : subclass of pydantic.BaseModel
    values : mapping
    where : str
        What is being read, for the message (a file, or the options of a protocol).

    Raises
    ------
    ConfigurationError
        Names each wrong key, its value, what is allowed, and for an unknown key the nearest.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        problems = "; ".join(_problem(kind, dict(e)) for e in error.errors(include_url=False))
        raise ConfigurationError(f"{where}: {problems}") from None


def constructed(kind: type[T], options: Mapping[str, Any], *, where: str) -> T:
    """Return an object of a dataclass (an attack, for one) with its options checked by type.

    Raises
    ------
    ConfigurationError
        Names the wrong option, its value, and what is allowed.
    """
    known = [f.name for f in fields(kind) if f.init] if is_dataclass(kind) else []
    for key in options:
        if key not in known:
            listed = f"known are {', '.join(known)}" if known else "it has none"
            raise ConfigurationError(
                f"{where} has no option '{key}'; {listed}.{did_you_mean(key, known)}"
            )
    if not known:
        return kind()
    try:
        made = TypeAdapter(kind).validate_python(dict(options))
    except ValidationError as error:
        problems = "; ".join(_described(dict(e)) for e in error.errors(include_url=False))
        raise ConfigurationError(f"{where}: {problems}") from None
    for key, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigurationError(f"{where}: {key} = {value}: must be a finite number")
        if isinstance(value, bool) and not isinstance(getattr(made, key), bool):
            raise ConfigurationError(
                f"{where}: {key} = {str(value).lower()}: must be a number, not true or false"
            )
    return made


def _problem(kind: type[BaseModel], error: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _keys_at(kind, error["loc"][:-1])
        hint = did_you_mean(str(error["loc"][-1]), known)
        return f"unknown key '{key}'; known are {', '.join(sorted(known))}.{hint}"
    return _described(error)


def _described(error: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if error["type"] == "missing":
        # The input is then the whole table around it.
        return f"{key} is missing"
    message = _WORDS.get(error["type"], message)
    return f"{key} = {error['input']!r}: {message[0].lower()}{message[1:]}"


def _keys_at(kind: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    current: Any = kind
    parts = iter(location)
    for part in parts:
        field = getattr(current, "model_fields", {}).get(part)
        if field is None:
            return []
        current = _model_in(field.annotation)
        if get_origin(field.annotation) is dict:
            # The next part is a key of the mapping, not of the model that it maps to.
            next(parts, None)
    return list(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation is, allows, or maps to; else the annotation."""
    if hasattr(annotation, "model_fields"):
        return annotation
    models = [m for m in map(_model_in, get_args(annotation)) if hasattr(m, "model_fields")]
    return models[0] if models else annotation


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    ConfigurationError
        If it cannot be read or is not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not valid TOML ({error})") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Split ``key=value``, reading the value as TOML and, if that fails, as text.

    Examples
    --------
    >>> parse_assignment("epsilon0=3.5")
    ('epsilon0', 3.5)
    >>> parse_assignment("similarity=rbo")
    ('similarity', 'rbo')

    Raises
    ------
    ConfigurationError
        If there is no ``=``.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigurationError(f"'{text}' is not of the form KEY=VALUE")
    try:
        read = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    # More than one key: the value has further lines, which are no TOML value.
    return key.strip(), read["value"] if len(read) == 1 else value.strip()
