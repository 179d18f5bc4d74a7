"""What a protocol released to whom, as data that accountants interpret.

A protocol derives these events from its transcript (who really took part, which clusters were
really formed, how many rounds really ran), never from its configuration alone. The descriptions
are frozen; :mod:`privaudit.accounting` turns them into bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from privaudit.errors import ConfigurationError
from privaudit.transcript import PartyId

__all__ = [
    "MECHANISMS",
    "ApproximateRelease",
    "CoveredRelease",
    "GaussianMechanism",
    "LaplaceVector",
    "Mechanism",
    "PrivacyEvent",
    "PureRelease",
    "RandomizedResponse",
    "SubsampledGaussian",
    "UnprotectedRelease",
    "event_from_json",
    "event_to_json",
]


_WORDS = {
    "clipping": ("joint-l2", "per-coordinate"),
    "clip_source": ("fixed", "median-of-users"),
    "shuffle": ("none", "per-coordinate", "whole-report"),
}


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ConfigurationError(f"{name} must be finite and > 0, got {value}")


def _counted(name: str, value: int, *, least: int = 1) -> None:
    if isinstance(value, bool) or value != int(value) or value < least:
        raise ConfigurationError(f"{name} must be an integer >= {least}, got {value}")


@dataclass(frozen=True, slots=True)
class LaplaceVector:
    """One report: a vector, clipped, with Laplace noise on each coordinate.

    The noise scale is ``2 * clip_norm / epsilon0`` on every coordinate, so that each coordinate by
    itself is ``epsilon0``-DP under replacement (PA-CFL, section 5.5).

    Attributes
    ----------
    epsilon0 : float
        Local privacy budget of one coordinate.
    dimension : int
        Number of coordinates.
    clip_norm : float
        Clipping threshold in the units of the update.
    clipping : {"joint-l2", "per-coordinate"}
        What is bounded by ``clip_norm``.
    clip_source : {"fixed", "median-of-users"}
        A threshold computed from the users' data is itself a release that no bound covers.
    shuffle : {"none", "per-coordinate", "whole-report"}
        How the reports of ``shuffled_with`` are permuted before the observer sees them.
    """

    epsilon0: float
    dimension: int
    clip_norm: float
    clipping: Literal["joint-l2", "per-coordinate"] = "joint-l2"
    clip_source: Literal["fixed", "median-of-users"] = "fixed"
    shuffle: Literal["none", "per-coordinate", "whole-report"] = "none"
    name: Literal["laplace-vector"] = "laplace-vector"

    def __post_init__(self) -> None:
        _positive("epsilon0", self.epsilon0)
        _positive("clip_norm", self.clip_norm)
        _counted("dimension", self.dimension)
        for name, allowed in _WORDS.items():
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Reports of one record, each one of ``categories`` values, answered by randomized response.

    A report is the true value with probability ``exp(epsilon0) / (exp(epsilon0) + categories - 1)``
    and each other value with the same, smaller probability: ``epsilon0``-DP under replacement, by
    itself. Reports of one record are released together, so they compose.

    Attributes
    ----------
    categories : int
        K >= 2, the number of values.
    epsilon0 : float
        Local privacy budget of one report.
    reports : int
        Reports of one record; each may change with it.
    """

    categories: int
    epsilon0: float
    reports: int = 1
    name: Literal["randomized-response"] = "randomized-response"

    def __post_init__(self) -> None:
        _counted("categories", self.categories, least=2)
        _positive("epsilon0", self.epsilon0)
        _counted("reports", self.reports)


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """A value with Gaussian noise, released some times over: ``steps / (2 z^2)``-zCDP.

    Attributes
    ----------
    noise_multiplier : float
        z, the noise's standard deviation over the L2 sensitivity *under the event's relation*.
        (Replacing a record may change a sum by twice as much as removing it.)
    sensitivity : float
        The L2 sensitivity in the units of the value; the noise is ``noise_multiplier`` times it.
        No bound depends on it.
    steps : int
        Releases in the round, each of which may depend on the earlier ones.
    """

    noise_multiplier: float
    sensitivity: float = 1.0
    steps: int = 1
    name: Literal["gaussian"] = "gaussian"

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        _positive("sensitivity", self.sensitivity)
        _counted("steps", self.steps)

    @property
    def rho(self) -> float:
        """Return the zero-concentrated budget of all steps."""
        return self.steps / (2 * self.noise_multiplier**2)


