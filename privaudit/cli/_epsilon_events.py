"""Ledgers of privacy events: read from a JSON file, or derived from a recorded run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from privaudit.cli._epsilon_lists import MOST_EPSILON
from privaudit.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from privaudit.ledger import PrivacyEvent

__all__ = ["events_of", "ledger_json"]

#: Largest ledger that is read, in bytes.
MOST_BYTES: Final = 256 * 1024 * 1024


def events_of(source: Path, *, reader: str = "") -> tuple[list[PrivacyEvent], tuple[str, ...]]:
    """Return the events of a ledger file or recorded run, and what should be known of it.

    A file is a ledger unless a reader of recordings is named.

    Raises
    ------
    ConfigurationError
        If a ledger is not a list of events, naming the file, the event and the key.
    CorruptRecordingError
        If a folder is not a sound recording.
    """
    is_run = source.is_dir() or bool(reader)
    events, problems = _of_run(source, reader) if is_run else (_of_file(source), ())
    for number, event in enumerate(events, 1):
        for name in ("epsilon0", "epsilon"):
            value = getattr(event.mechanism, name, 0.0)
            if value > MOST_EPSILON:
                raise ConfigurationError(
                    f"{source}: event {number}: {name} is {value:g}; allowed are numbers > 0 and "
                    f"<= {MOST_EPSILON:g}"
                )
    return events, problems


def ledger_json(events: list[PrivacyEvent]) -> list[dict[str, Any]]:
    """Return events as the JSON list that :func:`events_of` reads back."""
    from privaudit.ledger import event_to_json

    return [event_to_json(event) for event in events]


def _of_run(folder: Path, reader: str) -> tuple[list[PrivacyEvent], tuple[str, ...]]:
    from privaudit import plugins
    from privaudit.campaigns.readers import chosen_reader
    from privaudit.cli._inspect import run_at

    recording = chosen_reader(run_at(folder), reader).read(folder)
    protocol = plugins.load("protocol", recording.protocol)()
    events = list(protocol.events(recording.transcript))
    if not events:
        raise ConfigurationError(
            f"{folder}: protocol '{protocol.name}' finds no privacy event in this recording"
        )
    return events, recording.problems


def _of_file(path: Path) -> list[PrivacyEvent]:
    values = _parsed(path)
    if not isinstance(values, list):
        raise ConfigurationError(
            f"{path} holds {type(values).__name__} where a list of privacy events is expected, as "
            "privaudit epsilon events RUN_DIR --ledger-out FILE writes it"
        )
    if not values:
        raise ConfigurationError(f"{path}: the ledger holds no privacy event")
    return [_event(value, f"{path}: event {number}") for number, value in enumerate(values, 1)]


def _parsed(path: Path) -> Any:
    def refuse(literal: str) -> NoReturn:
        raise ConfigurationError(f"{path}: {literal} is not JSON; only finite numbers are allowed")

    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ConfigurationError(f"{path} has {size:,} bytes; allowed are {MOST_BYTES:,}")
        return json.loads(path.read_bytes(), parse_constant=refuse)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: is nested too deeply to be a ledger") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: is not JSON ({error})") from error


def _event(value: Any, where: str) -> PrivacyEvent:
    """Read one event strictly: a misspelt kind of shuffling must not pass for another."""
    from dataclasses import fields

    from pydantic import TypeAdapter, ValidationError

    from privaudit.ledger import MECHANISMS, PrivacyEvent, event_from_json

    if not isinstance(value, dict) or not isinstance(value.get("mechanism"), dict):
        raise ConfigurationError(f"{where}: is not an object with a 'mechanism' object in it")
    known = [field.name for field in fields(PrivacyEvent)]
    for key in value:
        if key not in known:
            raise ConfigurationError(
                f"{where}: unknown key {key!r}; known are {', '.join(known)}."
                f"{did_you_mean(key, known)}"
            )
    kind = MECHANISMS.get(str(value["mechanism"].get("name")))
    names = tuple[str, ...]
    types: dict[str, Any] = {"mechanism": kind, "subjects": names, "observers": names, "round": int}
    key = ""
    try:
        if kind is not None:
            # A number written as text, a fraction of a coordinate, an unknown word: refused.
            for key, type_ in types.items():
                if key in value:
                    TypeAdapter(type_).validate_json(json.dumps(value[key]), strict=True)
        event = event_from_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in (key, *first["loc"]))
        raise ConfigurationError(
            f"{where}: {place}: {first['msg']}, got {str(first['input'])[:60]!r}"
        ) from error
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if not event.subjects:
        raise ConfigurationError(f"{where}: subjects: names no user")
    twice = sorted(u for u, times in Counter(event.subjects).items() if times > 1)
    if twice:
        # Counted as two users, a user would hide behind itself.
        raise ConfigurationError(f"{where}: subjects: names {twice[0]!r} more than once")
    if event.round < 0:
        raise ConfigurationError(f"{where}: round must be >= 0, got {event.round}")
    return event
