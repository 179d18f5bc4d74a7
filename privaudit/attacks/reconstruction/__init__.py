"""Attacks that obtain clients' models: read, or rebuilt from what was said about them."""

from privaudit.attacks.reconstruction.gram import SimilarityReconstruction
from privaudit.attacks.reconstruction.sent import SentModels

__all__ = ["SentModels", "SimilarityReconstruction"]
