"""What could be published of a similarity matrix instead of the matrix, to hide who is who.

None of this is in the paper. Each function takes a symmetric matrix of cosines and returns what
the server would get; how much of linking survives each is measured by
``benchmarks/similarity_linking.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.clustering import affinity_propagation
from privaudit.transcript import Message, Transcript

__all__ = ["co_membership", "defended", "noised", "rounded"]

Matrix = npt.NDArray[np.float64]


def rounded(similarities: Matrix, *, decimals: int) -> Matrix:
    """Round to so many decimals.

    Examples
    --------
    >>> rounded(np.array([[1.0, 0.1234], [0.1234, 1.0]]), decimals=2)
    array([[1.  , 0.12],
           [0.12, 1.  ]])
    """
    if decimals < 0:
        raise ConfigurationError(f"decimals must be >= 0, got {decimals}")
    result: Matrix = np.round(similarities, decimals)
    return result


def noised(similarities: Matrix, *, deviations: float, rng: np.random.Generator) -> Matrix:
    """Add Gaussian noise to each pair, its deviation in units of that of the matrix's pairs.

    No guarantee follows: the cosines have no bounded sensitivity but that of their range, and the
    same pairs are compared again in later rounds.
    """
    if not deviations >= 0:
        raise ConfigurationError(f"deviations must be >= 0, got {deviations}")
    upper = np.triu_indices(len(similarities), 1)
    result: Matrix = similarities.copy()
    if upper[0].size:
        scale = deviations * float(similarities[upper].std())
        result[upper] += scale * rng.normal(size=upper[0].size)
        result.T[upper] = result[upper]
    return result


def co_membership(similarities: Matrix, *, seed: int) -> Matrix:
    """Tell only which clients are in one cluster (1) or not (0), by affinity propagation."""
    labels = affinity_propagation(similarities, seed=seed).assignment
    together: Matrix = (labels[:, None] == labels[None]).astype(np.float64)
    return together


def defended(transcript: Transcript, defence: Callable[[Matrix], Matrix]) -> Transcript:
    """Return a run in which the server was told what a defence leaves of the similarities.

    Replaces the values of ``similarity-values``, round by round. Other messages stay: where the
    server has models or ciphertexts that it can read, the defence is none.

    Raises
    ------
    ConfigurationError
        If no similarities were sent.
    """
    sent = [m for m in transcript.messages if m.kind == kinds.SIMILARITY_VALUES]
    if not sent:
        raise ConfigurationError(f"the run has no '{kinds.SIMILARITY_VALUES}' to defend")
    changed: dict[int, Message] = {}
    by_round = sorted(sent, key=lambda m: (m.round or 0, m.seq))
    for _, group in groupby(by_round, key=lambda m: m.round):
        changed.update(_defended_round(list(group), defence))
    return replace(transcript, messages=tuple(changed.get(m.seq, m) for m in transcript.messages))


def _defended_round(
    messages: list[Message], defence: Callable[[Matrix], Matrix]
) -> dict[int, Message]:
    pairs: list[list[tuple[str, str]]] = [
        [(str(u), str(v)) for u, v in m.meta["pairs"]]  # type: ignore[union-attr, misc]
        for m in messages
    ]
    clients = list(dict.fromkeys(c for listed in pairs for pair in listed for c in pair))
    position = {client: i for i, client in enumerate(clients)}
    matrix = np.eye(len(clients))
    for message, listed in zip(messages, pairs, strict=True):
        for (u, v), cosine in zip(listed, message.arrays["cosines"], strict=True):
            matrix[position[u], position[v]] = matrix[position[v], position[u]] = cosine
    told = defence(matrix)
    return {
        message.seq: replace(
            message,
            arrays=MappingProxyType(
                {"cosines": np.array([told[position[u], position[v]] for u, v in listed])}
            ),
        )
        for message, listed in zip(messages, pairs, strict=True)
    }
