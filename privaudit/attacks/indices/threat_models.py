"""Named threat models of vertical clustering: who the adversary is and what it knows besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from privaudit.errors import ConfigurationError
from privaudit.protocols.pq_mds import kinds
from privaudit.transcript import Capability, Coalition, PartyId, Transcript

__all__ = ["OUTSIDER", "PRESETS", "Principal", "ThreatModel"]

Principal = Literal["server", "party", "server and party", "outsider"]

#: A stranger to whom the uploads leaked; see :func:`privaudit.attacks.control.leaked`.
OUTSIDER: PartyId = "outsider"

_KNOWN = frozenset({Capability.KNOWN_RECORDS, Capability.FEATURE_LAYOUT})
_AUXILIARY = frozenset({Capability.AUXILIARY_DATA, Capability.FEATURE_LAYOUT})
_PERSONS = frozenset({Capability.CANDIDATE_LIST, Capability.PARTIAL_RECORDS})


@dataclass(frozen=True, slots=True)
class ThreatModel:
    """An adversary: whose view it has, and what it is granted besides.

    Results under different threat models are never averaged.

    Attributes
    ----------
    name : str
    principal : {"server", "party", "server and party", "outsider"}
    capabilities : frozenset of Capability
    description : str
        For people.
    upper_bound : bool
        True if no protocol gives away what is granted.
    """

    name: str
    principal: Principal
    capabilities: frozenset[Capability]
    description: str
    upper_bound: bool = False

    def coalition(self, transcript: Transcript, *, party: PartyId | None = None) -> Coalition:
        """Return the coalition in a run.

        Parameters
        ----------
        transcript : Transcript
        party : PartyId, optional
            The member that holds columns; the run's first by default.

        Raises
        ------
        ConfigurationError
            If the run has no such party, or an outsider's view is asked of a run that did not leak.
        """
        members: list[PartyId] = []
        if self.principal in ("server", "server and party"):
            members.append(kinds.SERVER)
        if self.principal in ("party", "server and party"):
            parties = transcript.ids(kinds.DATA_PARTY_ROLE)
            chosen = party if party is not None else next(iter(parties), None)
            if chosen not in parties:
                raise ConfigurationError(
                    f"threat model '{self.name}' needs a party that holds columns, got {chosen!r}; "
                    f"the run has {', '.join(parties) or 'none'}"
                )
            members.append(chosen)
        if self.principal == "outsider":
            if OUTSIDER not in {p.id for p in transcript.parties}:
                raise ConfigurationError(
                    f"threat model '{self.name}' needs a run whose uploads leaked: treat the "
                    "transcript by privaudit.attacks.control.leaked"
                )
            members.append(OUTSIDER)
        return Coalition.of(*members, capabilities=self.capabilities)


def _models() -> tuple[ThreatModel, ...]:
    return (
        ThreatModel(
            "hbc_server",
            "server",
            frozenset({Capability.FEATURE_LAYOUT}),
            "The server follows the protocol and looks at what it receives; it knows which columns "
            "each party holds and how they are grouped.",
        ),
        ThreatModel(
            "hbc_party",
            "party",
            frozenset({Capability.KNOWN_ATTRIBUTES}),
            "One party looks at the cluster labels that it gets back, and knows a sensitive "
            "attribute of some rows.",
        ),
        ThreatModel(
            "server_known",
            "server",
            _KNOWN | _PERSONS,
            "The server knows the records of some rows, and copies of records of persons that it "
            "looks for.",
        ),
        ThreatModel(
            "server_aux",
            "server",
            _AUXILIARY | _PERSONS,
            "The server knows no row, only other records of the same population, and copies of "
            "records of persons that it looks for.",
        ),
        ThreatModel(
            "server_plus_A",
            "server and party",
            _KNOWN,
            "The server and one party pool what they have: that party's columns of every row, and "
            "the whole records of some rows.",
        ),
        ThreatModel(
            "outsider_known",
            "outsider",
            _KNOWN | _PERSONS,
            "The uploads leaked, in random order; the stranger recognises some rows and has copies "
            "of records of persons that it looks for.",
        ),
        ThreatModel(
            "outsider_aux",
            "outsider",
            _AUXILIARY | _PERSONS,
            "The uploads leaked, in random order; the stranger recognises no row, but has other "
            "records of the same population and copies of records of persons that it looks for.",
        ),
        ThreatModel(
            "codebook_insider",
            "server",
            frozenset({Capability.CODEBOOKS, Capability.FEATURE_LAYOUT}) | _PERSONS,
            "The server has all codebooks, which the protocol does not give it: the most that any "
            "adversary could do.",
            upper_bound=True,
        ),
    )


#: The threat models by name.
PRESETS: Mapping[str, ThreatModel] = MappingProxyType({model.name: model for model in _models()})
