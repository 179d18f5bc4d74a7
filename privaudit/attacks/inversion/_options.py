"""Hyper-parameters that the gradient-matching attacks share; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["BatchNorm", "Initialisation", "MatchingOptions", "PriorName", "check_choice"]

Initialisation: TypeAlias = Literal["auto", "uniform", "class-mean"]
PriorName: TypeAlias = Literal["none", "pca"]
BatchNorm: TypeAlias = Literal["train", "eval"]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ConfigurationError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(choices)}, got '{value}'."
            f"{did_you_mean(value, choices)}"
        )


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
        Starts a target; the one of lowest loss is kept, never the one nearest to the truth.
    init : {"auto", "uniform", "class-mean"}
        Where the first restart begins; the others are uniform noise. ``"class-mean"`` is the mean
        auxiliary image of the guessed label and needs auxiliary data; ``"auto"`` is that when
        auxiliary data are granted and declared, and uniform otherwise.
    prior : {"none", "pca"}
        ``"pca"`` keeps images near the principal components of the auxiliary data. It must not be
        used as evidence on data of few dimensions, such as 8x8 digits: it spans nearly all images
        of the source by itself.
    components : int
        Principal components of the prior.
    batch_norm : {"eval", "train"}
        Statistics that the users' batch normalisation used: running, or of their own records.
    device : str
        Device of torch, ``"cpu"`` or ``"cuda"``.
    """

    iterations: int = 250
    learning_rate: float = 0.1
    total_variation: float = 0.003
    restarts: int = 1
    init: Initialisation = "uniform"
    prior: PriorName = "none"
    components: int = 80
    batch_norm: BatchNorm = "eval"
    device: str = "cpu"

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
        check_choice("init", self.init, get_args(Initialisation))
        check_choice("prior", self.prior, get_args(PriorName))
        check_choice("batch_norm", self.batch_norm, get_args(BatchNorm))
