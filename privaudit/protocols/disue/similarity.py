"""How clients and server arrive at the similarity matrix, and PCSC between every two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.channel import Channel
from privaudit.protocols.disue.config import SimilarityConfig
from privaudit.secure_computation import pcsc, secret_sharing, shared_key
from privaudit.secure_computation.integers import Bytes, encode_one
from privaudit.secure_computation.quantisation import largest_integer
from privaudit.transcript import PartyId

__all__ = [
    "DirectPCSC",
    "Exchange",
    "Pair",
    "Streams",
    "Vectors",
    "challenge_arrays",
    "check_sizes",
    "cosines_of_gram",
    "matrix_of",
    "parameters_of",
]

Vectors = Mapping[PartyId, npt.NDArray[np.int32]]
Streams = Mapping[PartyId, np.random.Generator]
Pair = tuple[PartyId, PartyId]


class Exchange(Protocol):
    """A way to compare vectors that the server is not to see."""

    def similarities(self, channel: Channel, vectors: Vectors) -> npt.NDArray[np.float64]:
        """Exchange messages about the clients' vectors; return the matrix that the server has.

        Parameters
        ----------
        channel : Channel
        vectors : mapping of client to ndarray of int32, shape (d,)
            Each client's own, in the order of the rows of the result.

        Returns
        -------
        ndarray of float64, shape (clients, clients)
            Cosines, with ones on the diagonal.
        """
        ...


def parameters_of(config: SimilarityConfig) -> pcsc.Parameters:
    """Return the sizes of PCSC that a configuration asks for."""
    return pcsc.Parameters(config.k1, config.k2, config.k3, config.k4)


def check_sizes(config: SimilarityConfig, *, dimension: int) -> None:
    """Refuse sizes with which inner products of so many coordinates would not decode.

    Raises
    ------
    ConfigurationError
        It names the inequality that fails and sizes that would do.
    """
    largest = largest_integer(config.quantisation_bits)
    if config.similarity in ("pairwise", "relay"):
        pcsc.check(parameters_of(config), dimension=dimension, largest=largest)
    elif config.similarity == "shared_key":
        shared_key.check(parameters_of(config), dimension=dimension, largest=largest)
    elif config.similarity == "secret_shares":
        secret_sharing.check(dimension=dimension, largest=largest)


def matrix_of(
    cosines: Mapping[Pair, float], clients: tuple[PartyId, ...]
) -> npt.NDArray[np.float64]:
    """Return the symmetric matrix of pairwise cosines, with ones on the diagonal."""
    matrix = np.eye(len(clients))
    for i, j in combinations(range(len(clients)), 2):
        matrix[i, j] = matrix[j, i] = cosines[clients[i], clients[j]]
    return matrix


def cosines_of_gram(gram: Mapping[Pair, int]) -> dict[Pair, float]:
    """Return the cosines of all pairs of two, from inner products that include norms."""
    return {
        (u, v): pcsc.cosine(product, gram[u, u], gram[v, v])
        for (u, v), product in gram.items()
        if u != v
    }


def challenge_arrays(challenge: pcsc.Challenge) -> dict[str, Bytes]:
    """Return a challenge as the arrays of a message."""
    width = challenge.ciphertexts.shape[1]
    return {
        "modulus": encode_one(challenge.modulus, width=width),
        "scale": encode_one(challenge.scale, width=width),
        "ciphertexts": challenge.ciphertexts,
    }


@dataclass(slots=True)
class DirectPCSC:
    """PCSC between every two clients: ``pairwise``, or ``relay`` by way of the server.

    Of two clients the one that comes first in the round initiates. The initiator decodes and
    tells the server the cosines.

    Attributes
    ----------
    config : SimilarityConfig
    streams : mapping of client to Generator
        Where each client's keys and noise come from.
    """

    config: SimilarityConfig
    streams: Streams

    def similarities(self, channel: Channel, vectors: Vectors) -> npt.NDArray[np.float64]:
        """See :class:`Exchange`."""
        clients = tuple(vectors)
        cosines: dict[Pair, float] = {}
        for position, initiator in enumerate(clients[:-1]):
            cosines |= self._initiate(channel, vectors, initiator, clients[position + 1 :])
        return matrix_of(cosines, clients)

    def _initiate(
        self, channel: Channel, vectors: Vectors, u: PartyId, responders: tuple[PartyId, ...]
    ) -> dict[Pair, float]:
        relay, fresh = self.config.similarity == "relay", self.config.fresh_per_pair
        parameters = parameters_of(self.config)
        norm = pcsc.squared_norm(vectors[u])
        cosines: dict[Pair, float] = {}
        for number, v in enumerate(responders):
            if fresh or number == 0:
                keys = pcsc.generate(parameters, source=self.streams[u])
                challenge = pcsc.encrypt(
                    vectors[u], keys, parameters=parameters, source=self.streams[u]
                )
                sent = challenge_arrays(challenge)
                channel.keep(
                    u,
                    f"pcsc-secret/{v}" if fresh else "pcsc-secret",
                    encode_one(keys.secret, width=keys.width),
                )
                if relay:
                    meta = {"initiator": u} | ({"responder": v} if fresh else {})
                    channel.send(kinds.SIMILARITY_CHALLENGE, u, kinds.SERVER, meta, **sent)
            pair = {"initiator": u, "responder": v}
            channel.send(kinds.SIMILARITY_CHALLENGE, kinds.SERVER if relay else u, v, pair, **sent)
            response = pcsc.respond(
                challenge,
                vectors[v],
                parameters=parameters,
                source=self.streams[v],
                validate=self.config.verify_modulus,
            )
            answer = {
                "response": encode_one(response.value, width=keys.width),
                "squared_norm": encode_one(
                    response.squared_norm, width=16 if self.config.quantisation_bits > 16 else 8
                ),
            }
            route = [v, kinds.SERVER, u] if relay else [v, u]
            for sender, receiver in pairwise(route):
                channel.send(kinds.SIMILARITY_RESPONSE, sender, receiver, pair, **answer)
            product = pcsc.decode(response, keys)
            cosines[u, v] = pcsc.cosine(product, norm, response.squared_norm)
        channel.send(
            kinds.SIMILARITY_VALUES,
            u,
            kinds.SERVER,
            {"pairs": [list(pair) for pair in cosines]},
            cosines=np.array(list(cosines.values())),
        )
        return cosines
