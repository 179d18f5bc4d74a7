"""Kinds of messages of DisUE, and what each carries.

Big integers travel as ``uint8`` arrays of shape (..., width), big-endian, ``width`` the bytes of
the modulus: what the wire would carry, and what a view holds.

Besides messages, parties hold secrets, by party and name.

* ``server``: ``round-T/similarities`` (clients, clients) where it clusters on them,
  ``round-T/assignment`` (clients,), ``round-T/cluster-models`` (clusters, d), ``round-T/average``
  (d,), ``round-T/global-model`` (d,) after distillation, ``round-T/generator`` theta_G. Rows stand
  in the order of the clients of the round, in which they are sent ``global-model`` (or what stands
  for it).
* Clients: ``round-T/quantised`` (d,) int32 and, as an initiator of PCSC, ``round-T/pcsc-secret``
  (width,) uint8, or ``round-T/pcsc-secret/V`` where a key is made for each responder V. Under
  ``secagg`` each of two clients of a cluster, U and V, holds the seed of their mask: U as
  ``round-T/mask-seed/V`` (16,) uint8, V as ``round-T/mask-seed/U``.
* Who holds the shared key has it as ``pcsc-secret``.

The truth of ``CLIENT/round-T``: ``parameters`` (d,) float32 after training, ``update`` (d,)
float32, ``class_counts`` (classes,) int64, ``vector`` (d,) float32 that is compared, and
``quantised`` (d,) int32 where the similarity works on integers.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CLASS_COUNTS",
    "CLUSTER_CHOICE",
    "CLUSTER_MODEL",
    "CLUSTER_MODELS",
    "CLUSTER_PEERS",
    "DEALER",
    "GLOBAL_MODEL",
    "GRADIENT_PROFILE",
    "INNER_PRODUCT_SHARES",
    "KEY_HELPER",
    "MASKED_PARAMETERS",
    "OPENED_DIFFERENCES",
    "PARAMETERS",
    "SECOND_SERVER",
    "SERVER",
    "SHARED_KEY",
    "SHARED_KEY_CIPHERTEXT",
    "SIMILARITY_CHALLENGE",
    "SIMILARITY_PRODUCTS",
    "SIMILARITY_RESPONSE",
    "SIMILARITY_VALUES",
    "SUBSPACE",
    "TRIPLE_SHARES",
    "VECTOR_SHARE",
]

SERVER: Final = "server"
#: Holds the key of all clients in the variant ``shared_key``.
KEY_HELPER: Final = "key-helper"
#: The other server of ``secret_shares``, and who deals the triples.
SECOND_SERVER: Final = "second-server"
DEALER: Final = "dealer"

#: Server to each sampled client: ``parameters`` (d,) float32.
GLOBAL_MODEL: Final = "global-model"
#: Client to server: ``parameters`` (d,) float32 after local training (aggregation ``plain``, and
#: under ``secagg`` of a client that is alone in its cluster).
PARAMETERS: Final = "parameters"
#: Client to server: ``values`` (d,) uint64, parameters times records in fixed point (24 bits after
#: the point) under pairwise masks (aggregation ``secagg``).
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
#: ``squared_norm`` (8,) uint8, (16,) for 24-bit vectors. Meta ``initiator`` and ``responder``.
SIMILARITY_RESPONSE: Final = "similarity-response"
#: Initiator (or key helper) to server: ``cosines`` (pairs,) float64; meta ``pairs`` lists the
#: pairs of client ids.
SIMILARITY_VALUES: Final = "similarity-values"
#: Key helper to each client (``shared_key``), once, in round 1: ``modulus``, ``scale`` and
#: ``secret`` (width,) uint8.
SHARED_KEY: Final = "shared-key"
#: Client to either server (``secret_shares``): ``share`` (d,) uint64, uniform on its own.
VECTOR_SHARE: Final = "vector-share"
#: Dealer to either server (``secret_shares``): ``x`` and ``y`` (d,), ``z`` (), all uint64, its
#: share of a fresh Beaver triple; meta ``pair``.
TRIPLE_SHARES: Final = "triple-shares"
#: Each server to the other (``secret_shares``): ``first`` and ``second`` (d,) uint64, shares of the
#: vectors of a pair minus those of x and y; meta ``pair``.
OPENED_DIFFERENCES: Final = "opened-differences"
#: Second server to server (``secret_shares``): ``products`` (pairs,) uint64, its shares of the
#: inner products; meta ``pairs``, those of a client with itself among them.
INNER_PRODUCT_SHARES: Final = "inner-product-shares"
#: Client to server (``shared_key``): as a challenge, but of every client under one key.
SHARED_KEY_CIPHERTEXT: Final = "shared-key-ciphertext"
#: Server to key helper (``shared_key``): ``products`` (pairs, width) uint8; meta ``pairs``, of
#: which those of a client with itself give its squared norm.
SIMILARITY_PRODUCTS: Final = "similarity-products"

#: Server to client (``start = "cluster"``): ``parameters`` (d,) float32 of the client's cluster.
CLUSTER_MODEL: Final = "cluster-model"
#: Server to client (``ifca``): ``parameters`` (clusters, d) float32, all cluster models.
CLUSTER_MODELS: Final = "cluster-models"
#: Client to server (``ifca``): ``cluster`` () int64, the model of least loss on its records.
CLUSTER_CHOICE: Final = "cluster-choice"
#: Client to server (``cfl-gp``): ``values`` (m,) float32, coordinates of the gradient at the model
#: it was sent; which ones is public (``profile-coordinates``).
GRADIENT_PROFILE: Final = "gradient-profile"
#: Client to server (``pacfl``), once, in the first round in which it takes part: ``vectors``
#: (pixels, m) float32, left singular vectors of its raw images class by class, not saying which.
SUBSPACE: Final = "subspace"
