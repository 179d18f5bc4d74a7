"""Inversion of updates that are several local steps: federated averaging simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    declared_model,
    granted_auxiliary,
    local_training,
    target_ids,
    updates,
)
from privaudit.attacks.inversion._options import MatchingOptions, check_choice
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.transcript import Capability, View

__all__ = ["REQUIRES", "LocalStepsInversion", "Order", "check_local_steps"]

Order = Literal["invariant", "sampled"]

#: What simulating a user's training takes.
REQUIRES = frozenset(
    {
        Capability.MODEL_ARCHITECTURE,
        Capability.MODEL_PARAMETERS,
        Capability.TRAINING_PARAMETERS,
    }
)


def check_local_steps(order: str, most_steps: int) -> None:
    """Check the options that every attack on several local steps has.

    Raises
    ------
    ConfigurationError
        If the order is unknown or there would be no step.
    """
    check_choice("order", order, get_args(Order))
    if most_steps < 1:
        raise ConfigurationError(f"most_steps must be at least 1, got {most_steps}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStepsInversion(MatchingOptions):
    """Cosine matching of an accumulated update with one of simulated local training.

    The dummy records are trained on as the user trained: SGD from the known parameters, with the
    public learning rate, batch size and epochs, unrolled so that the update
    ``(theta_0 - theta_T) / learning_rate`` can be differentiated with respect to the images
    (Geiping et al. 2020, section 6). ``x* = argmin 1 - cos(update(x), u) + w TV(x)``.

    The labels are inferred: the update of the last layer's bias over the number of steps is a mean
    gradient, at probabilities between those of the initial and of the trained parameters, both of
    which the update tells.

    Where a batch holds all of a user's records, their order does not matter. Where it does not,
    the order of the batches is unknown.

    Attributes
    ----------
    order : {"invariant", "sampled"}
        ``"invariant"`` lets every step use all dummy records: to first order an epoch is the same
        whatever its order. ``"sampled"`` draws an order for each epoch once, and holds it.
    most_steps : int
        Updates of more local steps are refused; time and memory grow with their number.
    """

    name: ClassVar[str] = "inversion/local-steps"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = REQUIRES
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 200
    learning_rate: float = 0.1
    total_variation: float = 2e-3
    restarts: int = 1
    order: Order = "invariant"
    most_records: int = 16
    most_steps: int = 16

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        check_local_steps(self.order, self.most_steps)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind every accumulated update that the view holds.

        Raises
        ------
        UnmetRequirementsError
            If a capability, the model, its parameters, the number of records, the training
            parameters, or every update is missing; if there are too many records or steps.
        InvalidDataError
            If an update is not finite or not as long as the model has parameters, or the published
            configuration is not usable.
        """
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        training = local_training(view, attack=self.name)
        seen = updates(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        from privaudit.attacks.inversion._unrolled import invert

        return invert(self, spec, parameters, seen, counts, training, auxiliary, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
