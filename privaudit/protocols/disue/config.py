"""Parameters of DisUE, with the paper's values as defaults and each open point as an option."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privaudit.models.generators import ImageRange
from privaudit.protocols.federation import TrainingConfig

__all__ = [
    "ClusteringConfig",
    "ClusteringName",
    "DisUEConfig",
    "DistillationConfig",
    "SimilarityConfig",
    "SimilarityName",
]

#: Longest number of PCSC in bits, twice the longest that was found in use: an initiator draws a
#: prime of k1 bits a challenge, which takes minutes for tens of thousands of bits.
LARGEST_LENGTH = 4_096

SimilarityName: TypeAlias = Literal["plain", "pairwise", "relay", "shared_key", "secret_shares"]
ClusteringName: TypeAlias = Literal["affinity-propagation", "ifca", "cfl", "cfl-gp", "pacfl"]


class SimilarityConfig(BaseModel):
    """How the similarity matrix comes about, and who can read what on the way.

    Attributes
    ----------
    similarity : str
        ``plain`` (the server compares the models that it receives), PCSC as ``pairwise`` (clients
        talk to each other), ``relay`` (the server carries the messages) or ``shared_key`` (the
        server multiplies, a key helper decodes); or, as a comparator, ``secret_shares`` (two
        servers and a dealer, none of which colludes with another).
    similarity_on : {"params", "delta"}
        The vector that is compared: the trained model (eq. 3) or its difference from the model
        that training started from ("gradient updates" in the text of section 4.1).
    fresh_per_pair : bool
        Whether an initiator encrypts anew for each responder, or once a round.
    quantisation_bits : int
        Bits of a quantised coordinate, sign included.
    k1, k2, k3, k4 : int
        Bits of modulus p, scale alpha, pads c and blinding r of PCSC, at most 4,096 each.
    verify_modulus : bool
        Hardening: responders check length and primality of p and refuse the challenge otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    similarity: SimilarityName = "relay"
    similarity_on: Literal["params", "delta"] = "params"
    fresh_per_pair: bool = False
    quantisation_bits: Literal[8, 16, 24] = 16
    k1: int = Field(512, ge=3, le=LARGEST_LENGTH)
    k2: int = Field(200, ge=3, le=LARGEST_LENGTH)
    k3: int = Field(128, ge=3, le=LARGEST_LENGTH)
    k4: int = Field(128, ge=3, le=LARGEST_LENGTH)
    verify_modulus: bool = False


class ClusteringConfig(BaseModel):
    """How the server groups the clients of a round.

    Attributes
    ----------
    clustering : str
        ``affinity-propagation`` on the similarity matrix (DisUE), or the clustering of IFCA, CFL,
        CFL-GP or PACFL with the messages that it needs.
    start : {"global", "cluster"}
        Where a client starts training: the global model (Algorithm 1), or the last model of its
        own cluster where it has one (text of section 3). IFCA always offers its cluster models.
    clusters : int
        Number of clusters of ``ifca`` and ``cfl-gp``.
    cfl_mean_norm, cfl_max_norm : float
        ``cfl`` splits a cluster whose mean update is shorter than the first while one of its
        updates is longer than the second (eps_1 and eps_2 of Sattler et al.).
    gp_coordinates : float
        Share of the coordinates of a gradient that ``cfl-gp`` sends.
    pacfl_vectors : int
        Singular vectors a class that ``pacfl`` sends.
    pacfl_threshold : float
        Largest principal angle in degrees at which ``pacfl`` joins clusters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clustering: ClusteringName = "affinity-propagation"
    start: Literal["global", "cluster"] = "global"
    clusters: int = Field(3, ge=1)
    cfl_mean_norm: float = Field(0.4, gt=0, allow_inf_nan=False)
    cfl_max_norm: float = Field(1.6, gt=0, allow_inf_nan=False)
    gp_coordinates: float = Field(0.01, gt=0, le=1)
    pacfl_vectors: int = Field(3, ge=1)
    pacfl_threshold: float = Field(30.0, gt=0, le=90)


class DistillationConfig(BaseModel):
    """Inter-group aggregation: the losses and the loop.

    Attributes
    ----------
    distillation : {"paper", "fedftg_code", "none"}
        Equations 8 to 13 as written, what FedFTG's code computes instead, or none: the average of
        the cluster models is the global model (the ablation without IGA).
    kl : {"student_teacher", "teacher_student"}
        Direction of the divergence in eq. 9; only ``paper`` has one.
    distillation_iterations, generator_steps, student_steps : int
        Steps of the loop in a round.
    distillation_batch_size : int
        Q, generated images a step.
    generator_learning_rate, student_learning_rate, student_weight_decay : float
        Adam for the generator, SGD for the global model.
    beta_fidelity, beta_diversity : float
        Weights of L_cf and L_div in eq. 13.
    noise_dimension, generator_width : int
        Length of z, planes of the generator.
    generated_images : {"standardised", "unit"}
        Range of generated images, see :func:`privaudit.models.generators.build_generator`.
    label_sampler : {"records", "uniform"}
        GLS (eq. 5), or uniform over the classes that occur (the ablation without GLS).
    teacher_weighting : {"records", "equal"}
        GWF (eq. 6), or equal weights (the ablation without GWF).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    distillation: Literal["paper", "fedftg_code", "none"] = "paper"
    kl: Literal["student_teacher", "teacher_student"] = "student_teacher"
    distillation_iterations: int = Field(10, ge=1)
    generator_steps: int = Field(1, ge=0)
    student_steps: int = Field(5, ge=0)
    distillation_batch_size: int = Field(50, ge=2)
    generator_learning_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    student_learning_rate: float = Field(0.1, gt=0, allow_inf_nan=False)
    student_weight_decay: float = Field(1e-3, ge=0, allow_inf_nan=False)
    beta_fidelity: float = Field(1.0, ge=0, allow_inf_nan=False)
    beta_diversity: float = Field(1.0, ge=0, allow_inf_nan=False)
    noise_dimension: int = Field(100, ge=1)
    generator_width: int = Field(64, ge=1)
    generated_images: ImageRange = "standardised"
    label_sampler: Literal["records", "uniform"] = "records"
    teacher_weighting: Literal["records", "equal"] = "records"


