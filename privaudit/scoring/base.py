"""What every scorer is: the metrics that fit some attacks, each from guesses and truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

from privaudit.attacks.base import Attack, Guesses
from privaudit.datasets.base import LabelledImages
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Transcript, Truth

__all__ = ["Metric", "MetricFunction", "ScoredRun", "Scorer"]

#: Joins guesses to the truth by target id and gives one number a target.
MetricFunction: TypeAlias = Callable[[Guesses, Truth], Scores]
#: Name, function and unit: ``"proportion"``, ``"dB"``, or empty.
Metric: TypeAlias = tuple[str, MetricFunction, str]


class ScoredRun(Protocol):
    """What a scorer may know of the run that was attacked, besides guesses and truth."""

    @property
    def transcript(self) -> Transcript:
        """The whole run."""
        ...

    @property
    def truth(self) -> Truth | None:
        """What really was; None if it was not handed over."""
        ...

    @property
    def auxiliary(self) -> LabelledImages | None:
        """Records that no user holds."""
        ...


class Scorer(Protocol):
    """The metrics of some attacks, made without arguments and registered in ``privaudit.scorers``.

    Of all registered scorers those apply to an attack whose ``attacks`` name it most closely: by
    its whole name, or else by its family. If several do, all their metrics are taken, those of
    this package first. The first metric gives the headline figure.

    Attributes
    ----------
    name : str
        Registered name.
    attacks : tuple of str
        Names of attacks (``"inversion/dlg"``) or of families (``"inversion/*"``).
    """

    name: ClassVar[str]
    attacks: ClassVar[tuple[str, ...]]

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics that can be computed of this run, perhaps none."""
        ...
