"""Kinds of messages of DisUE, and what each carries.

Big integers travel as ``uint8`` arrays of shape (..., width), big-endian, ``width`` the bytes of
the modulus: what the wire would carry, and what a view holds.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CLASS_COUNTS",
    "CLUSTER_PEERS",
    "GLOBAL_MODEL",
    "KEY_HELPER",
    "MASKED_PARAMETERS",
    "PARAMETERS",
    "SERVER",
    "SHARED_KEY_CIPHERTEXT",
    "SIMILARITY_CHALLENGE",
    "SIMILARITY_PRODUCTS",
    "SIMILARITY_RESPONSE",
    "SIMILARITY_VALUES",
]

SERVER: Final = "server"
#: Holds the key of all clients in the variant ``shared_key``.
KEY_HELPER: Final = "key-helper"

#: Server to each sampled client: ``parameters`` (d,) float32.
GLOBAL_MODEL: Final = "global-model"
#: Client to server: ``parameters`` (d,) float32 after local training (aggregation ``plain``).
PARAMETERS: Final = "parameters"
#: Client to server: ``values`` (d,) uint64, quantised parameters times records under pairwise
#: masks (aggregation ``secagg``).
MASKED_PARAMETERS: Final = "masked-parameters"
#: Server to client: with whom to mask; meta ``peers`` lists the ids of its cluster.
CLUSTER_PEERS: Final = "cluster-peers"
#: Client to server: ``counts`` (classes,) int64, records of each class.
CLASS_COUNTS: Final = "class-counts"
#: Initiator u to responder v (``pairwise``: directly; ``relay``: u to server, then server to v):
#: ``modulus`` (width,), ``scale`` (width,) and ``ciphertexts`` (d + 2, width), all uint8. Meta
#: ``initiator`` and, where there is one, ``responder``.
SIMILARITY_CHALLENGE: Final = "similarity-challenge"
#: Responder v to initiator u (``relay``: by way of the server): ``response`` (width,) uint8 and
#: ``squared_norm`` (8,) uint8. Meta ``initiator`` and ``responder``.
SIMILARITY_RESPONSE: Final = "similarity-response"
#: Initiator (or key helper) to server: ``cosines`` (pairs,) float64; meta ``pairs`` lists the
#: pairs of client ids.
SIMILARITY_VALUES: Final = "similarity-values"
#: Client to server (``shared_key``): as a challenge, but of every client under one key.
SHARED_KEY_CIPHERTEXT: Final = "shared-key-ciphertext"
#: Server to key helper (``shared_key``): ``products`` (pairs, width) uint8; meta ``pairs``.
SIMILARITY_PRODUCTS: Final = "similarity-products"
