"""Kinds of messages of PQ-MDS, the names of secrets and truth, and what each carries.

Everything is in arrays over rows, never one message a row. One order of rows holds throughout a
run: that of the public array ``rows`` (n,) int64, the pseudonymous ids of the rows that take part.
Position i of every upload, every label vector, every secret and every truth array is row
``rows[i]``; an adversary that received rows in another order (an outsider's leak) joins by id.

Public values: ``configuration`` (the protocol's parameters), ``parties`` (their ids in the order
of the concatenation), ``subspaces`` (M_p of each), ``preprocessing``; public array ``rows``.

Secrets of a data party: ``features`` (n, d_p) float32, ``columns`` (d_p,) int64 (positions in the
whole table; pixels for images), ``layout`` (d_p,) int64 (subspace of each own column), and for each
round t ``codes/round-t`` (n, M_p) (true codes), ``centres/round-t`` (K, d_p) float32 (rows beyond
a subspace's number of codewords are zero), ``embedding/round-t`` (M_p, K, r) float32 (what a code
becomes; the same padding). Secrets of the server: ``labels/round-t`` (n,) and
``centroids/round-t`` (k, columns of the concatenation) float32.

Truth: target ``rows`` with ``ids`` (n,) int64, ``labels`` (n,) int64 where the data have them, and
``identifiers`` (n,) int64 (what the pseudonyms stand for); one target a party, by its id, with
``features`` (n, d_p) float32, ``columns``, ``layout``, and ``codes/round-t``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALIGNED_ORDER",
    "ALIGNMENT_TOKENS",
    "CENTROIDS",
    "CODEBOOK",
    "CODES",
    "COUNTER",
    "COUNTER_CHOICE",
    "DATA_PARTY_ROLE",
    "INDICES",
    "LABELS",
    "PARTY_TRUTH",
    "ROWS",
    "SERVER",
    "TRIAL_CODES",
]

SERVER: Final = "server"
#: Trusted party of the coarse variant: learns the codes and answers with a number of codewords.
COUNTER: Final = "trusted-counter"
#: Role of the parties that hold columns.
DATA_PARTY_ROLE: Final = "user"

#: Public array of the rows' pseudonyms, and truth target of what holds of rows.
ROWS: Final = "rows"
#: Names of the arrays of a party's truth that every scorer may count on.
PARTY_TRUTH: Final = ("features", "columns", "layout")

#: Party to server. Encoding ``dense``: ``indices`` (n, M_p * r) float32, the r coordinates of a
#: subspace side by side. Encoding ``table``: ``codes`` (n, M_p) uint8 or uint16 and ``table``
#: (M_p, K, r) float32. Both hold the same: ``privaudit.quantisation.decoded_upload`` turns either
#: into the dense form. Meta ``encoding``.
INDICES: Final = "indices"
#: Party to server, references without MDS only (``release`` other than ``indices``): ``codes``
#: (n, M_p) uint8 or uint16.
CODES: Final = "codes"
#: Party to server (``release = "reconstruction"``): ``centres`` (K, d_p) float32, padded with
#: zeros, and ``layout`` (d_p,) int64.
CODEBOOK: Final = "codebook"
#: Server to each party: ``labels`` (n,) uint8 or uint16, the cluster of each row.
LABELS: Final = "labels"
#: Server to each party: ``centroids`` (k, columns of the party's upload) float32.
CENTROIDS: Final = "centroids"

#: Party to server (``alignment = "salted-hash"``): ``tokens`` (n, 32) uint8, SHA-256 of salt and
#: identifier, in the party's own order.
ALIGNMENT_TOKENS: Final = "alignment-tokens"
#: Server to party: ``order`` (n,) int64; the row of rank i is the party's row ``order[i]``.
ALIGNED_ORDER: Final = "aligned-order"
#: Party to trusted counter (``defence = "coarse"``): ``codes`` (n, 1) of a trial; meta
#: ``codewords``.
TRIAL_CODES: Final = "trial-codes"
#: Trusted counter to party: ``suppressed`` (s,) int64 ids of rows left out; meta ``codewords``.
COUNTER_CHOICE: Final = "counter-choice"
