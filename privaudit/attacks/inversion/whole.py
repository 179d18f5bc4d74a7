"""Inversion of whole updates, as an undefended server sees them: DLG and cosine matching.

Both look for an image whose gradient at the public parameters is the received one:
``x* = argmin_x D(grad loss(theta, x, y), g) + R(x)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    declared_model,
    granted_auxiliary,
    target_ids,
    updates,
    usable_auxiliary,
)
from privaudit.attacks.inversion._options import (
    BatchNorm,
    LabelRule,
    MatchingOptions,
    check_choice,
    check_records,
)
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.transcript import Capability, View

__all__ = ["CosineInversion", "DeepLeakage"]

_REQUIRES = frozenset(
    {
        Capability.MODEL_ARCHITECTURE,
        Capability.MODEL_PARAMETERS,
        Capability.SINGLE_LOCAL_STEP,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepLeakage:
    """Deep Leakage from Gradients: least squares on the whole gradient with L-BFGS.

    ``x* = argmin ||grad loss(theta, x, y) - g||^2`` (Zhu, Liu, Han: Deep Leakage from Gradients,
    NeurIPS 2019), with safeguards against its known instability: the loss is divided by
    ``||g||^2``, steps satisfy the weak Wolfe conditions, a search
    that ends without a match is started anew, and the start kept is the one of lowest loss.
    Computation is in double precision.

    Attributes
    ----------
    iterations : int
        Steps of L-BFGS a start.
    restarts : int
        Further starts while the relative loss is above ``tolerance``.
    labels : {"restored", "idlg", "optimised"}
        ``"restored"`` takes the labels from the gradient of the last layer's bias: its one
        negative entry for one record, the multiset that fits best for more. ``"idlg"`` takes the
        rows of the last layer with the most negative sums (Zhao et al. 2020), exact for one
        record, right for more if their classes differ. ``"optimised"`` searches for the labels
        together with the images, as DLG did.
    tolerance : float
        Relative loss at which a target counts as matched.
    batch_norm, device, records, most_records, known_labels
        As for :class:`CosineInversion`.
    """

    name: ClassVar[str] = "inversion/dlg"
    version: ClassVar[str] = "2"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 300
    restarts: int = 1
    labels: LabelRule = "restored"
    tolerance: float = 1e-6
    batch_norm: BatchNorm = "train"
    device: str = "cpu"
    records: int | None = None
    most_records: int = 64
    known_labels: Mapping[str, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        check_records(self.records, self.most_records)
        if self.iterations < 1:
            raise ConfigurationError(f"iterations must be at least 1, got {self.iterations}")
        if self.restarts < 0:
            raise ConfigurationError(f"restarts must not be negative, got {self.restarts}")
        if not self.tolerance > 0:
            raise ConfigurationError(f"tolerance must be positive, got {self.tolerance}")
        check_choice("labels", self.labels, get_args(LabelRule))
        check_choice("batch_norm", self.batch_norm, get_args(BatchNorm))

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind every update that the view holds.

        Raises
        ------
        UnmetRequirementsError
            If a capability, the model, its parameters, the number of records, or every update is
            missing.
        InvalidDataError
            If an update is not finite or not as long as the model has parameters.
        """
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        from privaudit.attacks.inversion._deep_leakage import deep_leakage

        auxiliary = usable_auxiliary(view, knowledge)
        seen = updates(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        return deep_leakage(self, spec, parameters, seen, counts, auxiliary, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineInversion(MatchingOptions):
    """Cosine matching of the whole gradient with total variation, by Adam in the pixel box.

    ``x* = argmin 1 - cos(grad loss(theta, x, y), g) + w TV(x)`` (Geiping, Bauermeister, Droege,
    Moeller: Inverting Gradients, NeurIPS 2020). An update of B records is matched by B images at
    once; in which order they come is not determined.

    Attributes
    ----------
    signed : bool
        Step along the sign of the loss's gradient, as Geiping et al. do.
    labels : {"restored", "idlg", "optimised"}
        As for :class:`DeepLeakage`.
    """

    name: ClassVar[str] = "inversion/cosine"
    version: ClassVar[str] = "3"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 400
    learning_rate: float = 0.2
    total_variation: float = 1e-3
    restarts: int = 4
    signed: bool = False
    labels: LabelRule = "restored"

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        check_choice("labels", self.labels, get_args(LabelRule))

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind every update; errors as :meth:`DeepLeakage.run`."""
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        from privaudit.attacks.inversion._whole import match_whole

        seen = updates(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        return match_whole(self, spec, parameters, seen, counts, auxiliary, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