@dataclass(frozen=True, slots=True)
class SubsampledGaussian:
    """Sums over a secret Poisson sample, with Gaussian noise (DP-SGD, DP-FedAvg).

    Each subject is in each step's sample with the same probability, independently. Subjects are
    all who may be sampled, and no observer may see who was: to an observer who does, the mechanism
    is a :class:`GaussianMechanism` of the sampled.

    Attributes
    ----------
    noise_multiplier : float
        The noise's standard deviation over the L2 norm to which a contribution is clipped.
    sampling_probability : float
    steps : int
        Steps in the round.
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int = 1
    name: Literal["subsampled-gaussian"] = "subsampled-gaussian"

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sampling_probability <= 1:
            raise ConfigurationError(
                f"sampling_probability must be in (0, 1], got {self.sampling_probability}"
            )
        _counted("steps", self.steps)


@dataclass(frozen=True, slots=True)
class PureRelease:
    """Anything that is ``epsilon``-DP, on the word of whoever emits the event."""

    epsilon: float
    what: str = ""
    name: Literal["pure-release"] = "pure-release"

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class ApproximateRelease:
    """Anything that is ``(epsilon, delta)``-DP, on the word of whoever emits the event."""

    epsilon: float
    delta: float
    what: str = ""
    name: Literal["approximate-release"] = "approximate-release"

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise ConfigurationError(f"delta must be in (0, 1), got {self.delta}")


@dataclass(frozen=True, slots=True)
class UnprotectedRelease:
    """Values computed from a user's data and sent as they are: no differential privacy."""

    what: str
    dimension: int
    name: Literal["unprotected-release"] = "unprotected-release"


#: Mechanisms whose bound does not depend on who else reports.
CoveredRelease: TypeAlias = (
    RandomizedResponse | GaussianMechanism | SubsampledGaussian | PureRelease | ApproximateRelease
)
Mechanism: TypeAlias = LaplaceVector | CoveredRelease | UnprotectedRelease

#: Mechanisms by the name under which they are written.
MECHANISMS: Final[Mapping[str, type[Mechanism]]] = {
    "laplace-vector": LaplaceVector,
    "randomized-response": RandomizedResponse,
    "gaussian": GaussianMechanism,
    "subsampled-gaussian": SubsampledGaussian,
    "pure-release": PureRelease,
    "approximate-release": ApproximateRelease,
    "unprotected-release": UnprotectedRelease,
}
#: Relations under which a mechanism's analysis is stated; others hold under either.
_RELATIONS: Final[Mapping[type[Mechanism], str]] = {
    RandomizedResponse: "replace-one",
    SubsampledGaussian: "add-remove",
}


@dataclass(frozen=True, slots=True)
class PrivacyEvent:
    """One mechanism applied in one round to the data of each of some users.

    Attributes
    ----------
    round : int
    mechanism : Mechanism
    subjects : tuple of PartyId
        Users whose data went in, one report each. Under ``shuffle`` they are the users whose
        reports were shuffled with one another (the anonymity set).
    observers : tuple of PartyId
        Parties that see the output.
    unit : str
        What may change between neighbouring inputs.
    relation : {"replace-one", "add-remove"}
        Neighbouring relation.

    Raises
    ------
    ConfigurationError
        If the relation is unknown, or not the one for which the mechanism is analysed.
    """

    round: int
    mechanism: Mechanism
    subjects: tuple[PartyId, ...]
    observers: tuple[PartyId, ...]
    unit: str
    relation: Literal["replace-one", "add-remove"] = "replace-one"

    def __post_init__(self) -> None:
        if self.relation not in ("replace-one", "add-remove"):
            raise ConfigurationError(
                f"relation must be 'replace-one' or 'add-remove', got {self.relation!r}"
            )
        needed = _RELATIONS.get(type(self.mechanism), self.relation)
        if self.relation != needed:
            raise ConfigurationError(
                f"round {self.round}: {self.mechanism.name} is analysed under the relation "
                f"{needed!r}; {self.relation!r} contradicts it"
            )


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    """Return the event as JSON values."""
    return asdict(event)


def event_from_json(value: Any) -> PrivacyEvent:
    """Read an event back.

    Raises
    ------
    ConfigurationError
        If a key is missing, unknown, or out of range.
    """
    try:
        mechanism = dict(value["mechanism"])
        kind = MECHANISMS[mechanism["name"]]
        return PrivacyEvent(
            round=int(value["round"]),
            mechanism=kind(**mechanism),
            subjects=tuple(str(s) for s in value["subjects"]),
            observers=tuple(str(s) for s in value["observers"]),
            unit=str(value["unit"]),
            relation=value["relation"],
        )
    except ConfigurationError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"not a privacy event ({error!r}); mechanisms known are {', '.join(sorted(MECHANISMS))}"
        ) from error
