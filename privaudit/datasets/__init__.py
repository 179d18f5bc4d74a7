"""Data sets by name or path; :mod:`privaudit.datasets.partition` spreads them over users."""

from __future__ import annotations

from privaudit.datasets.base import ClientData, Dataset, FederatedData, LabelledImages
from privaudit.datasets.catalogue import DATASETS, DatasetDescription, describe
from privaudit.datasets.load import DATA_ROOT_VARIABLE, load_dataset

__all__ = [
    "DATASETS",
    "DATA_ROOT_VARIABLE",
    "ClientData",
    "Dataset",
    "DatasetDescription",
    "FederatedData",
    "LabelledImages",
    "describe",
    "load_dataset",
]
