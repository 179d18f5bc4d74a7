"""Secure aggregation by pairwise masks: the server learns a sum, and no summand.

Every two clients u < v share a seed; a generator expands it to a mask m_uv of uint64. Client u
sends x_u + sum_{v > u} m_uv - sum_{v < u} m_vu modulo 2^64, and in the sum over all clients every
mask cancels. Signed integers are represented modulo 2^64, so a sum is exact while it is below
2^63 in magnitude.

Sums only: no products, so no similarity. A client that drops out after the peers have masked
leaves its masks in the sum; that is **not** recovered from (`aggregate` refuses and names who is
missing, and the round is run again with the clients that are left). The adversary is a server
that follows the protocol; clients that collude with it remove the masks they share, and all but
one of them together read the last client's vector.

Source: K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017, section 4 (the masks without the recovery from drop-outs).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation.integers import RandomSource

__all__ = ["SEED_BYTES", "aggregate", "mask", "pairwise_seeds"]

#: Length of a seed, that of Philox's key.
SEED_BYTES: Final = 16

Unsigned = npt.NDArray[np.uint64]
Signed = npt.NDArray[np.int64]


def pairwise_seeds(clients: Iterable[str], *, source: RandomSource) -> dict[str, dict[str, bytes]]:
    """Draw a seed for every two clients and hand each client its own.

    Stands for the key agreement of a deployment, where no single party draws the seeds.

    Parameters
    ----------
    clients : iterable of str
        At least two distinct ids.
    source : RandomSource
        One call for each pair, in sorted order.

    Returns
    -------
    dict of dict of bytes
        ``seeds[u][v] == seeds[v][u]``.

    Raises
    ------
    ConfigurationError
        With fewer than two clients (the sum would be one client's vector) or repeated ids.
    """
    given = list(clients)
    ids = sorted(set(given))
    if len(ids) != len(given) or len(ids) < 2:
        raise ConfigurationError(
            "pairwise masks need at least two clients with distinct ids (the sum over one client"
            f" is that client's vector); got {', '.join(given) or 'none'}"
        )
    seeds: dict[str, dict[str, bytes]] = {client: {} for client in ids}
    for first, second in itertools.combinations(ids, 2):
        seeds[first][second] = seeds[second][first] = source.bytes(SEED_BYTES)
    return seeds


def _expand(seed: bytes, length: int, round_index: int) -> Unsigned:
    if len(seed) != SEED_BYTES:
        raise InvalidDataError(f"a seed of a mask has {SEED_BYTES} bytes; this one has {len(seed)}")
    # The round counts in the counter's highest word, which a mask of 2^194 words would reach.
    generator = np.random.Philox(key=int.from_bytes(seed, "big"), counter=round_index << 192)
    return np.asarray(generator.random_raw(length), dtype=np.uint64)


def mask(
    values: npt.ArrayLike, *, client: str, seeds: Mapping[str, bytes], round_index: int = 0
) -> Unsigned:
    """Return one client's vector under its pairwise masks.

    Parameters
    ----------
    values : array_like of int, shape (d,)
        The vector; the sum over all clients is to be below 2^63 in magnitude.
    client : str
        The client's id.
    seeds : mapping of str to bytes
        The client's seeds by the other client's id, one for each client of the sum.
    round_index : int
        A new mask for each round; reusing one gives the difference of two vectors away.

    Returns
    -------
    ndarray of uint64, shape (d,)

    Raises
    ------
    ConfigurationError
        Without peers, with the client as its own peer, or a round outside [0, 2^64).
    InvalidDataError
        If the vector is not one of integers, or a seed has another length.

    Examples
    --------
    >>> seeds = pairwise_seeds(["u", "v"], source=np.random.default_rng(0))
    >>> sent = {c: mask([1, -5], client=c, seeds=seeds[c]) for c in seeds}
    >>> aggregate(sent, clients=["u", "v"]).tolist()
    [2, -10]
    """
    if not seeds or client in seeds:
        raise ConfigurationError(
            f"client {client!r} needs a seed with each other client of the sum, at least one, and"
            f" none with itself; seeds are for {', '.join(sorted(seeds)) or 'nobody'}"
        )
    if not 0 <= round_index < 1 << 64:
        raise ConfigurationError(f"round_index: {round_index} is not in [0, 2^64)")
    vector = np.asarray(values)
    if vector.ndim != 1 or vector.size == 0 or vector.dtype.kind not in "iu":
        raise InvalidDataError(
            "masks are for integers of shape (d,), d >= 1 (quantise real vectors first); this"
            f" vector has shape {vector.shape} and dtype {vector.dtype}"
        )
    masked = vector.astype(np.uint64)  # modulo 2^64, always a copy
    for peer, seed in seeds.items():
        if client < peer:
            masked += _expand(seed, masked.size, round_index)
        else:
            masked -= _expand(seed, masked.size, round_index)
    return masked


def aggregate(masked: Mapping[str, npt.NDArray[np.uint64]], *, clients: Iterable[str]) -> Signed:
    """Return the sum of all clients' vectors from their masked ones: the server's part.

    Parameters
    ----------
    masked : mapping of str to ndarray of uint64, shape (d,)
        What arrived, by client.
    clients : iterable of str
        All clients that the masks were made for.

    Returns
    -------
    ndarray of int64, shape (d,)

    Raises
    ------
    InvalidDataError
        If a client dropped out (the message names it), one is unknown, or shapes or dtypes differ.
    """
    expected = set(clients)
    missing, unknown = expected - masked.keys(), masked.keys() - expected
    if missing:
        raise InvalidDataError(
            f"dropped out: {', '.join(sorted(missing))}. Their masks stay in the sum of the others;"
            " run the round again with masks among the clients that are left"
        )
    if unknown or not expected:
        raise InvalidDataError(
            "masked vectors came from clients that the masks were not made for:"
            f" {', '.join(sorted(unknown)) or 'there are no clients'}"
        )
    forms = {(array.shape, str(array.dtype)) for array in masked.values()}
    if len(forms) != 1 or next(iter(forms))[1] != "uint64":
        raise InvalidDataError(
            f"masked vectors have one shape (d,) and dtype uint64; these have {sorted(forms)}"
        )
    (shape, _) = next(iter(forms))
    total = np.zeros(shape, dtype=np.uint64)
    for array in masked.values():
        total += array
    return total.view(np.int64)
