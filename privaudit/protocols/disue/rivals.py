"""Other clusterings under the same inter-group aggregation, as in DisUE's compatibility study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from privaudit.models import load_parameters
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.channel import Channel
from privaudit.protocols.disue.clustering import Grouping, cosine_similarities, numbered
from privaudit.protocols.disue.grouping import Float32, Int64, Site, StartingModels
from privaudit.protocols.training import local_update

__all__ = ["CFL", "CFLGP", "IFCA", "PACFL", "class_subspaces", "smallest_angles"]


class IFCA:
    """Iterative federated clustering (Ghosh et al. 2020).

    All cluster models go to every client of the round; it names the one of least loss on its
    records and trains that one. The first model starts as the public initial one, the others from
    seeds of their own. Inter-group aggregation distils what they have become and does not change
    them.

    Parameters
    ----------
    site : Site
    models : ndarray of float32, shape (clusters, d)
        The initial ones.
    """

    def __init__(self, site: Site, models: Float32) -> None:
        self.site, self.models = site, models.copy()
        self._choices: Int64 = np.empty(0, dtype=np.int64)

    def start(self, channel: Channel, clients: Sequence[int], parameters: Float32) -> Float32:
        """Offer all models, let the clients choose; see ``ClusteringRule``."""
        choices = []
        offered = self.models.copy()
        for client in clients:
            user = self.site.federation.users[client]
            channel.send(kinds.CLUSTER_MODELS, kinds.SERVER, user, parameters=offered)
            losses = [self._loss(client, model) for model in offered]
            choices.append(int(np.argmin(losses)))
            channel.send(kinds.CLUSTER_CHOICE, user, kinds.SERVER, cluster=np.int64(choices[-1]))
        self._choices = np.array(choices, dtype=np.int64)
        return offered[self._choices]

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """Return the groups of those that chose alike."""
        return Grouping(numbered(self._choices))

    def learn(self, clients: Sequence[int], assignment: Int64, models: Float32) -> None:
        """Replace the models that were chosen."""
        for group, model in enumerate(models):
            self.models[self._choices[np.flatnonzero(assignment == group)[0]]] = model

    def _loss(self, client: int, parameters: Float32) -> float:
        import torch
        from torch.nn.functional import cross_entropy

        model = self.site.federation.model
        records = self.site.federation.data.clients[client].train
        load_parameters(model, parameters)
        model.train()
        with torch.no_grad():
            logits = model(torch.from_numpy(records.images))
            return float(cross_entropy(logits, torch.from_numpy(records.labels)))


@dataclass(slots=True)
class CFL(StartingModels):
    """Clustered federated learning by bipartition (Sattler et al. 2020), on plain updates.

    A cluster is split by complete linkage on cosines where its mean update is short and one of
    its updates long. Clients that are not in the round stay with the larger half.
    """

    _cluster: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """Split what is to be split, and return the round's clients by cluster."""
        config = self.site.config
        if not len(self._cluster):
            self._cluster = np.zeros(len(self.site.federation.users), dtype=np.int64)
        updates = (trained - starts).astype(np.float64)
        positions = np.array(clients)
        norms = np.linalg.norm(updates, axis=1)
        for cluster in np.unique(self._cluster[positions]):
            members = np.flatnonzero(self._cluster[positions] == cluster)
            mean = float(np.linalg.norm(updates[members].mean(axis=0)))
            if (
                len(members) > 2
                and (norms[members] > 0).all()
                and mean < config.cfl_mean_norm
                and norms[members].max() > config.cfl_max_norm
            ):
                smaller = _smaller_half(cosine_similarities(updates[members]))
                self._cluster[positions[members[smaller]]] = self._cluster.max() + 1
        return Grouping(numbered(self._cluster[positions]))


def _smaller_half(similarities: npt.NDArray[np.float64]) -> Int64:
    from sklearn.cluster import AgglomerativeClustering

    labels = (
        AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="complete")
        .fit(1.0 - similarities)
        .labels_
    )
    return np.flatnonzero(labels == np.argmin(np.bincount(labels, minlength=2)))


