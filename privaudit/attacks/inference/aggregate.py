"""Labels from the model of a cluster that has one client."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from privaudit.attacks._messages import array_of, in_round
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._histograms import fitted_shares, known_labels, population
from privaudit.attacks.inference._single_class import single_class_updates, start_of
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.transcript import Capability, Message, View

__all__ = ["LabelsFromLoneModel"]


@dataclass(frozen=True, slots=True)
class LabelsFromLoneModel:
    """Infer the labels of clients whose own model the coalition sees, by simulated models.

    Secure aggregation hides a client among the members of its cluster. Clustering decides who they
    are, and a client that is alone in its cluster is hidden by nobody: the aggregate is its model.
    With it, and the model that it started from, the passive form of
    :class:`privaudit.attacks.inference.LabelsFromSimilarity` applies: the update is fitted by
    updates of single classes that the adversary trains itself. Without secure aggregation every
    client is a target.

    Attributes
    ----------
    round : int or None
        The round to attack; None for each client's first in which its model is seen.
    """

    round: int | None = None

    name: ClassVar[str] = "inference/one-client-cluster"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.TRAINING_PARAMETERS,
            Capability.AUXILIARY_DATA,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (
        kinds.PARAMETERS,
        kinds.GLOBAL_MODEL,
        kinds.CLUSTER_MODEL,
    )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the labels of every client whose model is seen.

        Returns
        -------
        Guesses
            Targets are the clients; values are histograms, (classes,) float64, that sum to one;
            scores are the cosines of the update and its fit.

        Raises
        ------
        UnmetRequirementsError
            If the coalition lacks a required capability, or sees no client's model.
        ConfigurationError
            If the view does not hold what a client started from.
        InvalidDataError
            If a client's update is zero or not finite.
        """
        view.require(self.requires, attack=self.name)
        _, classes = known_labels(knowledge, attack=self.name)
        fitted: dict[tuple[int, bytes], tuple[list[int], np.ndarray]] = {}
        values, scores = [], []
        sent = self._sent(view)
        for message in sent:
            t = message.round or 0
            start = start_of(view, t, receiver=message.sender)
            key = t, start.tobytes()
            if key not in fitted:
                simulated = single_class_updates(view, start, knowledge=knowledge, rng=rng)
                units = [u / np.linalg.norm(u) for u in simulated.values()]
                fitted[key] = list(simulated), np.stack(units)
            of_class, units_of_class = fitted[key]
            update = array_of(message, "parameters").astype(np.float64) - start
            norm = float(np.linalg.norm(update))
            if not np.isfinite(norm) or norm == 0:
                raise InvalidDataError(
                    f"the update of {message.sender}, round {t}, is zero or not finite"
                )
            cosines = units_of_class @ (update / norm)
            found = fitted_shares(units_of_class @ units_of_class.T, cosines)
            shares = np.zeros(classes)
            np.add.at(shares, of_class, found)
            fit = found @ units_of_class
            values.append(shares)
            scores.append(float(found @ cosines / np.linalg.norm(fit)))
        return Guesses(
            target_ids=tuple(m.sender for m in sent),
            values=tuple(values),
            scores=np.array(scores),
            diagnostics=MappingProxyType({"mean-cosine-of-fit": float(np.mean(scores))}),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the label histogram of the auxiliary records."""
        view.require(self.requires, attack=self.name)
        labels, classes = known_labels(knowledge, attack=self.name)
        targets = tuple(m.sender for m in self._sent(view))
        prior = population(labels, classes)
        return Guesses(targets, tuple(prior.copy() for _ in targets), np.zeros(len(targets)))

    def _sent(self, view: View) -> tuple[Message, ...]:
        first: dict[str, Message] = {}
        for message in view.select(kinds.PARAMETERS, round=self.round):
            if message.sender not in view.coalition.members:
                first.setdefault(message.sender, message)
        if not first:
            raise UnmetRequirementsError(
                f"the view of {view.coalition} holds no client's '{kinds.PARAMETERS}' "
                f"{in_round(self.round)}: under secure aggregation only a "
                "client alone in its cluster sends them"
            )
        return tuple(first.values())
