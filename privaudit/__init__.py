"""Audit how much federated-learning protocols leak, and attack them to prove it."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
