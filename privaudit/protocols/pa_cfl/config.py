"""Parameters of PA-CFL, with the paper's values as defaults and each open point as an option."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from privaudit.errors import ConfigurationError
from privaudit.protocols.federation import TrainingConfig

__all__ = ["PACFLConfig"]


class PACFLConfig(TrainingConfig):
    """Parameters of a run; ``docs/protocols/pa-cfl.md`` gives the reason for each default.

    Those of :class:`privaudit.protocols.federation.TrainingConfig`, and:

    Attributes
    ----------
    top_k_fraction : float
        k as a fraction of the dimension d, rounded down (paper: 0.0025).
    top_k : int or None
        k itself; overrides the fraction.
    similarity : {"dtw", "fastdtw", "jaccard", "rbo", "cosine"}
        Distance between users for the pre-clustering. ``cosine`` compares full updates, which
        every user then sends to the MS in the clear: a reference, not a private variant.
    sequence_order : {"rank", "index"}
        Order in which DTW reads a sequence; ``index`` is a deviation from the paper.
    fastdtw_radius, rbo_persistence
        Parameters of those two similarities.
    edge_rule : {"skip", "stop"}
        Whether a rejected removal is skipped and the next edge tried, or ends the partition.
    epsilon0 : float
        Local budget of one coordinate.
    clipping : {"median", "fixed"}
        Threshold Phi: median of the users' norms in each round, or ``clip_norm``.
    protection, pre_clustering, fine_clustering : bool
        The ablation's PB, PC and FC. Without ``protection`` it is the paper's PA-CFL*.
    random_clusters : int
        Number of random pre-clusters when ``pre_clustering`` is off.
    centroid_weights : {"dataset-size", "equal"}
    fine_iterations : int
        Cap on the iterations of the fine clustering.
    global_period : int
        kappa; a global aggregate is sent every kappa rounds, never if 0.
    server_learning_rate : float
        Factor on every aggregate; other values than 1 are a deviation.
    aggregate_clip_norm : float or None
        If given, aggregates are clipped to this norm: a deviation.
    """

    top_k_fraction: float = Field(0.0025, gt=0, le=1)
    top_k: int | None = Field(None, ge=1)
    similarity: Literal["dtw", "fastdtw", "jaccard", "rbo", "cosine"] = "dtw"
    sequence_order: Literal["rank", "index"] = "rank"
    fastdtw_radius: int = Field(1, ge=0)
    rbo_persistence: float = Field(0.999, gt=0, lt=1)
    edge_rule: Literal["skip", "stop"] = "skip"
    epsilon0: float = Field(1.0, gt=0, allow_inf_nan=False)
    clipping: Literal["median", "fixed"] = "median"
    clip_norm: float | None = Field(None, gt=0, allow_inf_nan=False)
    protection: bool = True
    pre_clustering: bool = True
    fine_clustering: bool = True
    random_clusters: int = Field(3, ge=1)
    centroid_weights: Literal["dataset-size", "equal"] = "dataset-size"
    fine_iterations: int = Field(100, ge=1)
    global_period: int = Field(10, ge=0)
    server_learning_rate: float = Field(1.0, gt=0, allow_inf_nan=False)
    aggregate_clip_norm: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _consistent(self) -> PACFLConfig:
        if (self.clipping == "fixed") != (self.clip_norm is not None):
            raise ValueError("clip_norm goes with clipping = 'fixed', and only with it")
        if self.similarity == "rbo" and self.sequence_order == "index":
            raise ValueError("similarity 'rbo' compares ranks: sequence_order must be 'rank'")
        if self.similarity == "cosine" and self.sequence_order == "index":
            raise ValueError("similarity 'cosine' reads no sequence: sequence_order must be 'rank'")
        return self

    def k(self, dimension: int) -> int:
        """Return k for a model of ``dimension`` parameters.

        Raises
        ------
        ConfigurationError
            If k would be 0, or leave no less important coordinate.
        """
        k = self.top_k if self.top_k is not None else int(self.top_k_fraction * dimension)
        if not 1 <= k < dimension:
            asked = (
                f"top_k = {self.top_k}"
                if self.top_k is not None
                else f"top_k_fraction = {self.top_k_fraction}"
            )
            raise ConfigurationError(
                f"{asked} gives k = {k} of d = {dimension} coordinates; allowed are 1 to "
                f"{dimension - 1}: set top_k or top_k_fraction"
            )
        return k
