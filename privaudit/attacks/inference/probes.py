"""Labels of a client from how alike its model is to models of single classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks._similarities import similarity_on, similarity_rounds
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._histograms import fitted_shares, known_labels, population
from privaudit.attacks.inference._single_class import single_class_updates, start_of
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.secure_computation.quantisation import quantise
from privaudit.transcript import (
    JSON,
    Array,
    Capability,
    Coalition,
    Message,
    Party,
    PartyId,
    Transcript,
    View,
)

__all__ = ["INJECTED_ROLE", "LabelsFromSimilarity", "inject_probes", "quantised_cosine"]

#: Role of a client that the adversary runs.
INJECTED_ROLE = "injected-client"

Vector = npt.NDArray[np.float32]


def quantised_cosine(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """Return the cosine of two vectors quantised to 16 bits: exactly what DisUE's PCSC decodes."""
    x, y = (quantise(v).values.astype(np.float64) for v in (a, b))
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def inject_probes(
    transcript: Transcript,
    *,
    round: int,
    vectors: Mapping[PartyId, Vector],
    knowledge: Knowledge,
    rng: np.random.Generator,
    server: PartyId = kinds.SERVER,
    similarity: Callable[[Vector, Vector], float] = quantised_cosine,
) -> Transcript:
    """Add clients of an active adversary to one round, each with a model of a single class.

    The adversary trains, from the global model of the round and with the run's own training
    parameters, one model a class of its auxiliary records, and lets clients of its own take part
    with them. Each such client compares itself with every other client, as any client may, and
    the results are added to the round: ``similarity-values`` to the server. The injected clients
    hold their vector and class as secrets. The run itself is as it was: a server that works with
    them leaves them out of clustering and aggregation.

    Parameters
    ----------
    transcript : Transcript
        A run whose configuration is public.
    round : int
    vectors : mapping of PartyId to ndarray of float32, shape (d,)
        What each client of the round compares: its own secret, which only ``similarity`` reads.
    knowledge : Knowledge
        Model and auxiliary records of the adversary.
    rng : numpy.random.Generator
    server : PartyId
    similarity : callable
        The scheme's own computation for two vectors.

    Returns
    -------
    Transcript
        With parties of role ``"injected-client"`` and the fact ``injected-clients``.

    Raises
    ------
    ConfigurationError
        If the round has no global model, or a vector is of a party that is not in the run.
    UnmetRequirementsError
        If model or auxiliary records are not declared.
    """
    users = set(transcript.ids("user"))
    if not vectors or not set(vectors) <= users:
        raise ConfigurationError(
            f"probes are compared with clients of the run, got {sorted(set(vectors) - users)}"
        )
    view = transcript.view(Coalition.of(server))
    start = start_of(view, round, receiver=None)
    updates = single_class_updates(view, start, knowledge=knowledge, rng=rng)
    probes = {
        f"probe-{c}": (start + u if similarity_on(view) == "params" else u).astype(np.float32)
        for c, u in updates.items()
    }
    number = len(transcript.messages)
    messages: list[Message] = []
    for name, probe in probes.items():
        meta: Mapping[str, JSON] = {"pairs": [[name, client] for client in vectors]}
        cosines = np.array([similarity(probe, vector) for vector in vectors.values()])
        messages.append(
            Message(
                seq=number + len(messages),
                round=round,
                kind=kinds.SIMILARITY_VALUES,
                sender=name,
                receiver=server,
                arrays=MappingProxyType({"cosines": cosines}),
                meta=MappingProxyType(meta),
            )
        )
    secrets: dict[PartyId, Mapping[str, Array]] = dict(transcript.secrets)
    for c, (name, probe) in zip(updates, probes.items(), strict=True):
        secrets[name] = MappingProxyType(
            {
                f"round-{round}/probe-vector": probe,
                f"round-{round}/probe-class": np.asarray(c, dtype=np.int64),
            }
        )
    injected = tuple(Party(name, INJECTED_ROLE, "run by the adversary") for name in probes)
    return replace(
        transcript,
        parties=(*transcript.parties, *injected),
        messages=(*transcript.messages, *messages),
        secrets=MappingProxyType(secrets),
        facts=transcript.facts | {Capability.INJECTED_CLIENTS},
    )


