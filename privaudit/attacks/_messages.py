"""Arrays of recorded messages, which strangers may have written."""

from __future__ import annotations

from privaudit.errors import InvalidDataError
from privaudit.transcript import Array, Message

__all__ = ["array_of"]


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
