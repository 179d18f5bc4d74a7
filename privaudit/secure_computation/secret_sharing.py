"""Inner products between two servers on additive shares, with a Beaver vector triple.

Everything is modulo 2^64. A client splits its vector a into a_0 + a_1 = a, one share a server, each
uniform on its own. A **dealer** draws vectors x and y, their inner product z = x . y, and shares
all three; it sees no message of the others. Server j opens d_j = a_j - x_j and e_j = b_j - y_j to
the other; with d = a - x and e = b - y, the shares

    z_j + d . y_j + x_j . e    (+ d . e for server 0)

add up to (x + d) . (y + e) = a . b, exactly modulo 2^64, so exactly as a signed integer while
n Q^2 < 2^63.

Security: against one of the two servers, that follows the protocol and colludes neither with the
other nor with the dealer. Whoever gets both shares of the result learns a . b.

Source: D. Beaver, "Efficient Multiparty Protocols Using Circuit Randomization", CRYPTO 1991.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation.integers import RandomSource

__all__ = [
    "DEALER",
    "SERVERS",
    "Opening",
    "TripleShare",
    "check",
    "deal_triple",
    "open_differences",
    "product_share",
    "reconstruct",
    "share",
]

#: The party that deals the triples, and the two that compute.
DEALER: Final = "dealer"
SERVERS: Final = ("server-0", "server-1")

Unsigned = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class TripleShare:
    """One server's share of a triple: ``x`` and ``y`` (n,) uint64, and ``z``, modulo 2^64.

    For one pair of vectors only: a second opening under the same x or y gives differences away.
    """

    x: Unsigned
    y: Unsigned
    z: int

    @property
    def nbytes(self) -> int:
        """Bytes that the dealer sends to this server."""
        return int(self.x.nbytes + self.y.nbytes) + 8


@dataclass(frozen=True, slots=True)
class Opening:
    """What one server tells the other: its shares of a - x and b - y, (n,) uint64 each."""

    first: Unsigned
    second: Unsigned

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        return int(self.first.nbytes + self.second.nbytes)


def check(*, dimension: int, largest: int) -> None:
    """Refuse sizes with which an inner product could leave the signed 64-bit range.

    Raises
    ------
    ConfigurationError
        Unless n Q^2 < 2^63.

    Examples
    --------
    >>> check(dimension=582_026, largest=32_767)
    """
    if dimension < 1 or largest < 1 or dimension * largest**2 >= 1 << 63:
        raise ConfigurationError(
            f"inner products modulo 2^64 of n = {dimension} integers up to Q = {largest} are exact"
            " only where n >= 1, Q >= 1, and n Q^2 < 2^63; quantise to fewer bits"
        )


def _uniform(n: int, source: RandomSource) -> Unsigned:
    return np.frombuffer(source.bytes(8 * n), dtype="<u8").astype(np.uint64, copy=False)


def _dot(left: Unsigned, right: Unsigned) -> int:
    return int((left * right).sum(dtype=np.uint64))


def share(vector: npt.ArrayLike, *, source: RandomSource) -> tuple[Unsigned, Unsigned]:
    """Return a client's two shares of its vector, one for each server.

    Parameters
    ----------
    vector : array_like of int, shape (n,)
        Represented modulo 2^64.
    source : RandomSource
        One call of 8 n bytes.

    Raises
    ------
    InvalidDataError
        If the vector is not one of integers.

    Examples
    --------
    >>> first, second = share([3, -1], source=np.random.default_rng(0))
    >>> (first + second).view(np.int64).tolist()
    [3, -1]
    """
    values = np.asarray(vector)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
        raise InvalidDataError(
            "shares are of integers of shape (n,), n >= 1 (quantise real vectors first); this"
            f" vector has shape {values.shape} and dtype {values.dtype}"
        )
    first = _uniform(values.size, source)
    return first, values.astype(np.uint64) - first


def deal_triple(dimension: int, *, source: RandomSource) -> tuple[TripleShare, TripleShare]:
    """Return the two servers' shares of a fresh triple: the dealer's part.

    Parameters
    ----------
    dimension : int
        n.
    source : RandomSource
        Five calls: x, y, and the first server's shares of x, y, and z.
    """
    x, y = _uniform(dimension, source), _uniform(dimension, source)
    x_0, y_0 = _uniform(dimension, source), _uniform(dimension, source)
    z_0 = int(_uniform(1, source)[0])
    z_1 = (_dot(x, y) - z_0) % (1 << 64)
    return TripleShare(x_0, y_0, z_0), TripleShare(x - x_0, y - y_0, z_1)


def open_differences(first: Unsigned, second: Unsigned, triple: TripleShare) -> Opening:
    """Return one server's message to the other.

    Parameters
    ----------
    first, second : ndarray of uint64, shape (n,)
        This server's shares of a and b.
    triple : TripleShare
        This server's.

    Raises
    ------
    InvalidDataError
        If the lengths differ.
    """
    if not first.shape == second.shape == triple.x.shape:
        raise InvalidDataError(
            f"shares of shapes {first.shape} and {second.shape} and a triple for {triple.x.shape}:"
            " an inner product is of vectors of one length"
        )
    return Opening(first - triple.x, second - triple.y)


def product_share(server: int, *, own: Opening, received: Opening, triple: TripleShare) -> int:
    """Return one server's share of a . b, in [0, 2^64).

    Parameters
    ----------
    server : {0, 1}
        Which of `SERVERS` this is.
    own, received : Opening
        What this server sent and what it got.
    triple : TripleShare
        This server's.

    Raises
    ------
    ConfigurationError
        If ``server`` is neither 0 nor 1.
    InvalidDataError
        If the lengths of the openings differ.
    """
    if server not in (0, 1):
        raise ConfigurationError(f"there are two servers, 0 and 1; {server!r} is neither")
    if own.first.shape != received.first.shape:
        raise InvalidDataError("the servers opened vectors of different lengths")
    d, e = own.first + received.first, own.second + received.second
    result = triple.z + _dot(d, triple.y) + _dot(triple.x, e)
    if server == 0:
        result += _dot(d, e)
    return result % (1 << 64)


def reconstruct(first: int, second: int) -> int:
    """Return the signed integer that two shares add up to.

    Examples
    --------
    >>> reconstruct(2**64 - 3, 1)
    -2
    """
    total = (first + second) % (1 << 64)
    return total - (1 << 64) if total >= 1 << 63 else total
