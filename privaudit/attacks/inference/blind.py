"""Labels from the aggregation server's values, whose coordinates it does not know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.pa_cfl.kinds import IMPORTANT_VALUES
from privaudit.transcript import Capability, View

if TYPE_CHECKING:
    from privaudit.attacks.inversion.blind import BlindCoordinates

__all__ = ["LabelsFromValues", "LabelsFromZeroSums"]


def _coordinates() -> BlindCoordinates:
    # The two families use each other's parts; imported late, neither waits for the other.
    from privaudit.attacks.inversion.blind import BlindCoordinates

    return BlindCoordinates()


@dataclass(frozen=True, slots=True)
class LabelsFromZeroSums:
    r"""Read label shares off the aggregation server's values, up to the names of the classes.

    Neither parameters nor auxiliary data are needed. The gradient of cross entropy at the logits
    is :math:`p - y`, whose entries sum to zero for every record; hence so do the biases of the
    last layer, for every user: they are the columns that sum to zero exactly. Column c is
    :math:`\bar p_c - h_c`, with h the user's label shares and :math:`\bar p` the mean predictions,
    which are nearly the same for all users of an untrained network. The largest entry of a column
    is :math:`\bar p_c` itself if some user lacks the class.

    Scored by :func:`privaudit.scoring.relabelled.relabelled_total_variation`: which column is
    which class stays open. Later in training the biases are no longer among the longest columns
    and are not found, or predictions differ among users; then shares are equal, and
    ``diagnostics["zero-sum groups"]`` is 0.
    """

    name: ClassVar[str] = "inference/zero-sum-labels"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.MODEL_ARCHITECTURE})
    reads: ClassVar[tuple[str, ...]] = (IMPORTANT_VALUES,)

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer shares of classes without names.

        Returns
        -------
        Guesses
            Targets are the users; values (classes,) float64, which sum to one.

        Raises
        ------
        UnmetRequirementsError
            If the architecture or the values are missing, or there are fewer values than classes.
        InvalidDataError
            If values are malformed.
        """
        from privaudit.attacks.inversion._blind_groups import zero_sum_group

        users, values, classes = self._seen(view, knowledge)
        group = zero_sum_group(values, classes)
        if group is None:
            return _equal(users, classes)
        own = values[:, group.columns]
        predicted = np.maximum(own.max(0), 1 / classes)
        shares = np.clip(predicted - own, 0, None)
        shares /= shares.sum(1, keepdims=True)
        return Guesses(
            users,
            tuple(shares),
            shares.max(1),
            {"zero-sum groups": 1.0, "zero-sum residual": group.residual},
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess equal shares: without names no class is likelier than another."""
        users, _, classes = self._seen(view, knowledge)
        return _equal(users, classes)

    def _seen(
        self, view: View, knowledge: Knowledge
    ) -> tuple[tuple[str, ...], npt.NDArray[np.float64], int]:
        from privaudit.attacks.inversion._observations import important_values
        from privaudit.models import parameter_count

        view.require(self.requires, attack=self.name)
        if knowledge.model is None:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs knowledge.model for the number of classes"
            )
        seen = important_values(
            view, dimension=parameter_count(knowledge.model), attack=self.name, placed=False
        )
        classes, k = knowledge.model.classes, seen.values.shape[1]
        if k < classes:
            raise UnmetRequirementsError(
                f"attack '{self.name}' finds the biases of the last layer, one a class, and users "
                f"send {k} values for {classes} classes"
            )
        return seen.users, seen.values.astype(np.float64), classes


@dataclass(frozen=True, slots=True)
class LabelsFromValues:
    """Infer label shares, with names, by placing the aggregation server's values.

    Attributes
    ----------
    placing : BlindCoordinates
        The search, which estimates the label shares of all users with their coordinates.
    """

    placing: Any = field(default_factory=_coordinates)

    name: ClassVar[str] = "inference/labels-from-values"
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
    reads: ClassVar[tuple[str, ...]] = (IMPORTANT_VALUES, "dataset-size")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer label shares; errors as :meth:`BlindCoordinates.run`.

        Returns
        -------
        Guesses
            Targets are the users; values (classes,) float64, which sum to one, or, with
            ``single-record-updates``, the likeliest class, () int64.
        """
        view.require(self.requires, attack=self.name)
        placed = self.placing.place(view, knowledge=knowledge, rng=rng)
        values = tuple(placed.histograms)
        if Capability.SINGLE_RECORD_UPDATES in view.capabilities:
            values = tuple(np.array(h.argmax(), np.int64) for h in values)
        return Guesses(placed.users, values, placed.histograms.max(1), placed.diagnostics)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the auxiliary records' label shares, or their most frequent class."""
        from privaudit.attacks.inference._histograms import known_labels, population
        from privaudit.attacks.inversion._observations import target_ids

        view.require(self.requires, attack=self.name)
        labels, classes = known_labels(knowledge, attack=self.name)
        users = target_ids(view, IMPORTANT_VALUES, attack=self.name)
        value: npt.NDArray[np.float64] | npt.NDArray[np.int64] = population(labels, classes)
        if Capability.SINGLE_RECORD_UPDATES in view.capabilities:
            value = np.array(value.argmax(), np.int64)
        return Guesses(users, tuple(value.copy() for _ in users), np.zeros(len(users)))


def _equal(users: tuple[str, ...], classes: int) -> Guesses:
    shares = tuple(np.full(classes, 1 / classes) for _ in users)
    return Guesses(users, shares, np.zeros(len(users)), {"zero-sum groups": 0.0})
