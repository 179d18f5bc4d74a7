"""The networks that users train: by name, seeded, and as flat vectors.

torch is imported when a network is first built, not when this package is imported.
"""

from __future__ import annotations

from privaudit.models.catalogue import (
    MODELS,
    SUMMARIES,
    ClassifierRows,
    build,
    classifier_rows,
    default_model,
    has_batch_norm,
    parameter_count,
)
from privaudit.models.spec import ModelSpec
from privaudit.models.vectors import flatten_parameters, load_parameters

__all__ = [
    "MODELS",
    "SUMMARIES",
    "ClassifierRows",
    "ModelSpec",
    "build",
    "classifier_rows",
    "default_model",
    "flatten_parameters",
    "has_batch_norm",
    "load_parameters",
    "parameter_count",
]
