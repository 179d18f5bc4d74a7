"""Which labels a user trained on, from the order of its largest updates alone."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._ridge import choose, fit, normalised
from privaudit.attacks.inference._simulation import (
    SimulatedUsers,
    TrainingParameters,
    simulate_users,
    split_records,
)
from privaudit.attacks.inference._skew import CONCENTRATIONS, skew_features, skew_weights
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.models import ModelSpec, classifier_rows
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Array, Capability, Message, View

__all__ = ["LabelsFromPermutation"]

Features = npt.NDArray[np.float64]

#: Halves of the auxiliary records: simulated users of either validate what the other's taught.
#: More parts would leave each user fewer records of a class than real users have.
_PARTS = 2


@dataclass(frozen=True, slots=True)
class LabelsFromPermutation:
    r"""Infer users' labels from their permutation sequences, which are sent in the clear.

    For updates of a single record the class is read off by the reciprocal-rank rule:
    :math:`\arg\max_c \sum_{e \in \pi \cap \text{row } c} 1 / (1 + j(e))`, where row c is the
    class's weights and bias in the last layer and :math:`j(e)` the position of coordinate e in
    :math:`\pi`, from 0. The gradient of that row is :math:`(p_c - 1[c = y]) h`: largest for the
    label y wherever the network does not yet know it.

    For updates of many records a ridge regression gives the label histogram. It is trained on
    users that the adversary simulates with its own auxiliary records, the public training
    parameters and the same starting point. Its features are :math:`1 - j(e)/k` for each
    coordinate e of the last layer (0 if not in the sequence) and, for each class, the number of
    its coordinates in the sequence and the sum of their :math:`1 / (1 + j)`.

    How skewed the users' labels are is not declared: it is estimated from the sequences. A third
    of the simulated users has every skew, and what their sequences have in common however classes
    are named tells it (:func:`._skew.skew_weights`). The other simulated users have that skew, and
    the regression is fitted to all of them, weighted accordingly.

    Simulated users draw from one half of the auxiliary records each, and those of either half
    validate what those of the other taught: the regression is shrunk to the label shares of the
    auxiliary records as far as that allows. Where it is not better than they are by two standard
    errors, or errs more in the half of the weight whose skew it suits least, they are the guess;
    ``prior-chosen`` in the diagnostics says so. In the end it is fitted to users of both halves.

    Attributes
    ----------
    round : int or None
        The round to attack; None for the first that the view holds.
    simulated_users : int
        Users to simulate for the regression, a third of them of every skew.
    records : tuple of int
        Sizes of the users' data that the adversary supposes; each simulated user has one of them.
        A user's true size is not in the view of the management server.
    penalties : tuple of float
        Ridge penalties to choose from, by total variation in cross-validation; the largest that
        is as good as the best one and harms users of no likely skew.
    """

    round: int | None = None
    simulated_users: int = 300
    records: tuple[int, ...] = (32, 64, 128, 256)
    penalties: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7)

    name: ClassVar[str] = "inference/labels-from-permutation"
    version: ClassVar[str] = "3"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.MODEL_ARCHITECTURE, Capability.AUXILIARY_DATA}
    )
    reads: ClassVar[tuple[str, ...]] = (kinds.PERMUTATION_SEQUENCE,)

    def __post_init__(self) -> None:
        if self.simulated_users < 5:
            raise ConfigurationError(f"simulated_users must be >= 5, got {self.simulated_users}")
        if not self.records or min(self.records) < 1:
            raise ConfigurationError(f"records must be sizes from 1, got {self.records}")
        if not self.penalties or min(self.penalties) <= 0:
            raise ConfigurationError(f"penalties must be > 0, got {self.penalties}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the labels of every user outside the coalition.

        Returns
        -------
        Guesses
            Targets are the users. With ``single-record-updates`` values are classes, () int64,
            and scores the share by which the best class leads; else values are histograms,
            (classes,) float64, that sum to one, and scores their largest entries.

        Raises
        ------
        UnmetRequirementsError
            If the coalition lacks the model's architecture or auxiliary data; for updates of many
            records also if it lacks the parameters or how users train; or if the view holds no
            permutation sequence of a user outside the coalition.
        """
        spec, _ = self._known(view, knowledge)
        messages = self._messages(view)
        sequences = [_sequence(m) for m in messages]
        targets = tuple(m.sender for m in messages)
        if Capability.SINGLE_RECORD_UPDATES in view.capabilities:
            totals = np.stack([_reciprocal_ranks(s, spec) for s in sequences])
            ordered = np.sort(totals, axis=1)
            lead = ordered[:, -1] - ordered[:, -2]
            scores = np.divide(lead, ordered[:, -1], out=np.zeros_like(lead), where=lead > 0)
            classes = tuple(np.array(c, dtype=np.int64) for c in totals.argmax(axis=1))
            return Guesses(targets, classes, scores)
        view.require(
            {Capability.MODEL_PARAMETERS, Capability.TRAINING_PARAMETERS}, attack=self.name
        )
        histograms, diagnostics = self._regress(view, sequences, spec, knowledge, rng)
        return Guesses(
            target_ids=targets,
            values=tuple(histograms),
            scores=histograms.max(axis=1),
            diagnostics=MappingProxyType(diagnostics),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the auxiliary records' most frequent class, or their label histogram."""
        spec, labels = self._known(view, knowledge)
        targets = tuple(m.sender for m in self._messages(view))
        share = np.bincount(labels, minlength=spec.classes) / len(labels)
        value: Array = share
        if Capability.SINGLE_RECORD_UPDATES in view.capabilities:
            value = np.array(share.argmax(), dtype=np.int64)
        return Guesses(targets, tuple(value.copy() for _ in targets), np.zeros(len(targets)))

    def _known(self, view: View, knowledge: Knowledge) -> tuple[ModelSpec, npt.NDArray[np.int64]]:
        view.require(self.requires, attack=self.name)
        if knowledge.model is None or knowledge.auxiliary is None or not len(knowledge.auxiliary):
            raise UnmetRequirementsError(
                f"attack '{self.name}' is granted the model's architecture and auxiliary data, "
                "but the declared knowledge does not hold them"
            )
        return knowledge.model, knowledge.auxiliary.labels

    def _messages(self, view: View) -> tuple[Message, ...]:
        rounds = view.rounds(kinds.PERMUTATION_SEQUENCE)
        chosen = self.round if self.round is not None else next(iter(rounds), None)
        messages = tuple(
            m
            for m in view.select(kinds.PERMUTATION_SEQUENCE)
            if m.round == chosen and m.sender not in view.coalition.members
        )
        if not messages:
            raise UnmetRequirementsError(
                f"the view of {view.coalition} holds no '{kinds.PERMUTATION_SEQUENCE}' message of "
                f"a user outside it in round {chosen}; rounds with some: {list(rounds)}"
            )
        return messages

    def _regress(
        self,
        view: View,
        sequences: list[npt.NDArray[np.int64]],
        spec: ModelSpec,
        knowledge: Knowledge,
        rng: np.random.Generator,
    ) -> tuple[npt.NDArray[np.float64], dict[str, float]]:
        assert knowledge.auxiliary is not None
        training = TrainingParameters.of(view)
        population = np.bincount(knowledge.auxiliary.labels, minlength=spec.classes)
        population = population / population.sum()
        parts = split_records(knowledge.auxiliary, _PARTS, rng=rng)
        attacked = np.stack([_features(s, spec) for s in sequences])

        def simulated(concentrations: Features) -> SimulatedUsers:
            return simulate_users(
                concentrations.tolist(),
                k=len(sequences[0]),
                records=self.records,
                training=training,
                knowledge=knowledge,
                parts=parts,
                rng=rng,
            )

        count = max(2, self.simulated_users // 3)
        every = rng.permutation(np.resize(CONCENTRATIONS, count))
        first = simulated(every)
        features = np.stack([_features(s, spec) for s in first.sequences])
        weights = skew_weights(
            _symmetric(features, spec),
            first.concentrations,
            first.records,
            _symmetric(attacked, spec),
            groups=first.groups,
            sizes=self.records,
            population=population,
        )
        second = simulated(rng.choice(CONCENTRATIONS, self.simulated_users - count, p=weights))
        features = np.concatenate([features, [_features(s, spec) for s in second.sequences]])
        histograms = np.concatenate([first.histograms, second.histograms])
        groups = np.concatenate([first.groups, second.groups])
        skew = np.searchsorted(
            CONCENTRATIONS, np.concatenate([first.concentrations, second.concentrations])
        )
        importance = _importance(skew, weights)
        chosen = choose(
            features,
            histograms,
            importance,
            population,
            groups=groups,
            strata=skew,
            penalties=self.penalties,
            standard_errors=2,
        )
        model = fit(features, histograms, importance, population, chosen.penalty)
        diagnostics = {
            "ridge-penalty": min(chosen.penalty, 1e300),
            "prior-chosen": float(chosen.is_prior),
            "gain-over-the-prior-at-the-least-favourable-skews": chosen.worst_gain,
            "simulated-users": float(len(features)),
            "total-variation-on-simulated-users": chosen.error,
            "total-variation-of-the-prior-on-simulated-users": chosen.error_of_prior,
            **{
                f"users-of-concentration-{a:g}": float(w)
                for a, w in zip(CONCENTRATIONS, weights, strict=True)
            },
        }
        return normalised(model.predict(attacked)), diagnostics


def _importance(skew: npt.NDArray[np.int64], weights: Features) -> Features:
    """Return weights with which simulated users count as if drawn with ``weights``."""
    drawn = np.bincount(skew, minlength=len(CONCENTRATIONS)) / len(skew)
    result: Features = weights[skew] / drawn[skew]
    return result


def _sequence(message: Message) -> npt.NDArray[np.int64]:
    return message.arrays["indices"].astype(np.int64)


def _last_layer(
    sequence: npt.NDArray[np.int64], spec: ModelSpec
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return position in the sequence, class, and input (``features`` for the bias) of entries."""
    weight_offset, bias_offset, width = classifier_rows(spec)
    position = np.flatnonzero((sequence >= weight_offset) & (sequence < bias_offset + spec.classes))
    coordinate = sequence[position]
    bias = coordinate >= bias_offset
    row = np.where(bias, coordinate - bias_offset, (coordinate - weight_offset) // width)
    column = np.where(bias, width, (coordinate - weight_offset) % width)
    return position, row, column


def _reciprocal_ranks(sequence: npt.NDArray[np.int64], spec: ModelSpec) -> Features:
    position, row, _ = _last_layer(sequence, spec)
    totals = np.bincount(row, weights=1.0 / (1.0 + position), minlength=spec.classes)
    return totals.astype(np.float64)


def _features(sequence: npt.NDArray[np.int64], spec: ModelSpec) -> Features:
    position, row, column = _last_layer(sequence, spec)
    height = np.zeros((spec.classes, classifier_rows(spec).features + 1))
    height[row, column] = 1.0 - position / len(sequence)
    count = np.bincount(row, minlength=spec.classes)
    return np.concatenate([height.ravel(), count, _reciprocal_ranks(sequence, spec)])


def _symmetric(features: Features, spec: ModelSpec) -> Features:
    """Return what tells the skew, from features of :func:`_features`."""
    rows = features[:, : -2 * spec.classes].reshape(len(features), spec.classes, -1).sum(2)
    counts = features[:, -2 * spec.classes :].reshape(len(features), 2, spec.classes)
    return skew_features(np.concatenate([rows[:, None], counts], axis=1))
