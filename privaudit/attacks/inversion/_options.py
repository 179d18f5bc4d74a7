"""Hyper-parameters that the gradient-matching attacks share; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from privaudit.errors import ConfigurationError, did_you_mean

__all__ = [
    "BatchNorm",
    "Initialisation",
    "LabelRule",
    "MatchingOptions",
    "PriorName",
    "Refinement",
    "check_choice",
    "check_records",
    "needs_auxiliary",
]

Initialisation: TypeAlias = Literal["auto", "uniform", "class-mean"]
LabelRule: TypeAlias = Literal["restored", "idlg", "optimised"]
PriorName: TypeAlias = Literal["auto", "none", "gaussian", "pca", "decoder"]
BatchNorm: TypeAlias = Literal["train", "eval"]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ConfigurationError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(choices)}, got '{value}'."
            f"{did_you_mean(value, choices)}"
        )


def needs_auxiliary(options: MatchingOptions) -> str | None:
    """Return what needs auxiliary data, or None if they are optional."""
    if options.init == "class-mean":
        return "init 'class-mean'"
    if options.prior in ("gaussian", "pca", "decoder"):
        return f"prior '{options.prior}'"
    return None


def check_records(records: int | None, most_records: int) -> None:
    """Raise ConfigurationError unless both are positive."""
    if records is not None and records < 1:
        raise ConfigurationError(f"records must be at least 1 or absent, got {records}")
    if most_records < 1:
        raise ConfigurationError(f"most_records must be at least 1, got {most_records}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingOptions:
    """How dummy images are searched for.

    Attributes
    ----------
    iterations : int
        Steps of Adam a restart.
    learning_rate : float
        First learning rate; it decays to zero as a half cosine.
    total_variation : float
        Weight of the mean total variation in the loss.
    restarts : int
        Starts a target at most; the one of lowest loss is kept, never the one nearest to the truth.
    tolerance : float
        A target whose loss is not above this is not started anew.
    init : {"auto", "uniform", "class-mean"}
        Where the first restart begins; the others are uniform noise. ``"class-mean"`` is the mean
        auxiliary image of the guessed label and needs auxiliary data; ``"auto"`` is that when
        auxiliary data are granted and declared, and uniform otherwise.
    prior : {"auto", "none", "gaussian", "pca", "decoder"}
        What keeps images plausible where the observations do not determine them. ``"none"``: the
        pixel box and total variation. ``"gaussian"``: a full-rank Gaussian around the mean
        auxiliary image of the guessed label. ``"pca"``: the span of the leading principal
        components of the auxiliary data. ``"decoder"``: the range of a small autoencoder trained
        on the auxiliary data. The last three need auxiliary data and take the place of total
        variation. ``"auto"`` is chosen by ``calibration``; where that is not possible, it is
        ``"gaussian"`` when auxiliary data are granted and declared and span at least half of the
        dimensions that they could, and ``"none"`` otherwise.
    prior_weight : float
        Weight of the mean squared latent variable of the prior.
    prior_variation : float
        Weight of the mean total variation beside a fitted prior.
    calibration : int
        With ``prior="auto"``, parts of single records' gradients and enough auxiliary data, so
        many auxiliary records are attacked first: with the Gaussian (where it is allowed) and
        without, each with ``total_variation`` and three times that, the Gaussian also alone. What
        comes nearest to them is used (:mod:`._calibration`) and told in the diagnostics. 8 take
        about three times as long as 0, which does not calibrate.
    components : int
        Principal components of the ``"pca"`` prior, or latent variables of the ``"decoder"``.
    batch_statistics : float
        Weight of a prior on what batch normalisation sees of the dummy records: its statistics
        are pulled to those that users told with their updates, or else to those of auxiliary
        records (Yin et al. 2021). Adds to any ``prior``. 0 is none; a network without such layers
        makes the attack inapplicable.
    group_consistency : float
        Weight of a prior that pulls the restarts of a target to their mean image (Yin et al.
        2021). Adds to any ``prior``. Restarts then run side by side; at least 2 are needed. 0 is
        none.
    batch_norm : {"train", "eval"}
        Statistics that the users' batch normalisation used: of their own records, as local
        training does, or running ones.
    device : str
        Device of torch, ``"cpu"`` or ``"cuda"``.
    records : int, optional
        Records of which each update is the gradient, if the adversary is declared to know it;
        otherwise what users told of it, see :func:`._records.record_counts`.
    most_records : int
        Updates of more records are refused.
    known_labels : mapping of str to sequence of int, optional
        The labels of each user's records, if the adversary is declared to know them; their order
        does not matter.
    """

    name: ClassVar[str] = "inversion"

    iterations: int = 150
    learning_rate: float = 0.2
    total_variation: float = 0.01
    restarts: int = 1
    tolerance: float = 5e-4
    init: Initialisation = "uniform"
    prior: PriorName = "none"
    prior_weight: float = 1e-3
    prior_variation: float = 0.0
    calibration: int = 0
    components: int = 80
    batch_statistics: float = 0.0
    group_consistency: float = 0.0
    batch_norm: BatchNorm = "train"
    device: str = "cpu"
    records: int | None = None
    most_records: int = 64
    known_labels: Mapping[str, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        for name in ("iterations", "restarts", "components"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ConfigurationError(f"learning_rate must be positive, got {self.learning_rate}")
        if not self.total_variation >= 0:
            raise ConfigurationError(
                f"total_variation must not be negative, got {self.total_variation}"
            )
        if not self.tolerance >= 0:
            raise ConfigurationError(f"tolerance must not be negative, got {self.tolerance}")
        for name in (
            "prior_weight",
            "prior_variation",
            "calibration",
            "batch_statistics",
            "group_consistency",
        ):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.group_consistency and self.restarts < 2:
            raise ConfigurationError(
                f"group_consistency pulls restarts together and needs at least 2, got restarts="
                f"{self.restarts}"
            )
        check_choice("init", self.init, get_args(Initialisation))
        check_choice("prior", self.prior, get_args(PriorName))
        check_choice("batch_norm", self.batch_norm, get_args(BatchNorm))
        check_records(self.records, self.most_records)


@dataclass(frozen=True, slots=True)
class Refinement:
    """How often images of single records are refined.

    Attributes
    ----------
    turns : int
        0 is none.
    steps : int
        Gauss-Newton steps of a turn, at most.

    Raises
    ------
    ConfigurationError
        If there are less than 0 turns or less than 1 step.
    """

    turns: int
    steps: int

    def __post_init__(self) -> None:
        if self.turns < 0:
            raise ConfigurationError(
                f"refinements must not be negative, got {self.turns}; 0 is none"
            )
        if self.steps < 1:
            raise ConfigurationError(
                f"refinement_steps must be at least 1, got {self.steps}; for no refinement set "
                "refinements to 0"
            )
