"""Exact inversion of fully connected layers: no search for what linear algebra gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._baseline import prior_guesses
from privaudit.attacks.inversion._observations import (
    declared_model,
    granted_auxiliary,
    target_ids,
    updates,
)
from privaudit.attacks.inversion._options import Initialisation, MatchingOptions
from privaudit.attacks.inversion._records import record_counts
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.transcript import Capability, View

__all__ = ["AnalyticInversion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticInversion(MatchingOptions):
    """Read the inputs of the first fully connected layer off its gradient, then the images.

    For one record ``a = dW_i / db_i`` for any row i of the layer (Phong, Aono, Hayashi, Wang,
    Moriai: IEEE TIFS 2018; all rows are used, weighted by ``db_i^2``). For several records of a
    layer followed by rectified units the rank-B gradient is separated by the units' zeros (SPEAR:
    Dimitrov, Baader, Mueller, Vechev, NeurIPS 2024); where the last layer follows these, its known
    weights say what the zeros are among, and 32 records and more are told apart in seconds. All are
    exact up to rounding.

    Where that layer is the network's first, as in an MLP, its input is the record. Behind
    convolutions with rectified units and maximum pooling it is the record's features, and the
    derivatives at them are known too. Given which position of each pooling window is the largest,
    features and the gradients of the convolutions are linear in the images, with far more equations
    than pixels: positions and images are found in turns, and the images are exact up to rounding.
    Where this does not apply or does not succeed, images with the features are searched for, record
    by record, and then all images of an update are refined together by cosine matching of the whole
    gradient, with the labels that the separation gives.

    Attributes
    ----------
    iterations : int
        Steps of the refinement; unused where the layer is the first.
    feature_iterations : int
        Steps of Adam to match the features.
    feature_learning_rate, feature_total_variation : float
        Of that search. Large steps pass the flat parts of features that an untrained network gives.
    tries : int
        Choices of rows that the separation tries, at most; about ``2 ** B`` are needed.
    starts : int
        Random masks that it begins from where the last layer comes next, at most; some tens a
        record are needed.
    layer_iterations : int
        Gauss-Newton steps over the layers at each of five softenings, at most.
    layer_starts : int
        Starts of that search for each update, at most: the prior, images with the features, noise.
    layer_records : int
        Records of an update at most for which the layers are solved; the time it takes grows with
        their square.
    """

    name: ClassVar[str] = "inversion/analytic"
    version: ClassVar[str] = "3"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.SINGLE_LOCAL_STEP,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (UPDATE,)

    iterations: int = 300
    learning_rate: float = 0.1
    total_variation: float = 3e-3
    init: Initialisation = "auto"
    feature_iterations: int = 500
    feature_learning_rate: float = 1.0
    feature_total_variation: float = 1e-4
    tries: int = 200_000
    starts: int = 20_000
    layer_iterations: int = 25
    layer_starts: int = 3
    layer_records: int = 8

    def __post_init__(self) -> None:
        MatchingOptions.__post_init__(self)
        counts = ("feature_iterations", "tries", "starts", "layer_iterations", "layer_starts")
        for name in (*counts, "layer_records"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.feature_learning_rate > 0:
            raise ConfigurationError(
                f"feature_learning_rate must be positive, got {self.feature_learning_rate}"
            )
        if not self.feature_total_variation >= 0:
            raise ConfigurationError(
                f"feature_total_variation must not be negative, got {self.feature_total_variation}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the records behind every update that the view holds.

        A record that the separation does not find is left to the refinement, from a start at the
        prior; the diagnostics say what share was found.

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
        auxiliary = granted_auxiliary(view, knowledge, options=self, attack=self.name)
        seen = updates(view, dimension=len(parameters), attack=self.name)
        counts = record_counts(view, seen.users, options=self, attack=self.name)
        from privaudit.attacks.inversion._analytic import invert

        return invert(self, spec, parameters, seen, counts, auxiliary, rng=rng)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        users = target_ids(view, UPDATE, attack=self.name)
        return prior_guesses(view, users, knowledge=knowledge, options=self, attack=self.name)