class CFLGP(StartingModels):
    """Clustering by gradient profiles (Kim et al. 2024), compressed to some coordinates.

    Each client of the round sends coordinates of its full gradient at the model that it was sent;
    the server averages what a client sent so far and clusters by k-means in the span of the
    leading singular vectors.
    """

    def __init__(self, site: Site, coordinates: Int64) -> None:
        super().__init__(site)
        self.coordinates = coordinates
        self._sums: dict[int, npt.NDArray[np.float64]] = {}
        self._replies: dict[int, int] = {}

    def start(self, channel: Channel, clients: Sequence[int], parameters: Float32) -> Float32:
        """Send the models and take the profiles; see ``ClusteringRule``."""
        starts = super().start(channel, clients, parameters)
        federation = self.site.federation
        for client, own in zip(clients, starts, strict=True):
            records = federation.data.clients[client].train
            gradient = local_update(
                federation.model,
                records.images,
                records.labels,
                parameters=own,
                learning_rate=1.0,
                batch_size=len(records),
                epochs=1,
                mode="gradient",
                # One gradient over all records draws nothing.
                rng=np.random.default_rng(0),
            )
            profile = gradient[self.coordinates]
            channel.send(
                kinds.GRADIENT_PROFILE, federation.users[client], kinds.SERVER, values=profile
            )
            self._sums[client] = self._sums.get(client, 0) + profile.astype(np.float64)
            self._replies[client] = self._replies.get(client, 0) + 1
        return starts

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """Cluster all clients that ever replied, and return those of the round."""
        from sklearn.cluster import KMeans

        known = sorted(self._sums)
        profiles = np.stack([self._sums[c] / self._replies[c] for c in known])
        clusters = min(self.site.config.clusters, len(known))
        left, values, _ = np.linalg.svd(profiles, full_matrices=False)
        placed = left[:, :clusters] * values[:clusters]
        labels = KMeans(clusters, n_init=10, random_state=self.site.seed).fit(placed).labels_
        return Grouping(numbered([labels[known.index(c)] for c in clients]))


class PACFL(StartingModels):
    """Clustering by principal angles between the clients' data (Vahidian et al. 2023).

    In the first round in which it takes part a client sends, class by class, leading left singular
    vectors of its raw images; the first of them is close to the class's mean image.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._subspaces: dict[int, Float32] = {}

    def group(
        self, channel: Channel, clients: Sequence[int], starts: Float32, trained: Float32
    ) -> Grouping:
        """Take the subspaces that are missing, and cluster by complete linkage."""
        from sklearn.cluster import AgglomerativeClustering

        config, federation = self.site.config, self.site.federation
        for client in clients:
            if client not in self._subspaces:
                records = federation.data.clients[client].train
                vectors = class_subspaces(
                    records.images, records.labels, count=config.pacfl_vectors
                )
                self._subspaces[client] = vectors
                channel.send(
                    kinds.SUBSPACE, federation.users[client], kinds.SERVER, vectors=vectors
                )
        known = sorted(self._subspaces)
        if len(known) < 2:
            return Grouping(np.zeros(len(clients), dtype=np.int64))
        labels = (
            AgglomerativeClustering(
                n_clusters=None,
                distance_threshold=config.pacfl_threshold,
                metric="precomputed",
                linkage="complete",
            )
            .fit(smallest_angles([self._subspaces[c] for c in known]))
            .labels_
        )
        return Grouping(numbered([labels[known.index(c)] for c in clients]))


def class_subspaces(images: Float32, labels: Int64, *, count: int) -> Float32:
    """Return up to ``count`` left singular vectors of the pixels of each class held.

    Returns
    -------
    ndarray of float32, shape (pixels, m)
        Class by class in ascending order; of a class with fewer records, as many as records.
    """
    columns = []
    for label in np.unique(labels):
        pixels = images[labels == label].reshape(int((labels == label).sum()), -1).T
        left, _, _ = np.linalg.svd(pixels.astype(np.float64), full_matrices=False)
        columns.append(left[:, :count])
    return np.concatenate(columns, axis=1).astype(np.float32)


def smallest_angles(subspaces: Sequence[Float32]) -> npt.NDArray[np.float64]:
    """Return the smallest principal angle, in degrees, between every two subspaces."""
    from scipy.linalg import subspace_angles

    angles = np.zeros((len(subspaces), len(subspaces)))
    for i, first in enumerate(subspaces):
        for j in range(i):
            smallest = subspace_angles(first.astype(np.float64), subspaces[j].astype(np.float64))
            angles[i, j] = angles[j, i] = float(np.rad2deg(smallest.min()))
    return angles
