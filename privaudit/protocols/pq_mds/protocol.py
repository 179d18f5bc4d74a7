"""PQ-MDS: each party quantises its columns and uploads embedded codes; the server clusters.

*A Privacy-Enhanced Multi-Stage Dimensionality Reduction Vertical Federated Clustering Framework*,
Electronics 2025, 14(16), 3182. What the abstract leaves open is an option; see
``docs/protocols/pq-mds.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.datasets.vertical import VerticalData, VerticalParty
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.ledger import PrivacyEvent
from privaudit.protocols.base import Progress, RoundMetrics, RunOutcome
from privaudit.protocols.pq_mds import kinds
from privaudit.protocols.pq_mds.alignment import common_order, row_tokens
from privaudit.protocols.pq_mds.coarse import rare_rows
from privaudit.protocols.pq_mds.config import PQMDSConfig
from privaudit.protocols.pq_mds.events import derive_events
from privaudit.protocols.pq_mds.measures import data_warnings, measured
from privaudit.protocols.pq_mds.parties import (
    Quantised,
    make_upload,
    padded_centres,
    quantise,
    standardised,
)
from privaudit.protocols.pq_mds.server import Clustering, cluster, one_hot
from privaudit.quantisation import Layout, encode_upload
from privaudit.transcript import Array, Party, PartyId, Recorder, Transcript

__all__ = ["PQMDS"]

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PQMDS:
    """PQ-MDS over parties that hold different columns of the same rows."""

    name: ClassVar[str] = "pq-mds"
    version: ClassVar[str] = "1"
    partitioning: ClassVar[Literal["vertical"]] = "vertical"
    Config: ClassVar[type[PQMDSConfig]] = PQMDSConfig
    config: PQMDSConfig = field(default_factory=PQMDSConfig)

    def run(
        self,
        data: VerticalData,
        *,
        rng: np.random.Generator,
        recorder: Recorder,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Run all rounds; see :class:`privaudit.protocols.VerticalProtocol`.

        Raises
        ------
        ConfigurationError
            If the subspaces do not fit the parties' columns, or there are more clusters than rows.
        InvalidDataError
            If ``codebook = "auxiliary"`` and there are no auxiliary rows.
        """
        return _Run(self.config, data, rng, recorder).rounds(progress)

    def events(self, transcript: Transcript) -> tuple[PrivacyEvent, ...]:
        """Derive the ledger from a transcript; see :func:`derive_events`."""
        return derive_events(transcript)


