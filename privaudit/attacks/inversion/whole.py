"""Inversion of whole updates, as an undefended server sees them: DLG and cosine matching.

Both look for an image whose gradient at the public parameters is the received one:
``x* = argmin_x D(grad loss(theta, x, y), g) + R(x)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    declared_model,
    granted_auxiliary,
    target_ids,
    updates,
)
from privaudit.attacks.inversion._options import BatchNorm, MatchingOptions, check_choice
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.transcript import Capability, View

__all__ = ["CosineInversion", "DeepLeakage"]

LabelRule = Literal["restored", "optimised"]

_REQUIRES = frozenset(
    {
        Capability.MODEL_ARCHITECTURE,
        Capability.MODEL_PARAMETERS,
        Capability.SINGLE_LOCAL_STEP,
        Capability.SINGLE_RECORD_UPDATES,
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
    labels : {"restored", "optimised"}
        ``"restored"`` takes the label from the sign of the bias gradient (Zhao et al. 2020, iDLG),
        exact for one record; ``"optimised"`` searches for it together with the image, as DLG did.
    tolerance : float
        Relative loss at which a target counts as matched.
    """

    name: ClassVar[str] = "inversion/dlg"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 300
    restarts: int = 1
    labels: LabelRule = "restored"
    tolerance: float = 1e-6
    batch_norm: BatchNorm = "train"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ConfigurationError(f"iterations must be at least 1, got {self.iterations}")
        if self.restarts < 0:
            raise ConfigurationError(f"restarts must not be negative, got {self.restarts}")
        if not self.tolerance > 0:
            raise ConfigurationError(f"tolerance must be positive, got {self.tolerance}")
        check_choice("labels", self.labels, get_args(LabelRule))
        check_choice("batch_norm", self.batch_norm, get_args(BatchNorm))

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the record behind every update that the view holds.

        Raises
        ------
        UnmetRequirementsError
            If a capability, the model, its parameters, or every update is missing.
        InvalidDataError
            If an update is not finite or not as long as the model has parameters.
        """
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        from privaudit.attacks.inversion._deep_leakage import deep_leakage

        seen = updates(view, dimension=len(parameters), attack=self.name)
        return deep_leakage(self, spec, parameters, seen, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineInversion(MatchingOptions):
    """Cosine matching of the whole gradient with total variation, by Adam in the pixel box.

    ``x* = argmin 1 - cos(grad loss(theta, x, y), g) + w TV(x)`` (Geiping, Bauermeister, Droege,
    Moeller: Inverting Gradients, NeurIPS 2020). The label comes from the sign of the bias
    gradient, exact for one record.

    Attributes
    ----------
    signed : bool
        Step along the sign of the loss's gradient, as Geiping et al. do.
    """

    name: ClassVar[str] = "inversion/cosine"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = _REQUIRES
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 200
    learning_rate: float = 0.3
    total_variation: float = 5e-4
    restarts: int = 4
    signed: bool = False

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the record behind every update; errors as :meth:`DeepLeakage.run`."""
        view.require(self.requires, attack=self.name)
        spec, parameters = declared_model(knowledge, attack=self.name)
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        from privaudit.attacks.inversion import _objectives as objectives
        from privaudit.attacks.inversion import _search
        from privaudit.attacks.inversion._labels import label_of_whole

        seen = updates(view, dimension=len(parameters), attack=self.name)
        with _search.single_thread():
            engine = _search.engine_for(
                spec, parameters, batch_norm=self.batch_norm, device=self.device
            )
            images, losses, evaluations = _search.search(
                engine,
                objectives.cosine(_search.tensor(seen.values, engine)),
                label_of_whole(seen.values, spec),
                options=self,
                auxiliary=auxiliary,
                rng=rng,
                signed=self.signed,
            )
            return _search.as_guesses(seen.users, images, losses, evaluations)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, attack=self.name)
