"""Attacks on views, one family a sub-package."""

from privaudit.attacks.base import Attack, Guesses, Knowledge

__all__ = ["Attack", "Guesses", "Knowledge"]
