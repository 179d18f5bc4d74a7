"""What a protocol released to whom, as data that accountants interpret.

A protocol derives these events from its transcript (who really took part, which clusters were
really formed, how many rounds really ran), never from its configuration alone. The descriptions
are frozen; :mod:`privaudit.accounting` turns them into bounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from privaudit.errors import ConfigurationError
from privaudit.transcript import PartyId

__all__ = [
    "LaplaceVector",
    "Mechanism",
    "PrivacyEvent",
    "UnprotectedRelease",
    "event_from_json",
    "event_to_json",
]


_WORDS = {
    "clipping": ("joint-l2", "per-coordinate"),
    "clip_source": ("fixed", "median-of-users"),
    "shuffle": ("none", "per-coordinate", "whole-report"),
}


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
        if not self.epsilon0 > 0:
            raise ConfigurationError(f"epsilon0 must be > 0, got {self.epsilon0}")
        if self.dimension < 1:
            raise ConfigurationError(f"dimension must be >= 1, got {self.dimension}")
        if not self.clip_norm > 0:
            raise ConfigurationError(f"clip_norm must be > 0, got {self.clip_norm}")
        for name, allowed in _WORDS.items():
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )


@dataclass(frozen=True, slots=True)
class UnprotectedRelease:
    """Values computed from a user's data and sent as they are: no differential privacy."""

    what: str
    dimension: int
    name: Literal["unprotected-release"] = "unprotected-release"


Mechanism: TypeAlias = LaplaceVector | UnprotectedRelease


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
    """

    round: int
    mechanism: Mechanism
    subjects: tuple[PartyId, ...]
    observers: tuple[PartyId, ...]
    unit: str
    relation: Literal["replace-one", "add-remove"] = "replace-one"


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
    kinds: dict[str, type[LaplaceVector] | type[UnprotectedRelease]] = {
        "laplace-vector": LaplaceVector,
        "unprotected-release": UnprotectedRelease,
    }
    try:
        mechanism = dict(value["mechanism"])
        kind = kinds[mechanism["name"]]
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
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"not a privacy event ({error!r}); mechanisms known are {', '.join(sorted(kinds))}"
        ) from error
