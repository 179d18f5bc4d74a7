"""Who released what how often: the ledger's Laplace vectors by user and cluster size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from privaudit.ledger import LaplaceVector, PrivacyEvent
from privaudit.transcript import PartyId

__all__ = ["Report", "seen_by_one_observer", "simultaneous", "story", "worst_histories"]


@dataclass(frozen=True, slots=True)
class Report:
    """What of one event matters to the bounds; the clipping threshold itself does not."""

    size: int
    mechanism: LaplaceVector

    @classmethod
    def of(cls, event: PrivacyEvent) -> Report:
        assert isinstance(event.mechanism, LaplaceVector)
        return cls(len(event.subjects), replace(event.mechanism, clip_norm=1.0))

    @property
    def shuffled(self) -> bool:
        return self.mechanism.shuffle != "none"

    @property
    def joint(self) -> bool:
        return self.mechanism.clipping == "joint-l2"

    def hiding(self, colluding_users: int, *, vector: bool) -> int:
        """Return the honest users among whom the report hides.

        A common permutation of whole reports hides single coordinates only.
        """
        shuffle = self.mechanism.shuffle
        if shuffle == "none" or (vector and shuffle == "whole-report"):
            return 1
        return max(1, self.size - colluding_users)


def seen_by_one_observer(vectors: Sequence[PrivacyEvent]) -> list[PrivacyEvent]:
    shuffled = [event for event in vectors if Report.of(event).shuffled]
    observers = {party for event in shuffled or vectors for party in event.observers}
    return [event for event in vectors if observers & set(event.observers)]


def simultaneous(events: Sequence[PrivacyEvent]) -> dict[Report, int]:
    """Return the most clusters of each kind and size that one round had."""
    most: dict[Report, int] = {}
    for (_, report), count in Counter((e.round, Report.of(e)) for e in events).items():
        most[report] = max(most.get(report, 0), count)
    return most


def worst_histories(
    events: Sequence[PrivacyEvent], colluding_users: int
) -> list[tuple[PartyId, Counter[Report]]]:
    """Return users with how often each was in a cluster of each size, the worst-off first.

    One for each smallest cluster that users were in: the one with the largest total. Totals are
    compared by the zCDP of spread inputs, the sum of epsilon0^2 / n.
    """
    histories: dict[PartyId, Counter[Report]] = defaultdict(Counter)
    for event in events:
        for subject in event.subjects:
            histories[subject][Report.of(event)] += 1

    def cost(history: Counter[Report]) -> float:
        return sum(
            count * r.mechanism.epsilon0**2 / r.hiding(colluding_users, vector=True)
            for r, count in history.items()
        )

    worst: dict[int, tuple[PartyId, Counter[Report]]] = {}
    for user in sorted(histories):
        history = histories[user]
        smallest = min(report.size for report in history)
        if smallest not in worst or cost(history) > cost(worst[smallest][1]):
            worst[smallest] = user, history
    return sorted(worst.values(), key=lambda item: -cost(item[1]))


def story(history: Counter[Report]) -> str:
    parts = [
        f"{count} round{'s' if count > 1 else ''} in a cluster of {report.size}"
        + ("" if report.shuffled else ", not shuffled")
        for report, count in sorted(history.items(), key=lambda item: item[0].size)
    ]
    return ", ".join(parts)
