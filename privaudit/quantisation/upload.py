"""What a party uploads: an embedded codebook, scaled, looked up by codes.

Every scaling maps the value of a codeword to another value, so that an upload is always a table
and codes, and can be sent as either: the dense rows, or the table and the codes. Both hold exactly
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.transcript import Array

__all__ = [
    "SCALINGS",
    "Encoding",
    "Scaling",
    "UploadTable",
    "decoded_upload",
    "encode_upload",
    "scaled_table",
]

Scaling: TypeAlias = Literal["raw", "unit", "minmax", "party", "rank"]
Encoding: TypeAlias = Literal["dense", "table"]

#: Names of the scalings.
SCALINGS: tuple[str, ...] = get_args(Scaling)


@dataclass(frozen=True, slots=True, eq=False)
class UploadTable:
    """Embedded codewords of all subspaces of a party, and the code of each row.

    Attributes
    ----------
    codes : ndarray of uint8 or uint16, shape (n, subspaces)
    table : ndarray of float32, shape (subspaces, K, r)
        Rows beyond a subspace's number of codewords are zero.
    """

    codes: npt.NDArray[np.integer]
    table: npt.NDArray[np.float32]

    def dense(self) -> npt.NDArray[np.float32]:
        """Return the rows, shape (n, subspaces * r), the coordinates of a subspace side by side."""
        rows = self.table[np.arange(len(self.table)), self.codes]
        return np.ascontiguousarray(rows.reshape(len(self.codes), -1))


def scaled_table(
    embeddings: tuple[npt.NDArray[np.float64], ...],
    codes: npt.NDArray[np.integer],
    *,
    codewords: int,
    scaling: Scaling,
) -> UploadTable:
    """Scale embedded codebooks as if each column of the dense upload were scaled over its rows.

    Parameters
    ----------
    embeddings : tuple of ndarray of float64, shape (K_m, r)
    codes : ndarray of int, shape (n, subspaces)
    codewords : int
        K, to which tables are padded.
    scaling : {"raw", "unit", "minmax", "party", "rank"}
        ``raw``: as embedded, in the features' units. ``unit``: mean 0 and standard deviation 1 a
        column. ``minmax``: 0 to 1 a column. ``party``: columns centred, and all divided by the
        square root of the party's total variance, so that every party weighs the same. ``rank``:
        the position of the value among the codewords' values. Columns that do not vary become 0
        under ``unit``, ``minmax`` and ``party``.

    Returns
    -------
    UploadTable
    """
    r = embeddings[0].shape[1]
    table = np.zeros((len(embeddings), codewords, r))
    shares = []
    for m, embedding in enumerate(embeddings):
        table[m, : len(embedding)] = embedding
        shares.append(np.bincount(codes[:, m], minlength=codewords) / len(codes))
    share = np.stack(shares)[:, :, None]
    used = share[:, :, 0] > 0
    if scaling == "rank":
        for m, embedding in enumerate(embeddings):
            for axis in range(r):
                _, ranks = np.unique(embedding[:, axis], return_inverse=True)
                table[m, : len(embedding), axis] = ranks.ravel()
    elif scaling == "minmax":
        low = np.where(used[:, :, None], table, np.inf).min(axis=1, keepdims=True)
        high = np.where(used[:, :, None], table, -np.inf).max(axis=1, keepdims=True)
        table = _divided(table - low, high - low)
    elif scaling in ("unit", "party"):
        table = table - (share * table).sum(axis=1, keepdims=True)
        variances = (share * table**2).sum(axis=1, keepdims=True)
        spread = np.sqrt(
            variances if scaling == "unit" else np.full_like(variances, variances.sum())
        )
        table = _divided(table, spread)
    for m, embedding in enumerate(embeddings):
        table[m, len(embedding) :] = 0
    return UploadTable(codes, table.astype(np.float32))


def _divided(
    values: npt.NDArray[np.float64], by: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def encode_upload(upload: UploadTable, encoding: Encoding) -> dict[str, Array]:
    """Return the arrays of the message: ``indices``, or ``codes`` and ``table``."""
    if encoding == "dense":
        return {"indices": upload.dense()}
    return {"codes": upload.codes, "table": upload.table}


def decoded_upload(arrays: Mapping[str, Array]) -> npt.NDArray[np.float32]:
    """Return the dense upload from the arrays of a message, in whichever encoding.

    Parameters
    ----------
    arrays : mapping
        ``indices`` (n, columns), or ``codes`` (n, subspaces) and ``table`` (subspaces, K, r).

    Returns
    -------
    ndarray of float32, shape (n, subspaces * r)

    Raises
    ------
    InvalidDataError
        If the arrays are neither, or a code is beyond the table.
    """
    if "indices" in arrays:
        return np.asarray(arrays["indices"], dtype=np.float32)
    if not {"codes", "table"} <= set(arrays):
        raise InvalidDataError(
            f"an upload holds 'indices', or 'codes' and 'table'; got {sorted(arrays)}"
        )
    codes, table = np.asarray(arrays["codes"]), np.asarray(arrays["table"], dtype=np.float32)
    fits = codes.ndim == 2 and table.ndim == 3 and codes.shape[1] == len(table)
    if not fits or (codes.size and int(codes.max()) >= table.shape[1]):
        raise InvalidDataError(
            f"codes of shape {codes.shape} do not fit a table of shape {table.shape}"
        )
    return UploadTable(codes, table).dense()
