"""What an adversary may know, or what may hold of a run, by name."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["EVIDENCED", "Capability"]


class Capability(StrEnum):
    """What an adversary may know, or what may hold of a run, named as in the literature."""

    MODEL_ARCHITECTURE = "model-architecture"
    MODEL_PARAMETERS = "model-parameters"
    TRAINING_PARAMETERS = "training-parameters"
    AUXILIARY_DATA = "auxiliary-data"
    SINGLE_LOCAL_STEP = "single-local-step"
    SINGLE_RECORD_UPDATES = "single-record-updates"
    #: The coalition runs clients of its own, which sent vectors of its choice: it is active.
    INJECTED_CLIENTS = "injected-clients"
    #: Some rows of a table are known with their records.
    KNOWN_RECORDS = "known-records"
    #: A sensitive attribute of some rows of a table is known.
    KNOWN_ATTRIBUTES = "known-attributes"
    #: It is known which columns of a table each part of a message was computed from.
    FEATURE_LAYOUT = "feature-layout"
    #: Records of persons are known of whom some are in the run.
    CANDIDATE_LIST = "candidate-list"
    #: Noisy or partial copies of targets' records are known.
    PARTIAL_RECORDS = "partial-records"
    #: A party's codebooks are known; no protocol gives them away, it is an upper bound.
    CODEBOOKS = "codebooks"


#: Capabilities that a threat model may grant only if the transcript shows them to be true. The
#: others are knowledge that the adversary brings along, which no transcript can show or refute.
EVIDENCED: frozenset[Capability] = frozenset(
    {
        Capability.MODEL_ARCHITECTURE,
        Capability.MODEL_PARAMETERS,
        Capability.TRAINING_PARAMETERS,
        Capability.SINGLE_LOCAL_STEP,
        Capability.SINGLE_RECORD_UPDATES,
        Capability.INJECTED_CLIENTS,
    }
)
