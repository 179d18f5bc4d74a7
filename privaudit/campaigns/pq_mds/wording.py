"""Sentences of the report on PQ-MDS that do not depend on what was measured, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from privaudit.campaigns.pq_mds.adversaries import LABELS
from privaudit.protocols.pq_mds import kinds
from privaudit.reports.model import Finding

__all__ = [
    "ACTORS",
    "CLAIM",
    "LIMITATIONS",
    "NOT_TESTED",
    "TRUST",
    "UNIT",
    "WORDS",
    "recommendations",
]

CLAIM: Final = (
    "Uploading distance-preserving indices instead of codebooks fundamentally eliminates the risk "
    "of data distribution leakage, and product quantisation inherently injects noise."
)
UNIT: Final = "one row (one person's record over all parties); no differential privacy is claimed"
ACTORS: Final[Mapping[str, str]] = {
    "parties": "each hold some columns of every row, quantise and embed them, and upload one index "
    "for each row and group of columns",
    kinds.SERVER: "receives the indices of all rows and clusters them, sends the cluster of each "
    "row back",
    "stranger": "takes no part; stands for somebody to whom the uploads leaked, in random order",
    kinds.COUNTER: "in the coarse variant alone: counts tuples of codes, and sees them",
}
TRUST: Final[tuple[str, ...]] = (
    "The server uses the indices for clustering alone and keeps them to itself.",
    "Neither the server nor a party knows records of some rows, or similar records from elsewhere.",
    "No party pools its columns with what the server holds.",
    "Parties use the labels sent back for nothing but the clustering.",
    "Rows were aligned without telling anybody which persons the parties share.",
    "All parties follow the protocol; none alters what it uploads.",
)
NOT_TESTED: Final[tuple[str, ...]] = (
    "Parties or servers that deviate from the protocol.",
    "Several runs on the same rows, each of which would add to what is known.",
    "What the alignment of rows (private set intersection) gives away.",
    "Columns of very many categories, and tables of more than a few thousand columns.",
    "Side channels: timing, network metadata.",
)
LIMITATIONS: Final[tuple[str, ...]] = (
    "An attack that fails here shows that this attack failed, not that the data are safe.",
    "Of the paper only the abstract, the contributions and the headings were at hand; what they "
    "leave open is documented with the protocol, and its own tables were not compared.",
    "Known rows and looked-for persons were drawn at random from the run; a real adversary may "
    "know others. Figures are of one seed.",
    "Results under different threat models answer different questions and are never averaged.",
    "Anonymity sets and entropies of codes are no guarantees: what an adversary knows besides is "
    "not in them.",
)
WORDS: Final[Mapping[str, str]] = {
    LABELS["hbc_server"]: "a server that knows no record",
    LABELS["hbc_party"]: "one party that knows the attribute of some rows",
    LABELS["server_known"]: "a server that knows some rows' records",
    LABELS["server_aux"]: "a server that has similar records and knows no row",
    LABELS["server_plus_A"]: "a server that knows some rows' records, with one party",
    LABELS["outsider_known"]: "a stranger who got the uploads and knows some rows",
    LABELS["outsider_aux"]: "a stranger who got the uploads, has similar records and knows no row",
    LABELS["codebook_insider"]: "a server with all codebooks",
}


def recommendations(findings: Sequence[Finding]) -> Iterator[str]:
    """Give advice that follows from what was found, the most urgent first."""
    breached = {f.attack for f in findings if f.verdict == "breached" and f.headline}
    if breached & {"indices/known-sample", "indices/auxiliary-alignment", "indices/record-linking"}:
        yield (
            "Treat uploaded indices as the records themselves: protect them in transit and at "
            "rest, delete them after clustering, and base no claim of anonymity on them."
        )
        yield (
            "Where the server must not learn records, cluster inside secure multi-party "
            "computation or homomorphic encryption, or release noisy aggregates (centres and "
            "counts with differential privacy) instead of one index a row."
        )
        yield (
            "Do not rely on ranks, standardised or permuted indices, another embedding or another "
            "encoding: none of them removes what the attacks use (table of settings)."
        )
        yield (
            "If one release a row cannot be avoided, use randomised response with one code a "
            "party, state its budget, and check that the clustering is still of use: the table of "
            "settings shows what is left. Codebooks with differential privacy alone do not "
            "protect: the codes leave as they are."
        )
    if "indices/singling-out" in breached:
        yield (
            "Do not send one index a row to anyone who may hold copies of some persons' data: "
            "nearly every row is a fingerprint of its person."
        )
    if "indices/cluster-attribute" in breached:
        yield (
            "Return cluster labels only to parties that need them: a label tells a party more "
            "of a sensitive attribute than its own columns do."
        )
    if "indices/cross-party" in breached:
        yield "Keep the server independent of every party, by contract and by access control."
