"""The scorers that come with the package: which metrics fit which attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privaudit.attacks.base import Attack
from privaudit.attacks.inference import PropertyInference
from privaudit.campaigns import scorers
from privaudit.campaigns.records import record_scorers
from privaudit.scoring.base import Metric, ScoredRun
from privaudit.scoring.exposure import energy_known
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.relabelled import relabelled_total_variation

__all__ = [
    "Coordinates",
    "Energy",
    "Images",
    "Labels",
    "Links",
    "NoMembers",
    "Properties",
    "QuantisedModels",
    "Records",
    "RelabelledCounts",
    "SentModels",
    "Vectors",
]


@dataclass(frozen=True, slots=True)
class Images:
    """Reconstructed images: told from hundreds of others, PSNR and SSIM."""

    name: ClassVar[str] = "images"
    attacks: ClassVar[tuple[str, ...]] = ("inversion/*", "cryptanalysis/pcsc-inversion")

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.image_scorers(run)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Values placed at coordinates: how many rightly, and how much of the energy."""

    name: ClassVar[str] = "coordinates"
    attacks: ClassVar[tuple[str, ...]] = ("inversion/blind-coordinates",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.coordinate_scorers()


@dataclass(frozen=True, slots=True)
class Labels:
    """Inferred labels: the label of a user's only record, or the most frequent of many."""

    name: ClassVar[str] = "labels"
    attacks: ClassVar[tuple[str, ...]] = ("inference/*",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.label_scorers(run)


@dataclass(frozen=True, slots=True)
class RelabelledCounts:
    """Histograms of labels up to the names of the classes, by total variation."""

    name: ClassVar[str] = "relabelled-counts"
    attacks: ClassVar[tuple[str, ...]] = ("inference/zero-sum-labels",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return (("total variation, best naming", relabelled_total_variation, ""),)


@dataclass(frozen=True, slots=True)
class Properties:
    """Inferred properties of a user's data: the majority, and the error of the share."""

    name: ClassVar[str] = "properties"
    attacks: ClassVar[tuple[str, ...]] = ("inference/property",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; none without auxiliary records to say of what."""
        assert isinstance(attack, PropertyInference)
        return scorers.property_scorers(attack, run)


@dataclass(frozen=True, slots=True)
class NoMembers:
    """Membership, whose truth is made with its candidates in an experiment of its own."""

    name: ClassVar[str] = "membership"
    attacks: ClassVar[tuple[str, ...]] = ("inference/membership",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return none: :mod:`privaudit.campaigns.membership` scores the experiment."""
        return ()


@dataclass(frozen=True, slots=True)
class Links:
    """Contributions recognised as the same user's: the share that is linked rightly."""

    name: ClassVar[str] = "links"
    attacks: ClassVar[tuple[str, ...]] = ("reidentification/*",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return (("link accuracy", link_accuracy, "proportion"),)


@dataclass(frozen=True, slots=True)
class Energy:
    """Recovered updates: how much of their energy is known without noise."""

    name: ClassVar[str] = "energy"
    attacks: ClassVar[tuple[str, ...]] = ("collusion/update-recovery",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return (("energy known without noise", energy_known, ""),)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Rebuilt directions: cosines, beyond what all clients have in common."""

    name: ClassVar[str] = "vectors"
    attacks: ClassVar[tuple[str, ...]] = ("reconstruction/similarity-gram",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.vector_scorers(run)


@dataclass(frozen=True, slots=True)
class SentModels:
    """Models read as they were sent: the share that is exact, value by value, and the error."""

    name: ClassVar[str] = "sent-models"
    attacks: ClassVar[tuple[str, ...]] = ("reconstruction/sent-models",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.model_scorers(name="parameters", reference="parameters")


@dataclass(frozen=True, slots=True)
class QuantisedModels:
    """Models out of ciphertexts: exact quantised values, and the error against the model."""

    name: ClassVar[str] = "quantised-models"
    attacks: ClassVar[tuple[str, ...]] = ("cryptanalysis/*",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return scorers.model_scorers(name="quantised", reference="vector")


@dataclass(frozen=True, slots=True)
class Records:
    """What attacks on indices claim: records, codes, persons, attributes."""

    name: ClassVar[str] = "records"
    attacks: ClassVar[tuple[str, ...]] = ("indices/*",)

    def metrics(self, attack: Attack, run: ScoredRun) -> tuple[Metric, ...]:
        """Return the metrics; see :class:`privaudit.scoring.base.Scorer`."""
        return record_scorers(attack)
