"""Sentences of the report on DisUE that do not depend on what was measured, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from privaudit.protocols.disue import kinds
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
    "Similarities are computed on encrypted model parameters, so that neither parameters nor raw "
    "similarity values are exposed to the server and clients cannot be re-identified by them."
)
UNIT: Final = "all records of one client in one round (no differential privacy is claimed)"
ACTORS: Final[Mapping[str, str]] = {
    "clients": "hold the records, train locally, compare themselves with one another",
    kinds.SERVER: "relays the encrypted messages, clusters the clients by their similarities, "
    "averages, and distils the cluster models into one",
    kinds.KEY_HELPER: "holds the key of all clients in the variant with a shared key",
}
TRUST: Final[tuple[str, ...]] = (
    "The server does nothing with the ciphertexts that it relays but relay them.",
    "Clients do nothing with the ciphertexts of other clients but answer them.",
    "The server uses class counts, models and similarities for clustering and distillation alone.",
    "All parties follow the protocol; none alters its messages or takes part under many names.",
)
NOT_TESTED: Final[tuple[str, ...]] = (
    "Inference of whether a single record is in a client's training data (membership).",
    "Gradient inversion of updates that accumulate several steps over many records.",
    "Records rebuilt through the generator that the server trains.",
    "The networks and data sets of the paper's experiments (ResNet on SVHN, CIFAR-10 and -100).",
    "Side channels: timing, sizes of messages beyond those recorded, network metadata.",
)
LIMITATIONS: Final[tuple[str, ...]] = (
    "An attack that fails here shows that this attack failed, not that the data are safe.",
    "The protocol was simulated from the paper's text, which leaves roles, keys, quantisation and "
    "the messages of the encrypted comparison open; the choices are documented with the protocol.",
    "Figures hold for the data, model and parameters named in this report.",
)
WORDS: Final[Mapping[str, str]] = {
    "server": "the server alone",
    "1 client": "a single client",
    "server + 1 client": "the server with one client",
    "key helper": "the key helper alone",
    "server + key helper": "the server with the key helper",
    "server + 3 clients": "the server with three clients",
    "server with injected clients": "the server with clients of its own",
}


def recommendations(findings: Sequence[Finding]) -> Iterator[str]:
    """Give advice that follows from what was found, the most urgent first."""
    breached = {(f.attack, f.coalition_label) for f in findings if f.verdict == "breached"}
    attacks = {attack for attack, _ in breached}
    if "cryptanalysis/pcsc-ratio" in attacks:
        yield (
            "Do not use PCSC: no choice of its sizes both decodes and hides. Use homomorphic "
            "encryption, secret sharing between servers that do not collude, or compare inside a "
            "secure computation that reveals the clusters alone."
        )
    if "reconstruction/sent-models" in attacks:
        yield (
            "Aggregate models securely within a cluster, and withhold clusters of one client: "
            "encrypting only the comparison protects nothing while the models are sent as they are."
        )
    if "reidentification/similarity-linking" in attacks:
        yield (
            "Do not reveal the similarity matrix, even if computed securely: publish who is in one "
            "cluster at most, and measure what is left (table of defences)."
        )
    if "inference/class-counts" in attacks:
        yield (
            "Sum the class counts of a cluster under secure aggregation, or add noise to them: "
            "they are the label distribution of a client."
        )
