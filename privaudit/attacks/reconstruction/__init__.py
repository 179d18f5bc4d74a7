"""Attacks that rebuild vectors which clients never sent."""

from privaudit.attacks.reconstruction.gram import SimilarityReconstruction

__all__ = ["SimilarityReconstruction"]
