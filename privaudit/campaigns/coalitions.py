"""Coalitions as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.transcript import Capability, PartyId, Transcript

__all__ = ["check_coalition", "counted_users", "granted_without", "members_of", "parts_of"]

_COUNTED: Final = re.compile(r"(\d+) (users?|parties|party)")
#: What is meant as a number of users, right or wrong, and not as the name of a party.
_NUMBERED: Final = re.compile(r"[-+]?[\d.,]*\d[\d.,]*\s+(users?|parties|party)")

#: A sign or a decimal comma that would be taken for what joins parties.
_MISREAD: Final = re.compile(r"^\s*\+|\+\s*\+|(?<![^\s+,])\d+,\d+\s+(users?|parties|party)")


def check_coalition(coalition: str) -> None:
    """Refuse a coalition that no run can have, whatever its parties.

    Raises
    ------
    ConfigurationError
        If it names nobody, or a number of users that is not a whole number of at least 1.
    """
    if _MISREAD.search(coalition):
        raise ConfigurationError(_wrong_number(coalition))
    for part in parts_of(coalition):
        counted = _COUNTED.fullmatch(part)
        wrong = counted is None and _NUMBERED.fullmatch(part) is not None
        if wrong or (counted is not None and int(counted[1]) < 1):
            raise ConfigurationError(_wrong_number(coalition))
    if not all(parts_of(coalition)):
        raise ConfigurationError(
            f"coalition '{coalition}' names nobody; write parties joined by +, for example "
            "'management-server + 1 user'"
        )


def counted_users(coalition: str) -> int:
    """Return the most users that a coalition counts at once; 0 if it counts none."""
    counted = (_COUNTED.fullmatch(part) for part in parts_of(coalition))
    return max((int(found[1]) for found in counted if found is not None), default=0)


def parts_of(coalition: str) -> list[str]:
    """Return what a coalition is written of: parties, or numbers of them."""
    return [part.strip() for part in re.split(r"[+,]", coalition)]


def _wrong_number(coalition: str) -> str:
    return (
        f"coalition '{coalition}': write parties joined by +, and a number of users as a whole "
        "number of at least 1, for example '3 users'"
    )


def members_of(coalition: str, transcript: Transcript) -> tuple[PartyId, ...]:
    """Return the parties that the text of a coalition names.

    Raises
    ------
    ConfigurationError
        If it names nobody, or more users than there are. Whether a name is that of a party is
        checked when the view is made.
    """
    check_coalition(coalition)
    members: list[PartyId] = []
    for part in parts_of(coalition):
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            members.append(part)
            continue
        users, wanted = transcript.ids("user"), int(counted[1])
        if wanted > len(users):
            raise ConfigurationError(f"coalition '{coalition}': the run has {len(users)} users")
        members += users[:wanted]
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
