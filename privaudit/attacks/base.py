"""What every attack is: a function of a view and of declared knowledge, never of the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from privaudit.attacks.candidates import Candidates
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.models.spec import ModelSpec
from privaudit.transcript import Array, Capability, View

__all__ = ["Attack", "Guesses", "Knowledge"]


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What the adversary is declared to know besides its view; every report lists it.

    Attributes
    ----------
    model : ModelSpec or None
        The architecture that the users train.
    parameters : ndarray of float32, shape (dimension,), or None
        The parameters at which the attacked updates were computed, flattened in the order of
        ``torch.nn.Module.parameters``.
    auxiliary : LabelledImages or None
        Labelled records of the same source, disjoint from every user's.
    vertical : VerticalKnowledge or None
        What is known of tables whose columns are spread over parties.
    candidates : Candidates or None
        Records of which some are in users' data; capability ``candidate-list``.
    """

    model: ModelSpec | None = None
    parameters: npt.NDArray[np.float32] | None = None
    auxiliary: LabelledImages | None = None
    vertical: VerticalKnowledge | None = None
    candidates: Candidates | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """What an attack claims, one value a target.

    Attributes
    ----------
    target_ids : tuple of str
        Distinct ids, as the truth names its targets (for example ``"user-3"``).
    values : tuple of ndarray
        The guess for each target; what it is depends on the attack's risk.
    scores : ndarray of float64, shape (targets,)
        The attack's own confidence, larger is surer; never computed from the truth.
    diagnostics : mapping of str to float
        Numbers that help a researcher judge the run of the attack.
    """

    target_ids: tuple[str, ...]
    values: tuple[Array, ...]
    scores: npt.NDArray[np.float64]
    diagnostics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if len(set(self.target_ids)) != len(self.target_ids):
            raise ConfigurationError(f"targets are guessed once each, got {self.target_ids}")
        if not len(self.target_ids) == len(self.values) == len(self.scores):
            raise ConfigurationError(
                f"{len(self.target_ids)} targets, {len(self.values)} values and "
                f"{len(self.scores)} scores: the numbers must agree"
            )


class Attack(Protocol):
    """An attack, configured by its constructor.

    Attributes
    ----------
    name, version : str
        Registered name (``family/name``) and a version that changes with the results.
    risk : str
        ``"reconstruction"``, ``"inference"``, ``"linkability"`` or ``"singling-out"``.
    requires : frozenset of Capability
        What the coalition must have; checked before the attack runs.
    reads : tuple of str
        Kinds of messages that the attack reads from the view. The control experiment deranges
        the payloads of these kinds among their senders.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    risk: ClassVar[str]
    requires: ClassVar[frozenset[Capability]]
    reads: ClassVar[tuple[str, ...]]

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Attack every target that the view holds."""
        ...

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess from the prior alone, for the same targets."""
        ...
