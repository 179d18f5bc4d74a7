"""Sentences of the report on PA-CFL that do not depend on what was measured, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from privaudit.campaigns.pa_cfl.exposed import Exposed
from privaudit.campaigns.pa_cfl.verdicts import in_words
from privaudit.protocols.pa_cfl import kinds
from privaudit.reports.model import BudgetRow, Finding

__all__ = [
    "ACTORS",
    "CLAIM",
    "LIMITATIONS",
    "NOT_TESTED",
    "TRUST",
    "UNIT",
    "recommendations",
]

CLAIM: Final = (
    "Neither server alone, nor one of them with up to N - 1 colluding users, recovers a user's "
    "complete gradient, and the less important part of each user's update is protected by "
    "shuffled differential privacy."
)
UNIT: Final = "one user's whole less important subvector in one round, replaced by any other"
ACTORS: Final[Mapping[str, str]] = {
    "users": "hold the records, train locally, may collude with one server",
    kinds.MANAGEMENT_SERVER: "(MS) receives permutation sequences and noised reports, clusters the "
    "users, shuffles the reports",
    kinds.AGGREGATION_SERVER: "(AS) receives important values and shuffled reports, aggregates",
}
TRUST: Final[tuple[str, ...]] = (
    "The management server and the aggregation server never share what they see.",
    "No user tells the aggregation server the order in which important values are sent.",
    "The management server shuffles honestly and forgets which report came from whom.",
    "Both servers and all users follow the protocol; none alters its messages.",
    "Users are told apart by the servers in every round: nothing is anonymous on the wire.",
)
NOT_TESTED: Final[tuple[str, ...]] = (
    "Servers or users that deviate from the protocol.",
    "Gradient inversion of updates that accumulate several steps over many records.",
    "Coordinates of values that accumulate several local steps.",
    "Inversion that combines rounds, and learned image priors.",
    "Side channels: timing, floating-point noise, network metadata.",
)
LIMITATIONS: Final[tuple[str, ...]] = (
    "An attack that fails here shows that this attack failed, not that the data are safe.",
    "The protocol was simulated from the paper's text; where the text is open, the choice made is "
    "documented with the protocol.",
    "Figures hold for the data, model and parameters named in this report.",
    "Finite budgets hold for the noised part of the updates alone, given everything else that is "
    "released.",
)


def recommendations(
    findings: Sequence[Finding],
    exposures: Sequence[Exposed],
    budgets: Sequence[BudgetRow],
) -> Iterator[str]:
    """Give advice that follows from what was found, the most urgent first."""
    breached = {f.attack for f in findings if f.headline and f.verdict == "breached"}
    if breached & {"inversion/rank-profile", "inference/labels-from-permutation"}:
        yield (
            "Treat permutation sequences as personal data: do not send them to a server without "
            "differential privacy or secure computation of the similarity."
        )
    if breached & {
        "inversion/blind-top-k",
        "inference/labels-from-values",
        "inference/zero-sum-labels",
    }:
        yield (
            "Treat values without coordinates as personal data too: one order that all users share "
            "hides little, because the aggregation server finds it from what users have in common."
        )
    placed = [e for e in exposures if e.row.exact_fraction > 0]
    if placed:
        yield (
            "Clip and noise the important values too, or aggregate them under secure aggregation: "
            f"{in_words(placed[0].row.coalition_label)} reads them exactly."
        )
    derived = [e for e in exposures if e.derived > 0]
    if derived:
        yield (
            "Withhold aggregates of small clusters: from them and the reports that it shuffles, "
            f"{in_words(derived[0].row.coalition_label)} computes the important values of the "
            "remaining user."
        )
    sizes = [b.cluster_size for b in budgets if b.rounds == 1]
    if sizes and min(sizes) < 20:
        yield (
            f"Set a minimum size for clusters (here clusters of {min(sizes)} were formed): below "
            "about 20 users, shuffling adds next to nothing to the budget of a coordinate."
        )
    if any(b.role == "bracket" for b in budgets):
        yield "Fix the clipping threshold in advance instead of taking the median of users' norms."
