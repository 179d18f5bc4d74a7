"""Similarity by the help of further parties: one shared key, or two servers with shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.channel import Channel
from privaudit.protocols.disue.config import SimilarityConfig
from privaudit.protocols.disue.similarity import (
    Pair,
    Streams,
    Vectors,
    challenge_arrays,
    cosines_of_gram,
    matrix_of,
    parameters_of,
)
from privaudit.secure_computation import pcsc, secret_sharing, shared_key
from privaudit.secure_computation.integers import Bytes, encode, encode_one
from privaudit.transcript import PartyId

__all__ = ["SecretShares", "SharedKeyPCSC"]


@dataclass(slots=True)
class SharedKeyPCSC:
    """All clients encrypt under one key, the server multiplies, the key helper decodes.

    The literal reading of Algorithm 1: Encrypt at the client, Compute on two ciphertexts.

    Attributes
    ----------
    config : SimilarityConfig
    streams : mapping of party to Generator
        Of all clients and of the key helper.
    clients : tuple of PartyId
        All clients of the federation, which get the key in round 1.
    """

    config: SimilarityConfig
    streams: Streams
    clients: tuple[PartyId, ...]
    _keys: pcsc.Keys | None = field(default=None, init=False)

    def similarities(self, channel: Channel, vectors: Vectors) -> npt.NDArray[np.float64]:
        """See :class:`Exchange`."""
        parameters = parameters_of(self.config)
        keys = self._key(channel, parameters)
        ciphertexts: dict[PartyId, Bytes] = {}
        for client, vector in vectors.items():
            challenge = pcsc.encrypt(
                vector, keys, parameters=parameters, source=self.streams[client]
            )
            ciphertexts[client] = challenge.ciphertexts
            channel.send(
                kinds.SHARED_KEY_CIPHERTEXT,
                client,
                kinds.SERVER,
                {"initiator": client},
                **challenge_arrays(challenge),
            )
        pairs = list(combinations_with_replacement(vectors, 2))
        products = [
            shared_key.product(ciphertexts[u], ciphertexts[v], modulus=keys.modulus)
            for u, v in pairs
        ]
        channel.send(
            kinds.SIMILARITY_PRODUCTS,
            kinds.SERVER,
            kinds.KEY_HELPER,
            {"pairs": [list(pair) for pair in pairs]},
            products=encode(products, width=keys.width),
        )
        gram = {
            pair: shared_key.decode_product(value, keys)
            for pair, value in zip(pairs, products, strict=True)
        }
        cosines = cosines_of_gram(gram)
        channel.send(
            kinds.SIMILARITY_VALUES,
            kinds.KEY_HELPER,
            kinds.SERVER,
            {"pairs": [list(pair) for pair in cosines]},
            cosines=np.array(list(cosines.values())),
        )
        return matrix_of(cosines, tuple(vectors))

    def _key(self, channel: Channel, parameters: pcsc.Parameters) -> pcsc.Keys:
        """Return the key of all clients, which the helper makes and hands out once."""
        if self._keys is None:
            keys = pcsc.generate(parameters, source=self.streams[kinds.KEY_HELPER])
            self._keys = keys
            parts = {
                name: encode_one(value, width=keys.width)
                for name, value in (
                    ("modulus", keys.modulus),
                    ("scale", keys.scale),
                    ("secret", keys.secret),
                )
            }
            for client in self.clients:
                channel.send(kinds.SHARED_KEY, kinds.KEY_HELPER, client, None, **parts)
            for holder in (kinds.KEY_HELPER, *self.clients):
                channel.recorder.keep_secret(holder, "pcsc-secret", parts["secret"])
        return self._keys


@dataclass(slots=True)
class SecretShares:
    """Inner products between the server and a second one, on additive shares.

    Every client gives each server one share of its vector; the dealer hands out a fresh triple for
    each pair; the second server tells the first its shares of the results.

    Attributes
    ----------
    streams : mapping of party to Generator
        Of all clients and of the dealer.
    """

    streams: Streams

    def similarities(self, channel: Channel, vectors: Vectors) -> npt.NDArray[np.float64]:
        """See :class:`Exchange`."""
        servers = (kinds.SERVER, kinds.SECOND_SERVER)
        shares = {}
        for client, vector in vectors.items():
            shares[client] = secret_sharing.share(vector, source=self.streams[client])
            for server, part in zip(servers, shares[client], strict=True):
                channel.send(kinds.VECTOR_SHARE, client, server, share=part)
        pairs = list(combinations_with_replacement(vectors, 2))
        results = [self._product(channel, pair, shares) for pair in pairs]
        channel.send(
            kinds.INNER_PRODUCT_SHARES,
            kinds.SECOND_SERVER,
            kinds.SERVER,
            {"pairs": [list(pair) for pair in pairs]},
            products=np.array([second for _, second in results], dtype=np.uint64),
        )
        gram = {
            pair: secret_sharing.reconstruct(*result)
            for pair, result in zip(pairs, results, strict=True)
        }
        return matrix_of(cosines_of_gram(gram), tuple(vectors))

    def _product(
        self,
        channel: Channel,
        pair: Pair,
        shares: dict[PartyId, tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]],
    ) -> tuple[int, int]:
        """Return both servers' shares of one inner product."""
        u, v = pair
        servers, meta = (kinds.SERVER, kinds.SECOND_SERVER), {"pair": list(pair)}
        triples = secret_sharing.deal_triple(len(shares[u][0]), source=self.streams[kinds.DEALER])
        for server, triple in zip(servers, triples, strict=True):
            channel.send(
                kinds.TRIPLE_SHARES,
                kinds.DEALER,
                server,
                meta,
                x=triple.x,
                y=triple.y,
                z=np.uint64(triple.z),
            )
        opened = [
            secret_sharing.open_differences(shares[u][j], shares[v][j], triples[j]) for j in (0, 1)
        ]
        for sender, opening in zip((0, 1), opened, strict=True):
            channel.send(
                kinds.OPENED_DIFFERENCES,
                servers[sender],
                servers[1 - sender],
                meta,
                first=opening.first,
                second=opening.second,
            )
        first, second = (
            secret_sharing.product_share(
                j, own=opened[j], received=opened[1 - j], triple=triples[j]
            )
            for j in (0, 1)
        )
        return first, second