class _Run:
    """State of one run: the rows that take part, and the random stream of each party."""

    def __init__(
        self,
        config: PQMDSConfig,
        data: VerticalData,
        rng: np.random.Generator,
        recorder: Recorder,
    ) -> None:
        self.config, self.recorder = config, recorder
        self.names = tuple(party.party for party in data.parties)
        self.subspaces = config.subspaces_of(
            self.names, tuple(len(party.columns) for party in data.parties)
        )
        self.clusters = config.clusters or data.classes or 10
        if self.clusters > len(data):
            raise ConfigurationError(
                f"clusters must be at most the number of rows, {len(data)}; got {self.clusters}"
            )
        if config.codebook == "auxiliary" and len(data.auxiliary) == 0:
            raise InvalidDataError(
                "codebook 'auxiliary' trains on the auxiliary rows, and there are none"
            )
        streams = rng.spawn(4 + len(self.names))
        self.server_rng, self.reference_rng, self.alignment_rng, layout_rng = streams[:4]
        self.party_rngs = streams[4:]
        self.layouts = tuple(
            Layout.of(len(party.columns), m, rule=config.layout, rng=layout_rng)
            for party, m in zip(data.parties, self.subspaces, strict=True)
        )
        self.warnings = [*data.notes, *data_warnings(data, config)]
        self._declare(data)
        self.parties, self.labels, self.identifiers = self._aligned(data)
        self.rows = (
            self.parties[0].ids
            if config.alignment == "given"
            else np.arange(len(data), dtype=np.int64)
        )
        self.public = tuple(data.auxiliary_of(name) for name in self.names)
        self.features = tuple(party.features for party in self.parties)
        if config.standardize:
            self.public = tuple(
                standardised(p, own) for p, own in zip(self.public, self.features, strict=True)
            )
            self.features = tuple(standardised(own) for own in self.features)
        self.reference: npt.NDArray[np.int64] | None = None
        self.bytes_up = self.bytes_down = 0
        self.announced = False

    def _declare(self, data: VerticalData) -> None:
        counter = self.config.defence == "coarse"
        self.recorder.declare(
            [
                *(
                    Party(p.party, kinds.DATA_PARTY_ROLE, f"holds {len(p.columns)} columns")
                    for p in data.parties
                ),
                Party(kinds.SERVER, "server", "clusters the rows by what the parties upload"),
                *([Party(kinds.COUNTER, "trusted", "counts tuples of codes")] * counter),
            ]
        )
        settled = self.config.model_copy(update={"clusters": self.clusters})
        self.recorder.publish("configuration", settled.model_dump(mode="json"))
        self.recorder.publish("parties", list(self.names))
        self.recorder.publish("subspaces", list(self.subspaces))
        self.recorder.publish(
            "preprocessing", {"scaled": data.scaled, "standardized": self.config.standardize}
        )

    def _aligned(
        self, data: VerticalData
    ) -> tuple[tuple[VerticalParty, ...], npt.NDArray[np.int64] | None, npt.NDArray[np.int64]]:
        """Return parties, labels and identifiers in the order that the run uses."""
        if self.config.alignment == "given":
            return data.parties, data.labels, data.ids
        salt = self.alignment_rng.bytes(16)
        final = common_order(row_tokens(data.ids, salt))
        for party in data.parties:
            # Each party sends its rows in an order of its own, which says nothing.
            own = self.alignment_rng.permutation(len(data))
            tokens = row_tokens(party.ids[own], salt)
            self.recorder.keep_secret(party.party, "salt", np.frombuffer(salt, dtype=np.uint8))
            self._send(1, kinds.ALIGNMENT_TOKENS, party.party, kinds.SERVER, tokens=tokens)
            self._send(
                1, kinds.ALIGNED_ORDER, kinds.SERVER, party.party, order=common_order(tokens)
            )
        labels = None if data.labels is None else data.labels[final]
        return tuple(p.take(final) for p in data.parties), labels, data.ids[final]

    def rounds(self, progress: Progress | None) -> RunOutcome:
        """Carry out the rounds."""
        metrics: list[RoundMetrics] = []
        for t in range(1, self.config.rounds + 1):
            metrics.append(RoundMetrics(t, self._round(t)))
            if progress is not None:
                progress(t, self.config.rounds, metrics[-1])
        return RunOutcome("completed", self.config.rounds, "", tuple(self.warnings), tuple(metrics))

    def _round(self, t: int) -> dict[str, float]:
        self.bytes_up = self.bytes_down = 0
        if self.config.defence == "coarse":
            quantised, codewords = self._coarse(t)
        else:
            codewords = self.config.codewords
            quantised = self._quantised(codewords)
        self._announce()
        for name, own in zip(self.names, quantised, strict=True):
            self._keep(t, name, own, codewords)
        uploads = self._uploads(t, quantised, codewords)
        found = cluster(
            np.concatenate(uploads, axis=1),
            self.clusters,
            initialisations=self.config.initialisations,
            rng=self.server_rng.spawn(1)[0],
        )
        self._return(t, found, uploads)
        occupied = len(np.unique(found.labels))
        if occupied < self.clusters:
            self.warnings.append(
                f"round {t}: the uploads have too few distinct rows: {occupied} of "
                f"{self.clusters} clusters are occupied"
            )
        return self._measure(found, quantised, uploads)

    def _quantised(self, codewords: int) -> tuple[Quantised, ...]:
        return tuple(
            quantise(
                features,
                layout,
                config=self.config,
                codewords=codewords,
                public=public,
                rng=stream.spawn(1)[0],
            )
            for features, layout, public, stream in zip(
                self.features, self.layouts, self.public, self.party_rngs, strict=True
            )
        )

    def _coarse(self, t: int) -> tuple[tuple[Quantised, ...], int]:
        """Find the most codewords whose tuples are common enough; leave rare rows out."""
        for codewords in range(self.config.codewords, 0, -1):
            trial = self._quantised(codewords)
            for name, own in zip(self.names, trial, strict=True):
                self.recorder.send(
                    round=t,
                    kind=kinds.TRIAL_CODES,
                    sender=name,
                    receiver=kinds.COUNTER,
                    arrays={"codes": own.codes},
                    meta={"codewords": codewords},
                )
            rare = rare_rows([own.codes for own in trial], k_anonymity=self.config.k_anonymity)
            if rare.mean() <= self.config.most_suppressed:
                break
        else:
            raise InvalidDataError(
                f"defence 'coarse': {len(self.rows)} rows are fewer than k_anonymity = "
                f"{self.config.k_anonymity}"
            )
        for name in self.names:
            self.recorder.send(
                round=t,
                kind=kinds.COUNTER_CHOICE,
                sender=kinds.COUNTER,
                receiver=name,
                arrays={"suppressed": self.rows[rare]},
                meta={"codewords": codewords},
            )
        if rare.any():
            self.warnings.append(f"round {t}: {int(rare.sum())} rows with rare codes left out")
        self._leave_out(rare)
        return tuple(Quantised(own.quantiser, own.codes[~rare]) for own in trial), codewords

    def _leave_out(self, rows: npt.NDArray[np.bool_]) -> None:
        self.rows, self.identifiers = self.rows[~rows], self.identifiers[~rows]
        self.labels = None if self.labels is None else self.labels[~rows]
        self.features = tuple(features[~rows] for features in self.features)
        self.parties = tuple(party.take(np.flatnonzero(~rows)) for party in self.parties)

    def _announce(self) -> None:
        """State, once, which rows take part and what is true of them."""
        if self.announced:
            return
        self.announced = True
        recorder = self.recorder
        recorder.publish(kinds.ROWS, self.rows)
        recorder.note_truth(kinds.ROWS, ids=self.rows, identifiers=self.identifiers)
        if self.labels is not None:
            recorder.note_truth(kinds.ROWS, labels=self.labels)
        for party, layout in zip(self.parties, self.layouts, strict=True):
            held: dict[str, Array] = {
                "features": party.features,
                "columns": party.positions,
                "layout": layout.subspace_of,
            }
            for name, array in held.items():
                recorder.keep_secret(party.party, name, array)
            recorder.note_truth(party.party, **held)

    def _keep(self, t: int, name: PartyId, own: Quantised, codewords: int) -> None:
        centres = padded_centres(own.quantiser, codewords)
        self.recorder.keep_secret(name, f"codes/round-{t}", own.codes)
        self.recorder.keep_secret(name, f"centres/round-{t}", centres)
        self.recorder.note_truth(name, **{f"codes/round-{t}": own.codes})

    def _uploads(
        self, t: int, quantised: Sequence[Quantised], codewords: int
    ) -> tuple[npt.NDArray[np.floating], ...]:
        """Send what each party uploads; return it as the server clusters it."""
        config, rows = self.config, []
        for i, (name, own) in enumerate(zip(self.names, quantised, strict=True)):
            upload = make_upload(
                own, config, codewords=codewords, rng=self.party_rngs[i].spawn(1)[0]
            )
            if config.release == "indices":
                self.recorder.keep_secret(name, f"embedding/round-{t}", upload.table)
                message = self.recorder.send(
                    round=t,
                    kind=kinds.INDICES,
                    sender=name,
                    receiver=kinds.SERVER,
                    arrays=encode_upload(upload, config.encoding),
                    meta={
                        "encoding": config.encoding,
                        "codewords": [len(c) for c in own.quantiser.codebooks],
                    },
                )
                self.bytes_up += message.nbytes
                rows.append(upload.dense())
                continue
            self.bytes_up += self._send(t, kinds.CODES, name, kinds.SERVER, codes=own.codes)
            if config.release == "reconstruction":
                self.bytes_up += self._send(
                    t,
                    kinds.CODEBOOK,
                    name,
                    kinds.SERVER,
                    centres=padded_centres(own.quantiser, codewords),
                    layout=own.quantiser.layout.subspace_of,
                )
                rows.append(own.quantiser.decode(own.codes))
            elif config.release == "one-hot":
                rows.append(one_hot(own.codes, codewords))
            else:
                rows.append(own.codes.astype(np.float32))
        return tuple(rows)

    def _return(
        self, t: int, found: Clustering, uploads: Sequence[npt.NDArray[np.floating]]
    ) -> None:
        labels = found.labels.astype(np.uint8 if self.clusters <= 256 else np.uint16)
        self.recorder.keep_secret(kinds.SERVER, f"labels/round-{t}", labels)
        self.recorder.keep_secret(kinds.SERVER, f"centroids/round-{t}", found.centroids)
        edges = np.cumsum([upload.shape[1] for upload in uploads])[:-1]
        own = np.split(found.centroids, edges, axis=1)
        for name, centroids in zip(self.names, own, strict=True):
            if self.config.return_labels:
                self.bytes_down += self._send(t, kinds.LABELS, kinds.SERVER, name, labels=labels)
            if self.config.return_centroids:
                self.bytes_down += self._send(
                    t, kinds.CENTROIDS, kinds.SERVER, name, centroids=centroids
                )

    def _measure(
        self,
        found: Clustering,
        quantised: Sequence[Quantised],
        uploads: Sequence[npt.NDArray[np.floating]],
    ) -> dict[str, float]:
        if self.config.reference and self.reference is None:
            self.reference = cluster(
                np.concatenate(self.features, axis=1),
                self.clusters,
                initialisations=self.config.initialisations,
                rng=self.reference_rng,
            ).labels
        return measured(
            found.labels,
            names=self.names,
            features=self.features,
            quantised=quantised,
            uploads=uploads,
            truth=self.labels,
            reference=self.reference,
        ) | {
            "bytes_up": float(self.bytes_up),
            "bytes_down": float(self.bytes_down),
            "bytes_per_row": self.bytes_up / len(self.rows),
        }

    def _send(
        self, t: int, kind: str, sender: PartyId, receiver: PartyId, **arrays: npt.ArrayLike
    ) -> int:
        """Send a message of arrays; return its bytes."""
        named = {name: np.asarray(value) for name, value in arrays.items()}
        message = self.recorder.send(
            round=t, kind=kind, sender=sender, receiver=receiver, arrays=named
        )
        return message.nbytes
