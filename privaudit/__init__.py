"""Audit how much federated-learning protocols leak, and attack them to prove it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privaudit.api import attack, audit, load, simulate
    from privaudit.transcript import Coalition

__all__ = ["Coalition", "__version__", "attack", "audit", "load", "simulate"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Importing the package stays light: what runs protocols is loaded when it is asked for.
    if name == "Coalition":
        return import_module("privaudit.transcript").Coalition
    if name in __all__:
        return getattr(import_module("privaudit.api"), name)
    raise AttributeError(f"module 'privaudit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
