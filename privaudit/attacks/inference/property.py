"""A property of a user's data as a whole: how many of its records have an attribute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.shadows import PublishedTraining
from privaudit.attacks.updates import (
    UPDATE_KINDS,
    ObservedUpdate,
    observed_updates,
    records_told,
)
from privaudit.datasets.attributes import RecordAttribute
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.transcript import Capability, View

__all__ = ["PropertyInference"]

Float64 = npt.NDArray[np.float64]

#: Coordinates of an update that the regression sees; of longer ones, sums of coordinates with
#: random signs.
_SKETCH = 8192


@dataclass(frozen=True, slots=True)
class PropertyInference:
    """Infer the share of a user's records that have an attribute, by a regression on updates.

    The adversary simulates users of its auxiliary records, of every share of the attribute and
    every label skew, lets them train as the run's users do (with their noise) from the same
    parameters, and learns a ridge regression from update to share (Ateniese et al., IJSN 10(3),
    2015; Melis et al., S&P 2019). A fifth of the simulated users chooses the penalty. Rounds are
    predicted apart and averaged.

    Attributes
    ----------
    classes : tuple of int
        Records have the attribute if their label is one of these.
    brightness : float or None
        Or, without classes, if the mean of their pixels is greater; None for the median of the
        auxiliary records.
    simulated_users : int
    records : int
        A user's records, where the view does not tell.
    rounds : int or None
        Use the first so many rounds only.
    penalties : tuple of float
    """

    classes: tuple[int, ...] = ()
    brightness: float | None = None
    simulated_users: int = 150
    records: int = 64
    rounds: int | None = 1
    penalties: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0, 10.0)

    name: ClassVar[str] = "inference/property"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
            Capability.AUXILIARY_DATA,
        }
    )
    reads: ClassVar[tuple[str, ...]] = UPDATE_KINDS

    def __post_init__(self) -> None:
        if self.classes and self.brightness is not None:
            raise ConfigurationError("give classes or a brightness, not both")
        if self.simulated_users < 10 or self.records < 1:
            raise ConfigurationError(
                "simulated_users must be >= 10 and records >= 1, got "
                f"{self.simulated_users} and {self.records}"
            )
        if not self.penalties or min(self.penalties) <= 0:
            raise ConfigurationError(f"penalties must be > 0, got {self.penalties}")
        if self.rounds is not None and self.rounds < 1:
            raise ConfigurationError(f"rounds must be >= 1, got {self.rounds}")

    def attribute(self, auxiliary: LabelledImages) -> RecordAttribute:
        """Return the attribute that is asked for."""
        if self.classes:
            return RecordAttribute(classes=self.classes)
        median = float(np.median(auxiliary.images.mean(axis=(1, 2, 3))))
        return RecordAttribute(brightness=median if self.brightness is None else self.brightness)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the share for every user whose updates are seen.

        Returns
        -------
        Guesses
            Targets are the users; values are shares, () float64 in [0, 1]; scores are how far
            they are from one half.

        Raises
        ------
        UnmetRequirementsError
            If a capability is lacking or no update is seen.
        ConfigurationError
            If all auxiliary records have the attribute, or none.
        """
        auxiliary, observed = self._observed(view, knowledge)
        assert knowledge.model is not None
        attribute = self.attribute(auxiliary)
        has = attribute.of(auxiliary)
        if has.all() or not has.any():
            raise ConfigurationError(
                f"{int(has.sum())} of {len(has)} auxiliary records have the attribute "
                f"{attribute}: the regression needs some with it and some without"
            )
        training = PublishedTraining.of(view, knowledge.model, attack=self.name)
        told = records_told(view)
        groups: dict[tuple[bytes, bytes], list[ObservedUpdate]] = defaultdict(list)
        for update in observed:
            place = b"" if update.indices is None else update.indices.tobytes()
            groups[update.start.tobytes(), place].append(update)
        found: dict[str, list[float]] = defaultdict(list)
        errors = []
        for updates in groups.values():
            sizes = [told.get(u.user, self.records) for u in updates]
            predict, error = self._regression(training, updates[0], has, auxiliary, sizes, rng=rng)
            errors.append(error)
            for update, share in zip(updates, predict(updates), strict=True):
                found[update.user].append(float(share))
        shares = {user: float(np.mean(values)) for user, values in found.items()}
        return Guesses(
            target_ids=tuple(shares),
            values=tuple(np.array(s) for s in shares.values()),
            scores=np.array([abs(s - 0.5) for s in shares.values()]),
            diagnostics=MappingProxyType({"mean error on simulated users": float(np.mean(errors))}),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the auxiliary records' share for every user."""
        auxiliary, observed = self._observed(view, knowledge)
        share = self.attribute(auxiliary).share(auxiliary)
        users = tuple(dict.fromkeys(u.user for u in observed))
        return Guesses(users, tuple(np.array(share) for _ in users), np.zeros(len(users)))

    def _observed(
        self, view: View, knowledge: Knowledge
    ) -> tuple[LabelledImages, list[ObservedUpdate]]:
        view.require(self.requires, attack=self.name)
        if knowledge.model is None or knowledge.auxiliary is None or not len(knowledge.auxiliary):
            raise UnmetRequirementsError(
                f"attack '{self.name}' is granted the model's architecture and auxiliary data, but "
                "the declared knowledge does not hold them"
            )
        observed = observed_updates(view, knowledge, attack=self.name)
        first = sorted({u.round for u in observed})[: self.rounds]
        return knowledge.auxiliary, [u for u in observed if u.round in first]

    def _regression(
        self,
        training: PublishedTraining,
        update: ObservedUpdate,
        has: npt.NDArray[np.bool_],
        auxiliary: LabelledImages,
        sizes: list[int],
        *,
        rng: np.random.Generator,
    ) -> tuple[Callable[[list[ObservedUpdate]], Float64], float]:
        """Return a predictor of shares, and its mean absolute error on simulated users."""
        from sklearn.linear_model import Ridge

        sketch = _Sketch.of(update, rng=rng)
        rows, shares = [], []
        for _ in range(self.simulated_users):
            user = _simulated(auxiliary, has, int(rng.choice(sizes)), rng=rng)
            found = training.update(auxiliary.take(user), update.start, round=update.round, rng=rng)
            if np.isfinite(found).all():
                rows.append(sketch.features(update.known(found.astype(np.float64))))
                shares.append(float(has[user].mean()))
        if len(rows) < 10:
            raise ConfigurationError(
                f"the training of {self.simulated_users - len(rows)} of {self.simulated_users} "
                "simulated users diverged"
            )
        features, wanted = np.stack(rows), np.array(shares)
        kept = len(features) // 5
        errors = [
            float(np.abs(_clipped(model.predict(features[:kept])) - wanted[:kept]).mean())
            for model in (
                Ridge(alpha=p).fit(features[kept:], wanted[kept:]) for p in self.penalties
            )
        ]
        model = Ridge(alpha=self.penalties[int(np.argmin(errors))]).fit(features, wanted)

        def predict(updates: list[ObservedUpdate]) -> Float64:
            return _clipped(model.predict(np.stack([sketch.features(u.values) for u in updates])))

        return predict, min(errors)


@dataclass(frozen=True, slots=True, eq=False)
class _Sketch:
    """Unit vectors of bounded length from updates."""

    buckets: npt.NDArray[np.int64] | None
    signs: Float64

    @classmethod
    def of(cls, update: ObservedUpdate, *, rng: np.random.Generator) -> _Sketch:
        count = len(update.values)
        if count <= _SKETCH:
            return cls(None, np.ones(count))
        return cls(rng.integers(_SKETCH, size=count), rng.choice([-1.0, 1.0], size=count))

    def features(self, values: Float64) -> Float64:
        unit = values / max(float(np.linalg.norm(values)), 1e-30)
        if self.buckets is None:
            return unit
        sums = np.bincount(self.buckets, weights=self.signs * unit, minlength=_SKETCH)
        return sums.astype(np.float64)


def _simulated(
    auxiliary: LabelledImages,
    has: npt.NDArray[np.bool_],
    records: int,
    *,
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Return a simulated user's records: any share of the attribute, any label skew."""
    classes = int(auxiliary.labels.max()) + 1
    skew = rng.dirichlet(np.full(classes, np.exp(rng.uniform(np.log(0.1), np.log(10.0)))))
    weights = skew[auxiliary.labels] + 1e-9
    target = rng.random()
    for side, part in ((has, target), (~has, 1 - target)):
        weights[side] *= part / weights[side].sum()
    chosen: npt.NDArray[np.int64] = rng.choice(
        len(auxiliary), size=records, p=weights / weights.sum()
    )
    return chosen


def _clipped(shares: Float64) -> Float64:
    return np.clip(shares, 0.0, 1.0)
