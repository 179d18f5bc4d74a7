"""Protocols, run faithfully and recorded message by message."""

from privaudit.protocols.base import (
    AnyProtocol,
    FederatedProtocol,
    Progress,
    RoundMetrics,
    RunOutcome,
    VerticalProtocol,
    runs_on_columns,
)

__all__ = [
    "AnyProtocol",
    "FederatedProtocol",
    "Progress",
    "RoundMetrics",
    "RunOutcome",
    "VerticalProtocol",
    "runs_on_columns",
]
