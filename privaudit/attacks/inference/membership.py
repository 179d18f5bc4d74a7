"""Whether a user trained on a record, from what its updates and models show."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.candidates import Candidates
from privaudit.attacks.inference._whitening import GradientLaw, fit_law
from privaudit.attacks.shadows import PublishedTraining, record_losses
from privaudit.attacks.updates import (
    UPDATE_KINDS,
    ObservedUpdate,
    learning_rate,
    observed_updates,
    records_told,
)
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import Capability, View

__all__ = ["UpdateMembership"]

Float64 = npt.NDArray[np.float64]
METHODS = ("loss", "loss-change", "gradient-alignment", "matched-filter", "likelihood-ratio")
#: Methods that need auxiliary records.
_TAUGHT = METHODS[3:]
#: Numbers of auxiliary gradients that are held.
_MOST_NUMBERS = 2**26


@dataclass(frozen=True, slots=True)
class UpdateMembership:
    r"""Score each candidate record by how a user's updates treat it, over rounds.

    With :math:`\theta` before and :math:`\theta'` after a user's local training:

    * ``loss``: :math:`-\ell(\theta', x)`: members fit better (Yeom et al., CSF 2018);
    * ``loss-change``: :math:`\ell(\theta, x) - \ell(\theta', x)`, which allows for how hard a
      record is (Watson et al., ICLR 2022);
    * ``gradient-alignment``: the cosine of the record's gradient at :math:`\theta` and the update,
      over the coordinates that the view tells;
    * ``matched-filter``: the log-likelihood ratio of the update as a mean of gradients at
      :math:`\theta`, whose covariance within a class the adversary's own records give. It asks
      for what the record's gradient has of its own, not what its class has in common. Where
      updates are noised and it is public how, the noise is part of the covariance;
    * ``likelihood-ratio``: how much likelier a statistic is with the record than without, under
      Gaussians fitted to shadow users (Carlini et al., S&P 2022). A shadow user holds a random
      half of the candidates and auxiliary records of the candidates' labels, as many in all as the
      user; each candidate has its own two means, the variance is pooled. Where updates are noised
      and it is public how, shadow updates are noised likewise.

    Scores are averaged over rounds; log-likelihood ratios are added.

    Attributes
    ----------
    method : {"loss", "loss-change", "gradient-alignment", "matched-filter", "likelihood-ratio"}
    statistic : {"loss-change", "gradient-alignment", "matched-filter"}
        Of which ``likelihood-ratio`` takes the likelihood.
    shadows : int
        Shadow users a user and round.
    records : int
        A user's records, where the view does not tell.
    rounds : int or None
        Use the first so many rounds only.
    """

    method: Literal[
        "loss", "loss-change", "gradient-alignment", "matched-filter", "likelihood-ratio"
    ] = "matched-filter"
    statistic: Literal["loss-change", "gradient-alignment", "matched-filter"] = "matched-filter"
    shadows: int = 16
    records: int = 64
    rounds: int | None = None

    name: ClassVar[str] = "inference/membership"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.CANDIDATE_LIST,
        }
    )
    reads: ClassVar[tuple[str, ...]] = UPDATE_KINDS

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigurationError(f"method is one of {', '.join(METHODS)}, got {self.method!r}")
        if self.statistic not in METHODS[1:4]:
            raise ConfigurationError(
                f"statistic is one of {', '.join(METHODS[1:4])}, got {self.statistic!r}"
            )
        if self.shadows < 4 or self.records < 1:
            raise ConfigurationError(
                f"shadows must be >= 4 and records >= 1, got {self.shadows} and {self.records}"
            )
        if self.rounds is not None and self.rounds < 1:
            raise ConfigurationError(f"rounds must be >= 1, got {self.rounds}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Score every candidate of a user whose updates are seen.

        Returns
        -------
        Guesses
            Targets are candidates' ids; values () float64, the larger the likelier a member;
            scores are the same.

        Raises
        ------
        UnmetRequirementsError
            If the coalition lacks a capability, no update is seen, or a likelihood ratio lacks
            auxiliary records or how users train.
        """
        candidates, observed = self._observed(view, knowledge)
        assert knowledge.model is not None
        training = PublishedTraining.of(view, knowledge.model, attack=self.name)
        auxiliary = self._auxiliary(view, knowledge)
        told = records_told(view)
        filters = _Filters(training, {})
        total: dict[str, Float64] = defaultdict(lambda: np.zeros(0))
        counts: dict[str, int] = defaultdict(int)
        for update in observed:
            own = candidates.records.take(candidates.of(update.user))
            size = told.get(update.user, self.records)
            if self.method == "matched-filter":
                assert auxiliary is not None
                found = filters.ratios(update, own, auxiliary, size)
            elif self.method == "likelihood-ratio":
                assert auxiliary is not None
                found = self._ratios(filters, update, own, auxiliary, size, rng)
            else:
                found = _statistic(self.method, training, update, own, [update.values])[0]
            total[update.user] = found + (total[update.user] if counts[update.user] else 0.0)
            counts[update.user] += 1
        if self.method not in _TAUGHT:
            total = {user: values / counts[user] for user, values in total.items()}
        return _guesses(candidates, total, rounds=float(np.mean(list(counts.values()))))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Score candidates at random: as many are members as are not, as far as is known."""
        candidates, observed = self._observed(view, knowledge)
        users = dict.fromkeys(u.user for u in observed)
        scores = {user: rng.random(len(candidates.of(user))) for user in users}
        return _guesses(candidates, scores, rounds=0.0)

    def _observed(
        self, view: View, knowledge: Knowledge
    ) -> tuple[Candidates, list[ObservedUpdate]]:
        view.require(self.requires, attack=self.name)
        candidates = knowledge.candidates
        if candidates is None or knowledge.model is None:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs a declared list of candidates and the model's "
                "architecture; privaudit.campaigns.membership makes candidates of a recorded run"
            )
        if self.method in _TAUGHT:
            view.require(
                {Capability.AUXILIARY_DATA, Capability.TRAINING_PARAMETERS}, attack=self.name
            )
        asked = set(candidates.users)
        found = [
            u
            for u in observed_updates(view, knowledge, attack=self.name)
            if u.user in asked and (self.rounds is None or u.round <= self.rounds)
        ]
        if not found:
            raise UnmetRequirementsError(
                f"attack '{self.name}': no candidate is asked of a user whose updates are seen; "
                f"candidates are of {', '.join(sorted(asked))}"
            )
        return candidates, found

    def _auxiliary(self, view: View, knowledge: Knowledge) -> LabelledImages | None:
        if self.method not in _TAUGHT:
            return None
        if knowledge.auxiliary is None or not len(knowledge.auxiliary):
            raise UnmetRequirementsError(
                f"attack '{self.name}', method '{self.method}', learns from auxiliary records, "
                "and none are declared"
            )
        return knowledge.auxiliary

    def _ratios(
        self,
        filters: _Filters,
        update: ObservedUpdate,
        own: LabelledImages,
        auxiliary: LabelledImages,
        size: int,
        rng: np.random.Generator,
    ) -> Float64:
        """Return each candidate's log-likelihood ratio."""
        inside = np.zeros((self.shadows, len(own)), dtype=bool)
        simulated = []
        for s in range(self.shadows):
            # Half of the candidates, but no more than the user's records hold besides others.
            count = min(len(own) // 2, size)
            inside[s, rng.permutation(len(own))[:count]] = True
            members = own.take(np.flatnonzero(inside[s]))
            others = _alike(auxiliary, own.labels, size - count, rng=rng)
            held = LabelledImages(
                np.concatenate([members.images, others.images]),
                np.concatenate([members.labels, others.labels]),
            )
            shadow = filters.training.update(held, update.start, round=update.round, rng=rng)
            simulated.append(update.known(shadow.astype(np.float64)))
        every = [update.values, *simulated]
        if self.statistic == "matched-filter":
            values = np.stack(
                [
                    filters.ratios(replace(update, values=seen), own, auxiliary, size)
                    for seen in every
                ]
            )
        else:
            values = _statistic(self.statistic, filters.training, update, own, every)
        return _log_ratio(values[0], values[1:], inside)


@dataclass(frozen=True, slots=True, eq=False)
class _Filters:
    """Laws of gradients by where training starts and which coordinates are seen, fitted once."""

    training: PublishedTraining
    laws: dict[tuple[bytes, bytes], GradientLaw]

    def ratios(
        self,
        update: ObservedUpdate,
        own: LabelledImages,
        auxiliary: LabelledImages,
        size: int,
    ) -> Float64:
        training = self.training
        key = update.start.tobytes(), b"" if update.indices is None else update.indices.tobytes()
        if key not in self.laws:
            # The law of one start alone is kept: rounds come one after the other.
            self.laws.clear()
            count = min(len(auxiliary), max(2, _MOST_NUMBERS // len(update.start)))
            records = auxiliary.take(np.arange(count))
            gradients = training.clipped_gradients(records, update)
            classes = training.spec.classes
            self.laws[key] = fit_law(gradients, records.labels, classes=classes)
        steps, noise = training.steps_and_noise(size)
        return self.laws[key].log_ratios(
            update.values / steps,
            training.clipped_gradients(own, update),
            own.labels,
            records=size,
            noise=noise,
        )


def _alike(
    auxiliary: LabelledImages,
    labels: npt.NDArray[np.int64],
    count: int,
    *,
    rng: np.random.Generator,
) -> LabelledImages:
    """Draw auxiliary records of the candidates' labels, with replacement if there are too few."""
    if count < 1:
        return auxiliary.take(np.empty(0, dtype=np.int64))
    share = np.bincount(labels, minlength=int(auxiliary.labels.max()) + 1) / len(labels)
    weights = np.zeros(len(auxiliary))
    for c, part in enumerate(share):
        held = auxiliary.labels == c
        if held.any():
            weights[held] = part / held.sum()
    if not weights.any():
        weights[:] = 1.0
    few = int((weights > 0).sum()) < count
    chosen = rng.choice(len(auxiliary), count, replace=few, p=weights / weights.sum())
    return auxiliary.take(chosen)


def _statistic(
    name: str,
    training: PublishedTraining,
    update: ObservedUpdate,
    records: LabelledImages,
    updates: list[Float64],
) -> Float64:
    """Return the statistic of each record under each update, (updates, records)."""
    model = training.model
    if name == "gradient-alignment":
        units = np.stack([u / max(float(np.linalg.norm(u)), 1e-30) for u in updates])
        gradients = training.clipped_gradients(records, update)
        norms = np.maximum(np.linalg.norm(gradients, axis=1), 1e-30)
        aligned: Float64 = units @ gradients.T / norms
        return aligned
    rate = learning_rate(training.view, update.round) or 0.0
    before = record_losses(model, records, update.start)
    losses = []
    for values in updates:
        step_taken = np.zeros(len(update.start))
        if update.indices is None:
            step_taken = values
        else:
            step_taken[update.indices] = values
        after = (update.start - rate * step_taken).astype(np.float32)
        losses.append(record_losses(model, records, after))
    return -np.stack(losses) + (before if name == "loss-change" else 0.0)


def _log_ratio(observed: Float64, simulated: Float64, inside: npt.NDArray[np.bool_]) -> Float64:
    """Return log N(observed; in) - log N(observed; out), with means of their own a candidate.

    The variance is pooled over candidates and over both sides, and grows by that of a mean.
    """
    count_in, count_out = inside.sum(0), (~inside).sum(0)
    mean_in = np.where(inside, simulated, 0).sum(0) / np.maximum(count_in, 1)
    mean_out = np.where(inside, 0, simulated).sum(0) / np.maximum(count_out, 1)
    residual = simulated - np.where(inside, mean_in, mean_out)
    variance = float(np.square(residual).sum()) / max(residual.size - 2 * len(count_in), 1)
    v_in = variance * (1 + 1 / np.maximum(count_in, 1)) + 1e-30
    v_out = variance * (1 + 1 / np.maximum(count_out, 1)) + 1e-30
    ratio = (
        -0.5 * (observed - mean_in) ** 2 / v_in
        + 0.5 * (observed - mean_out) ** 2 / v_out
        - 0.5 * np.log(v_in / v_out)
    )
    # A candidate that no shadow user held, or all held, tells nothing.
    result: Float64 = np.where((count_in > 0) & (count_out > 0), ratio, 0.0)
    return result


def _guesses(candidates: Candidates, scores: dict[str, Float64], *, rounds: float) -> Guesses:
    ids, values = [], []
    for user, own in scores.items():
        for place, value in zip(candidates.of(user), own, strict=True):
            ids.append(candidates.ids[place])
            values.append(float(value))
    return Guesses(
        target_ids=tuple(ids),
        values=tuple(np.array(v) for v in values),
        scores=np.array(values),
        diagnostics=MappingProxyType({"rounds a user": rounds}),
    )
