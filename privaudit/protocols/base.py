"""What every protocol is: parties, messages, an outcome, and a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard

import numpy as np

from privaudit.datasets.base import FederatedData
from privaudit.datasets.vertical import VerticalData
from privaudit.ledger import PrivacyEvent
from privaudit.transcript import Recorder, Transcript

__all__ = [
    "AnyProtocol",
    "FederatedProtocol",
    "Progress",
    "RoundMetrics",
    "RunOutcome",
    "VerticalProtocol",
    "runs_on_columns",
]

#: Called with the number of rounds done, the total, and what was measured in the last one.
Progress = Callable[[int, int, "RoundMetrics"], None]


@dataclass(frozen=True, slots=True)
class RoundMetrics:
    """What was measured of one round for the report; no party of the protocol sees it.

    ``values`` holds numbers by name, for example ``accuracy`` (mean over the users of the accuracy
    on each one's own test set), ``pre_ari`` (adjusted Rand index of the pre-clustering).
    """

    round: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. A run that diverges is an outcome, not an error.

    Attributes
    ----------
    status : {"completed", "diverged"}
    rounds : int
        Rounds that were carried out in full.
    reason : str
        For a run that diverged: at which round and on what.
    warnings : tuple of str
        Conditions worth knowing, such as a clustering that cycled.
    metrics : tuple of RoundMetrics
    """

    status: Literal["completed", "diverged"]
    rounds: int
    reason: str
    warnings: tuple[str, ...]
    metrics: tuple[RoundMetrics, ...]


class FederatedProtocol(Protocol):
    """A protocol, configured by its constructor, over users who hold rows of their own."""

    name: ClassVar[str]
    version: ClassVar[str]

    def run(
        self,
        data: FederatedData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run the protocol, giving every message to the recorder as it is sent."""
        ...

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Derive from a transcript what was released to whom."""
        ...


class VerticalProtocol(Protocol):
    """A protocol, configured by its constructor, over parties who hold columns of the same rows.

    It says so by ``partitioning = "vertical"``; a protocol that says nothing is horizontal.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    partitioning: ClassVar[Literal["vertical"]]

    def run(
        self,
        data: VerticalData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run the protocol, giving every message to the recorder as it is sent."""
        ...

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Derive from a transcript what was released to whom."""
        ...


AnyProtocol: TypeAlias = FederatedProtocol | VerticalProtocol


def runs_on_columns(protocol: Any) -> TypeGuard[VerticalProtocol]:
    """Tell whether a protocol (or its class) runs over columns rather than rows."""
    return getattr(protocol, "partitioning", "horizontal") == "vertical"
