"""Coalitions as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.transcript import Capability, PartyId, Transcript

__all__ = ["granted_without", "members_of"]

_COUNTED: Final = re.compile(r"(\d+) (users?|parties|party)")


def members_of(coalition: str, transcript: Transcript) -> tuple[PartyId, ...]:
    """Return the parties that the text of a coalition names.

    Raises
    ------
    ConfigurationError
        If it names nobody, or more users than there are. Whether a name is that of a party is
        checked when the view is made.
    """
    members: list[PartyId] = []
    for part in (p.strip() for p in re.split(r"[+,]", coalition)):
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            members.append(part)
            continue
        users, wanted = transcript.ids("user"), int(counted[1])
        if not 1 <= wanted <= len(users):
            raise ConfigurationError(f"coalition '{coalition}': the run has {len(users)} users")
        members += users[:wanted]
    if not all(members) or not members:
        raise ConfigurationError(
            f"coalition '{coalition}' names nobody; write parties joined by +, for example "
            "'management-server + 1 user'"
        )
    return tuple(dict.fromkeys(members))


def granted_without(withheld: Iterable[str]) -> frozenset[Capability]:
    """Return all capabilities but those that are withheld.

    Raises
    ------
    ConfigurationError
        If one is unknown; it names the nearest, however far.
    """
    names = list(withheld)
    for name in names:
        if name not in set(Capability):
            raise ConfigurationError(
                f"withhold: '{name}' is not a capability; known are {', '.join(Capability)}."
                f"{did_you_mean(name, Capability, cutoff=0.3)}"
            )
    return frozenset(Capability) - {Capability(name) for name in names}
