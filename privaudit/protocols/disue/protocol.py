"""DisUE: one round of Algorithm 1 after another, and every message of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.datasets.base import FederatedData
from privaudit.errors import InvalidDataError
from privaudit.ledger import PrivacyEvent
from privaudit.models import build, default_model, flatten_parameters
from privaudit.models.generators import build_generator
from privaudit.models.spec import ModelSpec
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.aggregation import average_of_groups, masked_mean, weighted_mean
from privaudit.protocols.disue.channel import Channel
from privaudit.protocols.disue.clustering import members_of
from privaudit.protocols.disue.config import DisUEConfig
from privaudit.protocols.disue.events import derive_events
from privaudit.protocols.disue.grouping import ClusteringRule, SimilarityClustering, Site
from privaudit.protocols.disue.labels import class_counts, cluster_counts
from privaudit.protocols.disue.rivals import CFL, CFLGP, IFCA, PACFL
from privaudit.protocols.disue.servers import SecretShares, SharedKeyPCSC
from privaudit.protocols.disue.similarity import DirectPCSC, Exchange, check_sizes
from privaudit.protocols.federation import Federation
from privaudit.protocols.training import local_update
from privaudit.transcript import Party, Recorder, Transcript

if TYPE_CHECKING:
    from privaudit.protocols.disue.distillation import Distiller

__all__ = ["DisUE"]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DisUE:
    """DisUE (Algorithm 1 of the paper) over simulated clients.

    Attributes
    ----------
    config : DisUEConfig
    """

    name: ClassVar[str] = "disue"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[DisUEConfig]] = DisUEConfig
    config: DisUEConfig = field(default_factory=DisUEConfig)

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
            If the sizes of PCSC cannot decode vectors of the model's dimension.
        InvalidDataError
            If a model is not finite after training in the first round, or a vector that is to be
            compared is zero.
        """
        return _Run(self.config, data, rng, recorder).rounds(progress)

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Derive the ledger from a transcript; see :func:`derive_events`."""
        return derive_events(transcript)


class _Diverged(Exception):
    """A value that would go on the wire is not finite."""


class _Run:
    """State of one run: the global model, the generator, and what the clustering remembers."""

    def __init__(
        self,
        config: DisUEConfig,
        data: FederatedData,
        rng: np.random.Generator,
        recorder: Recorder,
    ) -> None:
        self.config, self.data, self.recorder = config, data, recorder
        # Apart from one another, so that the same clients train the same models whatever the
        # server computes and whatever is encrypted.
        self.sampling_rng, self.server_rng, encryption_rng, self.mask_rng = rng.spawn(4)
        self.federation = Federation(
            config, data, rng=rng, recorder=recorder, servers=_servers(config)
        )
        self.users = self.federation.users
        self.parameters = self.federation.initial
        check_sizes(config, dimension=len(self.parameters))
        parties = (*self.users, *(party.id for party in _servers(config)))
        streams = dict(zip(parties, encryption_rng.spawn(len(parties)), strict=True))
        self.exchange = _exchange(config, self.users, streams)
        self.rule = self._rule()
        self.distiller = self._distiller()
        self.warnings: list[str] = []

    def _seed(self) -> int:
        return int(self.server_rng.integers(2**31))

    def _rule(self) -> ClusteringRule:
        config, federation = self.config, self.federation
        site = Site(config, federation, self._seed())
        if config.clustering == "ifca":
            spec = _spec(config, self.data)
            others = [
                flatten_parameters(build(spec, seed=self._seed()))
                for _ in range(config.clusters - 1)
            ]
            return IFCA(site, np.stack([federation.initial, *others]))
        if config.clustering == "cfl":
            return CFL(site)
        if config.clustering == "cfl-gp":
            dimension = len(federation.initial)
            count = max(1, round(config.gp_coordinates * dimension))
            coordinates = np.sort(self.server_rng.choice(dimension, count, replace=False))
            self.recorder.publish("profile-coordinates", coordinates)
            return CFLGP(site, coordinates)
        if config.clustering == "pacfl":
            return PACFL(site)
        return SimilarityClustering(site, self.exchange)

    def _distiller(self) -> Distiller | None:
        config = self.config
        if config.distillation == "none":
            return None
        from privaudit.protocols.disue.distillation import Distiller

        generator = build_generator(
            self.data.image_shape,
            self.data.classes,
            noise=config.noise_dimension,
            width=config.generator_width,
            image_range=config.generated_images,
            seed=self._seed(),
        )
        return Distiller(
            config,
            model=self.federation.model,
            generator=generator,
            classes=self.data.classes,
        )

    def rounds(self, progress: Progress | None) -> RunOutcome:
        """Carry out the rounds until the last or until a value is not finite."""
        metrics: list[RoundMetrics] = []
        for t in range(1, self.config.rounds + 1):
            try:
                values = self._round(Channel(self.recorder, t))
            except _Diverged as diverged:
                reason = f"diverged in round {t}: {diverged}"
                return RunOutcome("diverged", t - 1, reason, tuple(self.warnings), tuple(metrics))
            metrics.append(RoundMetrics(t, values))
            if progress is not None:
                progress(t, self.config.rounds, metrics[-1])
        return RunOutcome("completed", self.config.rounds, "", tuple(self.warnings), tuple(metrics))

    def _round(self, channel: Channel) -> dict[str, float]:
        clients = self._sample()
        starts = self.rule.start(channel, clients, self.parameters)
        trained = self._train(channel, clients, starts)
        if self.config.aggregation == "plain":
            for client, model in zip(clients, trained, strict=True):
                self._send_parameters(channel, client, model)
        counts = self._class_counts(channel, clients)
        grouping = self.rule.group(channel, clients, starts, trained)
        if grouping.warning:
            self.warnings.append(f"round {channel.round}: {grouping.warning}")
        groups = members_of(grouping.assignment)
        names = [[self.users[clients[i]] for i in members] for members in groups]
        known = cluster_counts(counts, names)
        models = self._aggregate(channel, clients, groups, trained)
        average = average_of_groups(models, known.sum(axis=1), weights=self.config.group_weights)
        self.parameters = self._distil(channel, average, models, known)
        self.rule.learn(clients, grouping.assignment, models)
        channel.keep(kinds.SERVER, "assignment", grouping.assignment)
        channel.keep(kinds.SERVER, "cluster-models", models)
        channel.keep(kinds.SERVER, "average", average)
        channel.keep(kinds.SERVER, "global-model", self.parameters)
        return self._measure(average, grouping.assignment)

    def _sample(self) -> tuple[int, ...]:
        count = self.config.participants(len(self.users))
        chosen = self.sampling_rng.choice(len(self.users), count, replace=False)
        return tuple(sorted(int(c) for c in chosen))

    def _train(self, channel: Channel, clients: tuple[int, ...], starts: Float32) -> Float32:
        config, t = self.config, channel.round
        rate = config.learning_rate * config.rate_factor(t)
        trained = np.empty_like(starts)
        for row, client in enumerate(clients):
            held, user = self.data.clients[client], self.users[client]
            update = local_update(
                self.federation.model,
                held.train.images,
                held.train.labels,
                parameters=starts[row],
                learning_rate=rate,
                batch_size=config.batch_size,
                epochs=config.local_epochs,
                mode=config.update,
                rng=self.federation.noise_stream(client),
                weight_decay=config.weight_decay,
                clip_norm=config.clip_norm,
            )
            with np.errstate(over="ignore", invalid="ignore"):
                trained[row] = starts[row] - np.float32(rate) * update
            if not np.isfinite(trained[row]).all():
                if t == 1:
                    raise InvalidDataError(
                        f"the model of {user} in round 1 is not finite; check its images for NaN "
                        f"or infinite values, or lower learning_rate ({config.learning_rate})"
                    )
                raise _Diverged(f"the model of {user} is not finite")
            self.recorder.note_truth(
                f"{user}/round-{t}",
                parameters=trained[row].copy(),
                update=update,
                class_counts=class_counts(held.train.labels, classes=self.data.classes),
            )
        return trained

    def _send_parameters(self, channel: Channel, client: int, model: Float32) -> None:
        channel.send(kinds.PARAMETERS, self.users[client], kinds.SERVER, parameters=model)

    def _class_counts(self, channel: Channel, clients: tuple[int, ...]) -> dict[str, Int64]:
        counts = {}
        for client in clients:
            user = self.users[client]
            counts[user] = class_counts(
                self.data.clients[client].train.labels, classes=self.data.classes
            )
            channel.send(kinds.CLASS_COUNTS, user, kinds.SERVER, counts=counts[user])
        return counts

    def _aggregate(
        self,
        channel: Channel,
        clients: tuple[int, ...],
        groups: tuple[tuple[int, ...], ...],
        trained: Float32,
    ) -> Float32:
        records = self.federation.sizes[list(clients)]
        models = []
        for members in groups:
            rows = list(members)
            if self.config.aggregation == "secagg" and len(rows) > 1:
                names = [self.users[clients[i]] for i in rows]
                models.append(
                    masked_mean(
                        channel,
                        dict(zip(names, trained[rows], strict=True)),
                        dict(zip(names, records[rows].tolist(), strict=True)),
                        source=self.mask_rng,
                    )
                )
                continue
            if self.config.aggregation == "secagg":
                # There is nobody to hide among: the server gets the model as it is.
                self._send_parameters(channel, clients[rows[0]], trained[rows[0]])
            models.append(weighted_mean(trained[rows], records[rows]))
        return np.stack(models)

    def _distil(
        self, channel: Channel, average: Float32, models: Float32, counts: Int64
    ) -> Float32:
        if self.distiller is None:
            return average
        refined = self.distiller.refine(
            average,
            models,
            counts,
            decay=self.config.rate_factor(channel.round),
            rng=self.server_rng,
        )
        if not np.isfinite(refined).all():
            raise _Diverged("the global model is not finite after distillation")
        channel.keep(kinds.SERVER, "generator", self.distiller.parameters)
        return refined

    def _measure(self, average: Float32, assignment: Int64) -> dict[str, float]:
        def accuracies(parameters: Float32) -> dict[str, float]:
            everyone = np.broadcast_to(parameters, (len(self.users), len(parameters)))
            return self.federation.accuracies(everyone)

        values = accuracies(self.parameters)
        if self.distiller is not None:
            values["accuracy_before_distillation"] = accuracies(average)["accuracy"]
        sizes = np.bincount(assignment)
        return values | {
            "clients": float(len(assignment)),
            "clusters": float(len(sizes)),
            "largest_cluster": float(sizes.max()),
            "clusters_of_one": float((sizes == 1).sum()),
        }


def _servers(config: DisUEConfig) -> tuple[Party, ...]:
    server = Party(kinds.SERVER, "server", "clusters, averages and distils")
    if config.similarity == "shared_key":
        helper = Party(kinds.KEY_HELPER, "helper", "makes the shared key, decodes products")
        return (server, helper)
    if config.similarity == "secret_shares":
        second = Party(kinds.SECOND_SERVER, "server", "multiplies shares with the server")
        return (server, second, Party(kinds.DEALER, "helper", "deals the triples of a product"))
    return (server,)


def _exchange(
    config: DisUEConfig, users: tuple[str, ...], streams: dict[str, np.random.Generator]
) -> Exchange | None:
    if config.similarity == "plain":
        return None
    if config.similarity == "shared_key":
        return SharedKeyPCSC(config, streams, users)
    if config.similarity == "secret_shares":
        return SecretShares(streams)
    return DirectPCSC(config, streams)


def _spec(config: DisUEConfig, data: FederatedData) -> ModelSpec:
    if config.model == "auto":
        return default_model(data.image_shape, data.classes)
    return ModelSpec(config.model, data.image_shape, data.classes)
