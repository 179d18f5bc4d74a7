"""Inversion of parts of updates that are several local steps, as PA-CFL's servers see them.

With local training a user's important values and permutation sequence are those of an accumulated
update ``(theta_0 - theta_T) / learning_rate``. Both attacks match what they see of it with the same
part of a simulated one, see :class:`.local_steps.LocalStepsInversion`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    auxiliary_records,
    declared_model,
    granted_auxiliary,
    local_training,
    permutation_sequences,
    target_ids,
)
from privaudit.attacks.inversion._options import (
    Initialisation,
    MatchingOptions,
    PriorName,
)
from privaudit.attacks.inversion._records import record_counts
from privaudit.attacks.inversion.local_steps import REQUIRES, Order, check_local_steps
from privaudit.attacks.inversion.partial import Source, check_source, observed_parts
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.protocols.pa_cfl.kinds import (
    DATASET_SIZE,
    GLOBAL_PERMUTATION,
    IMPORTANT_VALUES,
    PERMUTATION_SEQUENCE,
)
from privaudit.transcript import Capability, View

__all__ = ["LocalStepsRanks", "LocalStepsTopK"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStepsTopK(MatchingOptions):
    """Match known entries of an accumulated update with those of simulated local training.

    ``x* = argmin 1 - cos(update(x)[S], v) + w TV(x)`` with S the known coordinates: the view of
    PA-CFL's aggregation server with one user, under local training. Labels as for
    :class:`.partial.TopKMatching`, from the accumulated update, which is a sum of gradients.

    Attributes
    ----------
    source, k_fraction
        As for :class:`.partial.TopKMatching`.
    order, most_steps
        As for :class:`.local_steps.LocalStepsInversion`.
    """

    name: ClassVar[str] = "inversion/local-steps-top-k"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = REQUIRES
    reads: ClassVar[tuple[str, ...]] = (IMPORTANT_VALUES, GLOBAL_PERMUTATION, UPDATE, DATASET_SIZE)

    learning_rate: float = 0.1
    init: Initialisation = "auto"
    prior: PriorName = "auto"
    source: Source = "important-values"
    k_fraction: float = 0.0025
    order: Order = "invariant"
    most_records: int = 16
    most_steps: int = 16

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        check_source(self.source, self.k_fraction)
        check_local_steps(self.order, self.most_steps)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind the known entries of every user's accumulated update.

        Raises
        ------
        UnmetRequirementsError
            If a capability, declared knowledge, the values, pi^g, or the training parameters are
            missing; if there are too many records or steps.
        InvalidDataError
            If values are not finite, or values and coordinates do not fit each other.
        """
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        training = local_training(view, attack=self.name)
        seen = observed_parts(
            view,
            self.source,
            self.k_fraction,
            dimension=len(parameters),
            attack=self.name,
            placed=True,
        )
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        from privaudit.attacks.inversion._partial import LocalTraining, match
        from privaudit.attacks.inversion._unrolled import check_steps

        check_steps(self, seen.users, counts, training)
        return match(
            self,
            knowledge,
            seen,
            counts,
            auxiliary,
            zero_fill=False,
            rng=rng,
            local=LocalTraining(self, training),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        kind = UPDATE if self.source == "update" else IMPORTANT_VALUES
        users = target_ids(view, kind, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStepsRanks(MatchingOptions):
    """Reconstruct from the permutation sequence of an accumulated update: ranks, and no value.

    As :class:`.ranks.RankProfileMatching`, with magnitudes of simulated local training of auxiliary
    records, and dummy records that are trained on like the user's.

    Attributes
    ----------
    profile_records : int
        Auxiliary records whose updates give the profile, at most.
    order, most_steps
        As for :class:`.local_steps.LocalStepsInversion`.
    """

    name: ClassVar[str] = "inversion/local-steps-ranks"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = REQUIRES | {Capability.AUXILIARY_DATA}
    reads: ClassVar[tuple[str, ...]] = (PERMUTATION_SEQUENCE,)

    learning_rate: float = 0.1
    init: Initialisation = "class-mean"
    prior: PriorName = "auto"
    profile_records: int = 100
    order: Order = "invariant"
    most_records: int = 16
    most_steps: int = 16

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        if self.profile_records < 1:
            raise ConfigurationError(
                f"profile_records must be at least 1, got {self.profile_records}"
            )
        check_local_steps(self.order, self.most_steps)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind every permutation sequence.

        Raises
        ------
        UnmetRequirementsError
            If a capability, declared knowledge, every sequence, or the training parameters are
            missing; if there are too many records or steps.
        InvalidDataError
            If a sequence does not hold distinct coordinates of the model.
        """
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        training = local_training(view, attack=self.name)
        auxiliary = auxiliary_records(view, knowledge, attack=self.name, why="its profile")
        users, indices = permutation_sequences(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, users, options=self, attack=self.name)
        from privaudit.attacks.inversion._partial import LocalTraining
        from privaudit.attacks.inversion._ranks import match_ranks
        from privaudit.attacks.inversion._unrolled import check_steps

        check_steps(self, users, counts, training)
        return match_ranks(
            self,
            knowledge,
            users,
            indices,
            counts,
            auxiliary,
            profile_records=self.profile_records,
            rng=rng,
            local=LocalTraining(self, training),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image for the same targets."""
        users = target_ids(view, PERMUTATION_SEQUENCE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
