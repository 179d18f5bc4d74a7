"""PA-CFL: the six phases, and every message between users, MS and AS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.datasets.base import FederatedData
from privaudit.ledger import PrivacyEvent
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.federation import Federation
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.aggregation import (
    cluster_aggregates,
    fine_clustering,
    global_aggregate,
)
from privaudit.protocols.pa_cfl.config import PACFLConfig
from privaudit.protocols.pa_cfl.events import derive_events
from privaudit.protocols.pa_cfl.preclustering import partition_by_spanning_tree
from privaudit.protocols.pa_cfl.protection import clip, noise, shuffle_per_coordinate
from privaudit.protocols.pa_cfl.sequences import (
    global_permutation,
    permutation_sequence,
    remainder_coordinates,
)
from privaudit.similarity import cosine_distances, pairwise_distances
from privaudit.transcript import Party, PartyId, Recorder, Transcript

__all__ = ["PACFL"]

Matrix = npt.NDArray[np.float32]
MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER


@dataclass(frozen=True, slots=True)
class PACFL:
    """PA-CFL (sections 3-5 of the paper) over simulated users.

    Attributes
    ----------
    config : PACFLConfig
    """

    name: ClassVar[str] = "pa-cfl"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[PACFLConfig]] = PACFLConfig
    config: PACFLConfig = field(default_factory=PACFLConfig)

    def run(
        self,
        data: FederatedData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run all rounds; see :class:`privaudit.protocols.FederatedProtocol`.

        Raises
        ------
        ConfigurationError
            If k is out of range for the model, or a user has no data.
        InvalidDataError
            If an update is not finite in the first round, before anything was exchanged.
        """
        return _Run(self.config, data, rng, recorder).rounds(progress)

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Derive the ledger from a transcript; see :func:`derive_events`."""
        return derive_events(transcript)


class _Diverged(Exception):
    """A value that would go on the wire is not finite."""


class _Run:
    """State of one run: each user's parameters, and the random stream of the MS."""

    def __init__(
        self,
        config: PACFLConfig,
        data: FederatedData,
        rng: np.random.Generator,
        recorder: Recorder,
    ) -> None:
        self.config, self.recorder, self.groups = config, recorder, data.groups
        self.ms_rng = rng.spawn(1)[0]
        self.federation = Federation(
            config,
            data,
            rng=rng,
            recorder=recorder,
            servers=(
                Party(MS, "server", "pre-clusters the users and shuffles their reports"),
                Party(AS, "server", "fine-clusters the users and aggregates"),
            ),
        )
        self.users, self.sizes = self.federation.users, self.federation.sizes
        self.dimension = len(self.federation.initial)
        self.k = config.k(self.dimension)
        recorder.publish("k", self.k)
        self.parameters: Matrix = np.tile(self.federation.initial, (len(self.users), 1))
        self.warnings: list[str] = []

    def rounds(self, progress: Progress | None) -> RunOutcome:
        """Carry out the rounds until the last or until a value is not finite."""
        metrics: list[RoundMetrics] = []
        for t in range(1, self.config.rounds + 1):
            try:
                values = self._round(t)
            except _Diverged as diverged:
                reason = f"diverged in round {t}: {diverged}"
                return RunOutcome("diverged", t - 1, reason, tuple(self.warnings), tuple(metrics))
            metrics.append(RoundMetrics(t, values))
            if progress is not None:
                progress(t, self.config.rounds, metrics[-1])
        return RunOutcome("completed", self.config.rounds, "", tuple(self.warnings), tuple(metrics))

    def _round(self, t: int) -> dict[str, float]:
        updates = self._local_training(t)
        sequences, permutation = self._permutation_sequences(t, updates)
        pre = self._pre_clustering(t, updates, sequences)
        received, threshold = self._protection(t, updates, permutation, pre)
        final = self._fine_clustering(t, received, pre)
        self._aggregation(t, received, permutation, final)
        return self._measure(pre, final, threshold, updates)

    def _local_training(self, t: int) -> Matrix:
        updates = np.empty_like(self.parameters)
        for i, user in enumerate(self.users):
            updates[i] = self.federation.update(i, round=t, parameters=self.parameters[i])
            if not np.isfinite(updates[i]).all():
                raise _Diverged(f"the update of {user} is not finite")
        return updates

    def _permutation_sequences(
        self, t: int, updates: Matrix
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        sequences = np.stack([permutation_sequence(u, k=self.k) for u in updates])
        for user, sequence in zip(self.users, sequences, strict=True):
            self._send(t, kinds.PERMUTATION_SEQUENCE, user, MS, indices=sequence)
        permutation = global_permutation(sequences, dimension=self.dimension, k=self.k)
        for user in self.users:
            self._send(t, kinds.GLOBAL_PERMUTATION, MS, user, indices=permutation)
        return sequences, permutation

    def _pre_clustering(
        self, t: int, updates: Matrix, sequences: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        config = self.config
        if not config.pre_clustering:
            groups = min(config.random_clusters, len(self.users) // 2)
            assignment = self.ms_rng.permutation(np.arange(len(self.users)) % groups)
        else:
            if config.similarity == "cosine":
                for user, update in zip(self.users, updates, strict=True):
                    self._send(t, kinds.FULL_UPDATE, user, MS, values=update)
                distances = cosine_distances(updates)
            else:
                distances = pairwise_distances(
                    sequences,
                    metric=config.similarity,
                    sequence_order=config.sequence_order,
                    radius=config.fastdtw_radius,
                    persistence=config.rbo_persistence,
                )
            partition = partition_by_spanning_tree(distances, edge_rule=config.edge_rule)
            if partition.coincident_medoids:
                self.warnings.append(
                    f"round {t}: two pre-clusters have medoids at distance zero; the "
                    "Davies-Bouldin index took the smallest positive number instead"
                )
            assignment = partition.assignment
        self.recorder.send(
            round=t,
            kind=kinds.PRE_CLUSTERING,
            sender=MS,
            receiver=AS,
            arrays={"assignment": assignment},
            meta={"users": list(self.users)},
        )
        return assignment

    def _protection(
        self,
        t: int,
        updates: Matrix,
        permutation: npt.NDArray[np.int64],
        pre: npt.NDArray[np.int64],
    ) -> tuple[Matrix, float]:
        """Return what the AS holds of each user, in permuted order, and the threshold used."""
        rest = remainder_coordinates(permutation, dimension=self.dimension)
        important, remainder = updates[:, permutation], updates[:, rest]
        for i, user in enumerate(self.users):
            self._send(t, kinds.IMPORTANT_VALUES, user, AS, values=important[i])
            self._send(t, kinds.DATASET_SIZE, user, AS, records=self.sizes[i])
        if not self.config.protection:
            for user, values in zip(self.users, remainder, strict=True):
                self._send(t, kinds.PLAIN_REMAINDER, user, AS, values=values)
            return np.concatenate([important, remainder], axis=1), float("nan")
        threshold = self._threshold(t, remainder)
        reports = np.empty_like(remainder)
        for i, user in enumerate(self.users):
            clipped = clip(remainder[i], threshold=threshold)
            reports[i] = noise(
                clipped,
                threshold=threshold,
                epsilon0=self.config.epsilon0,
                rng=self.federation.noise_stream(i),
            )
            if not np.isfinite(reports[i]).all():
                raise _Diverged(f"the noised report of {user} overflows (threshold {threshold:g})")
            self.recorder.note_truth(f"{user}/round-{t}", noised=reports[i].copy())
            self._send(t, kinds.NOISED_REMAINDER, user, MS, values=reports[i])
        shuffled = np.empty_like(reports)
        for cluster in np.unique(pre):
            members = pre == cluster
            shuffled[members] = shuffle_per_coordinate(reports[members], rng=self.ms_rng)
        for user, values in zip(self.users, shuffled, strict=True):
            self.recorder.send(
                round=t,
                kind=kinds.SHUFFLED_REMAINDER,
                sender=MS,
                receiver=AS,
                arrays={"values": values},
                meta={"user": user},
            )
        return np.concatenate([important, shuffled], axis=1), threshold

    def _threshold(self, t: int, remainder: Matrix) -> float:
        if self.config.clip_norm is not None:
            return self.config.clip_norm
        norms = np.linalg.norm(remainder.astype(np.float64), axis=1)
        for user, norm in zip(self.users, norms, strict=True):
            self._send(t, kinds.REMAINDER_NORM, user, MS, norm=norm)
        threshold = float(np.median(norms))
        if threshold == 0:
            raise _Diverged("the median norm of the less important subvectors is 0")
        for user in self.users:
            self._send(t, kinds.CLIPPING_THRESHOLD, MS, user, threshold=np.float64(threshold))
        return threshold

    def _fine_clustering(
        self, t: int, received: Matrix, pre: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        if not self.config.fine_clustering:
            return pre
        fine = fine_clustering(
            received, pre, weights=self._weights(), iterations=self.config.fine_iterations
        )
        if not fine.converged:
            self.warnings.append(
                f"round {t}: fine clustering did not converge in {fine.iterations} iterations; "
                "the clustering of least total cosine distance was taken"
            )
        return fine.assignment

    def _aggregation(
        self,
        t: int,
        received: Matrix,
        permutation: npt.NDArray[np.int64],
        final: npt.NDArray[np.int64],
    ) -> None:
        """Aggregate, send, and let the users undo the permutation and take a step."""
        config = self.config
        aggregates = cluster_aggregates(received, final, centroid_weights=self._weights())
        everyone = config.global_period > 0 and t % config.global_period == 0
        if everyone:
            aggregates = np.tile(global_aggregate(aggregates, final), (len(aggregates), 1))
        if config.aggregate_clip_norm is not None:
            aggregates = np.stack(
                [clip(a, threshold=config.aggregate_clip_norm) for a in aggregates]
            )
        with np.errstate(over="ignore"):
            sent = aggregates.astype(np.float32)
        if not np.isfinite(sent).all():
            raise _Diverged("an aggregate is not finite")
        kind = kinds.GLOBAL_AGGREGATE if everyone else kinds.CLUSTER_AGGREGATE
        order = np.concatenate(
            [permutation, remainder_coordinates(permutation, dimension=self.dimension)]
        )
        step = np.float32(config.learning_rate * config.server_learning_rate)
        for i, user in enumerate(self.users):
            values = sent[final[i]]
            self._send(t, kind, AS, user, values=values)
            with np.errstate(over="ignore", invalid="ignore"):
                self.parameters[i, order] -= step * values

    def _weights(self) -> npt.NDArray[np.float64]:
        if self.config.centroid_weights == "equal":
            return np.ones(len(self.users))
        return self.sizes.astype(np.float64)

    def _measure(
        self,
        pre: npt.NDArray[np.int64],
        final: npt.NDArray[np.int64],
        threshold: float,
        updates: Matrix,
    ) -> dict[str, float]:
        values = self.federation.accuracies(self.parameters) | {
            "pre_clusters": float(len(np.unique(pre))),
            "smallest_pre_cluster": float(np.bincount(pre).min()),
            "final_clusters": float(len(np.unique(final))),
            "clipping_threshold": threshold,
            "mean_update_norm": float(np.linalg.norm(updates.astype(np.float64), axis=1).mean()),
        }
        if self.groups is not None:
            from sklearn.metrics import adjusted_rand_score

            values["pre_ari"] = float(adjusted_rand_score(self.groups, pre))
            values["final_ari"] = float(adjusted_rand_score(self.groups, final))
        return values

    def _send(
        self, t: int, kind: str, sender: PartyId, receiver: PartyId, **arrays: npt.ArrayLike
    ) -> None:
        named = {name: np.asarray(value) for name, value in arrays.items()}
        self.recorder.send(round=t, kind=kind, sender=sender, receiver=receiver, arrays=named)
