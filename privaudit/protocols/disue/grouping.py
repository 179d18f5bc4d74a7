"""The seam for clusterings: what the clients start from, and how the server groups them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.channel import Channel
from privaudit.protocols.disue.clustering import (
    Grouping,
    affinity_propagation,
    cosine_similarities,
)
from privaudit.protocols.disue.config import DisUEConfig
from privaudit.protocols.disue.similarity import Exchange
from privaudit.protocols.federation import Federation
from privaudit.secure_computation.quantisation import quantise

__all__ = ["ClusteringRule", "SimilarityClustering", "Site", "StartingModels"]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


class ClusteringRule(Protocol):
    """A clustering with the messages that it really sends."""

    def start(self, channel: Channel, clients: Sequence[int], parameters: Float32) -> Float32:
        """Send each client of the round what it starts from.

        Parameters
        ----------
        channel : Channel
        clients : sequence of int
            Positions of the round's clients, ascending.
        parameters : ndarray of float32, shape (d,)
            The global model.

        Returns
        -------
        ndarray of float32, shape (clients, d)
            The models from which they train.
        """
        ...

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """Group the round's clients after training.

        Parameters
        ----------
        starts, trained : ndarray of float32, shape (clients, d)
            Before and after training. A rule reads of them only what its messages carry.
        """
        ...

    def learn(self, clients: Sequence[int], assignment: Int64, models: Float32) -> None:
        """Take note of the new model of each group of the round.

        Parameters
        ----------
        assignment : ndarray of int64, shape (clients,)
        models : ndarray of float32, shape (groups, d)
        """
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """What every rule is built from: configuration, clients, and a seed for the server."""

    config: DisUEConfig
    federation: Federation
    seed: int


@dataclass(slots=True)
class StartingModels:
    """Sends the global model, or under ``start = "cluster"`` the last one of a client's cluster."""

    site: Site
    _own: dict[int, Float32] = field(default_factory=dict, init=False)

    def start(self, channel: Channel, clients: Sequence[int], parameters: Float32) -> Float32:
        """See :class:`ClusteringRule`."""
        starts = []
        for client in clients:
            own = self._own.get(client)
            chosen = parameters if own is None else own
            channel.send(
                kinds.GLOBAL_MODEL if own is None else kinds.CLUSTER_MODEL,
                kinds.SERVER,
                self.site.federation.users[client],
                parameters=chosen,
            )
            starts.append(chosen)
        return np.stack(starts)

    def learn(self, clients: Sequence[int], assignment: Int64, models: Float32) -> None:
        """See :class:`ClusteringRule`."""
        if self.site.config.start == "cluster":
            for client, group in zip(clients, assignment, strict=True):
                self._own[client] = models[group]


@dataclass(slots=True)
class SimilarityClustering(StartingModels):
    """DisUE's: affinity propagation on cosines, of which the exchange decides who sees what.

    Attributes
    ----------
    exchange : Exchange or None
        None where the server computes the cosines from the models that it receives.
    """

    exchange: Exchange | None = None

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """See :class:`ClusteringRule`."""
        config, users = self.site.config, self.site.federation.users
        vectors = trained - starts if config.similarity_on == "delta" else trained
        for client, vector in zip(clients, vectors, strict=True):
            channel.recorder.note_truth(f"{users[client]}/round-{channel.round}", vector=vector)
        if self.exchange is None:
            similarities = cosine_similarities(vectors)
        else:
            quantised: dict[str, npt.NDArray[np.int32]] = {}
            for client, vector in zip(clients, vectors, strict=True):
                user = users[client]
                try:
                    values = quantise(vector, bits=config.quantisation_bits).values
                except InvalidDataError as error:
                    raise InvalidDataError(
                        f"the vector of {user} in round {channel.round} cannot be compared: {error}"
                    ) from error
                quantised[user] = values
                channel.recorder.note_truth(f"{user}/round-{channel.round}", quantised=values)
                channel.keep(user, "quantised", values)
            # A single client has nobody to be compared with.
            similarities = (
                self.exchange.similarities(channel, quantised)
                if len(clients) > 1
                else np.ones((1, 1))
            )
        channel.keep(kinds.SERVER, "similarities", similarities)
        return affinity_propagation(similarities, seed=self.site.seed)
