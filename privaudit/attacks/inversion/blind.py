"""The aggregation server alone: where its values lie, from what users have in common.

The k important values of every user come in the order of one sequence pi^g that the aggregation
server does not know. It sees the same unknown coordinates of all users, and that is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._simulation import TrainingParameters
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._blind_groups import zero_sum_group
from privaudit.attacks.inversion._blind_placement import PLACED, Placement, as_guesses, placement
from privaudit.attacks.inversion._blind_population import NOISE, refine, search, shares_of
from privaudit.attacks.inversion._blind_search import Placed, Placing
from privaudit.attacks.inversion._blind_templates import Templates, learn_templates
from privaudit.attacks.inversion._observations import (
    PartialUpdates,
    auxiliary_records,
    declared_model,
    granted_auxiliary,
    important_values,
    target_ids,
)
from privaudit.attacks.inversion._options import (
    Initialisation,
    MatchingOptions,
    PriorName,
    check_choice,
)
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.pa_cfl.kinds import DATASET_SIZE, IMPORTANT_VALUES
from privaudit.transcript import Capability, View

__all__ = ["PLACED", "BlindCoordinates", "BlindMatching", "Placement"]

Start = Literal["values", "first-round", "other-rounds"]

#: Pairs of a value and a candidate coordinate at most; each array of costs has so many numbers.
_MOST_PAIRS = 2**27

#: Mean confidence in a placement that is believed without a search.
_SURE = 0.9

_WHY = "simulated users, from which it learns what updates look like at each coordinate"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindCoordinates:
    r"""Place the important values of all users at their coordinates, without :math:`\pi^g`.

    1. The gradient at the logits is :math:`p - y` and sums to zero. The biases of the last layer
       are therefore columns that sum to zero exactly, for every user; they are found by that, and
       :math:`p - h` gives the label shares h up to the names of the classes.
    2. Users are simulated with auxiliary records. A linear model of their updates at the most
       important coordinates is fitted: class means, the main directions in which users of equal
       labels differ, and noise.
    3. The names of the classes are those under which the columns are likeliest.
    4. Columns are assigned to coordinates softly and users' factors estimated, in turn, at a
       falling temperature; a linear assignment ends it.

    Where no group sums to zero, as late in training, when the biases are no longer long, or, with
    ``generations``, where what it leads to is not believed, label shares come from moments of the
    values, block by block of the order of importance, and a population of them is searched
    (:func:`._blind_population.search`). With ``start="first-round"`` placing starts from the label
    shares that the attack on the first round found at the public initial parameters: users keep
    their records.

    Attributes
    ----------
    round : int or None
        The round to attack, at whose parameters updates were computed; None for the first.
    start : {"values", "first-round", "other-rounds"}
        "other-rounds" starts from the label shares of placements that :meth:`place` is given.
    simulated_users, directions, candidates
        See :func:`._blind_templates.learn_templates`.
    starts : int
        Random orders of the classes to descend from, at most.
    evaluations : int
        Orders of the classes whose cost is computed, at most.
    generations : int
        Of the population, at most: minutes each for networks of the paper's size, and what places
        values late in training. With 0 what a zero-sum group leads to is final, and where there is
        none, the first population is all.
    records : int, optional
        Records of each user, if declared; otherwise what users told the aggregation server.
    most_records : int
        Users with more are refused.
    """

    round: int | None = None
    start: Start = "values"
    simulated_users: int = 240
    directions: int = 30
    candidates: int = 4
    starts: int = 24
    evaluations: int = 8000
    generations: int = 0
    records: int | None = None
    most_records: int = 100_000

    name: ClassVar[str] = "inversion/blind-coordinates"
    version: ClassVar[str] = "2"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
            Capability.AUXILIARY_DATA,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (IMPORTANT_VALUES, DATASET_SIZE)

    def __post_init__(self) -> None:
        check_choice("start", self.start, get_args(Start))
        for name in ("simulated_users", "candidates", "starts", "evaluations"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("directions", "generations"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} must not be negative, got {getattr(self, name)}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Place the values of every user outside the coalition.

        Returns
        -------
        Guesses
            Targets ``"user-i/round-t"``; values of dtype ``PLACED``, shape (k,), in the order in
            which they were sent; scores are the mean confidence in the coordinates, the same for
            all users because the coordinates are.

        Raises
        ------
        UnmetRequirementsError
            If a capability, declared knowledge, the values or the sizes of users are missing; if
            there are fewer values than classes, or too many for the memory of a search.
        InvalidDataError
            If values are malformed.
        """
        placed = self.place(view, knowledge=knowledge, rng=rng)
        return self.guesses(placed)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Place values by their rank alone, at the coordinates that matter to simulated users."""
        classes = 1 if knowledge.model is None else knowledge.model.classes
        # Importance is learned before the model of updates, which takes no part in this.
        few = replace(self, simulated_users=min(self.simulated_users, 4 * classes))
        seen, chosen, templates = few._learned(view, knowledge, self.round, rng)
        k = seen.values.shape[1]
        return as_guesses(
            Placement(
                seen.users,
                chosen,
                seen.values,
                templates.coordinates[:k],
                np.zeros(k),
                np.tile(templates.mean[: templates.classes], (len(seen.users), 1)),
                {},
            )
        )

    def unmet(self, *, k: int, classes: int, dimension: int) -> str:
        """Return why the attack does not apply to k values of so many parameters, or nothing."""
        if k < classes:
            return (
                "starts from the biases of the last layer, one a class, and users send "
                f"{k} values for {classes} classes"
            )
        if k * min(self.candidates * k, dimension) > _MOST_PAIRS:
            return (
                f"compares each of the {k} values with {self.candidates} candidates for each, more "
                f"than {_MOST_PAIRS} pairs; lower 'candidates'"
            )
        return ""

    def guesses(self, placed: Placement) -> Guesses:
        """Return a placement as :meth:`run` does."""
        return as_guesses(placed)

    def place(
        self,
        view: View,
        *,
        knowledge: Knowledge,
        rng: np.random.Generator,
        others: Sequence[Placement] = (),
    ) -> Placement:
        """Return where the columns lie and what the users' labels are; errors as :meth:`run`.

        Parameters
        ----------
        view, knowledge, rng
            As of :meth:`run`.
        others : sequence of Placement
            Of other rounds, whose label shares, and the mean of these, are tried too: users keep
            their records. With ``start="values"`` the search follows unless one is believed.
        """
        if self.start == "first-round":
            others = (*others, self._first_round(view, knowledge, rng))
        if self.start == "other-rounds" and not others:
            raise UnmetRequirementsError(
                f"attack '{self.name}' with start 'other-rounds' needs placements of other rounds"
            )
        seen, chosen, templates = self._learned(view, knowledge, self.round, rng)
        diagnostics: dict[str, float] = {"candidates": float(len(templates.coordinates))}
        shares = [self._shares(other, seen.users) for other in others]
        if len(shares) > 1:
            shares.append(np.mean(shares, axis=0))
        placed = self._from_shares(seen, templates, shares, rng)
        if placed is None or (self.start == "values" and placed.confidence.mean() < _SURE):
            placed = self._from_values(seen, templates, shares, diagnostics, rng)
        return placement(seen, chosen, templates, placed, diagnostics)

    def _shares(self, other: Placement, users: Sequence[str]) -> npt.NDArray[np.float64]:
        known = dict(zip(other.users, other.histograms, strict=True))
        missing = [user for user in users if user not in known]
        if missing:
            raise UnmetRequirementsError(
                f"attack '{self.name}': '{missing[0]}' sent no values in round {other.round}"
            )
        return np.stack([known[user] for user in users])

    def _from_shares(
        self,
        seen: PartialUpdates,
        templates: Templates,
        shares: Sequence[npt.NDArray[np.float64]],
        rng: np.random.Generator,
    ) -> Placed | None:
        wide = replace(templates, noise=templates.noise * NOISE)
        values = seen.values.astype(np.float64)
        tried = [refine(values, wide, own, rng=rng) for own in shares]
        return min(tried, key=lambda one: one.cost, default=None)

    def _from_values(
        self,
        seen: PartialUpdates,
        templates: Templates,
        shares: Sequence[npt.NDArray[np.float64]],
        diagnostics: dict[str, float],
        rng: np.random.Generator,
    ) -> Placed:
        values = seen.values.astype(np.float64)
        group = zero_sum_group(values, templates.classes)
        diagnostics["zero-sum groups"] = float(group is not None)
        also = list(shares)
        if group is not None:
            placing = Placing(values, templates)
            named = placing.relabel(
                group.columns, starts=self.starts, evaluations=self.evaluations, rng=rng
            )
            diagnostics |= {
                "zero-sum residual": group.residual,
                "orders scored": float(named.evaluations),
                "starts": float(named.starts),
                "cost of the order": named.cost,
            }
            if np.isfinite(named.runner_up):
                diagnostics["cost of the next order"] = named.runner_up
            placed = placing.place(placing.of_group(group.columns, named.order))
            if placed.confidence.mean() >= _SURE or self.generations == 0:
                return placed
            also.append(shares_of(placed.factors, templates.classes))
        found = search(
            values, templates, generations=self.generations, rng=rng, also=also, starts=self.starts
        )
        diagnostics["starts annealed"] = float(found.annealed)
        return found.placed

    def _first_round(self, view: View, knowledge: Knowledge, rng: np.random.Generator) -> Placement:
        initial = view.public_arrays.get("initial-parameters")
        rounds = view.rounds(IMPORTANT_VALUES)
        if initial is None or not rounds:
            raise UnmetRequirementsError(
                f"attack '{self.name}' with start 'first-round' needs the public array "
                f"'initial-parameters' and '{IMPORTANT_VALUES}' of a first round"
            )
        first = replace(self, round=rounds[0], start="values")
        at_start = replace(knowledge, parameters=np.asarray(initial, np.float32))
        return first.place(view, knowledge=at_start, rng=rng)

    def _learned(
        self, view: View, knowledge: Knowledge, round: int | None, rng: np.random.Generator
    ) -> tuple[PartialUpdates, int | None, Templates]:
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        auxiliary_records(view, knowledge, attack=self.name, why=_WHY)
        rounds = view.rounds(IMPORTANT_VALUES)
        chosen = round if round is not None else next(iter(rounds), None)
        if round is not None:
            view = replace(
                view,
                messages=tuple(
                    m for m in view.messages if m.kind != IMPORTANT_VALUES or m.round == round
                ),
            )
        seen = important_values(view, dimension=len(parameters), attack=self.name, placed=False)
        k = seen.values.shape[1]
        reason = self.unmet(k=k, classes=spec.classes, dimension=len(parameters))
        if reason:
            raise UnmetRequirementsError(f"attack '{self.name}' {reason}")
        templates = learn_templates(
            knowledge,
            users=len(seen.users),
            k=k,
            records=record_counts(view, seen.users, options=self, attack=self.name),
            training=TrainingParameters.of(view),
            simulated_users=self.simulated_users,
            directions=self.directions,
            candidates=self.candidates,
            rng=rng,
        )
        return seen, chosen, templates


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindMatching(MatchingOptions):
    """Reconstruct records from the aggregation server's values, without pi^g.

    Places the values as :class:`BlindCoordinates` does, and matches those that are surely placed as
    :class:`privaudit.attacks.inversion.TopKMatching` does.

    Attributes
    ----------
    placing : BlindCoordinates
    confidence : float
        Values whose coordinate is less probable are left out; at least one in ten is kept.
    """

    name: ClassVar[str] = "inversion/blind-top-k"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = BlindCoordinates.requires | {
        Capability.SINGLE_LOCAL_STEP
    }
    reads: ClassVar[tuple[str, ...]] = BlindCoordinates.reads

    placing: BlindCoordinates = field(default_factory=BlindCoordinates)
    confidence: float = 0.9
    init: Initialisation = "auto"
    prior: PriorName = "auto"

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        if not 0 <= self.confidence <= 1:
            raise ConfigurationError(f"confidence must be in [0, 1], got {self.confidence}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records of every user; errors as :meth:`BlindCoordinates.run`."""
        view.require(self.requires, attack=self.name)
        placed = self.placing.place(view, knowledge=knowledge, rng=rng)
        from privaudit.attacks.inversion._partial import match

        order = np.argsort(-placed.confidence, kind="stable")
        sure = int((placed.confidence >= self.confidence).sum())
        kept = np.sort(order[: max(sure, len(order) // 10, 1)])
        seen = PartialUpdates(
            placed.users,
            placed.values[:, kept],
            np.tile(placed.coordinates[kept], (len(placed.users), 1)),
        )
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        guesses = match(self, knowledge, seen, counts, auxiliary, zero_fill=False, rng=rng)
        extra = {"values kept": float(len(kept)), **placed.diagnostics}
        return replace(guesses, diagnostics={**guesses.diagnostics, **extra})

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, IMPORTANT_VALUES, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
