"""Inversion from ranks alone, as PA-CFL's management server sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    auxiliary_records,
    declared_model,
    permutation_sequences,
    target_ids,
)
from privaudit.attacks.inversion._options import (
    Initialisation,
    MatchingOptions,
    PriorName,
    Refinement,
)
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError
from privaudit.protocols.pa_cfl.kinds import PERMUTATION_SEQUENCE
from privaudit.transcript import Capability, View

__all__ = ["RankProfileMatching"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProfileMatching(MatchingOptions):
    """Reconstruct from a permutation sequence: coordinates by rank, no value at all.

    A rank tells nearly a magnitude: sorted magnitudes of gradients look alike. The profile
    ``m(r)`` is the median of the auxiliary records' sorted, normalised top-k magnitudes. The label
    is that of the classifier row with the largest sum of ``1 / (1 + rank)``, and gives the signs
    of the classifier's entries (negative in the label's row only). Then
    ``x* = argmin 1 - cos(s * grad loss(theta, x, y)[pi], m) + w TV(x)``, where entries of other
    layers are compared by magnitude.

    PA-CFL's figure 10(c) concludes that ranks do not suffice; for updates of one record they do.

    For B > 1 records the labels are predicted by regression on simulated users
    (:mod:`._regressed_labels`), their rows count as negative, and the number of records must be
    declared (``records``): this server is not told.

    Images of single records are refined (:mod:`._rank_values`): gradients of biases are
    derivatives, which an image that is nearly right tells, so that their magnitudes are marks among
    the ranks. An entry between two marks is known nearly as if its value had been sent, and what
    the last fully connected layers saw follows from the entries.

    Attributes
    ----------
    profile_records : int
        Auxiliary records from which the profile is taken, at most.
    refinements : int
        Turns in which images of single records are refined; 0 is none. There is none with a fitted
        prior that is named, nor where it does not bring auxiliary records nearer, which is tried
        first.
    refinement_steps : int
        Gauss-Newton steps of a turn, at most.
    """

    name: ClassVar[str] = "inversion/rank-profile"
    version: ClassVar[str] = "5"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.SINGLE_LOCAL_STEP,
            Capability.AUXILIARY_DATA,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (PERMUTATION_SEQUENCE,)

    init: Initialisation = "class-mean"
    prior: PriorName = "auto"
    profile_records: int = 200
    refinements: int = 5
    refinement_steps: int = 6

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        Refinement(self.refinements, self.refinement_steps)
        if self.profile_records < 1:
            raise ConfigurationError(
                f"profile_records must be at least 1, got {self.profile_records}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the record behind every permutation sequence.

        Raises
        ------
        UnmetRequirementsError
            If a capability, declared knowledge, or every sequence is missing.
        InvalidDataError
            If a sequence does not hold distinct coordinates of the model.
        """
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        auxiliary = auxiliary_records(view, knowledge, attack=self.name, why="its profile")
        users, indices = permutation_sequences(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, users, options=self, attack=self.name)
        from privaudit.attacks.inversion._ranks import match_ranks

        refinement = None
        if self.refinements and self.prior in ("auto", "none"):
            refinement = Refinement(self.refinements, self.refinement_steps)
        return match_ranks(
            self,
            knowledge,
            users,
            indices,
            counts,
            auxiliary,
            profile_records=self.profile_records,
            rng=rng,
            refinement=refinement,
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image for the same targets."""
        users = target_ids(view, PERMUTATION_SEQUENCE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
