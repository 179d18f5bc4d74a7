"""Protocols, run faithfully and recorded message by message."""

from privaudit.protocols.base import FederatedProtocol, Progress, RoundMetrics, RunOutcome

__all__ = ["FederatedProtocol", "Progress", "RoundMetrics", "RunOutcome"]
