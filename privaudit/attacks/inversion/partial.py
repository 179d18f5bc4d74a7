"""Inversion from a few entries of an update, as PA-CFL's aggregation server sees them.

The aggregation server receives the k important values of every user, all in the order of one
sequence pi^g that it does not know. One colluding user gives it pi^g; then the values lie at known
coordinates and the other coordinates are unknown, not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    PartialUpdates,
    declared_model,
    granted_auxiliary,
    important_values,
    largest_of,
    target_ids,
    updates,
)
from privaudit.attacks.inversion._options import (
    Initialisation,
    MatchingOptions,
    PriorName,
    Refinement,
    check_choice,
)
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.protocols.pa_cfl.kinds import DATASET_SIZE, GLOBAL_PERMUTATION, IMPORTANT_VALUES
from privaudit.transcript import Capability, View

__all__ = [
    "SortedValueMatching",
    "Source",
    "TopKMatching",
    "ZeroFillMatching",
    "check_source",
    "observed_parts",
]

Source = Literal["important-values", "update"]
Placement = Literal["true", "as-received"]

_REQUIRES = frozenset(
    {
        Capability.MODEL_ARCHITECTURE,
        Capability.MODEL_PARAMETERS,
        Capability.SINGLE_LOCAL_STEP,
    }
)

_READS = (IMPORTANT_VALUES, GLOBAL_PERMUTATION, UPDATE, DATASET_SIZE)


def check_source(source: str, k_fraction: float) -> None:
    """Raise ConfigurationError unless both are allowed."""
    check_choice("source", source, get_args(Source))
    if not 0 < k_fraction <= 1:
        raise ConfigurationError(f"k_fraction must be in (0, 1], got {k_fraction}")


def observed_parts(
    view: View, source: Source, k_fraction: float, *, dimension: int, attack: str, placed: bool
) -> PartialUpdates:
    """Return what the view holds of updates: the important values, or the largest entries."""
    if source == "update":
        return largest_of(updates(view, dimension=dimension, attack=attack), fraction=k_fraction)
    return important_values(view, dimension=dimension, attack=attack, placed=placed)


def _kind(source: Source) -> str:
    return UPDATE if source == "update" else IMPORTANT_VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKMatching(MatchingOptions):
    """Match the dummy's gradient with the known entries alone; the others are left free.

    ``x* = argmin 1 - cos(grad loss(theta, x, y)[S], v) + w TV(x)`` with S the known coordinates.
    This is the view of the aggregation server with one user, who knows pi^g, or, with
    ``source="update"``, the experiment of PA-CFL's figure 10(a).

    The label is that of the classifier row with the most negative sum of known entries; where no
    known entry is negative, the loss of probe images decides among the rows not seen. For B > 1
    records they are predicted by regression on simulated users if there are auxiliary data, and
    allotted by the rows' negative sums otherwise.

    Attributes
    ----------
    source : {"important-values", "update"}
        What PA-CFL's users send to the aggregation server (with pi^g from a colluding user), or
        the largest entries of an undefended update, at their true coordinates.
    k_fraction : float
        Share of entries taken from an undefended update; unused otherwise.
    refinements : int
        Turns in which images of single records are refined: known entries of a fully connected
        layer tell what it saw, which Gauss-Newton steps meet, and the other entries are matched
        again from there. 0 is none; nor is there any with a fitted prior that is named, whose
        range images would leave, nor where entries contradict each other, because noise was added.
        Where ``prior="auto"`` fits a prior, refinement is tried on auxiliary records first and
        left out unless it brings them nearer.
    refinement_steps : int
        Gauss-Newton steps of a turn, at most.
    """

    name: ClassVar[str] = "inversion/top-k"
    version: ClassVar[str] = "5"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = _READS

    source: Source = "important-values"
    k_fraction: float = 0.0025
    init: Initialisation = "auto"
    prior: PriorName = "auto"
    refinements: int = 5
    refinement_steps: int = 6

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        check_source(self.source, self.k_fraction)
        Refinement(self.refinements, self.refinement_steps)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the record behind the known entries of every user.

        Raises
        ------
        UnmetRequirementsError
            If a capability, declared knowledge, the values, or pi^g is missing.
        InvalidDataError
            If values are not finite, or values and coordinates do not fit each other.
        """
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        seen = observed_parts(
            view,
            self.source,
            self.k_fraction,
            dimension=len(parameters),
            attack=self.name,
            placed=True,
        )
        from privaudit.attacks.inversion._partial import match

        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        refinement = None
        if self.refinements and self.prior in ("auto", "none"):
            refinement = Refinement(self.refinements, self.refinement_steps)
        return match(
            self,
            knowledge,
            seen,
            counts,
            auxiliary,
            zero_fill=False,
            rng=rng,
            refinement=refinement,
            # What PA-CFL's users send is in an order of all users: another entry may be larger.
            largest_known=self.source == "update",
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, _kind(self.source), attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroFillMatching(MatchingOptions):
    """Match the dummy's whole gradient with the known entries and zeros elsewhere.

    The weak reading of figure 10: entries that are unknown are taken to be zero, which no gradient
    of an image satisfies. It is here to show how much it underestimates :class:`TopKMatching`.

    Attributes
    ----------
    source, k_fraction
        As for :class:`TopKMatching`.
    placement : {"true", "as-received"}
        ``"true"`` puts values at their coordinates. ``"as-received"`` puts the aggregation
        server's values, in the order received, at coordinates 0 to k - 1: all that it can do
        without pi^g (figure 10(b)); needs no colluding user.
    """

    name: ClassVar[str] = "inversion/zero-fill"
    version: ClassVar[str] = "4"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = _READS

    source: Source = "important-values"
    k_fraction: float = 0.0025
    placement: Placement = "true"
    init: Initialisation = "auto"
    prior: PriorName = "auto"

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        check_source(self.source, self.k_fraction)
        check_choice("placement", self.placement, get_args(Placement))
        if self.placement == "as-received" and self.source == "update":
            raise ConfigurationError(
                "placement 'as-received' is for source 'important-values': an undefended update "
                "comes with its coordinates"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct with zeros for unknown entries; errors as :meth:`TopKMatching.run`."""
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        placed = self.placement == "true"
        seen = observed_parts(
            view,
            self.source,
            self.k_fraction,
            dimension=len(parameters),
            attack=self.name,
            placed=placed,
        )
        if not placed:
            leading = np.tile(np.arange(seen.values.shape[1]), (len(seen.users), 1))
            seen = PartialUpdates(seen.users, seen.values, leading)
        from privaudit.attacks.inversion._partial import match

        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        return match(self, knowledge, seen, counts, auxiliary, zero_fill=True, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, _kind(self.source), attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedValueMatching(MatchingOptions):
    """Match sorted values: the aggregation server alone, which knows values and no coordinates.

    ``x* = argmin W2^2(top-k of grad loss(theta, x, y), v) / ||v||^2 + w TV(x)``, the
    one-dimensional transport cost between the two sets of values. The label is the one whose probe
    images have the lowest loss. The attack is expected to fail, and is reported when it does.
    """

    name: ClassVar[str] = "inversion/sorted-values"
    version: ClassVar[str] = "3"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = (IMPORTANT_VALUES, DATASET_SIZE)

    init: Initialisation = "auto"
    prior: PriorName = "auto"

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct from values without coordinates; errors as :meth:`TopKMatching.run`."""
        view.require(self.requires, attack=self.name)
        _, parameters = declared_model(knowledge, attack=self.name)
        seen = important_values(view, dimension=len(parameters), attack=self.name, placed=False)
        from privaudit.attacks.inversion._partial import match_sorted

        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        return match_sorted(self, knowledge, seen, counts, auxiliary, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, IMPORTANT_VALUES, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