class DisUEConfig(TrainingConfig, SimilarityConfig, ClusteringConfig, DistillationConfig):
    """Parameters of a run; ``docs/protocols/disue.md`` gives the reason for each default.

    Those of :class:`privaudit.protocols.federation.TrainingConfig`, of the three
    classes above, and:

    Attributes
    ----------
    participation : float
        Share of the clients that take part in a round, at least one (paper: 0.15 of 100).
    aggregation : {"plain", "secagg"}
        Whether the server receives each trained model, or under pairwise masks only their sum in
        each cluster of two and more.
    group_weights : {"records", "equal"}
        Weights of the cluster models in the global average.
    weight_decay : float
        Of local training.
    clip_norm : float or None
        Largest norm of a mini-batch's gradient in local training.
    learning_rate_decay : float
        Factor on all learning rates from one round to the next.
    """

    local_epochs: int = Field(5, ge=1)
    learning_rate: float = Field(0.1, gt=0, allow_inf_nan=False)
    batch_size: int = Field(50, ge=1)
    participation: float = Field(0.5, gt=0, le=1)
    aggregation: Literal["plain", "secagg"] = "plain"
    group_weights: Literal["records", "equal"] = "records"
    weight_decay: float = Field(1e-3, ge=0, allow_inf_nan=False)
    clip_norm: float | None = Field(10.0, gt=0, allow_inf_nan=False)
    learning_rate_decay: float = Field(0.998, gt=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> DisUEConfig:
        if self.clustering != "affinity-propagation" and self.similarity != "plain":
            raise ValueError(
                f"clustering '{self.clustering}' brings its own messages and encrypts no "
                "similarity: set similarity = 'plain'"
            )
        if self.clustering in ("affinity-propagation", "cfl") and (
            self.similarity == "plain" and self.aggregation == "secagg"
        ):
            raise ValueError(
                f"clustering '{self.clustering}' with similarity 'plain' compares the models at "
                "the server, which aggregation 'secagg' hides from it: set aggregation = 'plain', "
                "or another similarity"
            )
        if self.clustering == "ifca" and self.start == "cluster":
            raise ValueError("clustering 'ifca' offers all its models: start must be 'global'")
        return self

    def participants(self, clients: int) -> int:
        """Return how many of so many clients take part in a round."""
        return max(1, round(self.participation * clients))

    def rate_factor(self, round: int) -> float:
        """Return the factor on all learning rates in a round, counted from 1."""
        return float(self.learning_rate_decay ** (round - 1))
