"""Whom the protocols of a campaign ask to trust, as the audits of each say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from privaudit.campaigns.disue.wording import TRUST as DISUE
from privaudit.campaigns.pa_cfl.wording import TRUST as PA_CFL
from privaudit.campaigns.pq_mds.wording import TRUST as PQ_MDS

__all__ = ["trust_of"]

_HONEST: Final = "All parties follow the protocol; none alters its messages."
_TRUST: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "pa-cfl": PA_CFL,
        "disue": DISUE,
        "pq-mds": PQ_MDS,
        "fedavg": (
            "The server, which receives the whole update of every user, uses it for averaging "
            "alone.",
            _HONEST,
        ),
        "dp-fedavg": (
            "Users clip and noise what they send as configured; nobody has to trust the server "
            "beyond the budget.",
            _HONEST,
        ),
    }
)


def trust_of(protocols: Iterable[str]) -> tuple[str, ...]:
    """Return the assumptions of each protocol, with its name where there are several.

    Protocols of other packages state none here: their own documentation has to.
    """
    names = sorted(set(protocols))
    told = []
    for name in names:
        before = f"{name}: " if len(names) > 1 else ""
        known = _TRUST.get(name)
        if known is None:
            # Unnamed, nobody could tell whose assumptions are missing.
            told += [f"{name}: its own documentation has to say whom it trusts.", _HONEST]
        else:
            told += [f"{before}{line}" for line in known]
    return tuple(dict.fromkeys(told))