@dataclass(frozen=True, slots=True)
class LabelsFromSimilarity:
    r"""Infer a client's labels from its similarities to injected models of single classes.

    An update on several classes is about the sum of the updates on each of them, weighted by how
    many records there are. With the cosines :math:`s_c` to probe c and the Gram matrix of the
    probes, which the adversary knows, the shares are those of the non-negative least-squares fit
    of the client's vector by the probes; nothing else of the vector is needed. An active attack:
    the view comes from a run with injected clients, see :func:`inject_probes`.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first with probes.
    method : {"fit", "nearest"}
        The whole histogram, or all weight on the class of the most similar probe.
    """

    round: int | None = None
    method: Literal["fit", "nearest"] = "fit"

    name: ClassVar[str] = "inference/similarity-probes"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.TRAINING_PARAMETERS,
            Capability.AUXILIARY_DATA,
            Capability.INJECTED_CLIENTS,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (kinds.SIMILARITY_VALUES,)

    def __post_init__(self) -> None:
        if self.method not in ("fit", "nearest"):
            raise ConfigurationError(f"method is 'fit' or 'nearest', got {self.method!r}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the labels of every client that was compared with all probes.

        Returns
        -------
        Guesses
            Targets are the clients; values are histograms, (classes,) float64, that sum to one;
            scores are the largest cosines.

        Raises
        ------
        UnmetRequirementsError
            If the coalition lacks a required capability, holds no probes, or no client was
            compared with all of them.
        """
        view.require(self.requires, attack=self.name)
        _, classes = known_labels(knowledge, attack=self.name)
        t, probes = self._probes(view)
        targets, cosines = _compared(view, t, tuple(probes))
        units = np.stack([v / np.linalg.norm(v) for _, v in probes.values()])
        gram = units @ units.T
        of_class = [c for c, _ in probes.values()]
        values = []
        for row in cosines:
            shares = np.zeros(classes)
            if self.method == "fit":
                np.add.at(shares, of_class, fitted_shares(gram, row))
            else:
                shares[of_class[int(row.argmax())]] = 1.0
            values.append(shares)
        return Guesses(
            target_ids=targets,
            values=tuple(values),
            scores=cosines.max(axis=1),
            diagnostics=MappingProxyType(
                {"probes": float(len(probes)), "mean-cosine": float(cosines.mean())}
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the label histogram of the auxiliary records."""
        view.require(self.requires, attack=self.name)
        labels, classes = known_labels(knowledge, attack=self.name)
        t, probes = self._probes(view)
        targets, _ = _compared(view, t, tuple(probes))
        prior = population(labels, classes)
        return Guesses(targets, tuple(prior.copy() for _ in targets), np.zeros(len(targets)))

    def _probes(self, view: View) -> tuple[int, dict[PartyId, tuple[int, npt.NDArray[np.float64]]]]:
        held: dict[int, dict[PartyId, tuple[int, npt.NDArray[np.float64]]]] = {}
        for party, secrets in view.secrets.items():
            for name, array in secrets.items():
                prefix, _, what = name.partition("/")
                if what == "probe-vector" and prefix.startswith("round-"):
                    c = int(secrets[f"{prefix}/probe-class"])
                    vector = array.astype(np.float64)
                    if not np.isfinite(vector).all() or not vector.any():
                        raise InvalidDataError(f"the probe of {party} is zero or not finite")
                    held.setdefault(int(prefix.removeprefix("round-")), {})[party] = (c, vector)
        t = self.round if self.round is not None else min(held, default=0)
        if t not in held:
            raise UnmetRequirementsError(
                f"{view.coalition} holds no probes for round {t}; rounds with some: "
                f"{sorted(held)}: see privaudit.attacks.inference.inject_probes"
            )
        return t, held[t]


def _compared(
    view: View, t: int, probes: tuple[PartyId, ...]
) -> tuple[tuple[PartyId, ...], npt.NDArray[np.float64]]:
    """Return the clients outside the coalition with cosines to all probes, and these."""
    found = similarity_rounds(view, only=t).get(t)
    if found is None or not set(probes) <= set(found.parties):
        raise UnmetRequirementsError(f"the view holds no similarities of the probes in round {t}")
    rows = {
        party: found.row(party, probes)
        for party in found.parties
        if party not in view.coalition.members
    }
    targets = tuple(party for party, row in rows.items() if np.isfinite(row).all())
    if not targets:
        raise UnmetRequirementsError(f"no client was compared with all probes in round {t}")
    return targets, np.stack([rows[party] for party in targets])
