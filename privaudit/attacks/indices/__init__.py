"""Attacks on the distance-preserving indices of vertical clustering."""

from privaudit.attacks.indices.alignment import AuxiliaryAlignment
from privaudit.attacks.indices.attributes import ClusterAttribute
from privaudit.attacks.indices.codes import CodeRecovery, IntegerGrid
from privaudit.attacks.indices.cross_party import CrossPartyInference
from privaudit.attacks.indices.frequencies import FrequencyMatching
from privaudit.attacks.indices.granting import Grant, grant
from privaudit.attacks.indices.known_sample import KnownSampleReconstruction
from privaudit.attacks.indices.linking import NOBODY, RecordLinking, SinglingOut
from privaudit.attacks.indices.membership import IndexMembership
from privaudit.attacks.indices.threat_models import OUTSIDER, PRESETS, ThreatModel

__all__ = [
    "NOBODY",
    "OUTSIDER",
    "PRESETS",
    "AuxiliaryAlignment",
    "ClusterAttribute",
    "CodeRecovery",
    "CrossPartyInference",
    "FrequencyMatching",
    "Grant",
    "IndexMembership",
    "IntegerGrid",
    "KnownSampleReconstruction",
    "RecordLinking",
    "SinglingOut",
    "ThreatModel",
    "grant",
]
