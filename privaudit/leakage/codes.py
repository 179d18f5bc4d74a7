"""How much a table of codes says about whose row is whose: entropy and anonymity sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.leakage.channel import additive_capacity_bound, deterministic_min_entropy_leakage

__all__ = ["AnonymitySets", "CodeLeakage", "code_leakage", "leakage_by_party", "tuples"]

Codes = npt.NDArray[np.integer]

#: Bits below log2 n within which a plug-in entropy says no more than how many rows there are.
SATURATION = 0.1


@dataclass(frozen=True, slots=True)
class AnonymitySets:
    """How many rows share their tuple of codes with each other.

    Attributes
    ----------
    unique : float
        Fraction of rows whose tuple no other row has.
    below_five : float
        Fraction of rows that share theirs with fewer than four others.
    minimum : int
    median : float
    """

    unique: float
    below_five: float
    minimum: int
    median: float


@dataclass(frozen=True, slots=True)
class CodeLeakage:
    """What a table of codes gives away, whatever the codes stand for.

    No bound of privacy follows from any of these: the map from records to codes is deterministic,
    so that epsilon is infinite.

    Attributes
    ----------
    rows, subspaces : int
    distinct : int
        Distinct tuples.
    entropy : float
        Plug-in entropy of the tuple in bits a row; at most log2 of the rows.
    saturated : bool
        True if that is within ``SATURATION`` of the largest value that so many rows can show;
        the entropy of the population may be anything above.
    marginal_entropy : float
        Sum of the subspaces' entropies in bits: an upper bound that does not saturate.
    capacity : float
        Sum of log2 of the codewords in bits.
    min_entropy_leakage : float
        log2 of ``distinct``, bits: the secret is which row, uniform a priori.
    prior_vulnerability, posterior_vulnerability : float
        Probability of guessing the row without and with its codes.
    cell_leakage : float
        log2(1 / max p), bits: the secret is the tuple itself, guessed in one try and then seen.
    anonymity : AnonymitySets
    """

    rows: int
    subspaces: int
    distinct: int
    entropy: float
    saturated: bool
    marginal_entropy: float
    capacity: float
    min_entropy_leakage: float
    prior_vulnerability: float
    posterior_vulnerability: float
    cell_leakage: float
    anonymity: AnonymitySets


def _checked(codes: Codes) -> Codes:
    codes = np.asarray(codes)
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "iu":
        raise InvalidDataError(
            f"codes are integers of shape (rows, subspaces), got {codes.dtype} {codes.shape}"
        )
    if codes.dtype.kind == "i" and codes.min() < 0:
        raise InvalidDataError(f"codes start at 0, got {codes.min()}")
    return codes


def tuples(codes: Codes) -> npt.NDArray[np.int64]:
    """Return the number of each row's tuple: equal rows get equal numbers, from 0 on."""
    codes = _checked(codes)
    number = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        # Renumbered after each column, the product stays far below 2**63.
        _, number = np.unique(number * (int(column.max()) + 1) + column, return_inverse=True)
    return number.astype(np.int64)


def _entropy(counts: npt.NDArray[np.int64]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(max(-(share * np.log2(share)).sum(), 0.0))


def code_leakage(codes: Codes, *, codewords: npt.ArrayLike | None = None) -> CodeLeakage:
    """Measure a table of codes.

    Parameters
    ----------
    codes : ndarray of integers, shape (rows, subspaces)
    codewords : array_like of int, shape (subspaces,), optional
        Size of each codebook; without it, the codes that occur.

    Raises
    ------
    InvalidDataError
        If codes are no table of integers from 0, or exceed their codebook.

    Examples
    --------
    >>> found = code_leakage(np.array([[0, 0], [0, 0], [0, 1], [1, 1]]))
    >>> found.distinct, found.entropy, found.anonymity.unique
    (3, 1.5, 0.5)
    """
    codes = _checked(codes)
    rows, subspaces = codes.shape
    occurring = codes.max(axis=0).astype(np.int64) + 1
    sizes = occurring if codewords is None else np.asarray(codewords)
    if sizes.shape != (subspaces,) or (sizes < occurring).any():
        raise InvalidDataError(
            f"codebooks of sizes {sizes.tolist()} do not hold codes up to {occurring - 1}"
        )
    number = tuples(codes)
    counts = np.bincount(number)
    entropy = _entropy(counts)
    own = counts[number]
    return CodeLeakage(
        rows=rows,
        subspaces=subspaces,
        distinct=counts.size,
        entropy=entropy,
        saturated=bool(entropy >= np.log2(rows) - SATURATION),
        marginal_entropy=sum(_entropy(np.bincount(column)) for column in codes.T),
        capacity=additive_capacity_bound(sizes),
        min_entropy_leakage=deterministic_min_entropy_leakage(counts.size),
        prior_vulnerability=1.0 / rows,
        posterior_vulnerability=counts.size / rows,
        cell_leakage=float(-np.log2(counts.max() / rows)),
        anonymity=AnonymitySets(
            unique=float((own == 1).mean()),
            below_five=float((own < 5).mean()),
            minimum=int(own.min()),
            median=float(np.median(own)),
        ),
    )


def leakage_by_party(codes: Mapping[str, Codes]) -> Mapping[str, CodeLeakage]:
    """Measure each party's codes, and all of them side by side under the name ``"jointly"``.

    Raises
    ------
    InvalidDataError
        If there is no party, a party has that name, or the parties' rows differ in number.
    """
    if not codes or "jointly" in codes:
        raise InvalidDataError("leakage is measured of at least one party, none named 'jointly'")
    rows = {party: len(table) for party, table in codes.items()}
    if len(set(rows.values())) != 1:
        raise InvalidDataError(f"the parties' rows are not aligned: {rows}")
    result = {party: code_leakage(table) for party, table in codes.items()}
    result["jointly"] = code_leakage(np.concatenate(list(codes.values()), axis=1))
    return result
