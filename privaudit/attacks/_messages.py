"""Arrays of recorded messages, which strangers may have written."""

from __future__ import annotations

from privaudit.errors import InvalidDataError
from privaudit.transcript import Array, Message

__all__ = ["array_of", "in_round"]


def array_of(message: Message, name: str) -> Array:
    """Return an array of a message.

    Raises
    ------
    InvalidDataError
        If the message carries none of that name.
    """
    if name not in message.arrays:
        raise InvalidDataError(
            f"message {message.seq} ('{message.kind}' from '{message.sender}') carries no "
            f"'{name}'; it has {', '.join(sorted(message.arrays)) or 'no array'}"
        )
    return message.arrays[name]


def in_round(round: int | None) -> str:
    """Return ``"in round 3"``, or ``"in any round"`` where none was asked for."""
    return "in any round" if round is None else f"in round {round}"
